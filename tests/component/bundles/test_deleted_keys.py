"""A Bundle that was deleted, in whatever state, leaves its key nowhere in the operator."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, condition, idle, plan, waits
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import RUNNING, TEAM, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_previews import ask, preview
from tests.component.bundles.waiting import eventually
from tests.component.bundles.workloads import deployment
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey
from copyrator.workqueue.queue import DueScheduler, WorkQueue

SHOP = BundleKey(TEAM, "shop")
BOUNDED = (WorkQueue, DueScheduler)
"""They drop void entries of their heaps once they are due, or more than half of all."""


@dataclass
class State:
    """How a Bundle comes into a state, and what shows that it is in it."""

    cluster: BundleCluster
    registry: FakeRegistry
    werf: Werf
    run: Run
    bundle: Make

    async def polling(self) -> Any:
        self.registry.gate = asyncio.Event()
        self.bundle()
        operator = await self.run()
        await eventually(lambda: self.registry.asked)
        return operator

    async def planning(self) -> Any:
        self.werf.holds_plans = True
        self.bundle(approval=ALWAYS)
        operator = await self.run()
        await eventually(lambda: self.cluster.jobs("plan"))
        return operator

    async def awaiting_approval(self) -> Any:
        self.bundle(approval=ALWAYS)
        operator = await self.run()
        await waits(self.cluster)
        return operator

    async def deploying(self) -> Any:
        self.cluster.ends = None
        self.bundle()
        operator = await self.run()
        await eventually(lambda: self.cluster.runs)
        return operator

    async def checking(self) -> Any:
        release = Release(self.cluster, self.werf)
        self.werf.holds_checks = True
        self.bundle(drift=DETECT)
        operator = await self.run()
        await eventually(lambda: release.drift.get("check", {}).get("outcome") == "Running")
        return operator

    async def previewing(self) -> Any:
        self.bundle()
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "Deployed")
        self.werf.holds_plans = True
        ask(self.cluster, "1.0.0")
        await eventually(lambda: preview(self.cluster))
        return operator

    async def unhealthy(self) -> Any:
        self.bundle(health="Watch")
        deployment(self.cluster, ready=0, late=True)
        operator = await self.run()
        await eventually(lambda: condition(self.cluster, "Healthy") == ("False", "Unhealthy"))
        return operator

    async def without_account(self) -> Any:
        self.cluster.objects.pop(path_of("serviceaccounts", "werf"))
        self.bundle()
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "ServiceAccountMissing")
        return operator

    async def without_values(self) -> Any:
        self.bundle(valuesFrom=[{"kind": "ConfigMap", "name": "none"}])
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "ValuesMissing")
        return operator

    async def queued_for_a_plan(self) -> Any:
        self.werf.holds_plans = True
        self.bundle("first", approval=ALWAYS)
        operator = await self.run(max_plan_jobs=1)
        await eventually(lambda: self.cluster.jobs("plan"))
        self.bundle(approval=ALWAYS)
        await eventually(lambda: self.cluster.reason() != "None" and not plan(self.cluster))
        await idle(operator)
        return operator

    async def not_accepted(self) -> Any:
        self.cluster.namespace("prod")
        self.bundle(project_namespace="prod", health="Watch")
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "ReleaseNotAccepted")
        return operator

    async def suspended(self) -> Any:
        self.bundle(suspend=True, dependsOn=[{"name": "other"}])
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "Suspended")
        return operator

    async def uninstalling(self) -> Any:
        self.bundle()
        operator = await self.run()
        await eventually(lambda: self.cluster.reason() == "Deployed")
        self.cluster.ends, self.cluster.pods = None, RUNNING
        self.cluster.drop(path_of("bundles", "shop"))
        await eventually(lambda: self.cluster.jobs("uninstall"))
        return operator


STATES: list[Callable[[State], Awaitable[Any]]] = [
    one for name, one in vars(State).items() if not name.startswith("_")
]


@pytest.mark.parametrize("reach", STATES, ids=lambda one: one.__name__)
async def test_a_deleted_bundle_leaves_its_key_nowhere(
    cluster: BundleCluster,
    registry: FakeRegistry,
    werf: Werf,
    run: Run,
    bundle: Make,
    reach: Callable[[State], Awaitable[Any]],
) -> None:
    operator = await reach(State(cluster, registry, werf, run, bundle))
    assert any(holders(operator.controller)), "it is found while the Bundle exists"

    path = path_of("bundles", "shop")
    cluster.change("bundles", "shop", metadata={"finalizers": []})
    if path in cluster.objects:
        cluster.drop(path)

    await eventually(lambda: operator.bundles.get(SHOP) is None)
    await idle(operator)
    for job in [one for one in cluster.objects if one.startswith(path_of("jobs"))]:
        cluster.drop(job)  # as the garbage collector does
    try:
        await eventually(lambda: not list(holders(operator.controller)), seconds=60)
    except AssertionError:
        raise AssertionError("\n".join(holders(operator.controller))) from None
    assert operator.scheduler.due(SHOP) is None
    if registry.gate is not None:
        registry.gate.set()


def holders(root: object) -> Iterator[str]:
    """The ways from an object of the operator to its key of the Bundle."""
    seen: set[int] = set()
    left = [(root, type(root).__name__)]
    while left:
        one, way = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, asyncio.AbstractEventLoop)):
            continue
        seen.add(id(one))
        if one == SHOP:
            yield way
        if isinstance(one, BOUNDED) or type(one).__module__.startswith(("tests.", "_pytest.")):
            continue
        inner = one.__closure__ if isinstance(one, FunctionType) else gc.get_referents(one)
        left += [(each, f"{way} > {type(each).__name__}") for each in inner or ()]
