"""What the status says of a plan in words, however it was forged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.plan_status import PlanDecision
from copyrator.cli.bundles.approve import check_open, outcome
from copyrator.cli.bundles.plan import unfinished
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.output import printable
from copyrator.cli.view.bundle import (
    MOST,
    awaits_decision,
    describe_plan,
    explain_plan,
    head,
    is_due,
    operation_counts,
    plan_of,
    said,
    state_of,
)
from copyrator.cli.view.rows import bundle_trouble
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
WAITS = {"type": "UpdatePending", "status": "True", "reason": "AwaitingApproval", "message": "look"}
PLAN: dict[str, Any] = {
    "outcome": "Planned",
    "id": "a" * 32,
    "job": "shop-plan-1",
    "version": "1.2.0",
    "operations": 4,
    "counts": {"create": 3, "delete": 1},
    "risky": ["delete :apps:StatefulSet:db"],
    "riskyOperations": 1,
    "expiresAt": "2026-01-03T12:00:00Z",
}


def bundle(plan: Any = PLAN, mode: str = "Always", **status: Any) -> dict[str, Any]:
    found = {"conditions": [WAITS], "plan": plan, **status}
    return {
        "metadata": {"namespace": "apps", "name": "shop", "uid": "u"},
        "spec": {"registry": "r.example.com", "repo": "shop", "approval": {"mode": mode}},
        "status": found,
    }


@pytest.mark.parametrize(
    ("change", "state", "waits"),
    [
        ({}, "waits for a decision; expires in 24h", True),
        ({"expiresAt": None}, "waits for a decision", True),
        (
            {"expiresAt": "2026-01-02T11:00:00Z"},
            "expired 60m ago; the operator makes it again",
            False,
        ),
        ({"id": None}, "waits for a decision; expires in 24h", False),
        (
            {"decision": "Approved", "by": "ann", "at": "2026-01-02T11:00:00Z"},
            "approved by ann, 60m ago",
            False,
        ),
        ({"decision": "Rejected"}, "rejected, - ago", False),
        ({"outcome": "Running"}, "being made by the Job shop-plan-1", False),
        (
            {"outcome": "Failed", "reason": "PlanFailed", "message": "no.", "nextRetryAt": "2026"},
            "failed: PlanFailed: no; made again -",
            False,
        ),
    ],
)
def test_the_state_of_a_plan_in_words(change, state, waits):
    body = bundle(PLAN | change)
    assert state_of(body, NOW) == state
    assert awaits_decision(body, NOW) is waits


def test_a_decision_is_due_by_a_condition_or_by_the_gate():
    gate = {"name": "approval", "state": "Waiting", "reason": "AwaitingApproval"}
    assert is_due(bundle())
    assert is_due(bundle(conditions=[], gates=[gate]))
    for other in ({"state": "Passed"}, {"name": "window"}, {"reason": "Planning"}):
        body = bundle(conditions=[], gates=[gate | other])
        assert not is_due(body)
        assert state_of(body, NOW) == "made; no decision is required"


def test_operations_are_counted_by_type():
    assert operation_counts(plan_of(bundle())) == "4 operations: 3 create, 1 delete; 1 risky"
    assert operation_counts(plan_of(bundle({"operations": 1, "counts": {"apply": 1}}))) == (
        "1 operation: 1 blind apply"
    )
    assert operation_counts(plan_of(bundle({"operations": 0}))) == "no operations"


def test_describe_and_why_say_how_to_decide():
    body = bundle(PLAN | {"newer": "1.3.0"}, attempted={"plan": "b" * 32, "approvedBy": "ann"})
    newer = "1.3.0 waits for the decision; copyrator plan bundle apps/shop --refresh plans it now"
    assert list(describe_plan(body, NOW)) == [
        f"Last approval: approved by ann, plan {'b' * 32}",
        f"Plan:          {'a' * 32}",
        "  State:         waits for a decision; expires in 24h",
        "  Version:       1.2.0  -",
        f"  Newer:         {newer}",
        "  Changes:       4 operations: 3 create, 1 delete; 1 risky",
        "  Risky:         delete :apps:StatefulSet:db",
        "  To see it: copyrator plan bundle apps/shop",
        "  To decide: copyrator approve bundle apps/shop or copyrator reject bundle apps/shop",
    ]
    assert list(explain_plan(body, NOW)) == [
        "The plan of 1.2.0: waits for a decision; expires in 24h.",
        f"  {'a' * 32}: 4 operations: 3 create, 1 delete; 1 risky.",
        "  1.3.0 is newer and waits for the decision about this plan.",
        "  To see it: copyrator plan bundle apps/shop",
        "  To decide: copyrator approve bundle apps/shop or copyrator reject bundle apps/shop",
    ]
    assert list(describe_plan(bundle(None), NOW)) == list(explain_plan(bundle(None), NOW)) == []


def test_get_shows_a_plan_that_waits_while_the_deployed_version_is_ready():
    ready = {"type": "Ready", "status": "True", "reason": "Deployed", "message": "fine"}
    assert bundle_trouble(bundle(conditions=[ready, WAITS])) == "look"
    for other in ({"status": "False"}, {"reason": "OutsideWindow"}):
        assert bundle_trouble(bundle(conditions=[ready, WAITS | other])) == ""


@pytest.mark.parametrize(
    ("plan", "mode", "conditions", "message"),
    [
        (None, "Always", [], "bundle apps/shop has no plan. Plans are made where"),
        ({"outcome": "Running"}, "Always", [], "is being made by the Job"),
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
    body = bundle(None if plan is None else PLAN | plan, mode, conditions=conditions)
    if message is None:
        check_open(PlanDecision.APPROVED, body, "a" * 32, NOW)
        return
    with pytest.raises(Fault) as caught:
        check_open(PlanDecision.APPROVED, body, None, NOW)
    assert message in caught.value.message


def test_the_outcome_of_a_decision_is_known_also_when_the_deploy_goes_on():
    mine, other = "a" * 32, "b" * 32
    assert outcome(bundle(), mine) == ""
    assert outcome(bundle(PLAN | {"decision": "Approved"}), mine) == "Approved"
    assert outcome(bundle({"id": other, "approved": {"id": mine}}), mine) == "Approved"
    assert outcome(bundle({"id": other}, attempted={"plan": mine}), mine) == "Approved"
    assert outcome(bundle({"id": other}), mine) == "replaced"
    assert outcome(bundle(None), mine) == "replaced"


def test_what_moves_a_cursor_or_reorders_text_is_shown_as_an_escape():
    assert printable("a\tb\n\x1b[2J\r\x9b\u202e\u2066é") == "a\tb\n\\x1b[2J\\r\\x9b\\u202e\\u2066é"
    assert said("a\nb\tc\x1b") == "a b c\\x1b"
    assert len(said("x" * 10_000)) == MOST + 1
    assert said("") == said(None) == "-"


FORGED = st.dictionaries(
    st.sampled_from([*PLAN, "newer", "decision", "by", "at", "reason", "message", "nextRetryAt"]),
    JSON | st.sampled_from(["Planned", "Running", "Failed", "\x1b[2J" * 9, ["x"] * 9999, 2**62]),
)


@given(FORGED, JSON, JSON)
def test_a_forged_status_ends_no_command_and_moves_no_cursor(plan, conditions, attempted):
    body = bundle(plan, conditions=conditions, attempted=attempted)
    lines = [*head(body, NOW), *describe_plan(body, NOW), *explain_plan(body, NOW)]
    lines += [unfinished(body, NOW), bundle_trouble(body), outcome(body, "a" * 32)]
    assert all(line.isprintable() for line in lines[:-3])
    assert sum(map(len, lines)) < 20_000
