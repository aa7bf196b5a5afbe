"""What commands say of a Bundle: approval."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.view.objects_seen import PLAN
from tests.unit.cli.view.test_bundle import cells, described, planned, why


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
