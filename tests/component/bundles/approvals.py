"""What tests of plans and approvals look at, and do as a user."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import turns

ALWAYS = {"mode": "Always"}
ON_RISK = {"mode": "OnRisk"}
PATIENT = {"limit": 3, "backoff": "1s"}
"""Of ``spec.retry``."""


def plan(cluster: BundleCluster, name: str = "shop") -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(name).get("plan", {})
    return found


def condition(cluster: BundleCluster, kind: str, name: str = "shop") -> tuple[str, str]:
    return _condition(cluster.status(name), kind)


def _condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    found = {one["type"]: one for one in status.get("conditions", [])}
    one = found.get(kind, {})
    return one.get("status", ""), one.get("reason", "")


def pending(cluster: BundleCluster, name: str = "shop") -> str:
    """The reason for which an update waits; empty where none does."""
    return _pending(cluster.status(name))


def _pending(status: dict[str, Any]) -> str:
    says, reason = _condition(status, "UpdatePending")
    return reason if says == "True" else ""


async def waits(
    cluster: BundleCluster, reason: str = "AwaitingApproval", name: str = "shop", **wanted: Any
) -> dict[str, Any]:
    """The plan, once the Bundle waits for this reason and the plan has these fields."""

    def look() -> bool:
        return _waits(cluster.status(name), reason, wanted)

    try:
        await eventually(look, f"{reason}, {wanted}")
    except AssertionError:
        raise AssertionError(f"{reason}, {wanted}; {cluster.status(name)}") from None
    return plan(cluster, name)


async def waited(cluster: BundleCluster, reason: str, **wanted: Any) -> dict[str, Any]:
    """The plan as it was when the Bundle waited for this reason, however short a time."""

    def look() -> dict[str, Any] | None:
        written = cluster.statuses["shop"]
        return next((one for one in written if _waits(one, reason, wanted)), None)

    found: dict[str, Any] = (await eventually(look, f"{reason}, {wanted}"))["plan"]
    return found


def _waits(status: dict[str, Any], reason: str, wanted: dict[str, Any]) -> bool:
    found = status.get("plan", {})
    return _pending(status) == reason and all(found.get(key) == one for key, one in wanted.items())


async def deployed(cluster: BundleCluster, name: str = "shop", **wanted: Any) -> dict[str, Any]:
    """The status, once all that is wanted runs and nothing waits."""

    def look() -> bool:
        there = cluster.status(name).get("deployed", {})
        fits = all(there.get(key) == value for key, value in wanted.items())
        return cluster.reason(name) == "Deployed" and fits and not pending(cluster, name)

    try:
        await eventually(look, f"deployed {wanted}")
    except AssertionError:
        raise AssertionError(f"deployed {wanted}; {cluster.status(name)}") from None
    return cluster.status(name)


def annotate(cluster: BundleCluster, name: str = "shop", **annotations: str | None) -> None:
    """Set annotations of the operator's, with ``_`` for ``-``, or remove those that are None."""
    named = {
        f"operator.werf.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    cluster.change("bundles", name, metadata={"annotations": named})


def approve(
    cluster: BundleCluster, found: dict[str, Any], by: str = "ann", name: str = "shop"
) -> None:
    annotate(cluster, name, **{"approved-plan": found["id"], "approved-by": by})


def reject(cluster: BundleCluster, found: dict[str, Any], by: str = "ben") -> None:
    annotate(cluster, **{"rejected-plan": found["id"], "approved-by": by})


def refresh(cluster: BundleCluster, value: str = "now", name: str = "shop") -> None:
    annotate(cluster, name, **{"plan-at": value})


def secrets(cluster: BundleCluster, *, inputs: bool = False) -> set[str]:
    """Names of the Secrets that the operator wrote: with records of values, or all others.

    Not of the one with what a release has, which stays until the Bundle is gone.
    """
    prefix = path_of("secrets") + "/"
    seals = {
        path.removeprefix(prefix): (body["metadata"].get("labels") or {}).get(
            "operator.werf.dev/seal"
        )
        for path, body in cluster.objects.items()
        if path.startswith(prefix)
    }
    left = {name: kind for name, kind in seals.items() if kind not in (None, "release")}
    return {name for name, kind in left.items() if (kind == "inputs") is inputs}


def operations(*plans: dict[str, Any]) -> set[str]:
    """Names of the Secrets with the operations of these plans."""
    return {f"{one['job']}-operations" for one in plans if "job" in one}


async def idle(operator: Any) -> None:
    """The operator has done all that it knows of."""
    rounds, deadline = 0, asyncio.get_running_loop().time() + 240
    while rounds < 3:  # an answer may be on its way between two looks
        assert asyncio.get_running_loop().time() < deadline, "the operator never comes to rest"
        busy = len(operator.queue) or operator.queue.working
        rounds = 0 if busy else rounds + 1
        await asyncio.sleep(0.03)
        await turns()


def lose(cluster: BundleCluster, plural: str, name: str) -> None:
    cluster.drop(path_of(plural, name, TEAM))
