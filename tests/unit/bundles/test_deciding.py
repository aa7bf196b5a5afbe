"""Decisions about deploys, as a table, and what they leave in the status."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.builders import causes
from tests.builders.bundles import known
from tests.builders.causes import A, B, begun, described, entry_of
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import (
    Attempted,
    BundleStatus,
    Deployed,
    DeployRef,
    HistoryEntry,
    LastError,
    Outcome,
    Rollback,
    VersionRef,
    describe_cause,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Packed
from copyrator.api.text import format_time
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.bundle import (
    DeployRequest,
    acknowledge,
    awaits_reset,
    pending_request,
    read_entry,
    record_failed_request,
    reset_patch,
)
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
from copyrator.bundles.engine.poll import DesiredVersion, config_digest, take_over
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.identity import selection_hash
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
    ("before", "changes", "counted"),
    [
        (INTERRUPTED, {}, (0, 9)),
        (replace(INTERRUPTED, failures=None), {}, (0, 9)),
        (replace(FAILED, interruptions=None), {}, (1, 0)),
        (INTERRUPTED, {"digest": "sha256:b"}, (0, 0)),
        (INTERRUPTED, {"request": REQUEST}, (0, 0)),
        (FAILED, {}, (1, 0)),
        (FAILED, {"digest": "sha256:b"}, (0, 0)),
        (FAILED, {"generation": 2}, (0, 0)),
        (FAILED, {"request": REQUEST}, (0, 0)),
        (SUCCEEDED, {}, (0, 0)),
    ],
)
def test_failures_and_interruptions_are_counted_for_one_target(
    before: Attempted, changes: dict[str, Any], counted: tuple[int, int]
) -> None:
    begun = begin(status(before), replace(WANTED, **changes), NOW).attempted

    assert begun.attempt == 5  # never counted anew: a Job's name is never used twice
    assert (begun.failures, begun.interruptions or 0) == counted


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
    assert found.attempted.next_retry_at is None
    assert decide(found, WANTED, Retry(limit=9), now).action is DeployAction.DEPLOY
    assert now - NOW == timedelta(seconds=30 + 60)
    assert (
        decide(found, replace(WANTED, digest="sha256:b"), RETRY, now).action is DeployAction.DEPLOY
    )


# --- What an attempt is made for, and by what: decided with it, and kept with its outcome


BROKEN = replace(causes.GOOD, attempted=causes.FAILED)
"""1.0.0 is deployed, and 1.1.0 has failed."""
NEW = {"version": "1.1.0", "digest": B}
EDITED = {"spec_hash": "t", "generation": 2}
WAITED = replace(causes.GOOD, observed_generation=2)
"""A decision has seen the edit, and a gate has delayed what it asked for."""
NEED = DeployReason
BY_EDITOR = "SpecChanged, by field manager kubectl-edit"


def unpinned(version: str) -> BundleStatus:
    """A status whose last attempt was made while the spec named this version."""
    spec = entry_of(causes.GOOD, version=version).spec
    assert isinstance(spec, BundleSpec)
    return replace(
        causes.GOOD, attempted=replace(causes.GOOD.attempted, selection=selection_hash(spec))
    )


@pytest.mark.parametrize(
    ("status", "need", "changes", "spec", "cause"),
    [
        (BundleStatus(), NEED.FIRST, {}, {}, "NewVersion"),
        (causes.GOOD, NEED.VERSION, NEW, {}, "NewVersion"),
        (causes.GOOD, NEED.VERSION, {"digest": B}, {}, "NewVersion"),
        (causes.GOOD, NEED.VALUES, {"values_hash": "w"}, {}, "ValuesChanged"),
        (causes.GOOD, NEED.SPEC, EDITED, {}, BY_EDITOR),
        # labels that the release gets: whoever wrote the spec didn't change them
        (causes.GOOD, NEED.SPEC, {"spec_hash": "t"}, {}, "SpecChanged"),
        (BROKEN, NEED.RETRY, NEW, {}, "Retry"),
        (BROKEN, NEED.AGAIN, NEW, {}, "Retry"),
        (causes.GOOD, NEED.CORRECTION, {}, {}, "Correction"),
        # what the spec names has changed, not what the registry has; also if it had to wait
        (causes.GOOD, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.1.0"}, BY_EDITOR),
        (WAITED, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.1.0"}, BY_EDITOR),
        (WAITED, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.*"}, "NewVersion"),
        (causes.GOOD, NEED.VERSION, {**NEW, "generation": 2}, {"version": "1.*"}, BY_EDITOR),
        (causes.GOOD, NEED.VERSION, NEW, {"version": "1.*"}, "NewVersion"),  # pushed since the edit
        # another edit, and a version that was pushed before it
        (
            replace(causes.GOOD, observed_generation=0),
            NEED.VERSION,
            NEW,
            {"interval": "1h"},
            "NewVersion",
        ),
        # after a pin has ended the deployed version isn't what the spec names, either
        (unpinned("1.1.0"), NEED.VERSION, NEW, {"version": "1.1.0"}, "NewVersion"),
        # the last attempt is what they are compared with, whatever is deployed
        (BROKEN, NEED.VERSION, {**NEW, "values_hash": "w"}, {}, "ValuesChanged"),
        (BROKEN, NEED.REPAIR, {}, {}, "NewVersion"),
        (
            replace(BROKEN, attempted=replace(causes.FAILED, digest=A, version="1.0.0")),
            NEED.REPAIR,
            {"generation": 2},
            {},
            BY_EDITOR,
        ),
        (BundleStatus(attempted=causes.FAILED), NEED.FIRST, {"version": "1.2.0"}, {}, "NewVersion"),
        (BundleStatus(deployed=causes.GOOD.deployed), NEED.VERSION, NEW, {}, "NewVersion"),
    ],
)
def test_a_cause_is_what_has_changed_since_the_last_attempt(
    status: BundleStatus,
    need: DeployReason,
    changes: dict[str, Any],
    spec: dict[str, Any],
    cause: str,
) -> None:
    assert (
        described(begun(entry_of(status, **spec), need, replace(causes.WANTED, **changes))) == cause
    )


@pytest.mark.parametrize(
    ("request_", "by"),
    [
        ({"requested_at": "x"}, ", by field manager kubectl-annotate"),
        ({"force_at": "x"}, ", by field manager ann"),  # a name that it chose, so never alone
        ({"force_at": "x", "requested_at": "x"}, ", by field manager ann"),
        ({"force_update": True}, ""),
    ],
    ids=str,
)
def test_a_request_names_the_field_manager_that_wrote_it(request_: dict[str, Any], by: str) -> None:
    wanted = replace(causes.WANTED, request=DeployRequest(**request_))
    status = begun(entry_of(causes.GOOD), NEED.REQUEST, wanted)
    assert described(status) == f"Requested{by}"


@pytest.mark.parametrize("managed", [None, [], [{"manager": "x", "fieldsV1": {}}]], ids=str)
def test_without_managed_fields_it_isnt_known_who_wrote_something(managed: Any) -> None:
    entry = entry_of(causes.GOOD, managed=managed)
    assert described(begun(entry, NEED.SPEC, replace(causes.WANTED, **EDITED))) == "SpecChanged"


@pytest.mark.parametrize("outcome", list(Outcome)[1:])
def test_cause_and_writer_are_kept_from_the_attempt_to_the_history(outcome: Outcome) -> None:
    status = begun(entry_of(causes.GOOD), NEED.SPEC, replace(causes.WANTED, **EDITED))
    body = json.loads(json.dumps(known(**status.to_dict())))  # another process goes on
    body["metadata"]["managedFields"] = []
    later = read_entry(body, BundleDefaults()).status
    ending = Ending(outcome, None, "x")
    ended = deciding.finish(later, ending, deciding.NO_EVIDENCE, Retry(), datetime.now(UTC))
    (entry,) = ended.past
    assert (entry.cause, entry.by) == ("SpecChanged", "field manager kubectl-edit")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (HistoryEntry(), ""),
        (HistoryEntry(correction=True), "Correction"),
        (HistoryEntry(approved_by="ann"), "approved by ann"),
        (HistoryEntry(cause="Retry", by="ann", approved_by="ann"), "Retry, approved by ann"),
        (HistoryEntry(cause="Retry", by="ann"), "Retry, by ann"),
        (HistoryEntry(cause="Retry", approved_by="ann"), "Retry"),
    ],
    ids=str,
)
def test_entries_without_a_cause_are_readable(entry: HistoryEntry, text: str) -> None:
    assert describe_cause(entry) == text


# --- Bundles as the original werf operator left them


PRODUCTION = BundleSpec(
    namespace="apps", name="shop", registry="r", repo="app", project_namespace="production"
)
LEFT = BundleStatus(
    ready=1,
    target=VersionRef(digest="sha256:config", version="1.0.0"),
    deploy=DeployRef(digest="sha256:config", version="1.0.0"),
)
PRESENT = DesiredVersion(3, "spec", "values", "", "")
AS_LEFT = DesiredDeploy(
    version="1.0.0", digest="sha256:manifest", values_hash="values", spec_hash="spec", generation=3
)


@pytest.mark.parametrize(
    ("status", "inherited"),
    [
        (LEFT, True),
        (replace(LEFT, observed_generation=1), True),  # we asked, and had no answer yet
        (BundleStatus(), False),
        (replace(LEFT, deploy=DeployRef(digest="sha256:config")), False),
        (replace(LEFT, deploy=DeployRef(version="1.0.0")), False),
        (replace(LEFT, deployed=Deployed(version="1.0.0")), False),
        (replace(LEFT, attempted=Attempted(attempt=1)), False),
    ],
)
def test_is_known_by_a_deploy_that_none_of_our_fields_tells_of(
    status: BundleStatus, inherited: bool
) -> None:
    assert status.is_inherited is inherited


def test_what_was_deployed_is_the_baseline_and_nothing_is_deployed() -> None:
    found = take_over(LEFT, PRODUCTION, PRESENT, "sha256:manifest", NOW)

    assert not found.is_inherited
    assert found.deploy == DeployRef(digest="sha256:manifest", version="1.0.0")
    assert found.target == VersionRef(digest="sha256:manifest", version="1.0.0")
    assert found.deployed == Deployed(
        version="1.0.0",
        digest="sha256:manifest",
        reference="r/app",
        namespace="production",
        values_hash="values",
        spec_hash="spec",
        generation=3,
        verified=False,
        time="2026-01-01T12:00:00Z",
    )
    assert decide(found, AS_LEFT, PRODUCTION.retry, NOW) == Decision(DeployAction.NOTHING)


@pytest.mark.parametrize(
    ("news", "need"),
    [
        ({"digest": "sha256:new"}, DeployReason.VERSION),
        ({"values_hash": "new"}, DeployReason.VALUES),
        ({"spec_hash": "new"}, DeployReason.SPEC),
    ],
)
def test_what_changes_later_is_deployed(news: dict[str, Any], need: DeployReason) -> None:
    found = take_over(LEFT, PRODUCTION, PRESENT, "sha256:manifest", NOW)

    assert decide(found, replace(AS_LEFT, **news), PRODUCTION.retry, NOW).need is need


def test_unknown_content_is_deployed_and_its_version_is_known() -> None:
    found = take_over(LEFT, PRODUCTION, PRESENT, "", NOW)

    assert not found.is_inherited
    assert found.deployed.version == "1.0.0"
    decision = decide(found, AS_LEFT, PRODUCTION.retry, NOW)
    assert (decision.action, decision.need) == (DeployAction.DEPLOY, DeployReason.VERSION)


@pytest.mark.parametrize(
    ("manifest", "digest"),
    [
        ({"config": {"digest": "sha256:a"}}, "sha256:a"),
        ({"manifests": []}, None),
        ({"config": None}, None),
        ({"config": {"digest": 7}}, None),
    ],
)
def test_reads_the_config_digest_that_a_manifest_has(
    manifest: dict[str, Any], digest: str | None
) -> None:
    assert config_digest(manifest) == digest


# --- Requests of users: each is acted on once, and none is lost


REQUESTED = "operator.werf.dev/requestedAt"
FORCED = "operator.werf.dev/forceAt"


@pytest.mark.parametrize(
    ("annotations", "status", "expected"),
    [
        ({}, BundleStatus(), None),
        ({REQUESTED: "a"}, BundleStatus(), DeployRequest(requested_at="a")),
        ({REQUESTED: "a"}, BundleStatus(last_handled_request="a"), None),
        ({REQUESTED: "b"}, BundleStatus(last_handled_request="a"), DeployRequest(requested_at="b")),
        ({REQUESTED: ""}, BundleStatus(), DeployRequest(requested_at="")),
        ({}, BundleStatus(last_handled_request="a"), None),
        ({FORCED: "a"}, BundleStatus(last_handled_request="a"), DeployRequest(force_at="a")),
        ({FORCED: "a"}, BundleStatus(last_handled_force="a"), None),
        ({}, BundleStatus(force_update=1), DeployRequest(force_update=True)),
        ({}, BundleStatus(force_update=0), None),
        ({}, BundleStatus(force_update=2), None),
    ],
)
def test_finds_what_nobody_has_acted_on(
    annotations: dict[str, str], status: BundleStatus, expected: DeployRequest | None
) -> None:
    assert pending_request(annotations, status) == expected


def attempt(outcome: Outcome, request: str) -> BundleStatus:
    return BundleStatus(force_update=1, attempted=Attempted(outcome=outcome, request=request))


@pytest.mark.parametrize(
    ("status", "resets"),
    [
        (attempt(Outcome.RUNNING, "forceUpdate"), True),
        (attempt(Outcome.RUNNING, "requestedAt=x forceUpdate"), True),
        (attempt(Outcome.RUNNING, "requestedAt=forceUpdates"), False),
        (attempt(Outcome.RUNNING, ""), False),
        (attempt(Outcome.SUCCEEDED, "forceUpdate"), False),
        (attempt(Outcome.FAILED, "forceUpdate"), False),
    ],
)
def test_force_update_is_reset_by_the_attempt_that_it_made(
    status: BundleStatus, resets: bool
) -> None:
    assert awaits_reset(status) is resets
    assert (pending_request({}, status) is None) is resets


@pytest.mark.parametrize(
    ("status", "request_then"),
    [
        (attempt(Outcome.RUNNING, "forceUpdate"), "forceUpdate=0"),
        (attempt(Outcome.RUNNING, "forceAt=x forceUpdate"), "forceAt=x forceUpdate=0"),
        (attempt(Outcome.SUCCEEDED, "forceUpdate"), None),
        (BundleStatus(force_update=1), None),
    ],
)
def test_the_attempt_remembers_that_its_force_was_set_back(
    status: BundleStatus, request_then: str | None
) -> None:
    changes = {step["path"]: step["value"] for step in reset_patch(status) if step["op"] != "test"}

    assert changes.pop("/status/forceUpdate") == 0
    assert changes.get("/status/attempted/request") == request_then


def test_the_patch_holds_only_as_long_as_the_status_is_the_one_that_was_read() -> None:
    patch = reset_patch(attempt(Outcome.RUNNING, "forceAt=x forceUpdate"))

    field, asked = "/status/forceUpdate", "/status/attempted/request"
    assert patch == [
        {"op": "test", "path": field, "value": 1},
        {"op": "replace", "path": field, "value": 0},
        {"op": "test", "path": asked, "value": "forceAt=x forceUpdate"},
        {"op": "replace", "path": asked, "value": "forceAt=x forceUpdate=0"},
    ]


@pytest.mark.parametrize(
    ("request_", "token", "echo"),
    [
        (DeployRequest(), "", (None, None)),
        (DeployRequest("a"), "requestedAt=a", ("a", None)),
        (DeployRequest("", "b"), "requestedAt= forceAt=b", ("", "b")),
        (
            DeployRequest("a", "b", force_update=True),
            "requestedAt=a forceAt=b forceUpdate",
            ("a", "b"),
        ),
    ],
)
def test_a_request_has_its_own_token_and_its_echo(
    request_: DeployRequest, token: str, echo: tuple[str | None, str | None]
) -> None:
    status = acknowledge(BundleStatus(), request_)

    assert request_.token == token
    assert (status.last_handled_request, status.last_handled_force) == echo
    assert acknowledge(status, DeployRequest()) == status


WAITS = BundleStatus(
    last_handled_request="a",
    last_handled_force="b",
    last_failed_request="c",
    last_failed_force="d",
)


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        (DeployRequest(), {}),
        (DeployRequest("a", "b"), {}),
        (DeployRequest("e"), {"last_failed_request": "e"}),
        (DeployRequest(force_at="e"), {"last_failed_force": "e"}),
        (DeployRequest("e", "f"), {"last_failed_request": "e", "last_failed_force": "f"}),
        (DeployRequest("", "b"), {"last_failed_request": ""}),
    ],
)
def test_a_request_that_failed_has_its_echo_unless_it_was_handled(
    request_: DeployRequest, changes: dict[str, str]
) -> None:
    assert record_failed_request(WAITS, request_) == replace(WAITS, **changes)


def test_the_echo_of_a_failure_is_removed_when_a_request_is_handled() -> None:
    assert acknowledge(WAITS, DeployRequest("c")) == replace(
        WAITS, last_handled_request="c", last_failed_request=None
    )
    assert acknowledge(WAITS, DeployRequest(force_at="d")) == replace(
        WAITS, last_handled_force="d", last_failed_force=None
    )
