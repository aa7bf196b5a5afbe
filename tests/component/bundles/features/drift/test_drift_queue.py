"""Checks take at most half of the places for plans, and hold up nobody."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    condition,
    idle,
    pending,
)
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.conftest import Operator
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.bundles.plans.queue import PlanTiming

NAMES = [f"shop{number:02}" for number in range(6)]


@pytest.fixture(autouse=True)
def release(cluster: BundleCluster, werf: Werf) -> Release:
    return Release(cluster, werf, is_installed=True)


def running(cluster: BundleCluster, kind: str) -> list[dict[str, Any]]:
    return [job for job in cluster.jobs(kind) if not job.get("status", {}).get("conditions")]


def is_checked(cluster: BundleCluster, name: str) -> bool:
    return condition(cluster, "Drifted", name) == ("False", "InSync")


async def finish_checks(cluster: BundleCluster, werf: Werf, names: list[str]) -> None:
    while not all(is_checked(cluster, name) for name in names):
        for job in running(cluster, "drift")[:1]:
            werf.finish(job)
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("places", "checks"), [(1, 1), (4, 2), (7, 3)] if LONG else [(1, 1), (7, 3)]
)
async def test_half_of_the_places_are_for_checks(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    places: int,
    checks: int,
) -> None:
    werf.holds_checks = True
    for name in NAMES:
        bundle(name, drift=DETECT)
    await run(max_plan_jobs=places)
    await eventually(lambda: len(running(cluster, "drift")) == checks)
    async with asyncio.timeout(240):
        await finish_checks(cluster, werf, NAMES)
    assert cluster.most_running("drift") <= checks
    assert len(cluster.jobs("drift")) == len(NAMES)


@pytest.mark.needs("login")
async def test_checks_that_wait_for_a_clouds_login_take_no_place(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    """Else all of them would begin at once when it is there."""
    cloud = Cloud(registry)
    werf.holds_deploys = werf.holds_checks = True
    for name in NAMES:
        bundle(name, drift=DETECT, registry=HOST, insecure=None, provider="aws")
    await run(max_plan_jobs=2, prepare=cloud.prepare)
    await eventually(lambda: len(running(cluster, "deploy")) == len(NAMES))
    cloud.gate, asked = asyncio.Event(), len(cloud.asked)
    for job in running(cluster, "deploy"):
        werf.finish(job)
    await eventually(lambda: len(cloud.asked) == asked + len(NAMES))
    assert not cluster.jobs("drift")
    cloud.gate.set()
    async with asyncio.timeout(240):
        await finish_checks(cluster, werf, NAMES)
    assert cluster.most_running("drift") == 1


@pytest.mark.needs("approval")
async def test_plans_that_wait_go_first(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_checks = werf.holds_plans = True
    for name in NAMES:
        bundle(name, drift=DETECT)
    await run(max_plan_jobs=4)
    await eventually(lambda: len(running(cluster, "drift")) == 2)
    for name in ("planned1", "planned2", "planned3"):
        bundle(name, approval=ALWAYS)
    for name in ("planned1", "planned2", "planned3"):  # else the next check may come first
        await eventually(lambda name=name: pending(cluster, name) == "Planning", name)  # type: ignore[misc]
    for number in (1, 2):
        werf.finish(running(cluster, "drift")[0])
        await eventually(lambda n=number: len(running(cluster, "plan")) == n, "it gets its place")  # type: ignore[misc]
        assert len(running(cluster, "drift")) == 2 - number
    werf.finish(running(cluster, "plan")[0])
    await eventually(lambda: len(cluster.jobs("plan")) == 3)
    assert running(cluster, "drift") == []
    for job in running(cluster, "plan"):
        werf.finish(job)
    async with asyncio.timeout(240):
        await finish_checks(cluster, werf, NAMES)
    for name in ("planned1", "planned2", "planned3"):
        await eventually(lambda name=name: pending(cluster, name) == "AwaitingApproval")  # type: ignore[misc]


async def test_times_that_pass_while_a_check_waits_are_counted(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    for name in NAMES[:2]:
        bundle(name, drift={**DETECT, "interval": "15m"})
    timing = replace(TIMING, features=(PlanTiming(requeue=0.2),))
    operator: Operator = await run(timing=timing, max_plan_jobs=2)
    await eventually(lambda: all(is_checked(cluster, name) for name in NAMES[:2]))
    werf.holds_checks = True
    cluster.pods = {"running": {}}
    for _ in range(3):
        operator.let_pass(timedelta(minutes=15))
        await idle(operator)
    await eventually(lambda: skipped(operator) >= 2, "the other one waits")
    assert len(running(cluster, "drift")) == 1


def skipped(operator: Operator) -> float:
    return operator.metrics.registry.get_sample_value("copyrator_drift_checks_skipped_total") or 0.0
