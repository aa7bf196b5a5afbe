"""Gates on the real API server: what a force passes over, and digests that are never chosen."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from click.testing import CliRunner
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.operator_process import until
from tests.long import long_form

from copyrator.api.windows import DAYS
from copyrator.cli import cli


def said(team: Team, *command: str) -> str:
    """What the command prints."""
    environment = {"KUBECONFIG": str(team.cluster.admin_kubeconfig), "COLUMNS": "300"}
    result = CliRunner().invoke(cli, [*command, "-n", team.namespace], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


@long_form(
    "tests/component/bundles/test_gates.py::test_a_request_waits_at_a_moment_gate_and_a_force_passes_over_it"
)
def test_a_force_passes_over_gates_but_never_to_a_digest_that_is_skipped(
    team: Team, operator: Operator
) -> None:
    """What it passes over is recorded and told."""
    other_day = DAYS[(datetime.now(UTC).weekday() + 3) % 7]
    closed = {"days": [other_day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    skips = "operator.werf.dev/skip-digests"
    first = team.publish("1.0.0", "first")
    bad = team.publish("1.1.0", "bad")
    metadata = {"annotations": {skips: bad}}
    team.bundle("shop", version="1.*", minAge="1h", windows=[closed], metadata=metadata)
    team.wait_reason("shop", "OutsideWindow")
    team.annotate("shop", requestedAt="now")
    team.annotate("shop", forceAt="first")
    status = team.wait_deployed("shop", first)
    assert status["available"]["rejected"] == [{"version": "1.1.0", "reason": "Skipped"}]
    assert team.condition("shop", "UpdatePending")["reason"] == "Skipped"
    assert f"rejected 1.1.0: has a digest that the annotation {skips} names" in said(
        team, "why", "shop", "--kind", "bundle"
    )
    mended = team.publish("1.1.0", "mended")  # another digest of the same tag
    until(
        lambda: team.condition("shop", "UpdatePending").get("reason") == "TooYoung",
        lambda: json.dumps(team.status("shop")),
    )
    team.annotate("shop", forceAt="second")
    status = team.wait_deployed("shop", mended)
    over = [
        {"name": "age", "reason": "TooYoung"},
        {"name": "window", "reason": "OutsideWindow"},
    ]
    assert status["attempted"]["passedOver"] == over
    assert [one["passedOver"] for one in status["history"]] == [over, over[1:]]
    assert [one["digest"] for one in status["history"]] == [mended, first]
    assert status["lastHandledForce"] == "second"
    assert team.release("shop") == {"text": "mended", "greeting": "none"}

    def told() -> list[str]:
        events = team.api.get(team.path("events"))["items"]
        return [one["message"] for one in events if one["reason"] == "GatesPassedOver"]

    text = "The forced deploy of 1.1.0 passes over gates: age (TooYoung), window (OutsideWindow)"
    until(lambda: text in told(), lambda: str(told()))
    assert "Succeeded (forced past age, window)" in said(team, "history", "bundle", "shop")
    assert "forced past age, window" in said(team, "describe", "bundle", "shop")
