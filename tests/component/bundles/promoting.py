"""Bundles that are promoted from one another, and what their statuses say."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.waiting import eventually

SOAK = 3


def promoted_from(*names: str, soak: str = f"{SOAK}s", namespace: str = "team") -> dict[str, Any]:
    return {"bundles": [{"namespace": namespace, "name": name} for name in names], "soak": soak}


def digest_of(cluster: BundleCluster, name: str) -> str:
    return str(cluster.status(name).get("deployed", {}).get("digest"))


def soak_of(cluster: BundleCluster, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.status(name).get("soak", [])
    return found


def gate_of(cluster: BundleCluster, name: str = "production") -> dict[str, Any]:
    found = cluster.status(name).get("gates", [])
    return next((one for one in found if one["name"] == "promotion"), {})


async def deployed(cluster: BundleCluster, name: str, version: str) -> None:
    await eventually(
        lambda: (
            cluster.reason(name) == "Deployed"
            and cluster.status(name).get("deployed", {}).get("version") == version
        ),
        f"{name} runs {version}",
    )


async def waits(cluster: BundleCluster, reason: str, name: str = "production") -> str:
    """The message with which a Bundle waits."""
    await eventually(lambda: gate_of(cluster, name).get("reason") == reason, reason)
    return str(gate_of(cluster, name)["message"])


def started(cluster: BundleCluster, name: str) -> datetime:
    return datetime.fromisoformat(cluster.status(name)["attempted"]["startedAt"])


CONSENT = {"operator.werf.dev/promote-to": "production,team-*"}


async def waits_for_text(cluster: BundleCluster, text: str, name: str = "production") -> str:
    await eventually(lambda: text in gate_of(cluster, name).get("message", ""), text)
    return str(gate_of(cluster, name)["message"])


def held(cluster: BundleCluster) -> bool:
    found = (cluster.look("bundles", "staging") or {})["metadata"].get("annotations", {})
    return "operator.werf.dev/hold" in found
