"""From staging to production on a real control plane: soaks of seconds, and a SIGKILL in one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.bundles.conftest import NOWHERE, Operator, Team, stays
from tests.e2e.operator_process import until

from localcluster.signing import new_key, public_key

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


@pytest.fixture(scope="module")
def chain(operator: Operator, lasting_team: Team) -> Team:
    """Dev, staging and production; staging is held, and production's deploy never ends."""
    team = lasting_team
    team.publish("1.0.0", "first")
    team.bundle("dev", version="1.*", retry={"limit": 0})
    source = promoted_from("dev", soak="3s")
    held = {"annotations": {"operator.werf.dev/hold": "load test failed"}}
    team.bundle("staging", version="1.*", promoteFrom=source, metadata=held)
    source = promoted_from("dev", "staging", soak=f"{SOAK}s")
    team.bundle("production", version="1.*", promoteFrom=source, job=NOWHERE)
    return team


def test_a_version_goes_from_dev_to_staging_and_to_production(chain: Team) -> None:
    """A hold stops the promotion, and its end begins the soak anew."""
    team = chain
    until(lambda: gate(team).get("reason") == "PromotionHeld", lambda: f"{gate(team)}")
    assert f"{team.namespace}/staging is held: load test failed" in gate(team)["message"]
    team.wait_reason("dev", "Deployed")
    digest = team.status("dev")["deployed"]["digest"]
    team.wait_deployed("staging", digest)
    assert begun(team, "staging") >= since(team, "dev") + timedelta(seconds=3)
    stays(SOAK + 1, lambda: team.jobs("production") == [])
    thawed = datetime.now(UTC).replace(microsecond=0)
    team.annotate("staging", hold=None)
    expected = waits_until(team)
    assert expected == since(team) + timedelta(seconds=SOAK)
    assert since(team) >= thawed
    team.first_job("production")
    assert expected <= begun(team)
    assert team.status("production")["attempted"]["digest"] == digest


def test_the_api_server_refuses_what_is_not_valid(team: Team) -> None:
    from localcluster.api import ApiStatusError  # noqa: PLC0415

    for wrong, said in (
        ({"bundles": []}, "should have at least 1 items"),
        ({"soak": "1h"}, "must have bundles, attestations or both"),
        (promoted_from("a", soak="721h"), "soak must be between 1s and 720h"),
        (promoted_from("a", soak="soon"), "soak must be between 1s and 720h"),
    ):
        with pytest.raises(ApiStatusError, match=said):
            team.bundle("shop", promoteFrom=wrong)


@pytest.mark.parametrize("content", [None, "junk", "key"], ids=str)
def test_one_list_of_keys_for_two_environments_is_an_invalid_spec(
    team: Team, content: str | None
) -> None:
    """Also before the list exists, or has keys."""
    if content:
        text = public_key(new_key()) if content == "key" else content
        team.create("configmaps", "keys", data={"key.pub": text})
    keys = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}
    named = [{"environment": name, **keys} for name in ("staging", "qa")]
    team.bundle("production", promoteFrom={"attestations": named})
    team.wait_reason("production", "InvalidSpec")
    assert team.condition("production")["message"] == (
        "spec.promoteFrom.attestations[1].cosign.keysFrom: ConfigMap keys has the keys of staging, "
        "too; each environment needs keys of its own"
    )
