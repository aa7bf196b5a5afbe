"""The process may die at any write of a plan and an approved deploy, as in test_crashes.

Nothing is deployed that wasn't approved, no plan or attempt is lost, no Job is made twice, and no
Secret stays that nobody needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    operations,
    pending,
    plan,
    secrets,
)
from tests.component.bundles.cloud import HOST, Cloud
from tests.component.bundles.crashing import NOT, OK, Stage, die_after, names, points
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fake_werf import CREATE, DELETE, UPDATE, Werf, hash_of
from tests.component.bundles.waiting import eventually

RETRIED = {"limit": 3, "backoff": "1m"}


@dataclass
class Approver:
    """Approves what waits, as often as a person is needed, and looks at what is deployed.

    Where permissions are reviewed it waits for that.
    """

    stage: Stage
    werf: Werf
    approved: list[str] = field(default_factory=list)
    """The operations of each plan that was approved."""
    rejects_first: bool = False
    """The first plan is rejected and approved at once; a fresh approval is given later."""

    async def work(self) -> None:
        cluster, seen = self.stage.cluster, ""
        while True:
            found = plan(cluster)
            known = cluster.permits is None or "missingPermissions" in found
            if pending(cluster) == "AwaitingApproval" and known and found.get("job") != seen:
                seen = found["job"]
                if self.rejects_first and not self.approved:
                    await self._reject(found)
                self.approved += self.werf.todo(found["digest"])
                approve(cluster, found)
            await asyncio.sleep(0.02)

    async def _reject(self, found: dict[str, Any]) -> None:
        """Reject a plan, and wait until an approval of it may count again."""
        cluster = self.stage.cluster
        rejected = {"approved-plan": found["id"], "rejected-plan": found["id"]}
        annotate(cluster, **rejected, **{"approved-by": "ben"})
        while plan(cluster).get("decision") != "Rejected":
            await asyncio.sleep(0.02)
        annotate(cluster, **dict.fromkeys((*rejected, "approved-by")))
        while not plan(cluster).get("approvalCleared"):
            await asyncio.sleep(0.02)

    def check(self, *verdicts: str) -> bool:
        """What was approved is deployed, by attempts of which werf said so."""
        cluster = self.stage.cluster
        found = plan(cluster)
        kept = operations(found, found.get("approved", {}))
        return (
            self.stage.is_settled()
            and cluster.reason() == "Deployed"
            and not pending(cluster)
            and self.stage.verdicts() == list(verdicts)
            and secrets(cluster) <= kept
            and all("ttlSecondsAfterFinished" in job["spec"] for job in cluster.jobs("plan"))
        )


@dataclass(frozen=True)
class Journey:
    """A deploy from its plan to its end, by so many writes."""

    writes: int
    begin: Callable[[Stage, Werf], None]
    verdicts: tuple[str, ...]
    """Of werf, the last one first."""
    own: tuple[int, ...] = ()
    """Of `Journey` in crashing.py."""
    interrupted: int = 0
    """Attempts of which werf said nothing."""
    is_rejected: bool = False
    """Its first plan is rejected before it is approved."""


def first(stage: Stage, werf: Werf) -> None:
    stage.cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    stage.bundle(approval=ALWAYS, values="values", retry=RETRIED)


def bad_at_first(stage: Stage, werf: Werf) -> None:
    """It did a half, and the rest was approved."""
    werf.ends = lambda job: fail(job) if len(werf.applied) == 1 else succeed(job)
    werf.todo = lambda _: [UPDATE] if werf.applied else [CREATE]
    stage.bundle(approval=ALWAYS, retry=RETRIED)


def worse_than_planned(stage: Stage, werf: Werf) -> None:
    """It did a half, and the rest wasn't approved."""
    werf.ends = lambda job: fail(job) if len(werf.applied) == 1 else succeed(job)
    werf.todo = lambda _: [UPDATE, DELETE] if werf.applied else [CREATE]
    stage.bundle(approval=ALWAYS, retry=RETRIED)


def rendered_differently(stage: Stage, werf: Werf) -> None:
    """While its plan waits, so that the approval is of something else."""
    werf.renders = lambda _: hash_of("planned" if len(stage.cluster.runs) == 1 else "later")
    first(stage, werf)


def planned_at_the_second_try(stage: Stage, werf: Werf) -> None:
    werf.says = lambda *_: (1, "Error: no\n") if len(stage.cluster.runs) == 1 else None
    first(stage, werf)


def reviewed(stage: Stage, werf: Werf) -> None:
    """What its account lacks is found while it waits, and is one write more."""
    stage.cluster.permits = lambda asked: asked["verb"] != "delete"
    first(stage, werf)


def with_a_clouds_login(stage: Stage, werf: Werf) -> None:
    stage.start = partial(stage.start, prepare=Cloud(stage.registry).prepare)
    stage.bundle(approval=ALWAYS, retry=RETRIED, registry=HOST, insecure=None, provider="aws")


JOURNEYS = {
    "a first deploy": Journey(21, first, (OK,)),
    # Its login, its Job; the attempt, its login, its Job.
    "a first deploy with a cloud's login": Journey(21, with_a_clouds_login, (OK,), (3, 5, 10, 12)),
    # It is planned; it is reviewed.
    "a first deploy that is reviewed": Journey(22, reviewed, (OK,), (10, 11)),
    # The first attempt fails, its Job's TTL; the second plan, its Job, operations; the second
    # attempt, its Job, outcome.
    "a deploy that fails and is tried again": Journey(
        35, bad_at_first, (OK, NOT), (16, 19, 21, 24, 26, 28, 31, 32)
    ),
    # The second plan waits; the second attempt, its Job.
    "a retry that does more": Journey(36, worse_than_planned, (OK, NOT), (28, 29, 32)),
    # The first plan fails, its Job's TTL, its Secrets; the second plan, its Job, the first one's
    # TTL, the second plan is made.
    "a plan that fails and is made again": Journey(
        31, planned_at_the_second_try, (OK,), (8, 9, 10, 11, 16, 17, 20)
    ),
    # The attempt, its Job, outcome; the second plan, its Job, operations; the second attempt.
    "a plan whose render changes before its deploy": Journey(
        40, rendered_differently, (OK,), (13, 19, 21, 23, 26, 28, 30, 32, 36), interrupted=1
    ),
    # It is planned, rejected, cleared, approved; the attempt.
    "a rejection and a fresh approval": Journey(
        23, first, (OK,), (9, 10, 11, 12, 13), is_rejected=True
    ),
}


@pytest.fixture
async def approver(stage: Stage, werf: Werf) -> AsyncIterator[Approver]:
    approver = Approver(stage, werf)
    working = asyncio.gather(approver.work(), stage.pass_time())
    yield approver
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working


@pytest.mark.parametrize("name", names(JOURNEYS))
async def test_a_journey_is_that_many_writes(
    stage: Stage, werf: Werf, approver: Approver, name: str
) -> None:
    """So the table leaves out none."""
    journey, cluster = JOURNEYS[name], stage.cluster
    approver.rejects_first = journey.is_rejected
    journey.begin(stage, werf)
    await stage.run()
    await eventually(lambda: approver.check(*journey.verdicts), name)
    assert cluster.writes_seen == journey.writes
    assert len(cluster.jobs()) == len(journey.verdicts) + journey.interrupted


@pytest.mark.parametrize(("name", "number"), points(JOURNEYS))
async def test_dies_after_any_write(
    stage: Stage, werf: Werf, approver: Approver, name: str, number: int
) -> None:
    journey, cluster = JOURNEYS[name], stage.cluster
    approver.rejects_first = journey.is_rejected
    journey.begin(stage, werf)

    await die_after(cluster, stage.run, number)
    await stage.run()

    await eventually(lambda: approver.check(*journey.verdicts), name)
    assert len(cluster.runs) == len(set(cluster.runs))
    # Each line that was applied was in a plan that a person approved, or follows from one.
    for _, made in werf.applied:
        _, *lines = made.splitlines()
        assert {line.replace("update", "create") for line in lines} <= {
            line.replace("update", "create") for line in approver.approved
        }
    assert approver.approved
    assert len(cluster.status()["history"]) == len(werf.applied) + interrupted(cluster)


def interrupted(cluster: BundleCluster) -> int:
    return sum(one["outcome"] == "Interrupted" for one in cluster.status()["history"])
