"""Werf's verdict and the infrastructure's doing are told apart."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.job_records import JOB

from copyrator.api.bundle_status import BundleReason, Outcome
from copyrator.bundles.policy.observation import (
    Ending,
    JobRecord,
    ending_of,
    read_job,
    with_cause,
)

BROKEN = BundleReason.DEPLOY_FAILED
LOST = BundleReason.JOB_LOST


def job(*, complete: bool = False, failed: str | None = "BackoffLimitExceeded") -> JobRecord:
    return replace(
        JOB,
        complete=complete,
        failed=None if complete else failed,
        message="Job has reached the specified backoff limit",
    )


def pod(
    code: int | None = None, message: str = "", *, login: int | None = None, **status: Any
) -> dict[str, Any]:
    def ended(name: str, code: int, text: str) -> dict[str, Any]:
        terminated = {"exitCode": code, "message": text, **status.pop("terminated", {})}
        return {"name": name, "state": {"terminated": terminated}}

    found: dict[str, Any] = {}
    if login is not None:
        found["initContainerStatuses"] = [ended("login", login, message)]
    if code is not None:
        found["containerStatuses"] = [ended("werf", code, message)]
    return {"metadata": {"name": "p"}, "status": found | status}


def report(status: str, **more: Any) -> str:
    return json.dumps({"status": status, "revision": 4, **more})


@pytest.mark.parametrize(
    ("found", "revision"),
    [
        (pod(0, report("deployed")), 4),
        (pod(0, report("skipped")), 4),
        (pod(0, ""), None),
        (pod(1, report("deployed")), 4),  # "non-critical errors": exit code 1, and a good report
    ],
)
def test_success(found: dict[str, Any], revision: int | None) -> None:
    ending = ending_of(job(complete=found["status"]["containerStatuses"] is not None), [found])

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.revision == revision


def test_a_complete_job_whose_pod_is_gone_succeeded() -> None:
    assert ending_of(job(complete=True), []).outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (report("failed", failedOperations=["create: Pod/bad"]), "create: Pod/bad"),
        (report("failed")[:20], "werf reports that the release failed"),
        ("lines\nError: render chart: template: bad", "Error: render chart: template: bad"),
        ("Error: pull bundle: r/app:9.9.9: not found", "not found"),
        ("", "exit code 1"),
    ],
)
def test_werfs_verdict_counts_against_the_digest(message: str, words: str) -> None:
    ending = ending_of(job(), [pod(1, message)])

    assert (ending.outcome, ending.reason) == (Outcome.FAILED, BROKEN)
    assert words in ending.message


UNREACHABLE = BundleReason.REGISTRY_UNREACHABLE
REFUSED = BundleReason.AUTHENTICATION_FAILED
DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Eviction"}]}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod(1, "Error: pull bundle: dial tcp 10.0.0.1:443: i/o timeout"), UNREACHABLE),
        (pod(1, "Error: pull bundle: unexpected status code 503 Service Unavailable"), UNREACHABLE),
        (pod(1, "Error: pull bundle: 429 Too Many Requests"), UNREACHABLE),
        (pod(1, "Error: pull bundle: GET r: UNAUTHORIZED: authentication required"), REFUSED),
        (pod(1, "Error: Kubernetes cluster unreachable: Get https://10.0.0.1"), LOST),
        (pod(login=1, message="Error: login: unauthorized"), REFUSED),
        (pod(login=1, message="Error: dial tcp: no such host"), UNREACHABLE),
        (pod(137, "", terminated={"reason": "OOMKilled"}), LOST),
        (pod(143, ""), LOST),
        (pod(1, report("failed"), **DISRUPTED), LOST),
        (pod(reason="Evicted", message="The node was low on resource: memory."), LOST),
    ],
)
def test_the_infrastructures_doing_never_counts(found: dict[str, Any], reason: str) -> None:
    ending = ending_of(job(), [found])

    assert (ending.outcome, ending.reason) == (Outcome.INTERRUPTED, reason)


def test_a_failure_of_the_chart_that_mentions_a_network_is_still_werfs_verdict() -> None:
    ending = ending_of(job(), [pod(1, "Error: wait for Pod/x: dial tcp 10.0.0.1: i/o timeout")])

    assert ending.outcome is Outcome.FAILED


def test_a_job_that_failed_without_a_pod_is_lost() -> None:
    assert ending_of(job(), []).reason is LOST


PULLING = {
    "status": {
        "containerStatuses": [{"name": "werf", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    }
}


def test_a_job_beyond_its_deadline_timed_out() -> None:
    late = job(failed="DeadlineExceeded")

    assert ending_of(late, []).reason is BundleReason.TIMED_OUT
    assert ending_of(late, [pod(143)]).reason is BundleReason.TIMED_OUT
    assert ending_of(late, [PULLING]).reason is BundleReason.IMAGE_PULL_FAILED


def test_a_job_given_up_for_an_edited_spec_took_not_too_long() -> None:
    ended = replace(job(failed="DeadlineExceeded"), given_up=True)

    assert ending_of(ended, []).reason is LOST
    assert ending_of(ended, [pod(137)]).reason is LOST
    assert ending_of(ended, [pod(0, report("deployed"))]).outcome is Outcome.SUCCEEDED


FAILED = Ending(Outcome.FAILED, BROKEN, "create: Pod/bad failed")


@pytest.mark.parametrize(
    ("ending", "log", "message"),
    [
        (FAILED, "x\nError: no such thing", "create: Pod/bad failed: no such thing"),
        (FAILED, "x\nno word of an error", FAILED.message),
        (FAILED, "", FAILED.message),
        (FAILED, "Error: Pod/bad failed", FAILED.message),  # nothing new
        (FAILED, "Error: " + "y" * 999, f"{FAILED.message}: …{'y' * 400}"),
        (replace(FAILED, outcome=Outcome.INTERRUPTED), "Error: killed", FAILED.message),
    ],
)
def test_a_failure_says_what_and_why(ending: Ending, log: str, message: str) -> None:
    assert with_cause(ending, log).message == message


def body(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "j",
            "uid": "u",
            "labels": {"operator.werf.dev/bundle": "shop", "operator.werf.dev/job": "deploy"},
            "annotations": {
                "operator.werf.dev/bundle-uid": "b",
                "operator.werf.dev/attempt": "3",
            },
        },
        "spec": {"ttlSecondsAfterFinished": 5},
    } | changes


def test_reads_what_decides_anything_of_a_job() -> None:
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "m"}
    record = read_job(body(status={"conditions": [condition]}))

    assert record is not None
    assert (record.bundle, record.bundle_uid, record.attempt, record.ttl) == ("shop", "b", 3, 5)
    assert record.done
    assert record.failed == "DeadlineExceeded"


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        [{"type": "SuccessCriteriaMet", "status": "True"}],
        [{"type": "Failed", "status": "False"}],
    ],
)
def test_a_job_is_done_only_when_it_says_so(conditions: list[dict[str, str]]) -> None:
    record = read_job(body(status={"conditions": conditions}))

    assert record is not None
    assert not record.done


@pytest.mark.parametrize("labels", [{}, {"operator.werf.dev/job": "evil"}])
def test_other_jobs_are_not_ours(labels: dict[str, str]) -> None:
    assert read_job(body(metadata={"name": "j", "labels": labels})) is None
