"""The process may die at any write around a freeze: the deploy happens once, after the thaw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.component.bundles.crashing import die_after, sampled
from tests.component.bundles.fake_cluster import RUNNING, WAITING, BundleCluster, path_of, succeed
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.freezing import freeze, gate, thaw
from tests.component.bundles.waiting import eventually

from copyrator.api.names import ANN_GIVEN_UP
from copyrator.bundles.engine.context import BundleTiming

pytestmark = pytest.mark.usefixtures("registry")

WRITES = 11
"""Finalizer, attempt, Job, its end, outcome, the wait, TTL; after the thaw attempt, Job, outcome,
TTL."""


async def people_and_controllers(cluster: BundleCluster) -> None:
    """The Job is made, somebody freezes; the Job ends; what waits is thawed and goes well."""
    await eventually(lambda: cluster.runs)
    freeze(cluster)
    job = path_of("jobs", cluster.runs[0])
    await eventually(lambda: ANN_GIVEN_UP in cluster.objects[job]["metadata"]["annotations"])
    cluster.end_without_pod(cluster.runs[0])
    await eventually(lambda: gate(cluster))
    assert len(cluster.runs) == 1
    cluster.pods, cluster.ends = RUNNING, succeed
    thaw(cluster)


@pytest.fixture
def timing() -> BundleTiming:
    return replace(TIMING, job_handover=1.0)


@pytest.fixture
async def frozen(cluster: BundleCluster, bundle: Make) -> AsyncIterator[asyncio.Task[None]]:
    cluster.pods, cluster.ends = WAITING, None
    bundle(retry={"limit": 0, "backoff": "1s"})
    working = asyncio.create_task(people_and_controllers(cluster))
    yield working
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


def is_settled(cluster: BundleCluster) -> bool:
    ttls = {job["spec"]["ttlSecondsAfterFinished"] for job in cluster.jobs()}
    return cluster.reason() == "Deployed" and ttls == {120}


async def test_it_is_that_many_writes(
    cluster: BundleCluster, run: Run, frozen: asyncio.Task[None]
) -> None:
    before = cluster.writes_seen
    await run()
    await eventually(lambda: is_settled(cluster))
    assert cluster.writes_seen - before == WRITES
    await frozen


@pytest.mark.parametrize("number", sampled(range(1, WRITES + 1)))
async def test_dies_after_any_write(
    cluster: BundleCluster, run: Run, frozen: asyncio.Task[None], number: int
) -> None:
    await die_after(cluster, run, number)
    await run()

    await eventually(lambda: is_settled(cluster))
    await frozen
    assert len(cluster.runs) == len(set(cluster.runs)) == 2
    outcomes = [(one["outcome"], one["reason"]) for one in cluster.status()["history"]]
    outcomes = [one for one in outcomes if one[1] != "JobLost"]  # it wasn't made any more
    assert outcomes == [("Succeeded", "Deployed"), ("Interrupted", "Frozen")]
