"""New versions wait for the Bundles of ``spec.dependsOn``, and go on by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.bundles.approvals import annotate, condition
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_failed_polls import (
    BAD_GATEWAY,
    DEPLOYED,
    deployed,
    failed,
    next_due,
    next_poll,
)
from tests.component.bundles.test_metrics import shows
from tests.component.bundles.test_suspension import BYS, OFF, pause, ready
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("registry")

ON_DB = [{"name": "db"}]


def jobs_of(cluster: BundleCluster, name: str) -> list[dict[str, Any]]:
    return [job for job in cluster.jobs() if job["metadata"]["name"].startswith(f"{name}-")]


async def test_a_bundle_waits_for_another_that_comes_later(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle("shop", dependsOn=ON_DB)
    await run()
    await eventually(lambda: cluster.reason("shop") == "DependencyNotReady")
    assert "Bundle team/db doesn't exist" in cluster.message("shop")
    assert condition(cluster, "UpdatePending") == ("True", "DependencyNotReady")
    ends, cluster.ends = cluster.ends, None
    bundle("db")
    await eventually(lambda: jobs_of(cluster, "db"))
    assert jobs_of(cluster, "shop") == []
    asked = len(registry.asked)

    cluster.ends = ends
    cluster.end_job(jobs_of(cluster, "db")[0]["metadata"]["name"], 0, "")

    await eventually(lambda: cluster.reason("db") == "Deployed")
    await eventually(lambda: cluster.reason("shop") == "Deployed")
    assert len(registry.asked) == asked, "the registry isn't polled for it"


async def test_of_a_bundle_of_another_namespace_only_whether_it_is_ready_is_said(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Nor whether it exists: what it waits for, or why it failed, is its own team's."""
    cluster.namespace("other")
    elsewhere = [{"namespace": "other", "name": name} for name in ("broken", "missing")]
    spec = {**bundle("shop", dependsOn=elsewhere)["spec"], "registry": "http://no"}
    path = path_of("bundles", "broken", "other")
    metadata = {"name": "broken", "namespace": "other"}
    cluster.write(path, {"metadata": metadata, "spec": {**spec, "dependsOn": []}})

    await run()

    await eventually(lambda: "InvalidSpec" in str(cluster.objects[path].get("status")))
    await eventually(lambda: cluster.reason("shop") == "DependencyNotReady")
    said = "isn't Ready (or not Healthy, where that is watched), or doesn't exist"
    ends = f"Bundle other/broken {said}; Bundle other/missing {said}"
    assert cluster.message("shop").endswith(ends)


async def test_only_a_new_version_waits(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle("db")
    bundle("shop", version="1.*", dependsOn=ON_DB)
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason("shop") == "Deployed")
    cluster.change("bundles", "db", spec={"registry": "http://no"})
    await eventually(lambda: cluster.reason("db") == "InvalidSpec")

    registry.put("app", "1.1.0", "next")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "DependencyNotReady"))
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(jobs_of(cluster, "shop")) == 1


async def test_a_cycle_is_named_and_ends_for_all_when_one_edge_goes(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle("a", dependsOn=[{"name": "b"}])
    bundle("b", dependsOn=[{"name": "c"}])
    bundle("c", dependsOn=[{"name": "a"}])
    await run()
    for name in "abc":
        await eventually(lambda name=name: cluster.reason(name) == "InvalidSpec")
    assert "team/a -> team/b -> team/c -> team/a" in cluster.message("a")
    assert cluster.jobs() == []

    cluster.change("bundles", "a", spec={"dependsOn": None})

    for name in "acb":
        await eventually(lambda name=name: cluster.reason(name) == "Deployed")


async def test_dependants_see_a_failed_poll_at_once(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.put("front", "1.0.0", "one")
    bundle()
    bundle("front", repo="front", version="1.*", dependsOn=[{"name": "shop"}])
    operator = await run()
    await deployed(cluster, operator)
    await eventually(lambda: cluster.reason("front") == "Deployed")
    registry.fault, registry.fault_at = BAD_GATEWAY, "/app/"
    while not failed(cluster):
        await next_due(operator)
    assert condition(cluster, "Ready") == DEPLOYED

    registry.put("front", "1.1.0", "two")
    annotate(cluster, "front", requestedAt="now")

    await eventually(lambda: cluster.status("front").get("gates"))
    (gate,) = cluster.status("front")["gates"]
    assert (gate["name"], gate["reason"]) == ("dependsOn", "DependencyNotReady")
    registry.fault = None
    await next_poll(operator)
    await eventually(lambda: cluster.status("front")["deployed"]["version"] == "1.1.0")


async def test_suspended_bundles_are_counted_apart(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Neither as quarantined, nor as one that waits for a gate."""
    operator = await run()
    bundle("waits", dependsOn=[{"name": "nothing"}])
    await shows(operator, {'copyrator_bundles_waiting{gate="dependsOn"}': 1})
    cluster.ends = fail
    bundle("fails", retry={"limit": 0})
    await shows(operator, {"copyrator_bundles_quarantined": 1})
    for name in ("waits", "fails"):
        cluster.change("bundles", name, spec={"suspend": True})
    paused = {'copyrator_bundles{reason="Suspended"}': 2, "copyrator_bundles_quarantined": 0}
    found = await shows(operator, paused | {"copyrator_oldest_wait_seconds": 0})
    assert not [name for name in found if name.startswith("copyrator_bundles_waiting{")]
    assert not [name for name in found if 'copyrator_bundles{reason="Quarantined' in name]


@pytest.mark.parametrize("by", BYS)
async def test_a_suspended_dependency_with_an_edit_is_waited_for_and_its_cause_named(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, by: str
) -> None:
    bundle("db")
    await run()
    await eventually(lambda: cluster.reason("db") == "Deployed")
    pause(cluster, by, "db")
    await eventually(lambda: cluster.reason("db") == by)
    cluster.change("bundles", "db", spec={"env": {"WERF_SET_A": "a=2"}})
    bundle("shop", dependsOn=ON_DB)
    causes = {
        "Suspended": "Bundle team/db is suspended, and doesn't run what it asks for: the spec",
        "AutoupdateDisabled": f"Bundle team/db was edited while the annotation {OFF} disables",
    }
    await eventually(lambda: causes[by] in cluster.message("shop"), "the cause")
    assert ready(cluster, "shop")[3] == "DependencyNotReady"
    asked = len(registry.asked)

    cluster.ends = None
    pause(cluster, by, "db", on=False)
    text = "Bundle team/db isn't Ready: Deploying: Deploying 1.0.0"
    await eventually(lambda: text in cluster.message("shop"), text)
    cluster.ends = succeed
    cluster.end_job(cluster.jobs()[-1]["metadata"]["name"])
    await eventually(lambda: cluster.jobs()[-1]["metadata"]["name"].startswith("shop-"))
    assert len(registry.asked) <= asked + 1, "of db, which was resumed"
