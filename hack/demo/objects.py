"""Real objects: read from the API server, and manifests applied."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from localcluster import ApiStatusError, Cluster

Manifest = dict[str, Any]

_GROUPS = {
    "bundles": "/apis/operator.werf.dev/v1",
    "configmaps": "/api/v1",
    "copyrators": "/apis/flant.com/v1",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "jobs": "/apis/batch/v1",
    "resourcequotas": "/api/v1",
    "secrets": "/api/v1",
}
"""Where the API server serves each plural that the demo reads."""


class Objects:
    """Reads and writes objects as the cluster's administrator."""

    def __init__(self, cluster: Cluster) -> None:
        self._api = cluster.api()  # looked at many times a second: kubectl would be too slow
        self._kubectl = cluster.kubectl

    def get(self, plural: str, name: str, namespace: str = "") -> Manifest | None:
        """Return the object, or None where there is none."""
        try:
            found: Manifest = self._api.get(f"{_path(plural, namespace)}/{name}")
        except ApiStatusError as error:
            if error.code == 404:
                return None
            raise
        return found

    def list(self, plural: str, namespace: str = "", selector: str = "") -> list[Manifest]:
        """Return the objects of a kind, in one namespace or in all of them."""
        parameters = {"labelSelector": selector} if selector else {}
        items: list[Manifest] = self._api.get(_path(plural, namespace), **parameters)["items"]
        return items

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Apply manifests as they are, also over what an earlier step patched."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
        as_demo = ("--server-side", "--field-manager=demo", "--force-conflicts")
        self._kubectl("apply", *as_demo, "-f", "-", input=text)

    def create_namespaces(self, *names: str) -> None:
        """Create namespaces."""
        self.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names
        )


def fingerprint(source: Manifest) -> str:
    """Eight digits that tell whether two objects hold the same content, and not what it is."""
    content = json.dumps(source.get("data", {}), sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:8]


def condition(body: Manifest, kind: str) -> Manifest:
    """Return a condition of the object, empty where it has none of that type."""
    found: list[Manifest] = body.get("status", {}).get("conditions", [])
    return next((one for one in found if one.get("type") == kind), {})


def describe(body: Manifest) -> str:
    """Say in one line what an object's Ready condition says."""
    ready = condition(body, "Ready")
    if not ready:
        return "no Ready condition yet"
    return f"Ready={ready['status']} {ready.get('reason', '')}: {ready.get('message', '')}"


def _path(plural: str, namespace: str) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"{_GROUPS[plural]}{within}/{plural}"
