"""The process may die at any write: no attempt runs twice, and the status tells the truth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.component.bundles.conftest import eventually
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.oci.fake_registry import FakeRegistry

Run = Callable[..., Any]
Make = Callable[..., dict[str, Any]]

WRITES_OF_A_DEPLOY = 5
"""Finalizer, attempt, Job, outcome, TTL."""


def attempts(cluster: BundleCluster) -> list[str]:
    return [job["metadata"]["annotations"]["operator.werf.dev/attempt"] for job in cluster.jobs()]


async def die_and_start_again(cluster: BundleCluster, run: Run, number: int, applied: bool) -> None:
    cluster.dies_at, cluster.applied = cluster.writes_seen + number, applied
    victim = await run()
    await eventually(cluster.dead.is_set, f"the operator makes {number} writes")
    await victim.stop(0.0)
    cluster.dies_at = None
    cluster.dead.clear()
    await run()


async def test_a_deploy_is_that_many_writes(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    """So the table below leaves out none."""
    await run()
    bundle()

    await eventually(lambda: _is_settled(cluster))

    assert cluster.writes_seen == WRITES_OF_A_DEPLOY


def _is_settled(cluster: BundleCluster) -> bool:
    jobs = cluster.jobs()
    return cluster.reason() in ("Deployed", "Quarantined") and all(
        job["spec"]["ttlSecondsAfterFinished"] == 120 for job in jobs
    )


@pytest.mark.parametrize("applied", [True, False], ids=["written", "lost"])
@pytest.mark.parametrize("number", range(1, WRITES_OF_A_DEPLOY + 1))
async def test_dies_at_a_write_of_a_deploy(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    number: int,
    applied: bool,
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    bundle()

    await die_and_start_again(cluster, run, number, applied)

    await eventually(lambda: _is_settled(cluster), cluster.message())
    status = cluster.status()
    assert len(cluster.runs) == len(set(cluster.runs)) == 1
    assert status["deploy"]["digest"] == digest
    assert status["deployed"]["verified"] is True
    assert [entry["job"] for entry in status["history"] if entry["outcome"] == "Succeeded"] == [
        cluster.runs[0]
    ]


@pytest.mark.parametrize("applied", [True, False], ids=["written", "lost"])
@pytest.mark.parametrize("number", range(1, WRITES_OF_A_DEPLOY + 1))
async def test_dies_at_a_write_of_a_deploy_that_fails(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    number: int,
    applied: bool,
) -> None:
    cluster.ends = fail
    bundle(retry={"limit": 0})

    await die_and_start_again(cluster, run, number, applied)

    await eventually(lambda: _is_settled(cluster), cluster.message())
    assert len(cluster.runs) == 1
    assert cluster.reason() == "Quarantined"
    assert cluster.status()["attempted"]["failures"] == 1
    assert "deploy" not in cluster.status()


@pytest.mark.parametrize("applied", [True, False], ids=["written", "lost"])
@pytest.mark.parametrize("number", range(1, 5))
async def test_dies_at_a_write_of_a_forced_deploy(
    cluster: BundleCluster, run: Run, bundle: Make, number: int, applied: bool
) -> None:
    operator = await run()
    bundle()
    await eventually(lambda: _is_settled(cluster))
    await operator.stop()
    cluster.change("bundles", "shop", status={"forceUpdate": 1})

    await die_and_start_again(cluster, run, number, applied)

    await eventually(lambda: cluster.status()["forceUpdate"] == 0)
    await eventually(lambda: _is_settled(cluster) and len(cluster.status()["history"]) >= 2)
    assert len(cluster.runs) == 2
    assert len(set(attempts(cluster))) == 2


@pytest.mark.parametrize("applied", [True, False], ids=["written", "lost"])
@pytest.mark.parametrize("number", range(1, 5))
async def test_dies_at_a_write_of_a_deletion(
    cluster: BundleCluster, run: Run, bundle: Make, number: int, applied: bool
) -> None:
    """Status, Job, TTL, finalizer."""
    operator = await run()
    bundle()
    await eventually(lambda: _is_settled(cluster))
    await operator.stop()
    cluster.drop("/apis/operator.werf.dev/v1/namespaces/team/bundles/shop")

    await die_and_start_again(cluster, run, number, applied)

    await eventually(lambda: cluster.look("bundles", "shop") is None)
    assert len(cluster.jobs("uninstall")) == 1
    assert len(cluster.runs) == 2


async def test_is_down_longer_than_its_jobs_are_kept(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    operator = await run()
    bundle()
    await eventually(lambda: cluster.runs)
    await operator.stop()
    cluster.drop(f"/apis/batch/v1/namespaces/team/jobs/{cluster.runs[0]}")

    cluster.ends = succeed
    await run()

    await eventually(lambda: _is_settled(cluster))
    outcomes = [entry["outcome"] for entry in cluster.status()["history"]]
    assert outcomes == ["Succeeded", "Interrupted"]
    assert cluster.status()["history"][1]["reason"] == "JobLost"
    assert len(set(cluster.runs)) == 2
