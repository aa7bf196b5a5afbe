"""A Job of the operator's as its watch shows it, and its pod; `replace` says what became of it."""

from dataclasses import replace
from typing import Any

from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.pod import JobKind

JOB = JobRecord(
    namespace="team",
    name="shop-deploy-1",
    uid="job",
    bundle="shop",
    bundle_uid="uid",
    kind=JobKind.DEPLOY,
    attempt=1,
    created=None,
    finished=None,
)


def job(*, complete: bool = False, failed: str | None = "BackoffLimitExceeded") -> JobRecord:
    """JOB when it has ended."""
    return replace(
        JOB,
        complete=complete,
        failed=None if complete else failed,
        message="Job has reached the specified backoff limit",
    )


def pod(
    code: int | None = None, message: str = "", *, login: int | None = None, **status: Any
) -> dict[str, Any]:
    """Its pod: what the containers werf and login ended with."""

    def ended(name: str, code: int, text: str) -> dict[str, Any]:
        terminated = {"exitCode": code, "message": text, **status.pop("terminated", {})}
        return {"name": name, "state": {"terminated": terminated}}

    found: dict[str, Any] = {}
    if login is not None:
        found["initContainerStatuses"] = [ended("login", login, message)]
    if code is not None:
        found["containerStatuses"] = [ended("werf", code, message)]
    return {"metadata": {"name": "p"}, "status": found | status}
