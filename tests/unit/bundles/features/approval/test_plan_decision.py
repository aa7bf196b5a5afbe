"""What becomes of a person's decision about a plan."""

from __future__ import annotations

from typing import Any

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import LATER, NOW, TARGET, with_plan

from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.api.text import format_time
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval import gates as plan_decision
from copyrator.bundles.features.approval.record import DEPLOY
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import (
    ApprovalMode,
    ApprovalSpec,
    ApprovedPlan,
    PlanStatus,
    RejectedPlan,
)


def named(**annotations: str) -> dict[str, str]:
    return {f"operator.werf.dev/{key.replace('_', '-')}": one for key, one in annotations.items()}


ANN = ApprovedPlan(id="id-1", by="ann", at=format_time(NOW), job="shop-plan-1", seal="seal-1")
SAME = hash_of("sha256:b", "v", "s")
"""Of what PLANNED was made of."""


@pytest.mark.parametrize(
    ("annotations", "decision", "by"),
    [
        ({"approved_plan": "id-1", "approved_by": "ann"}, "Approved", "ann"),
        ({"rejected_plan": "id-1", "approved_by": "ann"}, "Rejected", "ann"),
        ({"rejected_plan": "id-1"}, "Rejected", None),
        ({"rejected_plan": "id-1", "approved_by": ""}, "Rejected", None),
        (
            {"approved_plan": "id-1", "rejected_plan": "id-1", "approved_by": "ann"},
            "Rejected",
            "ann",
        ),
        ({"approved_plan": "id-1", "rejected_plan": "id-1"}, "Rejected", None),
        ({"approved_plan": "id-1", "rejected_plan": "id-0", "approved_by": "a"}, "Approved", "a"),
        ({"approved_plan": "id-0", "approved_by": "ann"}, None, None),
        ({"approved_plan": "id-1"}, None, None),
        ({"approved_plan": "id-1", "approved_by": ""}, None, None),
        ({"rejected_plan": "id-0", "approved_by": "ann"}, None, None),
        ({}, None, None),
    ],
)
def test_a_rejection_wins_and_an_approval_names_who_gave_it(
    annotations: dict[str, str], decision: str | None, by: str | None
) -> None:
    status = with_plan()
    after = plan_decision.record_decision(status, named(**annotations), NOW)
    assert plan_decision.has_new_decision(status, named(**annotations)) is (decision is not None)
    if decision is None:
        assert after is status
        return
    plan = after.part(PlanStatus)
    assert (plan.decision, plan.by, plan.at) == (decision, by, format_time(NOW))
    if decision == "Approved":
        assert (plan.approved, plan.rejections, plan.rejected.id) == (
            replace(ANN, by=by),
            None,
            None,
        )
    else:
        assert (plan.approved, plan.rejections) == (ApprovedPlan(), 1)
        assert plan.rejected == RejectedPlan(id="id-1", contents=(SAME,))
        assert plan.approval_cleared is ("approved_plan" not in annotations)
    assert plan_decision.record_decision(after, named(**annotations), LATER) is after
    assert not plan_decision.has_new_decision(after, named(**annotations))


@pytest.mark.parametrize(
    ("cleared", "annotations", "decision", "then"),
    [
        # (approval cleared, annotations, the decision then, approval cleared then)
        (False, {"approved_plan": "id-1", "approved_by": "ann"}, "Rejected", False),
        (None, {"approved_plan": "id-1", "approved_by": "ann"}, "Rejected", None),
        (False, {}, "Rejected", True),
        (None, {}, "Rejected", True),
        (False, {"approved_plan": "id-0", "approved_by": "ann"}, "Rejected", True),
        (False, {"rejected_plan": "id-1"}, "Rejected", True),
        (True, {"approved_plan": "id-1"}, "Rejected", True),
        (True, {"approved_plan": "id-1", "approved_by": "ann"}, "Approved", None),
        # Approved anew and rejected anew, before either was seen.
        (
            True,
            {"approved_plan": "id-1", "rejected_plan": "id-1", "approved_by": "ben"},
            "Rejected",
            False,
        ),
    ],
)
def test_after_a_rejection_an_approval_counts_once_it_was_seen_absent(
    cleared: bool | None, annotations: dict[str, str], decision: str, then: bool | None
) -> None:
    rejected = RejectedPlan(id="id-1", contents=(SAME,))
    status = with_plan(
        decision="Rejected", rejections=1, rejected=rejected, approval_cleared=cleared
    )
    after = plan_decision.record_decision(status, named(**annotations), NOW)
    plan = after.part(PlanStatus)
    assert (plan.decision, plan.approval_cleared, plan.rejections) == (decision, then, 1)
    assert plan_decision.has_new_decision(status, named(**annotations)) is (after != status)
    if decision == "Approved":
        assert (plan.approved, plan.rejected) == (ANN, RejectedPlan())
    else:
        assert (plan.approved, plan.rejected) == (ApprovedPlan(), rejected)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (None, None),
        (" \n", None),
        ("it deletes\ndata\x1b[2J", "it deletes data [2J"),
        ("x" * 1024, "x" * 199 + "…"),
    ],
    ids=str,
)
def test_the_reason_of_a_rejection_is_kept_in_one_bounded_line(
    text: str | None, kept: str | None
) -> None:
    reason = {} if text is None else {"rejection_reason": text}
    rejects = named(rejected_plan="id-1", approved_by="ann", **reason)
    plan = plan_decision.record_decision(with_plan(), rejects, NOW).part(PlanStatus)
    assert (plan.decision, plan.decision_reason) == ("Rejected", kept)
    again = named(approved_plan="id-1", approved_by="ann", **reason)
    cleared = BundleStatus().with_part(replace(plan, approval_cleared=True))
    plan = plan_decision.record_decision(cleared, again, NOW).part(PlanStatus)
    assert (plan.decision, plan.decision_reason) == ("Approved", None)


def test_a_rejection_ends_an_approval_and_names_are_cut() -> None:
    annotations = named(rejected_plan="id-1", approved_by="x" * 257)
    status = with_plan(decision="Approved", by="ann", approved=ApprovedPlan(id="id-1"))
    plan = plan_decision.record_decision(status, annotations, NOW).part(PlanStatus)
    assert (plan.decision, plan.by, plan.approved) == ("Rejected", "x" * 256, ApprovedPlan())


@pytest.mark.parametrize("outcome", ["Running", "Failed"])
def test_a_rejection_while_the_plan_is_made_anew_ends_the_approval_that_would_carry_over(
    outcome: str,
) -> None:
    status = with_plan(outcome=outcome, id=None, rejections=1, approved=ANN)
    annotations = named(approved_plan="id-1", approved_by="ann", rejected_plan="id-1")
    after = plan_decision.record_decision(status, annotations, NOW)
    rejected = RejectedPlan(id="id-1", contents=(SAME,))
    assert after == with_plan(outcome=outcome, id=None, rejections=2, rejected=rejected)
    assert plan_decision.record_decision(after, annotations, LATER) is after


@pytest.mark.parametrize(("before", "decision"), [("Approved", "Rejected"), (None, None)])
def test_a_rejection_of_the_plan_whose_approval_carried_over_counts_for_this_one(
    before: str | None, decision: str | None
) -> None:
    status = with_plan(id="id-2", decision=before, by="ann" if before else None, approved=ANN)
    after = plan_decision.record_decision(status, named(rejected_plan="id-1"), NOW)
    assert (after.part(PlanStatus).decision, after.part(PlanStatus).by) == (decision, None)
    assert (after.part(PlanStatus).approved, after.part(PlanStatus).rejections) == (
        ApprovedPlan(),
        1,
    )
    assert plan_decision.record_decision(after, named(rejected_plan="id-1"), LATER) is after


def test_a_plan_that_is_being_deployed_can_be_rejected_for_its_retry_but_not_approved() -> None:
    status = replace(
        with_plan(decision="Approved", approved=ANN), attempted=Attempted(plan_job="shop-plan-1")
    )
    after = plan_decision.record_decision(status, named(rejected_plan="id-1"), NOW)
    assert (after.part(PlanStatus).decision, after.part(PlanStatus).approved) == (
        "Rejected",
        ApprovedPlan(),
    )
    approving = named(approved_plan="id-1", approved_by="ann")
    assert plan_decision.record_decision(after, approving, LATER) is after
    again = plan_record.record_plan(after, DEPLOY, TARGET, "shop-plan-2", NOW).part(PlanStatus)
    assert (again.approved, again.rejections) == (ApprovedPlan(), 1)


@pytest.mark.parametrize("mode", [ApprovalMode.ON_RISK, ApprovalMode.ALWAYS])
def test_a_plan_of_what_was_rejected_waits_for_a_decision_though_it_has_no_risk(
    mode: ApprovalMode,
) -> None:
    status = with_plan(risky_operations=None, bound=True, enforced=True)
    assert approval.passes(status.part(PlanStatus), ApprovalSpec(mode)) is (
        mode is ApprovalMode.ON_RISK
    )
    rejected = plan_decision.record_decision(status, named(rejected_plan="id-1"), NOW)
    again = plan_record.record_plan(rejected, DEPLOY, TARGET, "shop-plan-2", NOW).part(PlanStatus)
    again = replace(again, outcome="Planned", id="id-2", bound=True, enforced=True)
    assert not approval.passes(again, ApprovalSpec(mode))
    other = replace(TARGET, digest="sha256:c")
    newer = plan_record.record_plan(rejected, DEPLOY, other, "shop-plan-2", NOW).part(PlanStatus)
    newer = replace(newer, outcome="Planned", id="id-2", bound=True, enforced=True)
    assert approval.passes(newer, ApprovalSpec(mode)) is (mode is ApprovalMode.ON_RISK)
    approving = named(approved_plan="id-2", approved_by="ann")
    approved = plan_decision.record_decision(rejected.with_part(again), approving, NOW).part(
        PlanStatus
    )
    assert approval.passes(approved, ApprovalSpec(mode))
    assert approved.rejected == RejectedPlan(id="id-1"), "it never returns"
    assert approval.passes(replace(approved, decision=None), ApprovalSpec(mode)) is (
        mode is ApprovalMode.ON_RISK
    )


@pytest.mark.promise
@pytest.mark.parametrize(
    "found",
    [
        {"bound": True, "enforced": True, "image": "sha256:w"},
        {"bound": False, "enforced": False, "image": None},
    ],
)
def test_an_approval_records_how_strong_the_plan_was(found: dict[str, Any]) -> None:
    """It carries over to no weaker one."""
    annotations = named(approved_plan="id-1", approved_by="ann")
    plan = plan_decision.record_decision(with_plan(**found), annotations, NOW).part(PlanStatus)
    assert plan.approved == replace(ANN, **found)


@pytest.mark.promise
def test_who_approves_one_plan_does_not_lift_the_rejection_of_another() -> None:
    others = RejectedPlan(id="id-0", contents=("other", SAME))
    annotations = named(approved_plan="id-1", approved_by="ann")
    plan = plan_decision.record_decision(with_plan(rejected=others), annotations, NOW).part(
        PlanStatus
    )
    assert plan.rejected == RejectedPlan(id="id-0", contents=("other",))


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
    assert plan_decision.record_decision(status, annotations, NOW) is status


def test_an_attempt_records_whose_approval_it_has() -> None:
    status = plan_decision.use_plan(with_plan(decision="Approved", by="ann"))
    attempted = status.attempted
    assert (attempted.plan, attempted.plan_job, attempted.approved_by) == (
        "id-1",
        "shop-plan-1",
        "ann",
    )
    assert plan_record.is_spent(status)


def test_an_attempt_without_a_plan_makes_plan_and_approval_void() -> None:
    counted = {"number": 7, "rejections": 2, "rejected": RejectedPlan(id="r", contents=("c",))}
    status = with_plan(**counted, decision="Approved", approved=ApprovedPlan(id="id-1"))
    assert status.part(PlanStatus).remove_plan() == PlanStatus(**counted)


def test_what_was_rejected_waits_although_something_else_was_rejected_since() -> None:
    first = plan_decision.record_decision(
        with_plan(bound=True, enforced=True), named(rejected_plan="id-1"), NOW
    ).part(PlanStatus)
    other = replace(first, digest="sha256:other", id="id-2", decision=None, outcome="Planned")
    second = plan_decision.record_decision(
        with_plan().with_part(other), named(rejected_plan="id-2"), NOW
    ).part(PlanStatus)
    assert len(second.rejected.contents) == 2
    again = replace(first, rejected=second.rejected, decision=None, id="id-3", risky_operations=0)
    assert not approval.passes(again, ApprovalSpec(ApprovalMode.ON_RISK))
