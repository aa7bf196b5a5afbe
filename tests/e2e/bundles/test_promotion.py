"""From staging to production on a real control plane: soaks of seconds, and a SIGKILL in one."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Operator, Team, stays
from tests.e2e.operator_process import until

pytestmark = pytest.mark.usefixtures("operator")

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"


def promoted_from(*names: str, soak: str) -> dict[str, Any]:
    return {"bundles": [{"name": name} for name in names], "soak": soak}


def gate(team: Team, name: str = "production") -> dict[str, Any]:
    return next(iter(team.status(name).get("gates", [])), {})


def since(team: Team, name: str = "staging") -> datetime:
    return datetime.fromisoformat(team.status(name)["soak"][-1]["since"])


def begun(team: Team, name: str = "production") -> datetime:
    return datetime.fromisoformat(team.jobs(name)[0]["metadata"]["creationTimestamp"])


def waits_until(team: Team, name: str = "production") -> datetime:
    until(lambda: gate(team, name).get("until"), lambda: f"{team.status(name)}")
    return datetime.fromisoformat(gate(team, name)["until"])


def test_a_version_goes_from_dev_to_staging_and_to_production(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("dev", version="1.*")
    team.bundle("staging", version="1.*", promoteFrom=promoted_from("dev", soak="3s"))
    source = promoted_from("dev", "staging", soak="4s")
    team.bundle("production", version="1.*", promoteFrom=source)
    expected = waits_until(team)
    assert expected == since(team) + timedelta(seconds=4)
    team.wait_deployed("production", digest)
    assert expected <= begun(team) <= expected + timedelta(seconds=3)
    assert begun(team, "staging") >= since(team, "dev") + timedelta(seconds=3)
    team.bundle("late", version="1.0.0", promoteFrom=promoted_from("production", soak="1h"))
    until(lambda: gate(team, "late").get("until"))
    assert team.condition("late")["reason"] == "NotPromoted"


def test_time_without_an_operator_does_not_count_after_a_sigkill_in_mid_soak(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("staging")
    team.bundle("production", promoteFrom=promoted_from("staging", soak="45s"))
    expected = waits_until(team)
    operator.stop(signal.SIGKILL)
    killed = datetime.now(UTC)
    written = team.get("bundles", "staging")
    stays(12, lambda: team.jobs("production") == [])  # longer than renewals may be apart
    operator.start()
    said = "without an operator don't count"
    until(lambda: said in gate(team).get("message", ""), lambda: f"{gate(team)}")
    later = waits_until(team)
    (lease,) = team.api.get(LEASES.format(operator.namespace))["items"]
    gap = lease["metadata"]["annotations"]["copyrator.flant.com/seen-time"].split()[-1]
    start, _, seconds = gap.partition("+")
    begin = datetime.fromisoformat(start)
    end = begin + timedelta(seconds=int(seconds.removesuffix("s")))
    assert begin <= killed < end
    assert later == expected + (end - max(begin, since(team)))
    team.wait_deployed("production", digest)
    assert later <= begun(team) <= later + timedelta(seconds=3)
    assert len(team.jobs("production")) == 1
    assert written is not None
    assert team.status("staging")["soak"] == written["status"]["soak"], "no write for the gap"


def test_a_hold_stops_the_promotion_and_its_end_begins_the_soak_anew(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("staging", interval="1h")
    team.bundle("production", promoteFrom=promoted_from("staging", soak="5s"), interval="1h")
    waits_until(team)
    team.annotate("staging", hold="load test failed")
    until(lambda: gate(team).get("reason") == "PromotionHeld")
    assert f"{team.namespace}/staging is held: load test failed" in gate(team)["message"]
    stays(6, lambda: team.jobs("production") == [])
    team.annotate("staging", hold=None)
    expected = waits_until(team)
    team.wait_deployed("production", digest)
    assert begun(team) >= expected


def test_a_bundle_that_failed_elsewhere_is_not_promoted(team: Team) -> None:
    team.publish("1.0.0", "first")
    team.bundle("staging", metadata={"annotations": {"operator.werf.dev/promote-to": "none"}})
    team.wait_reason("staging", "Deployed")
    broken = team.publish(
        "1.0.0", "broken", template="apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
    )
    until(lambda: team.status("staging")["attempted"].get("digest") == broken)
    team.bundle("production", promoteFrom=promoted_from("staging", soak="1s"))
    until(lambda: "failed" in gate(team).get("message", "") or not_there(team))
    stays(3, lambda: team.status("production").get("attempted", {}).get("digest") != broken)


def not_there(team: Team) -> bool:
    return "hasn't been deployed in Bundle" in gate(team).get("message", "")


def test_the_api_server_refuses_what_is_not_valid(team: Team) -> None:
    from localcluster.api import ApiStatusError  # noqa: PLC0415

    for wrong, said in (
        ({"bundles": []}, "should have at least 1 items"),
        ({"soak": "1h"}, "bundles: Required value"),
        (promoted_from("a", soak="721h"), "soak must be between 1s and 720h"),
        (promoted_from("a", soak="soon"), "soak must be between 1s and 720h"),
    ):
        with pytest.raises(ApiStatusError, match=said):
            team.bundle("shop", promoteFrom=wrong)
