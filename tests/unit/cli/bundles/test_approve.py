"""Which plans are decided, and what became of a decision."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from tests.builders.bundles import known
from tests.unit.cli.view.objects_seen import PLAN

from copyrator.bundles.plans.fields import PlanDecision
from copyrator.cli.bundles.approve import check_open, outcome
from copyrator.cli.bundles.plan import plan_fault
from copyrator.cli.core.faults import Fault
from copyrator.cli.view.bundle import BundleView
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
WAITS = {"type": "UpdatePending", "status": "True", "reason": "AwaitingApproval", "message": "look"}


LATER = "2026-01-03T12:00:00Z"


def bundle(plan: Any = PLAN, mode: str = "Always", **status: Any) -> dict[str, Any]:
    return known({"approval": {"mode": mode}}, **{"conditions": [WAITS], "plan": plan, **status})


@pytest.mark.parametrize(
    ("plan", "mode", "conditions", "message"),
    [
        (None, "Always", [], "bundle apps/shop has no plan. Plans are made where"),
        (
            {"outcome": "Running"},
            "Always",
            [],
            "of 1.2.0 is being made by the Job shop-plan-1, sin",
        ),
        (
            {
                "outcome": "Failed",
                "reason": "PlanFailed",
                "message": "no luck",
                "nextRetryAt": LATER,
            },
            *("Always", []),
            "of 1.2.0 failed: PlanFailed: no luck; made again in 24h; werf's log: ",
        ),
        ({"id": None}, "Always", [], "has a plan without an ID in its status"),
        ({"expiresAt": "2026-01-01T12:00:00Z"}, "Always", [], f"plan {'a' * 32} expired 24h ago"),
        ({"decision": "Approved", "by": "ann"}, "Always", [], "was approved by ann already"),
        ({"decision": "Rejected", "by": "ann"}, "Always", [], None),  # people change their minds
        ({}, "Never", [], "spec.approval.mode is Never; there is nothing to decide"),
        ({"riskyOperations": 0}, "OnRisk", [], "it has no risky operations; there is nothing"),
        ({}, "OnRisk", [], None),
        ({}, "Always", [], None),
        ({}, "Never", [WAITS], None),  # the operator's settings ask for approval
    ],
)
def test_only_a_plan_that_waits_is_decided(plan, mode, conditions, message):
    view = BundleView(
        bundle(None if plan is None else PLAN | plan, mode, conditions=conditions), NOW
    )
    if message is None:
        check_open(PlanDecision.APPROVED, view, "a" * 32)
        return
    with pytest.raises(Fault) as caught:
        check_open(PlanDecision.APPROVED, view, None)
    assert message in caught.value.message


def test_the_outcome_of_a_decision_is_known_also_when_the_deploy_goes_on():
    mine, other = "a" * 32, "b" * 32
    assert outcome(bundle(), mine) == ""
    assert outcome(bundle(PLAN | {"decision": "Approved"}), mine) == "Approved"
    assert outcome(bundle({"id": other, "approved": {"id": mine}}), mine) == "Approved"
    assert outcome(bundle({"id": other}, attempted={"plan": mine}), mine) == "Approved"
    assert outcome(bundle({"id": other}), mine) == "replaced"
    assert outcome(bundle(None), mine) == "replaced"


@given(JSON, JSON)
def test_a_forged_plan_ends_no_command(plan, conditions):
    body = bundle(plan, conditions=conditions)
    assert len(plan_fault(BundleView(body, NOW))) < 20_000
    outcome(body, "a" * 32)
