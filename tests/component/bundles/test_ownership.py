"""Two Bundles of one release: whose it is, what both say, and that never two Jobs work on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster, path_of, succeed
from tests.component.bundles.fixture_types import Run
from tests.component.bundles.test_deletion import install
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

AsideMake = Callable[..., None]
ASIDE = path_of("bundles", "shop", "aside")


@pytest.fixture
def squat(cluster: BundleCluster, registry: FakeRegistry) -> AsideMake:
    """Makes the Bundle aside/shop, whose release is team/shop."""

    def make(*, accepted: bool = True, **metadata: Any) -> None:
        cluster.namespace("aside")
        if accepted:
            cluster.accept("team", "aside")
        where = path_of("serviceaccounts", "werf", "aside")
        cluster.write(where, {"metadata": {"name": "werf", "namespace": "aside"}})
        spec = {
            "registry": registry.host,
            "repo": "app",
            "version": "1.0.0",
            "insecure": True,
            "project_namespace": "team",
            "retry": {"limit": 0},
        }
        metadata = {"name": "shop", "namespace": "aside", **metadata}
        cluster.write(ASIDE, {"metadata": metadata, "spec": spec})

    return make


def squatter(cluster: BundleCluster) -> dict[str, Any]:
    """The Ready condition of aside/shop."""
    status = (cluster.objects.get(ASIDE) or {}).get("status") or {}
    conditions: list[dict[str, Any]] = status.get("conditions") or [{}]
    return conditions[0]


async def test_a_bundle_elsewhere_that_came_first_does_not_keep_the_namespaces_own_from_its_release(
    cluster: BundleCluster, run: Run, bundle: Callable[..., Any], squat: AsideMake
) -> None:
    squat(creationTimestamp="2026-01-01T00:00:00Z")
    bundle(metadata={"creationTimestamp": "2026-06-01T00:00:00Z"})

    await run()

    await eventually(lambda: cluster.status().get("deploy"), "team/shop is deployed")
    await eventually(lambda: squatter(cluster).get("reason") == "ReleaseConflict")
    assert "team/shop" in squatter(cluster)["message"]
    await eventually(lambda: "aside/shop" in cluster.message(), "the owner names the other, too")
    assert all(name.startswith("shop-deploy") for name in cluster.runs)
    assert not [path for path in cluster.objects if "/namespaces/aside/jobs/" in path]


async def test_a_job_that_runs_is_seen_to_its_end_before_the_release_is_the_namespaces_own(
    cluster: BundleCluster, run: Run, bundle: Callable[..., Any], squat: AsideMake
) -> None:
    cluster.ends = None
    squat()
    operator = await run()
    await eventually(lambda: len(cluster.runs) == 1, "aside/shop deploys")

    bundle()
    await eventually(lambda: cluster.reason() == "ReleaseConflict")
    assert "aside/shop" in cluster.message()
    await idle(operator)
    assert len(cluster.runs) == 1, "no second Job beside the first"

    cluster.end_job(cluster.runs[0], 1, "Error: no", "aside")
    await eventually(lambda: len(cluster.runs) == 2, "team/shop deploys")
    cluster.end_job(cluster.runs[1])
    await eventually(lambda: cluster.status().get("deploy"), "team/shop is deployed")
    await eventually(lambda: squatter(cluster).get("reason") == "ReleaseConflict")
    assert cluster.objects[ASIDE]["status"]["history"][0]["outcome"] == "Failed"


async def test_who_deployed_it_keeps_it_through_a_restart(
    cluster: BundleCluster, run: Run, bundle: Callable[..., Any], squat: AsideMake
) -> None:
    squat()
    operator = await run()
    await eventually(lambda: squatter(cluster).get("reason") == "Deployed")
    bundle()
    await eventually(lambda: cluster.reason() == "ReleaseConflict")
    await operator.stop()

    await idle(await run())

    assert cluster.reason() == "ReleaseConflict"
    assert "already deploys release team/shop" in cluster.message()
    assert len(cluster.runs) == 1


async def test_who_does_not_own_the_release_uninstalls_nothing(
    cluster: BundleCluster, run: Run, bundle: Callable[..., Any], squat: AsideMake
) -> None:
    cluster.ends = lambda job: (
        (1, "Error: no") if job["metadata"]["namespace"] == "aside" else (0, "")
    )
    squat()
    await run()
    await eventually(lambda: squatter(cluster).get("reason") == "Quarantined")
    bundle()
    await eventually(lambda: cluster.status().get("deploy"), "team/shop is deployed")

    cluster.drop(ASIDE)

    await eventually(lambda: ASIDE not in cluster.objects)
    assert not [name for name in cluster.runs if "uninstall" in name]


@pytest.mark.promise
async def test_a_new_owner_waits_for_an_uninstall_that_runs_and_that_is_seen_to_its_end(
    cluster: BundleCluster, run: Run, bundle: Callable[..., Any], squat: AsideMake
) -> None:
    """Its Job goes on whatever becomes of the Bundle, and would delete what is deployed anew."""
    cluster.ends = lambda _: (1, "Error: no")
    squat()
    operator = await run()
    await eventually(lambda: squatter(cluster).get("reason") == "Quarantined")
    install(cluster)
    cluster.ends = None
    cluster.drop(ASIDE)
    await eventually(lambda: "uninstall" in cluster.runs[-1], "it is uninstalled")

    bundle()

    await eventually(lambda: "is uninstalling release team/shop" in cluster.message())
    await idle(operator)
    assert ASIDE in cluster.objects
    assert (cluster.reason(), len(cluster.runs)) == ("ReleaseConflict", 2)
    cluster.ends = succeed
    cluster.end_job(cluster.runs[1], namespace="aside")
    await eventually(lambda: cluster.reason() == "Deployed")
    assert ASIDE not in cluster.objects
