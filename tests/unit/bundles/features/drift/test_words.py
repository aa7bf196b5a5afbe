"""What commands, the page and notices say of a Bundle: drift."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.cli.view.objects_seen import bundle, seen
from tests.unit.cli.view.test_bundle import described, drifting, why
from tests.unit.cli.view.test_overview import NOW, condition

from copyrator.cli.view.overview import overview


def test_describe_names_what_drifted_since_when_and_when_it_is_looked_at_next() -> None:
    lines = described(drifting(), "Drift")
    text = "\n".join(lines)
    assert "Drifted, since 3h; Correct, every 1h" in lines[0]
    assert "  update ::ConfigMap:app\n  and 20 more\n" in text
    assert "in the log of the Job shop-drift-2" in text
    assert lines[-2].split() == ["Corrections:", "1"]
    assert lines[-1].split()[:3] == ["Next", "check:", "in"]


def test_why_says_the_same_of_drift_and_why_nothing_is_known() -> None:
    assert why(drifting(), "Drift:") == described(drifting(), "Drift")
    lines = why(drifting({"verdict": "InSync"}), "Drift:")
    assert lines[1] == "  update ::ConfigMap:app has drifted", "the condition's message"
    assert lines[-1].endswith("; at once: copyrator plan bundle apps/shop --refresh")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"baseline": {}}, "now"),
        ({"deployed": {}}, "none now"),
        ({"drift": {"check": {"outcome": "Running", "job": "j"}}}, "running as the Job j"),
    ],
)
def test_the_next_check_for_drift(status: dict[str, Any], said: str) -> None:
    assert f"  Next check:    {said}; at once: " in described(drifting(**status), "Drift")[-1]


@pytest.mark.parametrize(
    ("conditions", "state", "reason"),
    [
        ([condition("UpdatePending", "True", "AwaitingApproval")], "Waiting", "AwaitingApproval"),
        ([condition("UpdatePending", "True", "Soaking")], "Ready", "waiting: Soaking"),
        ([condition("UpdatePending", "False", "AwaitingApproval")], "Ready", "Deployed"),
        ([condition("Drifted", "True", "Drifted")], "Failing", "Deployed,Drifted"),
    ],
)
def test_the_reason_is_that_of_the_state(conditions, state, reason):
    (row,) = overview(seen(bundle("a", "True", "Deployed", conditions=conditions)), NOW).all
    assert (row.state, row.reason) == (state, reason)
