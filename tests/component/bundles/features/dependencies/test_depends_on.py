"""New versions wait for the Bundles of ``spec.dependsOn``, and go on by themselves."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.bundles.approvals import condition
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
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


async def test_a_dependency_that_is_deleted_is_not_ready(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle("db", deletionPolicy="Orphan")
    await run()
    await eventually(lambda: cluster.reason("db") == "Deployed")
    cluster.change("bundles", "db", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    await eventually(lambda: cluster.look("bundles", "db") is None or gone(cluster))
    bundle("shop", dependsOn=ON_DB)
    await eventually(lambda: cluster.reason("shop") == "DependencyNotReady")


def gone(cluster: BundleCluster) -> bool:
    found = cluster.look("bundles", "db") or {}
    return not found["metadata"].get("finalizers")


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


async def test_waiting_costs_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    for number in range(20):
        bundle(f"shop{number}", dependsOn=ON_DB)
    await run(timer_interval=1.0)
    await eventually(
        lambda: all(cluster.reason(f"shop{n}") == "DependencyNotReady" for n in range(20))
    )
    writes, asked = cluster.bundle_writes(), len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 3, "polls")
    assert cluster.bundle_writes() == writes
