"""A Bundle that was deleted, in whatever state, leaves its key nowhere in the operator."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, idle, plan
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import RUNNING, TEAM, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.previews.test_previews import ask, preview
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import promoted_from
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.references import Ref
from copyrator.workqueue.queue import DueScheduler, WorkQueue

SHOP = BundleKey(TEAM, "shop")
ROUND = 100
COUNT = (10 if LONG else 2) * ROUND
"""Bundles, of which so many exist at the same time."""
REASONS = {
    *("Deployed", "AwaitingApproval", "NotPromoted", "ReleaseNotAccepted"),
    *("ServiceAccountMissing", "Suspended"),
}
"""Of Ready, for the features."""
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
NEEDS = {
    State.planning: ("approval",),
    State.queued_for_a_plan: ("approval",),
    State.previewing: ("previews",),
    State.checking: ("drift",),
}


@pytest.mark.parametrize(
    "reach",
    [
        pytest.param(one, marks=[pytest.mark.needs(*NEEDS[one])] if one in NEEDS else [])
        for one in STATES
    ],
    ids=lambda one: one.__name__,
)
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


def features(number: int) -> dict[str, Any]:
    """What a Bundle has, by its number; each second one is plain, for others to depend on."""
    plain = f"app-{number - 1}"
    kinds: list[dict[str, Any]] = [
        {"health": "Watch"},
        {"approval": ALWAYS},
        {"drift": DETECT},
        {"valuesFrom": [{"kind": "ConfigMap", "name": f"values-{number}"}]},
        {"dependsOn": [{"name": plain}]},
        {"promoteFrom": promoted_from(plain, soak="1h")},
        {"version": "1.*", "minAge": "1h"},
        {"project_namespace": "prod", "health": "Watch"},
        {"serviceAccountName": f"missing-{number}"},
        {"version": "1.*", "suspend": True},
    ]
    return kinds[number // 2 % len(kinds)] if number % 2 else {}


@pytest.mark.needs(
    *("age", "approval", "consent", "dependencies", "drift", "health", "promotion"),
)
async def test_hundreds_of_bundles_with_all_kinds_of_features_leave_nothing(
    cluster: BundleCluster, werf: Werf, run: Run, bundle: Make
) -> None:
    cluster.namespace("prod")
    accounts = ("werf", *(f"missing-{number}" for number in range(COUNT)))
    operator = await run(allowed_service_accounts=accounts)
    memories = operator.controller._context.memories

    async def live(first: int) -> None:
        """Make Bundles, let each come to rest, and delete them."""
        names = [f"app-{first + number}" for number in range(ROUND)]
        for number in range(first, first + ROUND):
            if "valuesFrom" in features(number):
                cluster.put_object("configmaps", f"values-{number}", data={"values.yaml": "a: 1"})
            bundle(f"app-{number}", **features(number))
        await eventually(lambda: all(cluster.status(one).get("conditions") for one in names))
        await idle(operator)
        assert len(memories) == ROUND
        assert {cluster.reason(one) for one in names} == REASONS
        for one in names:
            cluster.drop(path_of("bundles", one))
        await eventually(lambda: not len(operator.bundles), "all are uninstalled")
        await idle(operator)
        for one in [*cluster.objects]:
            if one.startswith((path_of("jobs"), path_of("pods"), path_of("secrets"))):
                cluster.drop(one)  # as the garbage collector does
        await eventually(lambda: not len(memories), "all are forgotten")

    await live(0)
    before = size(operator.controller)
    for one in range(ROUND, COUNT, ROUND):
        await live(one)

    left = (BundleKey, Ref)
    await eventually(
        lambda: not list(holders(operator.controller, lambda one: isinstance(one, left)))
    )
    assert not len(operator.scheduler)
    grown = size(operator.controller) - before
    assert grown < COUNT // 10, f"{grown} objects more"


def size(root: object) -> int:
    """The number of objects of the operator."""
    gc.collect()
    return sum(1 for _ in reached(root))


def holders(
    root: object, is_key: Callable[[object], bool] = lambda one: one == SHOP
) -> Iterator[str]:
    """The ways from an object of the operator to its keys of Bundles."""
    return (way for one, way in reached(root) if is_key(one))


def reached(root: object) -> Iterator[tuple[object, str]]:
    """All objects of the operator, with the ways to them."""
    seen: set[int] = set()
    left = [(root, type(root).__name__)]
    while left:
        one, way = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType, asyncio.AbstractEventLoop)):
            continue
        seen.add(id(one))
        yield one, way
        if isinstance(one, BOUNDED) or type(one).__module__.startswith(("tests.", "_pytest.")):
            continue
        inner = one.__closure__ if isinstance(one, FunctionType) else gc.get_referents(one)
        left += [(each, f"{way} > {type(each).__name__}") for each in inner or ()]
