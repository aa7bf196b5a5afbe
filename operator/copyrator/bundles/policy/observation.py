"""The outcome of a Job: werf's result, or a failure of the infrastructure.

A digest fails only by werf's own result. Everything else (eviction, image pull, scheduling, the
registry, the API server, a kill) isn't the bundle's fault and never counts against it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_status import BundleReason, Outcome
from copyrator.api.plan_status import MissingPermission
from copyrator.api.times import parse_time
from copyrator.bundles.policy.blocked import blocked_by
from copyrator.bundles.policy.jobs.manifest import DEPLOY_CONTAINER, LOGIN_CONTAINER, JobKind
from copyrator.bundles.policy.jobs.plan_script import PlanExit
from copyrator.bundles.policy.permissions import ServiceAccount, listed, refused, sentence
from copyrator.bundles.policy.report import cause, last_error_line, parse_report
from copyrator.bundles.policy.restrictions import image_repository

_REGISTRY_TROUBLE: Final = re.compile(
    r"dial tcp|connection (?:refused|reset)|i/o timeout|no such host|TLS handshake|x509:"
    r"|unexpected EOF|context deadline exceeded|(?:status|code)[^\n]{0,20}\b(?:429|50[0234])\b"
    r"|too many requests|bad gateway|service unavailable|gateway timeout",
    re.IGNORECASE,
)
_REGISTRY_LOGIN: Final = re.compile(
    r"unauthorized|authentication required|\bdenied\b|\b40[13]\b", re.IGNORECASE
)
_CLUSTER_TROUBLE: Final = re.compile(
    r"kubernetes cluster unreachable|the server is currently unable|etcdserver:"
    r"|connection to the server|failed calling webhook",
    re.IGNORECASE,
)
_PINNED: Final = re.compile(r"[^@\s]{1,255}@sha256:[0-9a-f]{64}")
_TOO_LONG: Final = "the Job exceeded the Bundle's timeout and was terminated"
_ERROR: Final = 4096
"""Characters of werf's error that are searched for missing permissions."""
_PULLING: Final = re.compile(r"pull bundle|get manifest|pulling", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The fields of a Job that decisions need; about 1 KB, so that all Jobs fit in memory."""

    namespace: str
    name: str
    uid: str
    bundle: str
    bundle_uid: str
    kind: JobKind
    attempt: int
    created: datetime | None
    finished: datetime | None
    complete: bool = False
    failed: str | None = None
    """The reason of the Failed condition; None while it hasn't failed."""
    message: str = ""
    ttl: int | None = None
    deleting: bool = False
    started: bool = False
    """A pod of it is ready, or was seen to have started."""
    given_up: bool = False
    """The operator ended it before it had started: the spec had changed, or it was ``unsealed`` or
    ``frozen``.
    """
    unsealed: bool = False
    """A Secret with what was planned had been deleted."""
    frozen: bool = False
    """Deploys were frozen before its pod had started."""
    generation: int = 0
    """The Bundle's generation, of an uninstall Job; else 0."""
    resource_version: str = ""

    @property
    def done(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.complete or self.failed is not None


def read_job(body: Mapping[str, Any]) -> JobRecord | None:
    """Read a Job; None for one that isn't the operator's."""
    metadata = body.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    try:
        kind = JobKind(labels.get(names.LABEL_JOB_KIND, ""))
    except ValueError:
        return None
    status = body.get("status") or {}
    conditions = {
        condition.get("type"): condition
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    }
    failed = conditions.get("Failed")
    complete = conditions.get("Complete")
    ended = failed or complete or {}
    return JobRecord(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        bundle=labels.get(names.LABEL_BUNDLE, ""),
        bundle_uid=annotations.get(names.ANN_BUNDLE_UID, ""),
        kind=kind,
        attempt=_number(annotations.get(names.ANN_ATTEMPT, "")),
        generation=_number(annotations.get(names.ANN_GENERATION, "")),
        created=parse_time(metadata.get("creationTimestamp")),
        finished=parse_time(status.get("completionTime") or ended.get("lastTransitionTime")),
        complete=complete is not None,
        failed=str(failed.get("reason") or "Failed") if failed else None,
        message=str(ended.get("message") or "")[:512],
        ttl=(body.get("spec") or {}).get("ttlSecondsAfterFinished"),
        deleting="deletionTimestamp" in metadata,
        started=bool(status.get("ready")),
        given_up=names.ANN_GIVEN_UP in annotations,
        unsealed=annotations.get(names.ANN_GIVEN_UP) == BundleReason.PLAN_CHANGED,
        frozen=annotations.get(names.ANN_GIVEN_UP) == BundleReason.FROZEN,
        resource_version=metadata.get("resourceVersion", ""),
    )


def is_owned(body: Mapping[str, Any], uid: str) -> bool:
    """Whether an object has an owner with this uid, such as a pod its Job.

    Everybody who can create a pod can give it the label of a Job, but that makes it none of the
    Job's. Who gives it this owner reference as well fakes the Job's outcome: only the permission to
    create pods prevents that.
    """
    owners = body["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 0


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended, as values of the status."""

    outcome: Outcome
    reason: BundleReason
    message: str
    revision: int | None = None
    exit_code: int | None = None
    missing: tuple[MissingPermission, ...] = ()
    """Missing permissions that made it fail."""


_GIVEN_UP: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.JOB_LOST,
    "the Job couldn't start and was deleted because the spec was edited",
)
_UNSEALED: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.PLAN_CHANGED,
    "the Job couldn't start and was ended, as a Secret with what was planned had been deleted",
)
_FROZEN: Final = Ending(
    Outcome.INTERRUPTED,
    BundleReason.FROZEN,
    "deploys were frozen before the Job's pod had started, so the Job was ended",
)


def ending_of(job: JobRecord, pods: Sequence[Mapping[str, Any]]) -> Ending:
    """The outcome of a finished deploy Job, from its pods (newest last) and its own condition."""
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    main = _terminated(status.get("containerStatuses"), DEPLOY_CONTAINER)
    login = _terminated(status.get("initContainerStatuses"), LOGIN_CONTAINER)
    if main is None:
        return _ending_without_werf(job, pods, login)
    ending = _ending_of_werf(main)
    if job.complete or ending.outcome is Outcome.SUCCEEDED:
        return _succeeded(main)
    if job.given_up and ending.outcome is Outcome.INTERRUPTED:
        return _given_up(job)  # a kubelet may report a container that never ran as killed
    if job.failed == "DeadlineExceeded" and ending.outcome is Outcome.INTERRUPTED:
        return _interrupted(BundleReason.TIMED_OUT, _TOO_LONG)
    if why := _disrupted(status):
        return _interrupted(BundleReason.JOB_LOST, f"the pod was terminated: {why}")
    return ending


def _given_up(job: JobRecord) -> Ending:
    if job.frozen:
        return _FROZEN
    return _UNSEALED if job.unsealed else _GIVEN_UP


def exit_code(pods: Sequence[Mapping[str, Any]]) -> int | None:
    """The exit code of werf's container; None where it has none."""
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    main = _terminated(status.get("containerStatuses"), DEPLOY_CONTAINER)
    code = main.get("exitCode") if main else None
    return code if isinstance(code, int) else None


def pinned_image(pods: Sequence[Mapping[str, Any]], image: str) -> str | None:
    """Werf's image by digest, as the newest pod ran it; None where the pod doesn't tell.

    Args:
        pods: newest last.
        image: as the spec names it; the digest must be of the same repository.
    """
    if _PINNED.fullmatch(image):
        return image
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    for container in status.get("containerStatuses") or ():
        if container.get("name") == DEPLOY_CONTAINER:
            found = str(container.get("imageID") or "").removeprefix("docker-pullable://")
            same = image_repository(found) == image_repository(image)
            return found if same and _PINNED.fullmatch(found) else None
    return None


def plan_reason(code: int | None) -> BundleReason | None:
    """The reason for which a Job's script ended before werf's apply; None where it didn't."""
    return _PLAN_REASONS.get(code or 0)


def planned_ending(ending: Ending) -> Ending:
    """The outcome of a gated deploy: its script may have ended it before werf's apply."""
    reason = plan_reason(ending.exit_code)
    if reason is None:
        return ending
    by_bundle = reason is BundleReason.DEPENDENCIES_NOT_VENDORED
    outcome = Outcome.FAILED if by_bundle else Outcome.INTERRUPTED
    return replace(ending, outcome=outcome, reason=reason)


_PLAN_REASONS: Final[Mapping[int, BundleReason]] = {
    PlanExit.CHANGED: BundleReason.PLAN_CHANGED,
    PlanExit.FAILED: BundleReason.PLAN_FAILED,
    PlanExit.NOT_VENDORED: BundleReason.DEPENDENCIES_NOT_VENDORED,
}


def with_cause(ending: Ending, log: str) -> Ending:
    """A failure with werf's error from the log: its report only names operations."""
    why = cause(log)
    if ending.outcome is not Outcome.FAILED or not why or why[-40:] in ending.message:
        return ending
    return replace(ending, message=f"{ending.message}: {why}")


def with_refusal(ending: Ending, log: str, account: ServiceAccount) -> Ending:
    """A failure by missing permissions with these in the message; other endings are unchanged.

    The part of the message about werf's operations is kept; werf's error is in the log.
    """
    if ending.reason not in (BundleReason.DEPLOY_FAILED, BundleReason.PLAN_FAILED):
        return ending
    denied = refused(f"{ending.message}\n{last_error_line(log, _ERROR)}", account)
    if not denied:
        return ending
    missing = listed(denied)
    text = sentence(account, missing)
    if not refused(ending.message, account):
        text = f"{ending.message}: {text}"
    return replace(ending, message=text, missing=missing)


def _ending_without_werf(
    job: JobRecord, pods: Sequence[Mapping[str, Any]], login: Mapping[str, Any] | None
) -> Ending:
    """The ending of a Job whose werf container never ended, or whose end is unknown."""
    if job.complete:
        return Ending(
            Outcome.SUCCEEDED, BundleReason.DEPLOYED, "succeeded; its pod no longer exists"
        )
    if login is not None and login.get("exitCode") != 0:
        text = last_error_line(str(login.get("message") or ""))
        reason = BundleReason.AUTHENTICATION_FAILED
        if _REGISTRY_TROUBLE.search(text):
            reason = BundleReason.REGISTRY_UNREACHABLE
        return _interrupted(reason, f"werf cr login failed: {text}")
    if job.given_up:
        return _given_up(job)
    blocked = blocked_by(pods)
    if blocked is not None:
        return _interrupted(blocked.reason, f"{blocked.message}; the Job was deleted")
    if job.failed == "DeadlineExceeded":
        return _interrupted(BundleReason.TIMED_OUT, _TOO_LONG)
    status: Mapping[str, Any] = (pods[-1].get("status") or {}) if pods else {}
    why = _disrupted(status) or job.message or job.failed or "its pod no longer exists"
    return _interrupted(BundleReason.JOB_LOST, f"the Job ended without a result of werf: {why}")


def _ending_of_werf(terminated: Mapping[str, Any]) -> Ending:
    code = int(terminated.get("exitCode") or 0)
    text = str(terminated.get("message") or "")
    report = parse_report(text)
    if code == 0 or (report is not None and report.succeeded):
        return _succeeded(terminated)
    if code >= 128 or terminated.get("reason") == "OOMKilled":
        why = terminated.get("reason") or f"signal {code - 128}"
        return _interrupted(BundleReason.JOB_LOST, f"the container was killed ({why})", code)
    if report is not None:
        return Ending(
            Outcome.FAILED, BundleReason.DEPLOY_FAILED, report.describe(), report.revision, code
        )
    line = last_error_line(text) or f"werf ended with exit code {code} and no report"
    return _judge_error(line, code)


def _judge_error(line: str, code: int) -> Ending:
    """The ending by an error before any report: of the registry, the cluster or the bundle."""
    pulling = _PULLING.search(line)
    if pulling and _REGISTRY_TROUBLE.search(line):
        return _interrupted(BundleReason.REGISTRY_UNREACHABLE, line, code)
    if pulling and _REGISTRY_LOGIN.search(line):
        return _interrupted(BundleReason.AUTHENTICATION_FAILED, line, code)
    if _CLUSTER_TROUBLE.search(line):
        return _interrupted(BundleReason.JOB_LOST, line, code)
    return Ending(Outcome.FAILED, BundleReason.DEPLOY_FAILED, line, None, code)


def _succeeded(terminated: Mapping[str, Any]) -> Ending:
    report = parse_report(str(terminated.get("message") or ""))
    code = int(terminated.get("exitCode") or 0)
    if report is None:
        return Ending(Outcome.SUCCEEDED, BundleReason.DEPLOYED, "done", None, code)
    text = report.describe() + (" (with non-critical errors)" if code else "")
    return Ending(Outcome.SUCCEEDED, BundleReason.DEPLOYED, text, report.revision, code)


def _interrupted(reason: BundleReason, message: str, code: int | None = None) -> Ending:
    return Ending(Outcome.INTERRUPTED, reason, message, None, code)


def _terminated(statuses: Any, name: str) -> Mapping[str, Any] | None:
    for container in statuses or ():
        if container.get("name") == name:
            found = (container.get("state") or {}).get("terminated")
            return found if isinstance(found, Mapping) else None
    return None


def _disrupted(status: Mapping[str, Any]) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return str(condition.get("message") or condition.get("reason") or "disrupted")
    reason = status.get("reason")
    return str(status.get("message") or reason) if reason in ("Evicted", "NodeLost") else ""
