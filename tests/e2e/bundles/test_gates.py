"""Gates on the real API server: what a force passes over, and digests that are never chosen."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from click.testing import CliRunner
from tests.e2e.bundles.conftest import Operator, Team
from tests.e2e.operator_process import until

from copyrator.api.windows import DAYS
from copyrator.cli import cli


def said(team: Team, *command: str) -> str:
    """What the command prints."""
    environment = {"KUBECONFIG": str(team.cluster.admin_kubeconfig), "COLUMNS": "300"}
    result = CliRunner().invoke(cli, [*command, "-n", team.namespace], env=environment)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_a_force_passes_over_is_recorded_and_told(team: Team, operator: Operator) -> None:
    other_day = DAYS[(datetime.now(UTC).weekday() + 3) % 7]
    closed = {"days": [other_day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    first = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", minAge="1h", windows=[closed])
    team.wait_reason("shop", "OutsideWindow")
    team.annotate("shop", requestedAt="now")
    team.annotate("shop", forceAt="first")
    team.wait_deployed("shop", first)
    second = team.publish("1.1.0", "second")
    until(
        lambda: team.condition("shop", "UpdatePending").get("reason") == "TooYoung",
        lambda: json.dumps(team.status("shop")),
    )
    team.annotate("shop", forceAt="second")
    status = team.wait_deployed("shop", second)
    over = [
        {"name": "age", "reason": "TooYoung"},
        {"name": "window", "reason": "OutsideWindow"},
    ]
    assert status["attempted"]["passedOver"] == over
    assert [one["passedOver"] for one in status["history"]] == [over, over[1:]]
    assert status["lastHandledForce"] == "second"

    def told() -> list[str]:
        events = team.api.get(team.path("events"))["items"]
        return [one["message"] for one in events if one["reason"] == "GatesPassedOver"]

    text = "The forced deploy of 1.1.0 passes over gates: age (TooYoung), window (OutsideWindow)"
    until(lambda: text in told(), lambda: str(told()))
    assert "Succeeded (forced past age, window)" in said(team, "history", "bundle", "shop")
    assert "forced past age, window" in said(team, "describe", "bundle", "shop")


def test_a_skipped_digest_is_never_chosen(team: Team, operator: Operator) -> None:
    first = team.publish("1.0.0", "first")
    bad = team.publish("1.1.0", "bad")
    name = "operator.werf.dev/skip-digests"
    team.bundle("shop", version="1.*", metadata={"annotations": {name: bad}})
    status = team.wait_deployed("shop", first)
    assert status["available"]["rejected"] == [{"version": "1.1.0", "reason": "Skipped"}]
    assert team.condition("shop", "UpdatePending")["reason"] == "Skipped"
    assert f"rejected 1.1.0: has a digest that the annotation {name} names" in said(
        team, "why", "shop", "--kind", "bundle"
    )
    team.annotate("shop", forceAt="now")
    until(lambda: team.status("shop").get("lastHandledForce") == "now", "it is echoed")
    mended = team.publish("1.1.0", "mended")  # another digest of the same tag
    team.wait_deployed("shop", mended)
    digests = {one["digest"] for one in team.status("shop")["history"]}
    assert digests == {first, mended}
    assert team.release("shop") == {"text": "mended", "greeting": "none"}
