"""Objects of releases on the fake API server, and what their controllers write into them."""

from __future__ import annotations

from typing import Any

from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of

HELM = {"app.kubernetes.io/managed-by": "Helm"}


def owned(release: str, namespace: str = TEAM, **annotations: str) -> dict[str, Any]:
    """The metadata by which an object is one of a release."""
    marks = {
        "meta.helm.sh/release-name": release,
        "meta.helm.sh/release-namespace": namespace,
    }
    return {"labels": HELM, "annotations": marks | annotations}


def deployment(
    cluster: BundleCluster,
    name: str = "web",
    ready: int = 1,
    *,
    release: str = "shop",
    of: int = 1,
    namespace: str = TEAM,
    metadata: dict[str, Any] | None = None,
    late: bool = False,
) -> None:
    """Create a Deployment, or change it, with so many of its replicas ready."""
    conditions = [
        {"type": "Available", "status": "True" if ready == of else "False"},
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
    ]
    if late:
        conditions[1] |= {"status": "False", "reason": "ProgressDeadlineExceeded"}
    status = {
        "observedGeneration": 1,
        "replicas": of,
        "updatedReplicas": of,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "conditions": conditions,
    }
    body = {
        "metadata": {"name": name, "namespace": namespace, "generation": 1}
        | (metadata or owned(release, namespace)),
        "spec": {"replicas": of, "progressDeadlineSeconds": 600},
        "status": status,
    }
    cluster.write(path_of("deployments", name, namespace), body)
