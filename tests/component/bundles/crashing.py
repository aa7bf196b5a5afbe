"""Operators whose process dies at a write, and what such a test works with."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import pytest
from tests.component.bundles.fake_cluster import TEAM, BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import turns
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.api.keys import BundleKey
from copyrator.api.text import parse_time

OK, NOT = "Succeeded", "Failed"


@dataclass
class Stage:
    """What a journey plays on."""

    cluster: BundleCluster
    registry: FakeRegistry
    start: Run
    bundle: Make
    ahead: timedelta = timedelta()
    """Of the operators' clocks."""
    operator: Any = None
    """The one that was started last, once it runs."""

    async def run(self) -> Any:
        """Start an operator."""
        self.operator = None
        self.operator = await self.start(ahead=self.ahead)
        return self.operator

    async def pass_time(self) -> None:
        """Let a retry be due once the operator has done all before it, and no earlier.

        By the clock it may be due before a slow operator has set a TTL, which then is one write
        less.
        """
        rounds = 0
        while True:
            await asyncio.sleep(0.02)
            await turns()
            operator = self.operator
            rests = operator and not (len(operator.queue) or operator.queue.working)
            due = self._retries_at() if rests else None
            rounds = rounds + 1 if due else 0
            if due and rounds >= 3:  # an answer may be on its way between two looks
                self.ahead = operator.ahead = due - datetime.now(UTC)
                operator.queue.add(BundleKey(TEAM, "shop"))

    def _retries_at(self) -> datetime | None:
        status, now = self.cluster.status(), datetime.now(UTC) + self.ahead
        dates = [parse_time(status.get(of, {}).get("nextRetryAt")) for of in ("attempted", "plan")]
        return next((at for at in dates if at and at > now), None)

    async def deployed(self, **spec: Any) -> None:
        """A Bundle that is deployed, and an operator that has been stopped since."""
        operator = await self.run()
        self.bundle(**spec)
        await eventually(self.is_settled, "deployed")
        await operator.stop()

    def is_settled(self) -> bool:
        status, jobs = self.cluster.status(), self.cluster.jobs()
        if any(job["spec"]["ttlSecondsAfterFinished"] != 120 for job in jobs):
            return False
        return self.cluster.reason() in SETTLED and status.get("forceUpdate") != 1

    def is_gone(self) -> bool:
        return self.cluster.look("bundles", "shop") is None

    def verdicts(self) -> list[str]:
        """Of werf, the last one first. An attempt whose Job wasn't made any more has none."""
        outcomes = [entry["outcome"] for entry in self.cluster.status()["history"]]
        return [outcome for outcome in outcomes if outcome != "Interrupted"]


SETTLED = ("Deployed", "Quarantined", "NoMatchingVersion", "TagNotFound")


class Journey(Protocol):
    """Something that the operator does from beginning to end."""

    @property
    def writes(self) -> int:
        """How many it takes."""

    @property
    def own(self) -> tuple[int, ...]:
        """Numbers of those after which a death leaves what it leaves in no shorter journey.

        None: all of them.
        """


def points(journeys: Mapping[str, Journey]) -> list[Any]:
    """Parameters: each journey with the number of each of its writes.

    `make test-long` has them all. `make test` has a sample of each journey's own.
    """
    return [
        pytest.param(name, number, id=f"{name}-{number}", marks=needs(name))
        for name, journey in journeys.items()
        for number in sampled((not LONG and journey.own) or range(1, journey.writes + 1))
    ]


def names(journeys: Mapping[str, Journey]) -> list[Any]:
    """Parameters: each journey."""
    return [pytest.param(name, id=name, marks=needs(name)) for name in journeys]


def needs(name: str) -> list[pytest.MarkDecorator]:
    """The features of a journey, by its name."""
    return [pytest.mark.needs("login")] if "a cloud's login" in name else []


def sampled(numbers: Sequence[int]) -> list[int]:
    """Every fourth of some writes, and the last one; in `make test-long` all."""
    return list(numbers) if LONG else sorted({*numbers[::4], numbers[-1]})


async def die_after(cluster: BundleCluster, run: Run, number: int) -> None:
    """Run an operator until its process dies, before it hears of this write."""
    cluster.dies_at = cluster.writes_seen + number
    victim = await run()
    await eventually(cluster.dead.is_set, f"the operator makes {number} writes")
    await victim.stop(0.0)
    cluster.dies_at = None
    cluster.dead.clear()
