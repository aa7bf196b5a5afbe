"""What the status says of a plan, from its beginning to what it found."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import (
    CREATE,
    DELETE,
    MADE_OF,
    NOW,
    RECREATE,
    RETRY,
    TARGET,
    made,
    operation,
    spec,
    with_plan,
)

from copyrator.api.bundle_status import (
    Attempted,
    BundleStatus,
    GateState,
    GateStatus,
    HistoryEntry,
    MissingPermission,
    Outcome,
)
from copyrator.api.names import ANN_APPROVED_BY, ANN_APPROVED_PLAN
from copyrator.api.schema import Packed
from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.engine.step import AT_ONCE, record_part
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.approval.gates import record_decision
from copyrator.bundles.features.approval.record import DEPLOY
from copyrator.bundles.features.drift.record import CHECK
from copyrator.bundles.features.previews.record import PREVIEW
from copyrator.bundles.features.rollback.fields import PinStatus
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import (
    MAX_RISKY,
    MAX_UNBOUND,
    ApprovalMode,
    ApprovedPlan,
    OperationCounts,
    PlanStatus,
    RejectedPlan,
)
from copyrator.bundles.plans.operations import Operation, OperationType, Plan
from copyrator.bundles.plans.record import PlanFault, PlanResult, PlanTarget

RUNNING = with_plan(outcome="Running")


def begun(
    status: BundleStatus, target: PlanTarget = TARGET, *, is_requested: bool = False
) -> PlanStatus:
    """What the status says of the next plan that begins."""
    return plan_record.record_plan(
        status, DEPLOY, target, "shop-plan-8", NOW, is_requested=is_requested
    ).part(PlanStatus)


def planned(
    status: BundleStatus, result: PlanResult, mode: ApprovalMode = ApprovalMode.ALWAYS
) -> PlanStatus:
    """What the status says of a plan that was made."""
    return deploy_record.record_result(status, result, spec(mode), NOW).part(PlanStatus)


def test_a_plan_has_a_number_of_its_own_and_counts_failures_of_the_same_deploy() -> None:
    failed = with_plan(
        outcome="Failed", failures=2, interruptions=1, number=7, approved=ApprovedPlan(id="x")
    )
    again = begun(failed)
    assert again == PlanStatus(
        **MADE_OF,
        job="shop-plan-8",
        number=8,
        outcome="Running",
        failures=2,
        interruptions=1,
        started_at=format_time(NOW),
        approved=ApprovedPlan(id="x"),
    )
    tried = replace(failed, attempted=Attempted(attempt=3))
    assert begun(tried) == replace(again, attempt=3)
    other = begun(failed, replace(TARGET, digest="sha256:c"))
    assert (other.failures, other.approved, other.number) == (None, ApprovedPlan(), 8)
    assert other.interruptions is None
    assert other.rejections is None
    counted = {"rejections": 2, "rejected": RejectedPlan(id="r", contents=("c",))}
    for target in (TARGET, replace(TARGET, digest="sha256:c")):
        status = failed.with_part(replace(failed.part(PlanStatus), **counted))
        plan = begun(status, target)
        assert {name: getattr(plan, name) for name in counted} == counted
    assert begun(BundleStatus()).number == 1


def test_a_plan_of_what_is_pinned_is_outdated_by_another_pin() -> None:
    def plan_with(pinned: str | None) -> BundleStatus:
        status = BundleStatus().with_part(PinStatus(digest=pinned))
        return plan_record.record_plan(status, DEPLOY, TARGET, "shop-plan-1", NOW)

    of_pin, free = plan_with(TARGET.digest), plan_with(None)
    assert (of_pin.part(PlanStatus).pinned, free.part(PlanStatus).pinned) == (True, None)
    assert plan_with("sha256:other").part(PlanStatus).pinned is None
    for planned, pinned, is_outdated in (
        (of_pin, TARGET.digest, False),
        (of_pin, None, True),
        (of_pin, "sha256:other", True),
        (free, TARGET.digest, False),
        (free, None, False),
        (free, "sha256:other", True),
    ):
        now = planned.with_part(PinStatus(digest=pinned))
        awaited = deploy_record.awaited_plan(now)
        assert awaited == (PlanStatus() if is_outdated else planned.part(PlanStatus))


def test_each_plan_of_each_bundle_has_a_job_of_its_own() -> None:
    names = [
        purpose.job_of(bundle, uid, number)
        for purpose in (DEPLOY, PREVIEW, CHECK)
        for bundle in ("shop", "api")
        for uid in ("1", "2")
        for number in (1, 2)
    ]
    assert len(set(names)) == len(names)
    assert DEPLOY.job_of("shop", "1", 1).startswith("shop-plan-")
    assert PREVIEW.job_of("shop", "1", 1).startswith("shop-plan-")
    assert CHECK.job_of("shop", "1", 1).startswith("shop-drift-")


@pytest.mark.parametrize(
    ("status", "target", "is_free"),
    [
        (BundleStatus(), TARGET, True),
        (with_plan(), TARGET, True),
        (with_plan(), replace(TARGET, digest="sha256:c"), False),
        (
            replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")),
            replace(TARGET, digest="sha256:c"),
            True,
        ),
    ],
    ids=["no plan", "its own", "another deploy's", "another deploy's that has begun"],
)
def test_a_correction_of_drift_takes_no_other_deploys_plan_away(
    status: BundleStatus, target: PlanTarget, is_free: bool
) -> None:
    assert plan_record.is_free_for(status, target) is is_free


def test_a_plan_is_waited_for_since_it_was_made() -> None:
    def since(*gates: GateStatus) -> datetime | None:
        status = replace(with_plan(made_at=format_time(NOW)), gates=gates)
        return deploy_record.awaits_approval_since(status)

    frozen = GateStatus(name="freeze", state=GateState.WAITING, reason="Frozen")
    approval = GateStatus(name="approval", state=GateState.WAITING, reason="AwaitingApproval")
    assert since(frozen, approval) == NOW
    assert since(frozen) is None
    assert since() is None


def test_until_permissions_are_known_those_count_that_the_last_deploy_lacked() -> None:
    lacks = (MissingPermission(verbs=("create",), resource="pods", namespace="prod"),)
    status = BundleStatus(attempted=Attempted(attempt=1, outcome=Outcome.FAILED, missing=lacks))
    plan = begun(status)
    assert plan.missing == lacks


@pytest.mark.parametrize(("before", "seconds"), [(None, 30), (1, 60), (2, None)])
def test_a_failed_plan_is_made_again_a_limited_number_of_times(
    before: int | None, seconds: int | None
) -> None:
    status = with_plan(outcome="Running", failures=before)
    plan = plan_record.record_failure(status, DEPLOY, PlanFault("broken"), RETRY, NOW).part(
        PlanStatus
    )
    due = format_time(NOW + timedelta(seconds=seconds)) if seconds else None
    assert (plan.outcome, plan.reason, plan.message) == ("Failed", "PlanFailed", "broken")
    assert (plan.failures, plan.next_retry_at) == ((before or 0) + 1, due)


def test_a_plan_without_access_to_another_cluster_is_no_failed_one() -> None:
    def fail(status: BundleStatus, reason: str) -> BundleStatus:
        fault = PlanFault("no", reason)
        failed = plan_record.record_failure(status, DEPLOY, fault, RETRY, NOW)
        return plan_record.record_plan(failed, DEPLOY, TARGET, "shop-plan-8", NOW)

    status = RUNNING
    for number in range(1, RETRY.limit + 3):
        status = fail(status, "ClusterUnreachable")
        assert (status.part(PlanStatus).failures, status.part(PlanStatus).interruptions) == (
            None,
            number,
        )
    for number in range(1, RETRY.limit + 1):
        status = fail(status, "PlanFailed")
        assert (status.part(PlanStatus).failures, status.part(PlanStatus).interruptions) == (
            number,
            None,
        )
    fault = PlanFault("no", "ClusterUnreachable")
    away = plan_record.record_failure(status, DEPLOY, fault, RETRY, NOW).part(PlanStatus)
    assert (away.failures, away.interruptions) == (RETRY.limit, 1)
    assert away.next_retry_at == format_time(NOW + timedelta(seconds=RETRY.backoff))
    last = plan_record.record_failure(status, DEPLOY, PlanFault("no"), RETRY, NOW).part(PlanStatus)
    assert (last.failures, last.next_retry_at) == (RETRY.limit + 1, None)


def test_a_plan_says_what_it_does() -> None:
    failed = {"failures": 1, "reason": "PlanFailed", "message": "no", "next_retry_at": "then"}
    running = with_plan(outcome="Running", id=None, interruptions=1, **failed)
    plan = planned(running, made(CREATE, DELETE))
    assert plan == PlanStatus(
        **MADE_OF,
        job="shop-plan-1",
        number=1,
        outcome="Planned",
        made_at=format_time(NOW),
        expires_at=format_time(NOW + timedelta(hours=1)),
        id=plan.id,
        revision=3,
        operations=2,
        counts=OperationCounts(create=1, delete=1),
        risky=(str(DELETE),),
        risky_operations=1,
        bound=False,
        unbound=(
            "two renders of the chart differed",
            NO_DIGEST,
        ),
        seal="seal-2",
        enforced=True,
    )
    assert plan.id is not None
    what = replace(made(CREATE), unenforced="no guard", rollback_withheld="no rollback")
    plan = planned(running, what)
    assert (plan.enforced, plan.unenforced) == (False, "no guard")
    assert plan.rollback_withheld == "no rollback"


NO_DIGEST = (
    "the node doesn't report the digest of werf's image in its repository, so another werf may "
    "deploy; name it by digest in spec.werf.image (REPOSITORY@sha256:…)"
)
BOUND = Plan(3, (CREATE,), "a" * 64, image="registry.werf.io/werf/werf@sha256:" + "6" * 64)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (BOUND, ()),
        (replace(BOUND, render=None), ("two renders of the chart differed",)),
        (
            replace(BOUND, image=None),
            (NO_DIGEST,),
        ),
        (replace(BOUND, drawn=("a.yaml:3: now",)), ("a.yaml:3: now",)),
        (
            replace(BOUND, hidden=1, hidden_names=("ConfigMap/a",)),
            ("ConfigMap/a is hidden from the diff (werf.io/sensitive)",),
        ),
        (
            replace(BOUND, hidden=2, hidden_names=("ConfigMap/a",)),
            (
                "ConfigMap/a is hidden from the diff (werf.io/sensitive)",
                "1 more object is hidden from the diff (werf.io/sensitive)",
            ),
        ),
        (
            replace(BOUND, hidden=7, hidden_names=("ConfigMap/a",)),
            (
                "ConfigMap/a is hidden from the diff (werf.io/sensitive)",
                "6 more objects are hidden from the diff (werf.io/sensitive)",
            ),
        ),
    ],
)
def test_a_plan_is_bound_where_its_deploy_cannot_write_something_else(
    plan: Plan, expected: tuple[str, ...]
) -> None:
    assert plan_record.unbound_reasons(plan) == expected
    what = replace(made(), plan=plan)
    found = planned(RUNNING, what)
    assert (found.bound, found.unbound, found.image) == (not expected, expected, plan.image)
    assert found.hidden == (plan.hidden or None)


def test_a_status_lists_a_bounded_number_of_reasons_why_a_plan_is_not_bound() -> None:
    many = tuple(f"reason {i}" for i in range(99))
    what = replace(made(), plan=replace(BOUND, drawn=many))
    found = planned(RUNNING, what)
    assert len(found.unbound) == MAX_UNBOUND


@pytest.mark.parametrize("approved", ["a" * 64, "b" * 64, None])
@pytest.mark.parametrize("found", ["a" * 64, None])
def test_an_approval_carries_over_to_the_same_contents_only(
    approved: str | None, found: str | None
) -> None:
    before = ApprovedPlan(id="id-0", by="ann", at="then", job="shop-plan-0", seal="seal-0")
    running = with_plan(outcome="Running", approved=before)
    what = replace(made(approved=Plan(2, (CREATE,), approved)), plan=Plan(3, (CREATE,), found))
    plan = planned(running, what)
    assert (plan.decision == "Approved") is (approved == found)
    assert (plan.message is None) is (approved == found)
    assert plan.message is None or plan.message.startswith("the approval of plan id-0 was of other")


def test_the_namespace_that_werf_creates_is_risky() -> None:
    plan = planned(RUNNING, made(CREATE, missing="prod"))
    assert plan.counts == OperationCounts(create=2)
    assert plan.risky == ("create ::Namespace:prod",)


def test_the_status_names_a_bounded_number_of_risky_operations() -> None:
    many = [operation(OperationType.DELETE, "", f"x{n:03}") for n in range(MAX_RISKY + 5)]
    plan = planned(RUNNING, made(*many))
    assert (len(plan.risky), plan.risky_operations) == (MAX_RISKY, MAX_RISKY + 5)


def test_equal_effects_of_equal_content_have_one_id() -> None:
    def id_of(*operations: Operation, **more: Any) -> str | None:
        status = with_plan(outcome="Running", **more)
        return planned(status, made(*operations)).id

    assert id_of(CREATE, DELETE) == id_of(DELETE, CREATE, number=9)
    others = [
        id_of(CREATE),
        *(id_of(CREATE, DELETE, **{name: "x"}) for name in ("digest", "values_hash", "job_hash")),
        *(id_of(CREATE, DELETE, rejections=number) for number in (1, 2)),
    ]
    assert len({id_of(CREATE, DELETE), *others}) == 7
    # Waiting approvals would be void after an upgrade that computes it otherwise.
    assert id_of(CREATE) == "979689c533802da0cffc3a1827e1ea16"


def test_a_plan_that_equals_one_that_was_deployed_has_another_id() -> None:
    """Else the annotation that approved the earlier one would approve it."""
    before = with_plan(outcome="Running", id=None)
    first = planned(before, made(CREATE)).id

    def id_after(attempt: int, outcome: str) -> str | None:
        status = replace(
            before,
            attempted=Attempted(attempt=attempt, outcome=outcome, plan=first),
            history=Packed.pack([HistoryEntry(outcome=outcome, plan=first)]),
        )
        again = deploy_record.record_result(status, made(CREATE), spec(), NOW)
        approved = {ANN_APPROVED_PLAN: first or "", ANN_APPROVED_BY: "ann"}
        assert (again.part(PlanStatus).id == first) == (
            record_decision(again, approved, NOW) != again
        )
        return again.part(PlanStatus).id

    assert id_after(1, "Failed") == first, "its approval carries over to the retry"
    assert len({first, id_after(1, "Succeeded"), id_after(2, "Succeeded")}) == 3
    assert id_after(1, "Succeeded") == id_after(1, "Succeeded"), "made anew, it stays the same"


def test_plans_that_differ_have_ids_that_differ_also_where_both_were_deployed() -> None:
    """Else who approves the one would have approved the other."""
    before = with_plan(outcome="Running", id=None)
    results = made(CREATE), made(CREATE, DELETE)
    first = [planned(before, one).id for one in results]
    deployed = [HistoryEntry(outcome="Succeeded", plan=one) for one in first]
    status = replace(before, attempted=Attempted(attempt=2), history=Packed.pack(deployed))
    again = [planned(status, one).id for one in results]
    assert len({*first, *again}) == 4


@pytest.mark.parametrize(
    ("found", "carried"), [((CREATE,), True), ((), True), ((CREATE, DELETE), False)]
)
def test_an_approval_carries_over_to_a_retry_that_does_no_more(
    found: tuple[Operation, ...], carried: bool
) -> None:
    before = ApprovedPlan(id="id-0", by="ann", at="then", job="shop-plan-0", seal="seal-0")
    running = with_plan(outcome="Running", approved=before)
    plan = planned(running, made(*found, approved=Plan(2, (CREATE,))))
    expected = ("Approved", "ann", "then") if carried else (None, None, None)
    assert (plan.decision, plan.by, plan.at) == expected
    assert plan.approved == before


UPDATE = operation(OperationType.UPDATE, "", "a")


@pytest.mark.parametrize("approved", [0, 1], ids=["approved before it", "approved after it"])
@pytest.mark.parametrize("outcome", ["Failed", "Interrupted", "Succeeded", "Running", None])
@pytest.mark.parametrize("digest", ["sha256:b", "sha256:a"])
def test_what_a_failed_attempt_created_may_be_updated_by_the_next(
    outcome: str | None, digest: str, approved: int
) -> None:
    at = format_time(NOW + timedelta(seconds=approved))
    before = ApprovedPlan(id="id-0", by="ann", at=at, job="shop-plan-0", seal="seal-0")
    attempted = Attempted(
        outcome=outcome,
        digest=digest,
        values_hash="v",
        spec_hash="s",
        started_at=format_time(NOW),
    )
    running = replace(with_plan(outcome="Running", approved=before), attempted=attempted)
    plan = planned(running, made(UPDATE, approved=Plan(2, (CREATE,))))
    tried = digest == "sha256:b" and outcome in ("Failed", "Interrupted") and not approved
    assert plan.decision == ("Approved" if tried else None)


def test_the_missing_namespace_was_approved_with_the_plan_of_that_id() -> None:
    first = deploy_record.record_result(RUNNING, made(CREATE, missing="prod"), spec(), NOW)
    approved = ApprovedPlan(
        id=first.part(PlanStatus).id, by="ann", at="then", job="shop-plan-0", seal="x"
    )
    running = with_plan(outcome="Running", approved=approved)
    again = made(CREATE, missing="prod", approved=Plan(3, (CREATE,)))
    assert planned(running, again).decision == "Approved"
    other = running.with_part(
        replace(running.part(PlanStatus), approved=replace(approved, id="other"))
    )
    assert planned(other, again).decision is None


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
    plan = begun(status, is_requested=requested)
    assert plan.approved == (approved if holds else ApprovedPlan())
    if not requested:
        assert begun(status) == plan


def test_the_approval_of_a_plan_that_nobody_used_holds_for_a_request() -> None:
    status = with_plan(approved=ApprovedPlan(id="id-1"))
    plan = begun(status, is_requested=True)
    assert plan.approved == ApprovedPlan(id="id-1")


def test_what_a_chart_does_every_time_is_not_risky() -> None:
    found = made(RECREATE, DELETE, baseline=Plan(2, (RECREATE,)))
    plan = planned(RUNNING, found, ApprovalMode.ON_RISK)
    assert plan.risky == (str(DELETE),)


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
    status = status.with_part(replace(status.part(PlanStatus), rejections=3))
    after = deploy_record.drop_plan(status, TARGET)
    assert after.part(PlanStatus) == (
        status.part(PlanStatus) if stays else PlanStatus(number=1, rejections=3)
    )


@pytest.mark.parametrize(
    ("given", "plan", "carried"),
    [
        ({"bound": True, "image": BOUND.image}, BOUND, True),
        ({"bound": False, "image": BOUND.image}, BOUND, True),
        ({"bound": True, "image": BOUND.image}, replace(BOUND, drawn=("a.yaml:1: now",)), False),
        ({"bound": True, "image": BOUND.image}, replace(BOUND, image=None), False),
        ({"bound": False, "image": None}, BOUND, False),
    ],
)
def test_an_approval_carries_over_to_no_weaker_plan_and_to_no_other_image(
    given: dict[str, Any], plan: Plan, carried: bool
) -> None:
    before = ApprovedPlan(id="id-0", by="ann", at="then", job="p", seal="s", **given)
    running = with_plan(outcome="Running", approved=before)
    what = replace(made(approved=BOUND), plan=plan)
    found = planned(running, what)
    assert (found.decision == "Approved") is carried


EXACT = replace(BOUND, exact="1" * 64)
DRAWS = replace(EXACT, drawn=("a.yaml draws",))
CHANGED = Attempted(
    digest=MADE_OF["digest"],
    values_hash=MADE_OF["values_hash"],
    spec_hash=MADE_OF["spec_hash"],
    outcome="Interrupted",
    reason="PlanChanged",
    started_at=format_time(NOW),
    interruptions=1,
)
FAILED = replace(CHANGED, outcome="Failed", reason="DeployFailed", interruptions=None)
EARLIER = replace(FAILED, started_at=format_time(NOW - timedelta(minutes=2)))


@pytest.mark.parametrize(
    ("plan", "exact", "inexact"),
    [
        (BOUND, None, None),
        (EXACT, True, None),
        (replace(EXACT, hidden=1), False, "the chart hides contents from the diff"),
        (replace(EXACT, image=None), False, "the node doesn't report the digest of werf's image"),
        (replace(BOUND, inexact=Inexact.WERF), False, "werf doesn't know --save-plan"),
        (replace(BOUND, inexact=Inexact.ENCRYPTED), False, "with a secret key"),
        (replace(BOUND, inexact=Inexact.DRAWN), False, "two plans differed"),
    ],
)
def test_a_plan_is_exact_where_two_saved_ones_were_equal(
    plan: Plan, exact: bool | None, inexact: str | None
) -> None:
    found = planned(RUNNING, replace(made(), plan=plan))
    assert found.exact is exact
    assert (found.inexact or "").startswith(inexact or "")
    assert (found.inexact is None) is (inexact is None)


def test_the_hash_of_the_saved_plan_is_part_of_the_id() -> None:
    plans = (BOUND, EXACT, replace(EXACT, exact="2" * 64))
    found = {planned(RUNNING, replace(made(), plan=one)).id for one in plans}
    assert len(found) == len(plans)


@pytest.mark.parametrize(
    ("attempted", "approved", "found", "is_approved"),
    [
        (FAILED, DRAWS, replace(DRAWS, exact="2" * 64), True),  # a part of it was done
        (EARLIER, DRAWS, replace(DRAWS, exact="2" * 64), False),  # that was approved afterwards
        (CHANGED, DRAWS, replace(DRAWS, exact="2" * 64), False),
        (replace(CHANGED, reason="PlanFailed"), DRAWS, replace(DRAWS, exact="2" * 64), False),
        (replace(CHANGED, reason="GuardNotActive"), DRAWS, replace(DRAWS, exact="2" * 64), False),
        (replace(CHANGED, reason="Frozen"), DRAWS, replace(DRAWS, exact="2" * 64), False),
        (
            replace(CHANGED, reason="Frozen", failures=1),
            DRAWS,
            replace(DRAWS, exact="2" * 64),
            True,
        ),
        (replace(CHANGED, reason="JobLost"), DRAWS, replace(DRAWS, exact="2" * 64), True),
        (CHANGED, DRAWS, DRAWS, True),
        (CHANGED, EXACT, replace(EXACT, exact="2" * 64), True),  # it is bound
        (Attempted(), DRAWS, replace(DRAWS, exact="2" * 64), False),
        (FAILED, DRAWS, replace(DRAWS, exact=None, inexact=Inexact.DRAWN), False),
    ],
)
def test_an_approval_carries_over_to_another_saved_plan_only_where_that_is_explained(
    attempted: Attempted, approved: Plan, found: Plan, is_approved: bool
) -> None:
    at = format_time(NOW - timedelta(minutes=1))
    given = ApprovedPlan(id="id-0", by="ann", at=at, job="shop-plan-0", seal="seal-0")
    given = replace(given, exact=True, image=BOUND.image, bound=approved is EXACT)
    running = replace(with_plan(outcome="Running", approved=given), attempted=attempted)
    result = replace(made(approved=approved), plan=found)
    plan = planned(running, result)
    assert (plan.decision == "Approved") is is_approved


@pytest.mark.parametrize("enforced", [True, False])
@pytest.mark.parametrize("unenforced", ["no guard", ""])
def test_an_approval_of_an_enforced_plan_carries_over_to_no_other(
    enforced: bool, unenforced: str
) -> None:
    given = ApprovedPlan(id="id-0", by="ann", at="then", enforced=enforced)
    running = with_plan(outcome="Running", approved=given)
    what = replace(made(approved=Plan(2, (CREATE,), "a" * 64)), plan=Plan(3, (CREATE,), "a" * 64))
    result = replace(what, unenforced=unenforced)
    plan = planned(running, result)
    is_weaker = enforced and bool(unenforced)
    assert (plan.decision == "Approved") is not is_weaker
    why = (
        "the approval of plan id-0 was of a deploy that the API server holds to its plan, which it "
        "can't now"
    )
    assert plan.message == (why if is_weaker else None)
    further = replace(what, plan=Plan(3, (CREATE, DELETE), "a" * 64), unenforced=unenforced)
    plan = planned(running, further)
    assert (plan.message == why) is is_weaker


@pytest.mark.parametrize(
    ("approved", "found", "image", "why"),
    [
        (DRAWS, replace(DRAWS, render="b" * 64), DRAWS.image, "other contents, which a chart"),
        (DRAWS, DRAWS, "werf@sha256:other", "another image of werf"),
        (DRAWS, replace(DRAWS, operations=(CREATE, DELETE)), DRAWS.image, "other operations"),
        (
            DRAWS,
            replace(DRAWS, exact="2" * 64),
            DRAWS.image,
            "objects of the release that have changed since, or the chart draws",
        ),
    ],
    ids=["contents", "image", "operations", "file"],
)
def test_why_an_approval_does_not_carry_over(
    approved: Plan, found: Plan, image: str | None, why: str
) -> None:
    given = ApprovedPlan(id="id-0", by="ann", at="then", exact=True, image=image)
    running = with_plan(outcome="Running", approved=given)
    result = replace(made(approved=approved), plan=found)
    plan = planned(running, result)
    assert plan.message is not None
    assert plan.message.startswith(f"the approval of plan id-0 was of {why}")
    assert plan.message.endswith((why, "branches on .Release.IsInstall"))


@pytest.mark.parametrize(
    ("attempted", "is_kept"),
    [
        (CHANGED, True),
        (replace(CHANGED, interruptions=2), False),
        (replace(CHANGED, interruptions=2, digest="sha256:other"), True),
        (replace(FAILED, interruptions=2), True),
    ],
)
def test_a_saved_plan_that_keeps_differing_isnt_compared(
    attempted: Attempted, is_kept: bool
) -> None:
    status = replace(RUNNING, attempted=attempted)
    found = plan_record.without_unstable_file(status, status.part(PlanStatus), EXACT)
    assert found == (EXACT if is_kept else replace(BOUND, inexact=Inexact.UNSTABLE))


def test_a_part_that_was_written_is_followed_by_a_reconcile() -> None:
    metadata = {"namespace": "team", "name": "shop", "uid": "1", "resourceVersion": "1"}
    shop = read_entry({"metadata": metadata, "spec": {}}, BundleDefaults())
    assert AT_ONCE in record_part(shop, BundleStatus(ready=1)).due
    assert AT_ONCE not in record_part(shop, shop.status).due
