"""The process may die at any write of a check and a correction, as in test_crashes.

Nothing is deployed but what a check found, no check or attempt is lost, no Job is made twice, and
no Secret stays that nobody needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    condition,
    operations,
    pending,
    plan,
    refresh,
    secrets,
)
from tests.component.bundles.crashing import NOT, OK, Stage, die_after, points
from tests.component.bundles.drifting import CORRECT, EDITED, Release, checked_long_ago
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import DELETE, Werf, hash_of
from tests.component.bundles.waiting import eventually

pytestmark = pytest.mark.needs("approval")

RETRIED = {"limit": 3, "backoff": "1s"}


@dataclass(frozen=True)
class Journey:
    """From a first deploy, or from drift, to an end, by so many writes."""

    writes: int
    begin: Callable[[Release], None]
    deploys: int
    """That went on to apply, of all."""
    is_new: bool = False
    """It begins with the Bundle's first deploy."""
    ends: tuple[str, str] = ("False", "InSync")
    own: tuple[int, ...] = ()
    """Of `Journey` in crashing.py."""
    is_approved: bool = False
    """Deploys need an approval, which a person gives."""


def edited(release: Release) -> None:
    release.changed += EDITED
    refresh(release.cluster)


def fought(release: Release) -> None:
    release.is_fought = True
    edited(release)


def worse(release: Release) -> None:
    """Something else is changed before it is corrected."""
    werf, plan = release.werf, release.werf.todo
    seen: list[str] = []

    def todo(digest: str) -> list[str]:
        seen.append(digest)
        if len(seen) == 2:
            release.changed.append(DELETE)
        return plan(digest)

    werf.todo = todo
    edited(release)


def rendered_differently(release: Release) -> None:
    """Found by a regular check, as a plan of a user's would be the one to approve."""
    cluster = release.cluster
    release.werf.renders = lambda _: hash_of("later")
    release.changed += EDITED
    cluster.change("bundles", "shop", status=checked_long_ago(cluster))


JOURNEYS = {
    "a first deploy and its baseline": Journey(18, lambda _: None, 1, is_new=True),
    # The plan that was asked for, its Job, operations; the correction, its Job, outcome, TTL; the
    # check after it, its outcome.
    "a correction": Journey(25, edited, 2, own=(2, 7, 8, 10, 14, 15, 18, 19, 24)),
    # The check after the first correction, its operations, what it found; the second correction,
    # its Job, outcome; what the last check found, the TTL of the one before.
    "drift that recurs": Journey(
        42,
        fought,
        3,
        ends=("True", "DriftRecurring"),
        own=(19, 23, 25, 26, 30, 31, 40, 42),
    ),
    # The correction that changes nothing, its Job's TTL; the check after it, what it found; the
    # correction of all, its Job.
    "a correction that isn't made": Journey(43, worse, 2, own=(15, 18, 19, 26, 27, 31)),
    # The check, what it found; the plan, its Job, operations, decision; the attempt, its outcome.
    "a correction that is approved": Journey(
        38, rendered_differently, 2, own=(4, 6, 9, 11, 13, 15, 18, 20, 27, 30), is_approved=True
    ),
}


@pytest.fixture
def release(stage: Stage, werf: Werf) -> Release:
    return Release(stage.cluster, werf)


@pytest.fixture(autouse=True)
async def approver(cluster: BundleCluster) -> AsyncIterator[None]:
    """A person who approves what waits."""

    async def work() -> None:
        seen = ""
        while True:
            found = plan(cluster)
            if pending(cluster) == "AwaitingApproval" and found.get("job") != seen:
                seen = found["job"]
                approve(cluster, found)
            await asyncio.sleep(0.02)

    working = asyncio.ensure_future(work())
    yield
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


async def begin(stage: Stage, release: Release, journey: Journey) -> None:
    cluster = stage.cluster
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    approval = {"approval": ALWAYS} if journey.is_approved else {}
    stage.bundle(drift=CORRECT, values="values", retry=RETRIED, **approval)
    if not journey.is_new:
        operator = await stage.run()
        await release.in_sync()
        await eventually(lambda: is_over(stage, release, ("False", "InSync")))
        await operator.stop()
    journey.begin(release)


def is_over(stage: Stage, release: Release, ends: tuple[str, str]) -> bool:
    cluster = stage.cluster
    status, drift = cluster.status(), release.drift
    found = {"job": drift["foundJob"]} if "foundJob" in drift else {}
    there = status.get("deployed", {})
    planned = {"job": there["planJob"]} if "planJob" in there else {}
    plan_ = status.get("plan", {})
    kept = operations(status.get("baseline", {}), found, plan_, plan_.get("approved", {}), planned)
    return (
        stage.is_settled()
        and cluster.reason() == "Deployed"
        and condition(cluster, "Drifted") == ends
        and drift["check"].get("outcome") != "Running"
        and status.get("plan", {}).get("outcome") != "Running"
        and secrets(cluster) <= kept
        and all(
            job["spec"].get("ttlSecondsAfterFinished") == 120
            for job in cluster.jobs("drift")
            if job["metadata"]["name"] != drift.get("foundJob")
        )
    )


@pytest.mark.parametrize("name", JOURNEYS)
async def test_a_journey_is_that_many_writes(stage: Stage, release: Release, name: str) -> None:
    """So the table leaves out none."""
    journey, cluster = JOURNEYS[name], stage.cluster
    await begin(stage, release, journey)
    before = cluster.writes_seen
    await stage.run()
    await eventually(lambda: is_through(stage, release, journey), name)
    assert cluster.writes_seen - before == journey.writes


def is_through(stage: Stage, release: Release, journey: Journey) -> bool:
    return len(release.werf.applied) == journey.deploys and is_over(stage, release, journey.ends)


@pytest.mark.parametrize(("name", "number"), points(JOURNEYS))
async def test_dies_after_any_write(stage: Stage, release: Release, name: str, number: int) -> None:
    journey, cluster = JOURNEYS[name], stage.cluster
    await begin(stage, release, journey)

    await die_after(cluster, stage.run, number)
    await stage.run()

    await eventually(lambda: is_through(stage, release, journey), name)
    assert len(cluster.runs) == len(set(cluster.runs))
    for _, proved in release.werf.applied[1:]:
        found = proved.splitlines()[1:]
        assert set(found) <= {*release.always, *EDITED, DELETE}
    assert set(stage.verdicts()) <= {OK}
    assert NOT not in stage.verdicts()
    assert len(release.werf.applied) == journey.deploys
