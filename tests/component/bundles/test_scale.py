"""Hundreds of Bundles: what they cost a registry, and how their first polls are spread."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.oci.notifications import Push

COUNT = 1000 if LONG else 60


def idle(operator: Any) -> bool:
    return not len(operator.queue) and not operator.queue.working


async def test_bundles_of_one_tag_ask_once_however_many(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    for i in range(COUNT):  # suspended: it is polls that are counted here, not Jobs
        bundle(f"shop{i}", suspend=True)
    loop = asyncio.get_running_loop()
    started = loop.time()
    operator = await run(timing=replace(TIMING, poll_after_push=600.0))  # the second poll

    await eventually(lambda: all(cluster.reason(f"shop{i}") == "Suspended" for i in range(COUNT)))
    await eventually(lambda: idle(operator))
    # All are new: whoever is looked at within a second shares an answer.
    first = len(registry.asked)
    assert first <= loop.time() - started + 1
    writes = cluster.writes_seen

    assert operator.controller.pushed([Push("app", tag="1.0.0")]) == COUNT
    await eventually(lambda: len(registry.asked) > first)
    await eventually(lambda: idle(operator))

    assert len(registry.asked) == first + 1  # an interval's poll is this same query
    assert cluster.writes_seen == writes
