"""How tests freeze and thaw, as users do."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.component.bundles.fake_cluster import TEAM, BundleCluster
from tests.component.bundles.waiting import eventually

from copyrator.api.names import ANN_FREEZE
from copyrator.api.text import format_time

CONFIG = "/api/v1/namespaces/default/configmaps/copyrator-freeze"
"""In the operator's namespace."""


def freeze(cluster: BundleCluster, value: str = "holidays", namespace: str = TEAM) -> None:
    metadata = {"name": namespace, "annotations": {ANN_FREEZE: value}}
    cluster.write(f"/api/v1/namespaces/{namespace}", {"metadata": metadata})


def thaw(cluster: BundleCluster, namespace: str = TEAM) -> None:
    cluster.write(f"/api/v1/namespaces/{namespace}", {"metadata": {"name": namespace}})


def freeze_all(cluster: BundleCluster, **data: str) -> None:
    metadata = {"name": "copyrator-freeze", "namespace": "default"}
    cluster.write(CONFIG, {"metadata": metadata, "data": data})


def thaw_all(cluster: BundleCluster) -> None:
    cluster.drop(CONFIG)


def ending_in(seconds: float) -> tuple[datetime, str]:
    """The end of a freeze, and its annotation."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).replace(microsecond=0)
    return until, json.dumps({"until": format_time(until)})


def gate(cluster: BundleCluster, name: str = "shop") -> dict[str, Any]:
    found = [one for one in cluster.status(name).get("gates", []) if one["name"] == "freeze"]
    return found[0] if found else {}


async def waits(cluster: BundleCluster, reason: str = "Frozen", name: str = "shop") -> None:
    await eventually(lambda: gate(cluster, name).get("reason") == reason, reason)
