"""News of a push bring the poll forward, and do nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiohttp import web
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.oci.notifications import Push

APP = Push("app", tag="1.0.0")


SOON = replace(TIMING, poll_after_push=2.0)
"""Long enough for what a test does before, also on a busy machine."""


async def settle(cluster: BundleCluster, operator: Any, name: str = "shop") -> None:
    await eventually(lambda: cluster.reason(name) == "Deployed")
    await eventually(lambda: operator.scheduler.next_due() is not None)


async def test_a_push_that_the_registry_tells_of_before_its_tag_shows_it_is_deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run(timing=SOON, timer_interval=3600.0)
    bundle()
    await settle(cluster, operator)
    asked = len(registry.asked)

    operator.controller.pushed([APP])
    await eventually(lambda: len(registry.asked) > asked and not registry.in_flight)
    digest = registry.put("app", "1.0.0", "other")

    await eventually(lambda: cluster.status()["deploy"]["digest"] == digest)


async def test_news_without_anything_new_cost_two_heads_and_no_write(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run(timing=SOON, timer_interval=3600.0)
    for name in ("one", "two", "three"):
        bundle(name)
    for name in ("one", "two", "three"):
        await settle(cluster, operator, name)
    await eventually(
        lambda: all(job["spec"]["ttlSecondsAfterFinished"] == 120 for job in cluster.jobs())
    )
    await eventually(lambda: not len(operator.queue) and not operator.queue.working)
    writes, asked = cluster.writes_seen, len(registry.asked)

    assert operator.controller.pushed([APP, APP, Push("app")]) == 3
    await eventually(lambda: len(registry.asked) == asked + 2)
    await idle(operator)
    await asyncio.sleep(0.5)  # for a third, were there one

    assert len(registry.asked) == asked + 2
    assert cluster.writes_seen == writes


async def test_only_those_are_asked_for_whom_it_may_be_news(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.put("other", "1.0.0", "other")
    registry.put("app", "2.0.0", "two")
    disabled = {"annotations": {"operator.werf.dev/disable-autoupdate": ""}}
    operator = await run(timer_interval=3600.0)
    bundle("right")
    bundle("other-repo", repo="other")
    bundle("other-tag", version="2.0.0")
    bundle("paused", metadata=disabled)
    for name in ("right", "other-repo", "other-tag"):
        await settle(cluster, operator, name)
    await eventually(lambda: cluster.reason("paused") == "AutoupdateDisabled")

    pushed = operator.controller.pushed
    assert pushed([Push("nobody")]) == 0
    assert pushed([]) == 0
    assert pushed([Push("app", "elsewhere.example.com")]) == 0
    assert pushed([Push("app", registry.host, "1.0.0")]) == 1
    assert pushed([Push("app", registry.host)]) == 2


async def test_a_host_that_has_had_enough_is_left_alone_whatever_is_said(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    async def enough(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "60"})

    operator = await run(timer_interval=3600.0)
    bundle()
    await settle(cluster, operator)
    registry.fault = enough
    operator.controller.pushed([APP])
    await eventually(lambda: cluster.status().get("lastError", {}).get("reason") == "RateLimited")
    assert cluster.reason() == "Deployed"
    asked = len(registry.asked)

    for _ in range(20):
        operator.controller.pushed([APP])
        await asyncio.sleep(0.01)

    assert len(registry.asked) == asked
