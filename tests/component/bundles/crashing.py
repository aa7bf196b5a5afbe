"""Operators whose process dies at a write, and what such a test works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

OK, NOT = "Succeeded", "Failed"


@dataclass
class Stage:
    """What a journey plays on."""

    cluster: BundleCluster
    registry: FakeRegistry
    run: Run
    bundle: Make

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


def points(journeys: Mapping[str, Journey]) -> list[Any]:
    """Parameters: each journey with the number of each of its writes."""
    return [
        pytest.param(name, number, id=f"{name}-{number}")
        for name, journey in journeys.items()
        for number in range(1, journey.writes + 1)
    ]


async def die_after(cluster: BundleCluster, run: Run, number: int) -> None:
    """Run an operator until its process dies, before it hears of this write."""
    cluster.dies_at = cluster.writes_seen + number
    victim = await run()
    await eventually(cluster.dead.is_set, f"the operator makes {number} writes")
    await victim.stop(0.0)
    cluster.dies_at = None
    cluster.dead.clear()
