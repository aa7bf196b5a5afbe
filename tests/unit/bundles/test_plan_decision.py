"""What becomes of a person's decision about a plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.bundles.plan_samples import LATER, NOW, with_plan

from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.api.plan_status import ApprovedPlan, PlanDecision, PlanStatus
from copyrator.api.times import format_time
from copyrator.bundles.policy.plans import decision as plan_decision
from copyrator.bundles.policy.plans import due as plan_due


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
    after = plan_decision.decided(status, named, NOW)
    if decision is None:
        assert after is status
        return
    plan = after.plan
    assert (plan.decision, plan.by, plan.at) == (decision, "ann", format_time(NOW))
    kept = ApprovedPlan(id="id-1", by="ann", at=plan.at, job="shop-plan-1", seal="seal-1")
    assert plan.approved == (kept if decision is PlanDecision.APPROVED else ApprovedPlan())
    assert plan_decision.decided(after, named, LATER) is after
    assert plan_decision.decided(after, {}, LATER) is after


def test_a_rejection_ends_an_approval_and_names_are_cut() -> None:
    annotations = {
        "operator.werf.dev/rejected-plan": "id-1",
        "operator.werf.dev/approved-by": "x" * 257,
    }
    status = with_plan(decision="Approved", by="ann", approved=ApprovedPlan(id="id-1"))
    plan = plan_decision.decided(status, annotations, NOW).plan
    assert (plan.decision, plan.by, plan.approved) == ("Rejected", "x" * 256, ApprovedPlan())


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
    assert plan_decision.decided(status, annotations, NOW) is status


def test_an_attempt_records_whose_approval_it_has() -> None:
    status = plan_decision.used(with_plan(decision="Approved", by="ann"))
    attempted = status.attempted
    assert (attempted.plan, attempted.plan_job, attempted.approved_by) == (
        "id-1",
        "shop-plan-1",
        "ann",
    )
    assert plan_due.is_spent(status)


def test_an_attempt_without_a_plan_makes_plan_and_approval_void() -> None:
    status = with_plan(number=7, decision="Approved", approved=ApprovedPlan(id="id-1"))
    assert plan_decision.unused(status) == BundleStatus(plan=PlanStatus(number=7))
