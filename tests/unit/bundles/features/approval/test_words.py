"""What commands say of a Bundle: approval."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.view.objects_seen import PLAN
from tests.unit.cli.view.test_bundle import cells, described, planned, why
from tests.unit.notify.test_transitions import AT, ATTEMPT, condition, of_bundle, one
from tests.unit.notify.test_transitions import PLAN as TOLD

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About


def test_describe_and_why_say_how_to_decide() -> None:
    body = planned(PLAN | {"newer": "1.3.0"}, attempted={"plan": "b" * 32, "approvedBy": "ann"})
    newer = "1.3.0 waits for the decision; copyrator plan bundle apps/shop --refresh plans it now"
    decide = [
        "  To see it: copyrator plan bundle apps/shop",
        "  To decide: copyrator approve bundle apps/shop or copyrator reject bundle apps/shop",
    ]
    assert described(body, "Last approval", "Plan") == [
        f"Last approval: approved by ann, plan {'b' * 32}",
        f"Plan:          {'a' * 32}",
        "  State:         waits for a decision; expires in 24h",
        "  Version:       1.2.0  -",
        f"  Newer:         {newer}",
        "  Changes:       4 operations: 3 create, 1 delete; 1 risky",
        "  Risky:         delete :apps:StatefulSet:db",
        *decide,
    ]
    assert why(body, "Plan:") == described(body, "Plan")
    assert described(planned(None), "Plan") == why(planned(None), "Plan:") == []


CONTENTS: list[tuple[dict[str, Any], str]] = [
    ({"bound": True}, "bound: what is deployed is what was planned"),
    (
        {"bound": True, "hidden": 1},
        "bound: what is deployed is what was planned; the chart hides contents of 1 object",
    ),
    ({"bound": False}, "not bound: what is deployed may differ from what is shown"),
    ({"bound": False, "unbound": list("abcd")}, "not bound: a; b; c; and 1 more"),
    ({}, ""),  # a plan from before that was judged
]
"""What is known of a plan's contents, and how it is said."""
OPERATIONS: list[tuple[dict[str, Any], str]] = [
    ({"enforced": True}, "enforced: the API server refuses what isn't approved"),
    ({"enforced": False}, "not enforced: the deploy may write what isn't approved"),
    ({"enforced": False, "unenforced": "no policy"}, "not enforced: no policy"),
    ({}, ""),
]


@pytest.mark.parametrize(
    ("label", "plan", "text"),
    [
        *(("Contents:  ", *one) for one in CONTENTS),
        *(("Operations:", *one) for one in OPERATIONS),
    ],
)
def test_contents_and_enforcement_are_said_first(
    label: str, plan: dict[str, Any], text: str
) -> None:
    body = planned(PLAN | plan)
    line = f"  {label}    {text}"
    assert (described(body, "Plan")[1] == line) is bool(text)
    assert (why(body, "Plan:")[1] == line) is bool(text)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"enforced": True, "bound": True}, "enforced, bound"),
        ({"enforced": True, "bound": False}, "enforced, not bound"),
        ({"enforced": False, "bound": False}, "not enforced, not bound"),
        ({"bound": True}, "bound"),
        ({}, "-"),
    ],
)
def test_the_wide_table_has_the_words(plan: dict[str, Any], words: str) -> None:
    assert cells(planned(PLAN | plan))["PLAN"] == words


def test_what_changed_besides_the_chart_is_named() -> None:
    changed = [
        "ConfigMap shop-values values.yaml: image, replicas",
        *(f"spec.env.{x}" for x in "abc"),
    ]
    said = f"{'; '.join(changed[:3])}; and 1 more"
    body = planned(PLAN | {"changed": changed})
    assert f"  Changed:       {said}" in described(body, "Plan")
    assert f"  Changed:       {said}" in why(body, "Plan:")
    body = planned(PLAN | {"changeUnknown": "what changed isn't known: x"})
    assert "  Changed:       what changed isn't known: x" in described(body, "Plan")


APPROVAL = {"name": "approval", "state": "Waiting", "reason": "AwaitingApproval"}


def test_a_plan_that_waits_names_version_operations_and_the_command():
    found = one(of_bundle(plan=TOLD, gates=[APPROVAL]), About.AWAITING_APPROVAL)
    assert found.what == (
        "waits for approval of 1.9.0 "
        "(2 updates, 1 delete; at risk: delete of PersistentVolumeClaim/data)"
    )
    assert found.command == "copyrator approve bundle -n prod shop 3f46bdff"
    assert found.severity is Severity.INFO


def test_another_plan_is_another_transition_and_the_same_one_is_the_same():
    first = one(of_bundle(plan=TOLD, gates=[APPROVAL]), About.AWAITING_APPROVAL)
    again = one(of_bundle(plan=TOLD, gates=[APPROVAL], ready=1), About.AWAITING_APPROVAL)
    other = {**TOLD, "id": "00000000"}
    assert first.id == again.id
    assert first.id != one(of_bundle(plan=other, gates=[APPROVAL]), About.AWAITING_APPROVAL).id


def test_a_rejection_names_who_and_why():
    plan = {**TOLD, "decision": "Rejected", "by": "ann", "at": AT}
    assert one(of_bundle(plan=plan), About.PLAN_REJECTED).what.endswith("was rejected by ann")
    told = one(of_bundle(plan=plan | {"decisionReason": "it deletes data"}), About.PLAN_REJECTED)
    assert (told.what[-3:], told.why) == ("ann", "it deletes data")


def test_a_deploy_that_stored_something_else_is_told_as_such_and_not_as_failed():
    attempt = {**ATTEMPT, "outcome": "Failed", "reason": "DeployedDifferently"}
    found = {"reason": "DeployedDifferently", "version": "1.9.0", "revision": 3, "at": AT}
    conditions = [condition("AsApproved", "False", "DeployedDifferently", "it isn't")]
    bad = of_bundle(attempted=attempt, asApproved=found, conditions=conditions)
    assert {one.about for one in bad.holding} == {About.DEPLOYED_DIFFERENTLY, About.QUARANTINED}
    told = one(bad, About.DEPLOYED_DIFFERENTLY)
    assert (told.what, told.why) == ("doesn't run what was approved of 1.9.0", "it isn't")
    assert About.DEPLOYED_DIFFERENTLY not in of_bundle().resolved
    good = of_bundle(asApproved={**found, "reason": "AsApproved"}, conditions=conditions)
    assert About.DEPLOYED_DIFFERENTLY in good.resolved


def test_a_forged_plan_adds_no_options_to_a_command():
    state = of_bundle(plan={**TOLD, "id": "1a2b -n prod payments"}, gates=[APPROVAL])
    assert one(state, About.AWAITING_APPROVAL).command == ""
