"""From staging to production on a real control plane: with soaks of seconds."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.e2e.bundles.conftest import NOWHERE, Team
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

SOAK = 10
"""Seconds of production's: the test has to see when it ends before it has ended."""


def promoted_from(*names: str, soak: str) -> dict[str, Any]:
    return {"bundles": [{"name": name} for name in names], "soak": soak}


def gate(team: Team, name: str = "production") -> dict[str, Any]:
    found = team.status(name).get("gates", [])
    return next((one for one in found if one["name"] == "promotion"), {})


def since(team: Team, name: str = "staging") -> datetime:
    return datetime.fromisoformat(team.status(name)["soak"][-1]["since"])


def begun(team: Team, name: str = "production") -> datetime:
    return datetime.fromisoformat(team.jobs(name)[0]["metadata"]["creationTimestamp"])


def waits_until(team: Team, name: str = "production") -> datetime:
    until(lambda: gate(team, name).get("until"), lambda: f"{team.status(name)}")
    return datetime.fromisoformat(gate(team, name)["until"])


def test_a_version_goes_from_dev_to_staging_and_to_production(team: Team) -> None:
    """Production's deploy never ends."""
    team.publish("1.0.0", "first")
    team.bundle("dev", version="1.*")
    team.bundle("staging", version="1.*", promoteFrom=promoted_from("dev", soak="3s"))
    source = promoted_from("dev", "staging", soak=f"{SOAK}s")
    team.bundle("production", version="1.*", promoteFrom=source, job=NOWHERE)
    team.wait_reason("dev", "Deployed")
    digest = team.status("dev")["deployed"]["digest"]
    team.wait_deployed("staging", digest)
    assert begun(team, "staging") >= since(team, "dev") + timedelta(seconds=3)
    causes = [team.status(one)["history"][0]["cause"] for one in ("dev", "staging")]
    assert causes == ["NewVersion", "Promotion"]
    expected = waits_until(team)
    assert expected == since(team) + timedelta(seconds=SOAK)
    team.first_job("production")
    assert expected <= begun(team)
    assert team.status("production")["attempted"]["digest"] == digest
