"""What Argo CD and Flux make of Bundles, by the statuses that the operator writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, approve, condition, deployed, waits
from tests.component.bundles.drifting import DETECT, OTHER, Release
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.health.watching import timing_of
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.freezing import freeze_all, thaw_all
from tests.component.bundles.waiting import eventually
from tests.component.bundles.workloads import deployment
from tests.component.oci.fake_registry import FakeRegistry
from tests.gitops import argocd, flux

from copyrator.bundles.engine.context import BundleTiming

pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def timing(request: pytest.FixtureRequest) -> BundleTiming:
    return timing_of() if "healthy" in request.node.name else TIMING


def shop(cluster: BundleCluster) -> dict[str, Any]:
    kind = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle"}
    return kind | (cluster.look("bundles", "shop") or {})


def health(cluster: BundleCluster) -> tuple[str, str, str]:
    """The health in Argo CD, in Flux by kstatus, and there by the expressions."""
    body = shop(cluster)
    return argocd(body)[0], flux(body, by_exprs=False), flux(body)


def said(cluster: BundleCluster) -> str:
    return argocd(shop(cluster))[1]


async def test_a_deploy_progresses_and_is_healthy_or_degraded(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    bundle(retry={"limit": 2, "backoff": "1s"})
    assert health(cluster) == ("Progressing", "Current", "Unknown"), "nobody has seen it yet"
    operator = await run()
    await eventually(lambda: cluster.runs and cluster.reason() == "Deploying")
    assert health(cluster) == ("Progressing", "InProgress", "InProgress")
    assert said(cluster).startswith("Deploying: Deploying 1.0.0 ")

    cluster.end_job(cluster.runs[0], *fail({}))
    await eventually(lambda: cluster.reason() == "DeployFailed")
    assert health(cluster) == ("Degraded", "InProgress", "InProgress"), "it is tried again"
    cluster.ends = fail
    operator.let_pass(timedelta(seconds=5))
    await eventually(lambda: cluster.reason() == "Quarantined")
    assert health(cluster) == ("Degraded", "Failed", "Failed")
    assert said(cluster).startswith("Quarantined: 1.0.0 ")

    cluster.ends = succeed
    cluster.change("bundles", "shop", spec={"env": {"MODE": "test"}})
    assert health(cluster) == ("Progressing", "InProgress", "InProgress"), "edited"
    await eventually(lambda: cluster.reason() == "Deployed")
    assert health(cluster) == ("Healthy", "Current", "Current")

    cluster.ends = None
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.reason() == "Uninstalling")
    assert argocd(shop(cluster)) == ("Progressing", "Pending deletion")
    assert flux(shop(cluster), by_exprs=False) == "Terminating"


@pytest.mark.needs("freeze")
async def test_frozen_and_suspended(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    freeze_all(cluster, reason="holidays", who="ann")
    bundle(version="1.*")
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Frozen")
    assert health(cluster) == ("Suspended", "InProgress", "InProgress"), "nothing runs yet"
    thaw_all(cluster)
    await eventually(lambda: cluster.reason() == "Deployed")

    freeze_all(cluster, reason="holidays", who="ann")
    registry.put("app", "1.1.0", "next")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Frozen"))
    assert health(cluster) == ("Healthy", "Current", "Current")
    assert "UpdatePending: Gate freeze: all namespaces are frozen by ann" in said(cluster)
    cluster.change("bundles", "shop", spec={"env": {"MODE": "test"}})
    await eventually(lambda: cluster.reason() == "Frozen")
    assert health(cluster) == ("Suspended", "InProgress", "Current"), "1.0.0 runs"

    cluster.change("bundles", "shop", spec={"suspend": True})
    await eventually(lambda: cluster.reason() == "Suspended")
    assert health(cluster) == ("Suspended", "InProgress", "Current")
    assert said(cluster).startswith("Suspended: suspended; before: Frozen")


@pytest.mark.needs("approval")
async def test_an_approval_is_waited_for(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    await run()
    approve(cluster, await waits(cluster))
    assert health(cluster) == ("Suspended", "InProgress", "InProgress")
    assert "copyrator approve" in said(cluster)
    await deployed(cluster, version="1.0.0")
    assert health(cluster) == ("Healthy", "Current", "Current")
    cluster.change("bundles", "shop", spec={"env": {"MODE": "test"}})
    await waits(cluster)
    assert health(cluster) == ("Suspended", "InProgress", "Current")


@pytest.mark.needs("drift")
async def test_drift_is_said(cluster: BundleCluster, run: Run, bundle: Make, werf: Werf) -> None:
    release = Release(cluster, werf)
    bundle(drift=DETECT)
    await run()
    await release.in_sync()
    release.changed.append(OTHER)
    await release.look()
    await release.judged("True", "Drifted")
    assert health(cluster) == ("Healthy", "Current", "Current")
    assert "; Drifted: " in said(cluster)
    assert "Deployment" in said(cluster)


@pytest.mark.needs("health")
async def test_a_release_that_is_not_healthy_is_degraded(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(health="Watch")
    deployment(cluster, ready=0)
    await run()
    await eventually(lambda: condition(cluster, "Healthy") == ("Unknown", "Progressing"))
    await eventually(lambda: cluster.reason() == "Deployed")
    assert health(cluster) == ("Progressing", "Current", "InProgress")
    deployment(cluster, ready=0, late=True)
    await eventually(lambda: condition(cluster, "Healthy") == ("False", "Unhealthy"))
    assert health(cluster) == ("Degraded", "Current", "Failed")
    assert "Deployment/web" in said(cluster)
    deployment(cluster)
    await eventually(lambda: health(cluster) == ("Healthy", "Current", "Current"))
