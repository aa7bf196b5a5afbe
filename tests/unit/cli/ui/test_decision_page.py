"""Which plans are decided, what their page says of them, and how much of it a page has."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from tests.builders.bundles import known
from tests.unit.cli.view.objects_seen import PLAN, bundle

from copyrator.bundles.plans.fields import PlanDecision
from copyrator.bundles.plans.operations import Operation, OperationType
from copyrator.cli.bundles.approve import APPROVE, check_open, outcome
from copyrator.cli.bundles.plan import PlanView, plan_fault
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.bundles.plan_page import choices, decision_values, describe_plan_effect
from copyrator.cli.core.faults import Fault
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.diffs import ALL_LINES, LINES
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
WAITS = {"type": "UpdatePending", "status": "True", "reason": "AwaitingApproval", "message": "look"}


def view(plan: Any = None, **status: Any) -> BundleView:
    status = {"conditions": [WAITS], "plan": PLAN | (plan or {}), **status}
    return BundleView(bundle("shop", **status), NOW)


def updates(number: int, lines: int, kind: str = "ConfigMap") -> PlanLog:
    names = [f"a{one:04}" for one in range(number)]
    operations = tuple(Operation(OperationType.UPDATE, "", "", kind, name) for name in names)
    frame = "┌ Update {0}/{1}\n{2}└ Update {0}/{1}"
    content = "│ + x: y\n" * lines
    return PlanLog(operations, "\n".join(frame.format(kind, name, content) for name in names))


@pytest.mark.parametrize(
    ("plan", "done"),
    [
        ({"counts": {"create": 1}}, "create 1 object"),
        ({"counts": {"create": 2}}, "create 2 objects"),
        ({"counts": {"update": 3, "delete": 1}}, "update 3 objects and delete 1"),
        ({"counts": {"create": 1, "update": 2, "recreate": 11, "apply": 1}},
         "create 1 object, update 2, recreate 11 and blindly apply 1"),
        ({"counts": {}}, "change nothing"),
    ],
)  # fmt: skip
def test_the_sentence_says_what_the_deploy_would_do(plan, done):
    sentence = f"Plan {'a' * 32} of 1.2.0 would {done}: waits for a decision; expires in"
    assert describe_plan_effect(view(plan)) == f"{sentence} 24h."


def test_a_decision_that_the_operator_hasnt_seen_is_said_and_not_asked_for_again():
    one = view()
    one.body["metadata"]["annotations"] = {APPROVE.annotation: "a" * 32}
    assert ": approved, which the operator hasn't seen yet." in describe_plan_effect(one)
    assert [choice["verb"] for choice in choices(one)] == ["reject"]


def test_permissions_are_a_fact_where_none_is_missing():
    def shown(**plan: Any) -> tuple[list[str], str | None]:
        found = decision_values(PlanView(view(plan), PlanLog()))
        return found["missing"], {one.label: one.text for one in found["facts"]}.get("Permissions")

    one = {"verbs": ["get"], "resource": "pods", "namespace": "apps"}
    assert shown() == ([], None)
    assert shown(missingPermissions=0, unreviewed=2) == (
        [],
        "none is missing (2 kinds not reviewed)",
    )
    missing = ["get pods in apps", "2 kinds not reviewed"]
    assert shown(missing=[one], missingPermissions=1, unreviewed=2) == (missing, None)


def test_of_a_page_all_diffs_together_have_a_limited_number_of_lines():
    found = decision_values(PlanView(view(), updates(50, LINES + 5)))
    shown = [len(diff.lines) for _, _, diff, _ in found["operations"]]
    full = ALL_LINES // LINES
    assert shown == [LINES] * full + [0] * (50 - full)
    assert {diff.left for _, _, diff, _ in found["operations"][:full]} == {5}
    assert {diff.left for _, _, diff, _ in found["operations"][full:]} == {LINES + 5}
    assert {diff.added for _, _, diff, _ in found["operations"]} == {LINES + 5}


@pytest.mark.parametrize(
    ("asked", "number", "first", "last"),
    [(0, 1, 1, 100), (1, 1, 1, 100), (3, 3, 201, 250), (99, 3, 201, 250)],
)
def test_each_operation_is_on_one_page(asked, number, first, last):
    found = decision_values(PlanView(view(), updates(250, 1)), asked)
    numbers = [at for at, *_ in found["operations"]]
    assert (found["number"], found["pages"], found["total"]) == (number, 3, 250)
    assert (numbers[0], numbers[-1]) == (first, last)


def test_short_diffs_of_the_first_risky_operations_are_open():
    risky = [f"update ::ServiceAccount:a{one:04}" for one in range(8)]
    plan = view({"risky": risky, "riskyOperations": 8})
    for lines, opened in ((3, [True] * 5 + [False] * 3), (41, [False] * 8), (0, [False] * 8)):
        found = decision_values(PlanView(plan, updates(8, lines, "ServiceAccount")))
        assert [is_open for *_, is_open in found["operations"]] == opened


LATER = "2026-01-03T12:00:00Z"


def planned(plan: Any = PLAN, mode: str = "Always", **status: Any) -> dict[str, Any]:
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
        planned(None if plan is None else PLAN | plan, mode, conditions=conditions), NOW
    )
    if message is None:
        check_open(PlanDecision.APPROVED, view, "a" * 32)
        return
    with pytest.raises(Fault) as caught:
        check_open(PlanDecision.APPROVED, view, None)
    assert message in caught.value.message


def test_the_outcome_of_a_decision_is_known_also_when_the_deploy_goes_on():
    mine, other = "a" * 32, "b" * 32
    assert outcome(planned(), mine) == ""
    assert outcome(planned(PLAN | {"decision": "Approved"}), mine) == "Approved"
    assert outcome(planned({"id": other, "approved": {"id": mine}}), mine) == "Approved"
    assert outcome(planned({"id": other}, attempted={"plan": mine}), mine) == "Approved"
    assert outcome(planned({"id": other}), mine) == "replaced"
    assert outcome(planned(None), mine) == "replaced"


@given(JSON, JSON)
def test_a_forged_plan_ends_no_command(plan, conditions):
    body = planned(plan, conditions=conditions)
    assert len(plan_fault(BundleView(body, NOW))) < 20_000
    outcome(body, "a" * 32)
