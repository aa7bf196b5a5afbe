"""Decisions about deploys, as a table, and what they leave in the status."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.replacing import replace

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import (
    Attempted,
    BundleStatus,
    Deployed,
    HistoryEntry,
    LastError,
    MissingPermission,
    Outcome,
    Rollback,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Packed
from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import DeployRequest
from copyrator.bundles.engine.deciding import (
    Decision,
    DeployAction,
    DeployReason,
    DesiredDeploy,
    Evidence,
    begin,
    decide,
    finish,
)
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.revisions import RolledBack

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RETRY = Retry(limit=2, backoff=30.0)
INPUTS: dict[str, Any] = {
    "version": "1.0.0",
    "digest": "sha256:a",
    "values_hash": "v",
    "spec_hash": "s",
    "generation": 1,
    "namespace": "prod",
}
WANTED = DesiredDeploy(**INPUTS)
DEPLOYED = Deployed(**INPUTS)
SUCCEEDED = Attempted(**INPUTS, attempt=4, outcome=Outcome.SUCCEEDED, failures=0)
FAILED = replace(SUCCEEDED, outcome=Outcome.FAILED, failures=1, message="bad")
INTERRUPTED = replace(SUCCEEDED, outcome=Outcome.INTERRUPTED, failures=0, interruptions=9)
LATER, EARLIER = NOW + timedelta(seconds=5), NOW - timedelta(seconds=5)

NOTHING = Decision(DeployAction.NOTHING)


def deploy(need: DeployReason) -> Decision:
    return Decision(DeployAction.DEPLOY, need)


def status(attempted: Attempted | None = None, deployed: Deployed | None = None) -> BundleStatus:
    return BundleStatus(attempted=attempted or Attempted(), deployed=deployed or Deployed())


def due(attempted: Attempted, when: datetime) -> Attempted:
    return replace(attempted, next_retry_at=format_time(when))


GOOD = status(SUCCEEDED, DEPLOYED)
REQUEST = DeployRequest(requested_at="now")
EXHAUSTED = replace(FAILED, failures=3)


@pytest.mark.parametrize(
    ("status", "changes", "decision"),
    [
        (status(), {}, deploy(DeployReason.FIRST)),
        (GOOD, {}, NOTHING),
        (status(deployed=DEPLOYED), {}, NOTHING),  # a baseline from the original operator
        (GOOD, {"generation": 9}, NOTHING),
        (GOOD, {"digest": "sha256:b"}, deploy(DeployReason.VERSION)),
        (GOOD, {"version": "1.0.1"}, deploy(DeployReason.VERSION)),
        (GOOD, {"values_hash": None}, deploy(DeployReason.VALUES)),
        (GOOD, {"spec_hash": "t"}, deploy(DeployReason.SPEC)),
        (GOOD, {"request": REQUEST}, deploy(DeployReason.REQUEST)),
        # a failure waits, and is tried again
        (status(due(FAILED, LATER)), {}, Decision(DeployAction.WAIT, DeployReason.RETRY, LATER)),
        (status(due(FAILED, EARLIER)), {}, deploy(DeployReason.RETRY)),
        (status(due(FAILED, NOW)), {}, deploy(DeployReason.RETRY)),
        (
            status(due(INTERRUPTED, LATER)),
            {},
            Decision(DeployAction.WAIT, DeployReason.AGAIN, LATER),
        ),
        (status(due(INTERRUPTED, EARLIER)), {}, deploy(DeployReason.AGAIN)),
        # a failed deploy of what was deployed before (a forced one) is a failure all the same
        (
            status(due(FAILED, LATER), DEPLOYED),
            {},
            Decision(DeployAction.WAIT, DeployReason.RETRY, LATER),
        ),
        # quarantine, and what lifts it
        (status(EXHAUSTED), {}, Decision(DeployAction.QUARANTINE)),
        (status(EXHAUSTED), {"digest": "sha256:b"}, deploy(DeployReason.FIRST)),
        (status(EXHAUSTED), {"values_hash": "w"}, deploy(DeployReason.FIRST)),
        (status(EXHAUSTED), {"spec_hash": "t"}, deploy(DeployReason.FIRST)),
        (status(EXHAUSTED), {"generation": 2}, deploy(DeployReason.FIRST)),
        (status(EXHAUSTED), {"request": REQUEST}, deploy(DeployReason.REQUEST)),
        # an interruption never leads to quarantine
        (status(due(replace(INTERRUPTED, failures=9), EARLIER)), {}, deploy(DeployReason.AGAIN)),
        # another version failed half-way: what was deployed has to be put right
        (status(replace(EXHAUSTED, digest="sha256:b"), DEPLOYED), {}, deploy(DeployReason.REPAIR)),
    ],
)
def test_decides(status: BundleStatus, changes: dict[str, Any], decision: Decision) -> None:
    assert decide(status, replace(WANTED, **changes), RETRY, NOW) == decision


def test_a_limit_of_no_retries_quarantines_after_the_first_failure() -> None:
    assert decide(status(FAILED), WANTED, Retry(limit=0), NOW) == Decision(DeployAction.QUARANTINE)


def test_a_higher_limit_lets_a_quarantined_digest_go_on() -> None:
    assert decide(status(EXHAUSTED), WANTED, Retry(limit=9), NOW).action is DeployAction.DEPLOY


def test_an_attempt_is_recorded_before_its_job_is_made() -> None:
    wanted = replace(WANTED, digest="sha256:b", reference="r/app")

    assert begin(GOOD, wanted, NOW).attempted == Attempted(
        **INPUTS | {"digest": "sha256:b"},
        reference="r/app",
        attempt=5,
        failures=0,
        interruptions=0,
        outcome=Outcome.RUNNING,
        request="",
        started_at="2026-01-01T12:00:00Z",
    )
    assert begin(status(), WANTED, NOW).attempted.attempt == 1


@pytest.mark.parametrize(
    ("before", "changes", "failures"),
    [
        (FAILED, {}, 1),
        (FAILED, {"digest": "sha256:b"}, 0),
        (FAILED, {"generation": 2}, 0),
        (FAILED, {"request": REQUEST}, 0),
        (SUCCEEDED, {}, 0),
    ],
)
def test_failures_are_counted_for_one_target(
    before: Attempted, changes: dict[str, Any], failures: int
) -> None:
    begun = begin(status(before), replace(WANTED, **changes), NOW).attempted

    assert begun.attempt == 5  # never counted anew: a Job's name is never used twice
    assert begun.failures == failures


@pytest.mark.parametrize(
    ("before", "changes", "counted"),
    [
        (INTERRUPTED, {}, (0, 9)),
        (replace(INTERRUPTED, failures=None), {}, (0, 9)),
        (replace(FAILED, interruptions=None), {}, (1, 0)),
        (INTERRUPTED, {"digest": "sha256:b"}, (0, 0)),
        (INTERRUPTED, {"request": REQUEST}, (0, 0)),
    ],
)
def test_interruptions_are_counted_for_one_target(
    before: Attempted, changes: dict[str, Any], counted: tuple[int, int]
) -> None:
    begun = begin(status(before), replace(WANTED, **changes), NOW).attempted

    assert (begun.failures, begun.interruptions) == counted


def test_requests_are_acknowledged_with_the_attempt() -> None:
    request = DeployRequest(requested_at="r", force_at="f", force_update=True)

    begun = begin(GOOD, replace(WANTED, request=request), NOW)

    assert begun.last_handled_request == "r"
    assert begun.last_handled_force == "f"
    assert begun.attempted.request == "requestedAt=r forceAt=f forceUpdate"


RUNNING = status(replace(SUCCEEDED, outcome=Outcome.RUNNING, failures=1, interruptions=1))
OK = Ending(Outcome.SUCCEEDED, BundleReason.DEPLOYED, "done", revision=3)
BAD = Ending(Outcome.FAILED, BundleReason.DEPLOY_FAILED, "bad")
LOST = Ending(Outcome.INTERRUPTED, BundleReason.JOB_LOST, "gone")


def test_a_success_becomes_what_is_deployed() -> None:
    before = replace(RUNNING, last_error=LastError(reason="x"))

    after = finish(before, OK, Evidence(("sha256:a",)), RETRY, NOW)

    assert after.deployed == Deployed(
        **INPUTS, revision=3, verified=True, time="2026-01-01T12:00:00Z"
    )
    assert after.deploy.to_dict() == {"digest": "sha256:a", "version": "1.0.0"}
    assert after.last_error == LastError()
    assert after.attempted == replace(
        RUNNING.attempted,
        outcome=Outcome.SUCCEEDED,
        reason=BundleReason.DEPLOYED,
        message="done",
        failures=0,
        interruptions=0,
        finished_at="2026-01-01T12:00:00Z",
    )
    assert [entry.outcome for entry in after.past] == [Outcome.SUCCEEDED]


def test_a_success_keeps_the_revision_and_the_repository_that_are_known() -> None:
    attempted = replace(RUNNING.attempted, reference="r/app", next_retry_at="then")
    before = replace(RUNNING, attempted=attempted, deployed=replace(DEPLOYED, revision=8))

    after = finish(before, replace(OK, revision=None), Evidence(), RETRY, NOW)

    assert (after.deployed.revision, after.deployed.reference) == (8, "r/app")
    assert after.attempted.next_retry_at is None


@pytest.mark.parametrize("printed", [(), ("sha256:b",)])
def test_a_digest_that_werf_did_not_print_is_not_verified(printed: tuple[str, ...]) -> None:
    assert finish(RUNNING, OK, Evidence(printed), RETRY, NOW).deployed.verified is False


def test_a_failure_keeps_the_last_good_deploy_and_says_when_it_is_tried_again() -> None:
    before = replace(RUNNING, deployed=DEPLOYED)

    after = finish(before, BAD, Evidence(log_tail="log"), RETRY, NOW)

    assert after.deployed == DEPLOYED
    assert after.attempted.failures == 2
    assert after.attempted.next_retry_at == "2026-01-01T12:01:00Z"  # 30 s, doubled
    assert after.last_error == LastError(
        reason="DeployFailed", message="bad", log_tail="log", time="2026-01-01T12:00:00Z"
    )


def test_a_failure_is_in_the_history_with_all_that_is_known() -> None:
    old = HistoryEntry(version="0.9.0")
    attempted = replace(RUNNING.attempted, job="deploy-x", plan="id-1", approved_by="ann")
    before = replace(RUNNING, attempted=attempted, history=Packed.pack((old,)))

    after = finish(before, replace(BAD, revision=7), Evidence(), RETRY, NOW)

    assert after.past == (
        HistoryEntry(
            version="1.0.0",
            digest="sha256:a",
            revision=7,
            outcome=Outcome.FAILED,
            reason="DeployFailed",
            job="deploy-x",
            plan="id-1",
            approved_by="ann",
            time="2026-01-01T12:00:00Z",
        ),
        old,
    )
    assert (after.attempted.message, after.attempted.reason) == ("bad", "DeployFailed")
    assert after.attempted.finished_at == "2026-01-01T12:00:00Z"
    assert after.last_error.log_tail is None


@pytest.mark.parametrize(
    ("rolled_back", "revision"),
    [(RolledBack(Rollback.SUCCEEDED, 9), 9), (RolledBack(Rollback.FAILED), 3), (None, 3)],
)
def test_a_rollback_is_recorded_and_its_revision_is_what_runs(
    rolled_back: RolledBack | None, revision: int
) -> None:
    before = replace(RUNNING, deployed=replace(DEPLOYED, revision=3))

    after = finish(before, BAD, Evidence(rolled_back=rolled_back), RETRY, NOW)

    assert after.deployed == replace(DEPLOYED, revision=revision)
    assert after.attempted.rollback == (rolled_back and rolled_back.rollback)
    assert after.attempted.failures == 2


def test_the_permissions_that_were_missing_are_recorded_with_the_attempt() -> None:
    missing = (MissingPermission(verbs=("get",), resource="secrets", namespace="app"),)
    after = finish(RUNNING, replace(BAD, missing=missing), Evidence(), RETRY, NOW)
    assert after.attempted.missing == missing


def test_the_last_failure_has_no_next_try() -> None:
    before = replace(RUNNING, attempted=replace(RUNNING.attempted, failures=2))

    after = finish(before, BAD, Evidence(), RETRY, NOW)

    assert after.attempted.failures == 3
    assert after.attempted.next_retry_at is None


def test_an_interruption_does_not_count_against_the_digest() -> None:
    after = finish(RUNNING, LOST, Evidence(), RETRY, NOW)

    assert after.attempted.failures == 1
    assert after.attempted.interruptions == 2
    assert after.attempted.next_retry_at == "2026-01-01T12:01:00Z"


def test_a_job_that_is_lost_once_is_replaced_at_once() -> None:
    before = replace(RUNNING, attempted=replace(RUNNING.attempted, interruptions=0))

    after = finish(before, LOST, Evidence(), RETRY, NOW)

    assert after.attempted.next_retry_at == format_time(NOW)
    assert decide(after, WANTED, RETRY, NOW).action is DeployAction.DEPLOY


def test_history_holds_ten() -> None:
    after = RUNNING
    for _ in range(12):
        after = finish(replace(after, attempted=RUNNING.attempted), BAD, Evidence(), RETRY, NOW)

    assert len(after.past) == 10


def test_from_failure_to_quarantine_and_back_by_a_new_digest() -> None:
    now, found = NOW, status()
    tried = 0
    while (decision := decide(found, WANTED, RETRY, now)).action is not DeployAction.QUARANTINE:
        if decision.until is not None:
            assert decision.until > now
            now = decision.until
            continue
        assert tried < 3
        found = finish(begin(found, WANTED, now), BAD, Evidence(), RETRY, now)
        tried += 1

    assert tried == 3  # the first try and two more
    assert now - NOW == timedelta(seconds=30 + 60)
    assert (
        decide(found, replace(WANTED, digest="sha256:b"), RETRY, now).action is DeployAction.DEPLOY
    )
