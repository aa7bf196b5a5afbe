"""Access reviews of the account of a plan's deploy, as a test answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web
from tests.component.bundles.approvals import plan
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import Answer

ONCE = {"limit": 0}
USER = "system:serviceaccount:team:werf"
RELEASE = 20
"""Reviews of what every release needs."""
DENIED = (
    'secrets is forbidden: User "system:serviceaccount:team:werf" cannot list resource "secrets" '
    'in API group "" in the namespace "team"'
)
SAID = "the service account team/werf cannot"


def everything(_: dict[str, str]) -> bool:
    return True


def all_but(*missing: str) -> Callable[[dict[str, str]], bool]:
    """A verb and a resource each."""

    def permits(asked: dict[str, str]) -> bool:
        return f"{asked['verb']} {asked['resource']}" not in missing

    return permits


async def reviewed(cluster: BundleCluster, name: str = "shop", **wanted: Any) -> dict[str, Any]:
    """The plan, once its permissions were reviewed."""

    def look() -> bool:
        found = plan(cluster, name)
        fits = all(found.get(key) == value for key, value in wanted.items())
        return "missingPermissions" in found and fits

    try:
        await eventually(look)
    except AssertionError:
        raise AssertionError(f"reviewed {wanted}; {cluster.status(name)}") from None
    return plan(cluster, name)


def open_reviews() -> int:
    """The plans of this process's operators that are being reviewed."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return sum(name.startswith("permissions of ") for name in names)


def held(cluster: BundleCluster, gate: asyncio.Event) -> Answer:
    """Answers no review before the test says so."""

    async def later(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await cluster.judge(request)

    return later


def answers(body: Any) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=201)

    return answer
