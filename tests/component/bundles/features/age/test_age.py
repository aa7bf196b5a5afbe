"""A version is deployed once it has been known for ``spec.minAge``, to the second."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest
from tests.component.bundles.approvals import annotate, condition
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.features.windows.fields import DAYS


def deployed(cluster: BundleCluster) -> str:
    return str(cluster.status().get("deployed", {}).get("digest"))


def candidates(cluster: BundleCluster) -> list[str]:
    return [one["digest"] for one in cluster.status().get("candidates", [])]


async def test_a_new_version_waits_and_is_deployed_when_it_is_old_enough(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """Also after a restart."""
    bundle(version="1.*", minAge="1h")
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed", "a first install doesn't wait")
    digest = registry.put("app", "1.1.0", "next")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "TooYoung"))
    assert condition(cluster, "Ready") == ("True", "Deployed")
    (found,) = cluster.status()["candidates"]
    assert (found["version"], found["digest"]) == ("1.1.0", digest)
    (gate,) = cluster.status()["gates"]
    until = datetime.fromisoformat(gate["until"])
    assert until == datetime.fromisoformat(found["firstSeen"]) + timedelta(hours=1)
    await operator.stop()
    operator = await run(timer_interval=1.0)
    operator.let_pass(timedelta(minutes=58))
    asked = len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 2, "polls")
    assert len(cluster.runs) == 1
    operator.let_pass(timedelta(minutes=2))
    await eventually(lambda: deployed(cluster) == digest)
    assert operator.now() >= until
    await eventually(lambda: candidates(cluster) == [])
    assert condition(cluster, "UpdatePending") == ("False", "UpToDate")


async def test_a_former_digest_that_the_registry_lost_is_passed_over(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first = registry.put("app", "latest", "0")
    bundle(version="latest", minAge="1h")
    operator = await run(timer_interval=1.0)
    await eventually(lambda: deployed(cluster) == first)
    lost = registry.put("app", "latest", "1")
    await eventually(lambda: lost in candidates(cluster))
    last = registry.put("app", "latest", "2")
    del registry.untagged["app", lost]
    await eventually(lambda: last in candidates(cluster))
    operator.let_pass(timedelta(hours=1))
    await eventually(lambda: deployed(cluster) == last)
    assert lost not in [one["digest"] for one in cluster.status()["history"]]


@pytest.mark.needs("windows")
async def test_a_force_passes_over_age_and_windows_and_its_retry_waits_for_the_window(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "copyrator.bundles.engine.status")
    other_day = DAYS[(datetime.now(UTC).weekday() + 3) % 7]
    closed = {"days": [other_day], "from": "09:00", "to": "10:00", "timeZone": "UTC"}
    bundle(version="1.*", minAge="1h", windows=[closed], retry={"limit": 3, "backoff": "1s"})
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "OutsideWindow", "a first install passes age")
    annotate(cluster, forceAt="first")
    await eventually(lambda: cluster.reason() == "Deployed")
    window = {"name": "window", "reason": "OutsideWindow"}
    assert cluster.status()["attempted"]["passedOver"] == [window]

    registry.put("app", "1.1.0", "next")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "TooYoung"))
    cluster.ends = fail
    annotate(cluster, forceAt="second")
    await eventually(lambda: len(cluster.status()["history"]) == 2)
    over = [{"name": "age", "reason": "TooYoung"}, window]
    assert cluster.status()["history"][0]["passedOver"] == over
    said = [one.getMessage() for one in caplog.records if "passes over" in one.getMessage()]
    begin = "bundle/team/shop: The forced deploy of"
    assert said == [
        f"{begin} 1.0.0 passes over gates: window (OutsideWindow)",
        f"{begin} 1.1.0 passes over gates: age (TooYoung), window (OutsideWindow)",
    ]
    cluster.ends = succeed
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "OutsideWindow"))
    gates = {one["name"]: one["state"] for one in cluster.status()["gates"]}
    assert gates == {"age": "Passed", "window": "Waiting"}
    assert len(cluster.jobs()) == 2
