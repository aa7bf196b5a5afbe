"""Plans in the status: when one is made, what it says, and which may be deployed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from copyrator.api.bundle_spec import Approval, ApprovalMode, BundleSpec, Retry
from copyrator.api.bundle_status import (
    MAX_RISKY,
    ApprovedPlan,
    Attempted,
    Baseline,
    BundleReason,
    BundleStatus,
    Deployed,
    GateState,
    GateStatus,
    OperationCounts,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
)
from copyrator.api.times import format_time
from copyrator.bundles.policy import approval
from copyrator.bundles.policy.approval import GATE, Made
from copyrator.bundles.policy.gates import (
    PASSED,
    Candidate,
    Facts,
    Occasion,
    Refused,
    Target,
    Verdict,
    Waiting,
)
from copyrator.bundles.policy.plan import Operation, OperationType, Plan

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
TARGET = Target(version="1.1", digest="sha256:b", values_hash="v", spec_hash="s", job_hash="j")
MADE_OF = {
    "version": "1.1",
    "digest": "sha256:b",
    "values_hash": "v",
    "spec_hash": "s",
    "job_hash": "j",
}
DEPLOYED = Deployed(version="1.1", digest="sha256:b", values_hash="v", spec_hash="s")
RETRY = Retry(limit=2, backoff=30)
PLANNED = PlanStatus(
    **MADE_OF,
    job="shop-plan-1",
    number=1,
    outcome=PlanOutcome.PLANNED,
    id="id-1",
    revision=2,
    seal="seal-1",
    counts=OperationCounts(create=2, apply=1),
    risky_operations=1,
    expires_at=format_time(LATER),
)


def spec(mode: ApprovalMode = ApprovalMode.ALWAYS, **more: Any) -> BundleSpec:
    return BundleSpec(
        namespace="prod",
        name="shop",
        registry="r",
        repo="a",
        project_namespace="prod",
        approval=Approval(mode, 3600.0),
        retry=RETRY,
        **{"version": "1.*", **more},
    )


def with_plan(**changes: Any) -> BundleStatus:
    return BundleStatus(plan=replace(PLANNED, **changes))


def operation(kind: OperationType, group: str, name: str) -> Operation:
    return Operation(kind, "", group, "ConfigMap", name)


CREATE = operation(OperationType.CREATE, "", "a")
DELETE = operation(OperationType.DELETE, "", "b")
RECREATE = operation(OperationType.RECREATE, "", "hook")


def judged(
    status: BundleStatus,
    mode: ApprovalMode = ApprovalMode.ALWAYS,
    occasion: Occasion = Occasion.NEW_DIGEST,
    target: Target = TARGET,
) -> Verdict:
    facts = Facts(status, occasion, target)
    return GATE.judge(spec(mode), Candidate("1.1", "sha256:b"), facts, NOW)


# --- when a plan is made ---


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (BundleStatus(), True),
        (with_plan(), False),
        (with_plan(outcome="Running"), False),
        *[(with_plan(**{name: "other"}), True) for name in MADE_OF],
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), True),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-0")), False),
        (with_plan(outcome="Failed"), False),
        (with_plan(outcome="Failed", next_retry_at=format_time(NOW)), True),
        (with_plan(outcome="Failed", next_retry_at=format_time(LATER)), False),
        (with_plan(expires_at=format_time(NOW)), True),
        (with_plan(expires_at=format_time(NOW), decision="Approved"), False),
        (with_plan(expires_at=format_time(NOW), decision="Rejected"), False),
    ],
)
def test_a_plan_is_made_once_for_what_it_is_made_of(status: BundleStatus, wanted: bool) -> None:
    assert approval.must_plan(status, TARGET, NOW) is wanted


@pytest.mark.parametrize(
    ("status", "found", "version"),
    [
        (with_plan(), "1.2", "1.1"),
        (with_plan(outcome="Running"), "1.2", "1.1"),
        (with_plan(decision="Approved", expires_at=format_time(NOW)), "1.2", "1.1"),
        (with_plan(), "1.1", None),
        (with_plan(outcome="Failed"), "1.2", None),
        (with_plan(decision="Rejected"), "1.2", None),
        (with_plan(expires_at=format_time(NOW)), "1.2", None),
        (with_plan(values_hash="old"), "1.2", None),
        (with_plan(spec_hash="old"), "1.2", None),
        (with_plan(version="2.0"), "1.2", None),
        (with_plan(), "1.0.9", None),  # the registry has 1.1 no longer
        (replace(with_plan(), deployed=DEPLOYED), "1.2", None),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), "1.2", None),
        (BundleStatus(), "1.2", None),
    ],
)
def test_a_newer_version_waits_for_the_decision_about_the_plan(
    status: BundleStatus, found: str, version: str | None
) -> None:
    candidate = Candidate(found, "sha256:b" if found == "1.1" else "sha256:c")
    target = replace(TARGET, version=found, digest=candidate.digest)
    kept = approval.kept(status, spec(), candidate, target, NOW)
    assert (kept and kept.version) == version


@pytest.mark.parametrize("tag", ["latest", "stable"])
def test_the_older_digest_of_a_tag_waits_as_long_as_the_spec_names_the_tag(tag: str) -> None:
    status = with_plan(version="latest")
    candidate = Candidate(tag, "sha256:c")
    target = replace(TARGET, version=tag, digest="sha256:c")
    kept = approval.kept(status, spec(version=tag), candidate, target, NOW)
    assert (kept is not None) is (tag == "latest")


# --- its record ---


def test_a_plan_has_a_number_of_its_own_and_counts_failures_of_the_same_deploy() -> None:
    failed = with_plan(outcome="Failed", failures=2, number=7, approved=ApprovedPlan(id="x"))
    again = approval.begun(failed, TARGET, "shop-plan-8", NOW).plan
    assert again == PlanStatus(
        **MADE_OF,
        job="shop-plan-8",
        number=8,
        outcome="Running",
        failures=2,
        started_at=format_time(NOW),
        approved=ApprovedPlan(id="x"),
    )
    other = approval.begun(failed, replace(TARGET, digest="sha256:c"), "shop-plan-8", NOW).plan
    assert (other.failures, other.approved, other.number) == (None, ApprovedPlan(), 8)
    assert approval.begun(BundleStatus(), TARGET, "shop-plan-1", NOW).plan.number == 1


@pytest.mark.parametrize(("before", "seconds"), [(None, 30), (1, 60), (2, None)])
def test_a_failed_plan_is_made_again_a_limited_number_of_times(
    before: int | None, seconds: int | None
) -> None:
    status = with_plan(outcome="Running", failures=before)
    plan = approval.failed(status, BundleReason.PLAN_FAILED, "broken", RETRY, NOW).plan
    due = format_time(NOW + timedelta(seconds=seconds)) if seconds else None
    assert (plan.outcome, plan.reason, plan.message) == ("Failed", "PlanFailed", "broken")
    assert (plan.failures, plan.next_retry_at) == ((before or 0) + 1, due)


def made(*operations: Operation, **more: Any) -> Made:
    return Made(Plan(3, operations), more.pop("missing", None), "seal-2", **more)


def test_a_plan_says_what_it_does() -> None:
    running = with_plan(outcome="Running", failures=1, id=None, message="blocked")
    plan = approval.planned(running, made(CREATE, DELETE), spec(), NOW).plan
    assert (plan.outcome, plan.message, plan.failures) == ("Planned", None, None)
    assert (plan.revision, plan.operations, plan.seal) == (3, 2, "seal-2")
    assert plan.counts == OperationCounts(create=1, delete=1)
    assert (plan.risky, plan.risky_operations) == ((str(DELETE),), 1)
    assert plan.made_at == format_time(NOW)
    assert plan.expires_at == format_time(NOW + timedelta(hours=1))
    assert plan.decision is None
    assert plan.id is not None


def test_the_namespace_that_werf_creates_is_risky() -> None:
    running = with_plan(outcome="Running")
    plan = approval.planned(running, made(CREATE, missing="prod"), spec(), NOW).plan
    assert plan.counts == OperationCounts(create=2)
    assert plan.risky == ("create ::Namespace:prod",)


def test_the_status_names_a_bounded_number_of_risky_operations() -> None:
    many = [operation(OperationType.DELETE, "", f"x{n:03}") for n in range(MAX_RISKY + 5)]
    plan = approval.planned(with_plan(outcome="Running"), made(*many), spec(), NOW).plan
    assert (len(plan.risky), plan.risky_operations) == (MAX_RISKY, MAX_RISKY + 5)


def test_equal_effects_of_equal_content_have_one_id() -> None:
    def id_of(*operations: Operation, **more: Any) -> str | None:
        status = with_plan(outcome="Running", **more)
        return approval.planned(status, made(*operations), spec(), NOW).plan.id

    assert id_of(CREATE, DELETE) == id_of(DELETE, CREATE, number=9)
    others = [
        id_of(CREATE),
        *(id_of(CREATE, DELETE, **{name: "x"}) for name in ("digest", "values_hash", "job_hash")),
    ]
    assert len({id_of(CREATE, DELETE), *others}) == 5


@pytest.mark.parametrize(
    ("found", "carried"), [((CREATE,), True), ((), True), ((CREATE, DELETE), False)]
)
def test_an_approval_carries_over_to_a_retry_that_does_no_more(
    found: tuple[Operation, ...], carried: bool
) -> None:
    before = ApprovedPlan(id="id-0", by="ann", at="then", job="shop-plan-0", seal="seal-0")
    running = with_plan(outcome="Running", approved=before)
    plan = approval.planned(running, made(*found, approved=Plan(2, (CREATE,))), spec(), NOW).plan
    expected = ("Approved", "ann", "then") if carried else (None, None, None)
    assert (plan.decision, plan.by, plan.at) == expected
    assert plan.approved == before


UPDATE = operation(OperationType.UPDATE, "", "a")


@pytest.mark.parametrize("outcome", ["Failed", "Interrupted", "Succeeded", "Running", None])
@pytest.mark.parametrize("digest", ["sha256:b", "sha256:a"])
def test_what_a_failed_attempt_created_may_be_updated_by_the_next(
    outcome: str | None, digest: str
) -> None:
    before = ApprovedPlan(id="id-0", by="ann", at="then", job="shop-plan-0", seal="seal-0")
    attempted = Attempted(outcome=outcome, digest=digest, values_hash="v", spec_hash="s")
    running = replace(with_plan(outcome="Running", approved=before), attempted=attempted)
    plan = approval.planned(running, made(UPDATE, approved=Plan(2, (CREATE,))), spec(), NOW).plan
    tried = digest == "sha256:b" and outcome in ("Failed", "Interrupted")
    assert plan.decision == ("Approved" if tried else None)


def test_the_missing_namespace_was_approved_with_the_plan_of_that_id() -> None:
    first = approval.planned(
        with_plan(outcome="Running"), made(CREATE, missing="prod"), spec(), NOW
    )
    approved = ApprovedPlan(id=first.plan.id, by="ann", at="then", job="shop-plan-0", seal="x")
    running = with_plan(outcome="Running", approved=approved)
    again = made(CREATE, missing="prod", approved=Plan(3, (CREATE,)))
    assert approval.planned(running, again, spec(), NOW).plan.decision == "Approved"
    other = replace(running, plan=replace(running.plan, approved=replace(approved, id="other")))
    assert approval.planned(other, again, spec(), NOW).plan.decision is None


@pytest.mark.parametrize(
    ("outcome", "requested", "holds"),
    [
        ("Failed", False, True),
        ("Interrupted", False, True),
        ("Succeeded", False, False),
        ("Failed", True, False),
    ],
)
def test_an_approval_ends_with_its_deploy_and_covers_no_request(
    outcome: str, requested: bool, holds: bool
) -> None:
    approved = ApprovedPlan(id="id-1")
    attempted = Attempted(
        plan_job="shop-plan-1",
        outcome=outcome,
        digest="sha256:b",
        values_hash="v",
        spec_hash="s",
    )
    status = replace(with_plan(approved=approved), attempted=attempted)
    plan = approval.begun(status, TARGET, "shop-plan-2", NOW, is_requested=requested).plan
    assert plan.approved == (approved if holds else ApprovedPlan())


def test_the_approval_of_a_plan_that_nobody_used_holds_for_a_request() -> None:
    status = with_plan(approved=ApprovedPlan(id="id-1"))
    plan = approval.begun(status, TARGET, "shop-plan-2", NOW, is_requested=True).plan
    assert plan.approved == ApprovedPlan(id="id-1")


@pytest.mark.parametrize(
    ("plan", "attempted", "jobs"),
    [
        (PLANNED, Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Running"), Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Failed"), Attempted(job="d", plan_job="shop-plan-1"), set()),
        (
            replace(PLANNED, approved=ApprovedPlan(job="shop-plan-0")),
            Attempted(outcome="Running", job="shop-deploy-1", plan_job="shop-plan-x"),
            {"shop-plan-0", "shop-plan-1", "shop-deploy-1", "shop-plan-x"},
        ),
    ],
)
def test_secrets_are_kept_for_the_jobs_that_need_them(
    plan: PlanStatus, attempted: Attempted, jobs: set[str]
) -> None:
    status = BundleStatus(plan=plan, attempted=attempted, baseline=Baseline(job="base"))
    assert set(approval.needed(status)) - {None} == jobs | {"base"}


@pytest.mark.parametrize(
    ("status", "since"),
    [
        (BundleStatus(), False),
        (with_plan(made_at=format_time(NOW)), True),
        (with_plan(made_at=format_time(NOW - timedelta(seconds=1))), False),
        (with_plan(started_at=format_time(NOW)), True),
        (BundleStatus(attempted=Attempted(finished_at=format_time(NOW))), False),
        (BundleStatus(attempted=Attempted(finished_at=format_time(NOW), plan_job="x")), True),
    ],
)
def test_what_ended_lately_may_have_left_secrets(status: BundleStatus, since: bool) -> None:
    assert approval.ended_since(status, NOW) is since


# --- the baseline ---


def test_what_a_chart_does_every_time_is_not_risky() -> None:
    running = with_plan(outcome="Running")
    found = made(RECREATE, DELETE, baseline=Plan(2, (RECREATE,)))
    plan = approval.planned(running, found, spec(ApprovalMode.ON_RISK), NOW).plan
    assert plan.risky == (str(DELETE),)


@pytest.mark.parametrize(
    ("mode", "deployed", "base", "wanted"),
    [
        (ApprovalMode.ON_RISK, DEPLOYED, Baseline(), True),
        (ApprovalMode.ALWAYS, DEPLOYED, Baseline(), False),
        (ApprovalMode.ON_RISK, replace(DEPLOYED, digest="sha256:a"), Baseline(), False),
        (
            ApprovalMode.ON_RISK,
            DEPLOYED,
            Baseline(digest="sha256:b", values_hash="v", spec_hash="s", job="shop-plan-0"),
            False,
        ),
    ],
)
def test_the_first_plan_of_what_is_deployed_is_the_baseline(
    mode: ApprovalMode, deployed: Deployed, base: Baseline, wanted: bool
) -> None:
    status = BundleStatus(
        deployed=deployed, baseline=base, attempted=Attempted(plan_job="shop-plan-1"), plan=PLANNED
    )
    assert approval.must_make_baseline(status, spec(mode), TARGET, NOW) is wanted
    running = replace(status, plan=replace(PLANNED, job="shop-plan-2", outcome="Running"))
    after = approval.planned(running, made(RECREATE), spec(mode), NOW).baseline
    expected = Baseline(
        digest="sha256:b", values_hash="v", spec_hash="s", job="shop-plan-2", seal="seal-2"
    )
    assert after == (expected if wanted else base)


# --- decisions ---


@pytest.mark.parametrize(
    ("annotations", "decision"),
    [
        ({"approved-plan": "id-1", "approved-by": "ann"}, PlanDecision.APPROVED),
        ({"rejected-plan": "id-1", "approved-by": "ann"}, PlanDecision.REJECTED),
        (
            {"approved-plan": "id-1", "rejected-plan": "id-1", "approved-by": "ann"},
            PlanDecision.REJECTED,
        ),
        ({"approved-plan": "id-0", "approved-by": "ann"}, None),
        ({"approved-plan": "id-1"}, None),
        ({"approved-plan": "id-1", "approved-by": ""}, None),
        ({}, None),
    ],
)
def test_a_decision_names_the_plan_and_who_made_it(
    annotations: dict[str, str], decision: PlanDecision | None
) -> None:
    named = {f"operator.werf.dev/{name}": value for name, value in annotations.items()}
    status = with_plan()
    after = approval.decided(status, named, NOW)
    if decision is None:
        assert after is status
        return
    plan = after.plan
    assert (plan.decision, plan.by, plan.at) == (decision, "ann", format_time(NOW))
    kept = ApprovedPlan(id="id-1", by="ann", at=plan.at, job="shop-plan-1", seal="seal-1")
    assert plan.approved == (kept if decision is PlanDecision.APPROVED else ApprovedPlan())
    assert approval.decided(after, named, LATER) is after
    assert approval.decided(after, {}, LATER) is after


@pytest.mark.parametrize(
    "status",
    [
        with_plan(outcome="Running"),
        with_plan(outcome="Failed"),
        with_plan(id=None),
        replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")),
    ],
)
def test_nothing_is_decided_about_a_plan_that_is_not_there_or_was_used(
    status: BundleStatus,
) -> None:
    annotations = {
        "operator.werf.dev/approved-plan": "id-1",
        "operator.werf.dev/approved-by": "ann",
    }
    assert approval.decided(status, annotations, NOW) is status


def test_an_attempt_records_whose_approval_it_has() -> None:
    status = approval.used(with_plan(decision="Approved", by="ann"))
    attempted = status.attempted
    assert (attempted.plan, attempted.plan_job, attempted.approved_by) == (
        "id-1",
        "shop-plan-1",
        "ann",
    )
    assert approval.is_spent(status)


# --- the gate ---

CHANGED = Attempted(
    digest="sha256:b",
    values_hash="v",
    spec_hash="s",
    reason=BundleReason.PLAN_CHANGED,
    message="nothing was applied",
    interruptions=3,
)
UNSTABLE = Refused(
    "PlanUnstable",
    "what was planned can't be deployed, as its Jobs found again and again: nothing was applied. "
    "It isn't tried again until the version, the spec or the values change, or until copyrator "
    "reconcile bundle -n prod shop",
)
PLANNING = Waiting("Planning", "the deploy is being planned")


@pytest.mark.parametrize(
    ("status", "mode", "verdict"),
    [
        (BundleStatus(), "Always", PLANNING),
        (with_plan(outcome="Running"), "Always", PLANNING),
        (
            with_plan(outcome="Running", message="Job x is blocked: no node"),
            "Always",
            Waiting("Planning", "Job x is blocked: no node"),
        ),
        (
            with_plan(),
            "Always",
            Waiting(
                "AwaitingApproval",
                "plan id-1 (2 create, 1 blind apply; 1 risky) waits for approval: copyrator "
                "approve bundle -n prod shop",
                LATER,
            ),
        ),
        (with_plan(risky_operations=0), "OnRisk", PASSED),
        (with_plan(risky_operations=None), "OnRisk", PASSED),
        (
            with_plan(risky_operations=0, counts=OperationCounts()),
            "Always",
            Waiting(
                "AwaitingApproval",
                "plan id-1 (no changes) waits for approval: copyrator approve bundle -n prod shop",
                LATER,
            ),
        ),
        (with_plan(decision="Approved"), "Always", PASSED),
        (with_plan(decision="Approved"), "OnRisk", PASSED),
        (
            with_plan(decision="Rejected", by="ben", risky_operations=0),
            "OnRisk",
            Refused("PlanRejected", "plan id-1 was rejected by ben"),
        ),
        (
            with_plan(decision="Rejected"),
            "Always",
            Refused("PlanRejected", "plan id-1 was rejected"),
        ),
        (
            with_plan(
                outcome="Failed",
                reason="PlanChanged",
                message="broken",
                next_retry_at=format_time(LATER),
            ),
            "Always",
            Waiting("PlanChanged", "broken", LATER),
        ),
        (
            with_plan(outcome="Failed", message="broken", failures=3),
            "Always",
            Refused("PlanUnstable", "no plan could be made 3 times: broken"),
        ),
        (BundleStatus(attempted=CHANGED), "Always", UNSTABLE),
        (
            BundleStatus(attempted=replace(CHANGED, reason=BundleReason.PLAN_FAILED)),
            "Always",
            UNSTABLE,
        ),
        (BundleStatus(attempted=replace(CHANGED, interruptions=2)), "Always", PLANNING),
        (BundleStatus(attempted=replace(CHANGED, digest="sha256:a")), "Always", PLANNING),
        (BundleStatus(attempted=replace(CHANGED, reason="JobLost")), "Always", PLANNING),
    ],
)
def test_the_gate_says_what_a_deploy_waits_for(
    status: BundleStatus, mode: str, verdict: Verdict
) -> None:
    assert judged(status, ApprovalMode(mode)) == verdict


@pytest.mark.parametrize("occasion", [Occasion.REQUEST, Occasion.FORCE])
def test_a_request_tries_again_what_kept_changing(occasion: Occasion) -> None:
    assert judged(BundleStatus(attempted=CHANGED), occasion=occasion) == PLANNING


def test_it_is_asked_where_the_spec_or_the_settings_ask_for_approval() -> None:
    assert [GATE.concerns(spec(mode)) for mode in ApprovalMode] == [False, True, True]
    assert GATE.occasions == frozenset(Occasion)


# --- what follows ---


@pytest.mark.parametrize(
    ("status", "stays"),
    [
        (with_plan(), True),  # of what is deployed: a user asked for it
        (with_plan(digest="sha256:a"), False),
        (with_plan(digest="sha256:a", outcome="Running"), False),
        (
            replace(with_plan(digest="sha256:a"), attempted=Attempted(plan_job="shop-plan-1")),
            True,
        ),
    ],
)
def test_a_plan_of_what_is_not_wanted_any_more_goes(status: BundleStatus, stays: bool) -> None:
    after = approval.dropped(status, TARGET)
    assert after.plan == (status.plan if stays else PlanStatus(number=1))


def test_the_next_look_is_when_a_failed_plan_or_a_gate_is_due() -> None:
    waits = GateStatus(name="x", state=GateState.WAITING, until=format_time(LATER))
    failed = with_plan(outcome="Failed", next_retry_at=format_time(NOW))
    assert approval.next_look(BundleStatus()) is None
    assert approval.next_look(BundleStatus(gates=(waits,))) == LATER
    assert approval.next_look(replace(failed, gates=(waits,))) == NOW
    assert approval.next_look(with_plan(next_retry_at=format_time(NOW))) is None
