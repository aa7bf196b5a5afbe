"""What Argo CD and Flux make of Bundles, by the statuses that the operator writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.gitops import argocd, flux

pytestmark = pytest.mark.usefixtures("registry")


def shop(cluster: BundleCluster) -> dict[str, Any]:
    kind = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle"}
    return kind | (cluster.look("bundles", "shop") or {})


def gitops_health(cluster: BundleCluster) -> tuple[str, str, str]:
    """The health in Argo CD, in Flux by kstatus, and there by the expressions."""
    body = shop(cluster)
    return argocd(body)[0], flux(body, by_exprs=False), flux(body)


def gitops_message(cluster: BundleCluster) -> str:
    return argocd(shop(cluster))[1]


async def test_a_deploy_progresses_and_is_healthy_or_degraded(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    bundle(retry={"limit": 2, "backoff": "1s"})
    assert gitops_health(cluster) == ("Progressing", "Current", "Unknown"), "nobody has seen it yet"
    operator = await run()
    await eventually(lambda: cluster.runs and cluster.reason() == "Deploying")
    assert gitops_health(cluster) == ("Progressing", "InProgress", "InProgress")
    assert gitops_message(cluster).startswith("Deploying: Deploying 1.0.0 ")

    cluster.end_job(cluster.runs[0], *fail({}))
    await eventually(lambda: cluster.reason() == "DeployFailed")
    assert gitops_health(cluster) == ("Degraded", "InProgress", "InProgress"), "it is tried again"
    cluster.ends = fail
    operator.let_pass(timedelta(seconds=5))
    await eventually(lambda: cluster.reason() == "Quarantined")
    assert gitops_health(cluster) == ("Degraded", "Failed", "Failed")
    assert gitops_message(cluster).startswith("Quarantined: 1.0.0 ")

    cluster.ends = succeed
    cluster.change("bundles", "shop", spec={"env": {"MODE": "test"}})
    assert gitops_health(cluster) == ("Progressing", "InProgress", "InProgress"), "edited"
    await eventually(lambda: cluster.reason() == "Deployed")
    assert gitops_health(cluster) == ("Healthy", "Current", "Current")

    cluster.ends = None
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.reason() == "Uninstalling")
    assert argocd(shop(cluster)) == ("Progressing", "Pending deletion")
    assert flux(shop(cluster), by_exprs=False) == "Terminating"
