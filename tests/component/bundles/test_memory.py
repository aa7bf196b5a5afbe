"""What a Bundle more keeps in the operator's memory, counted by allocation and not by pages."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import TEAM, BundleCluster
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.histories import status
from tests.long import LONG

from copyrator.kube.resources import BUNDLES
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec

FEW, MORE = (20, 100) if LONG else (10, 40)
BUNDLE = 12_000
"""Bytes that our own code may keep of a Bundle with all of its history. What the process grows by,
15 KB at most, was measured with a thousand more (docs/adr/0049-memory.md)."""
WATCHED = 12_500
"""The same with spec.health, whose condition is in the status, too."""
LOOKS = 100
OURS = tracemalloc.Filter(inclusive=True, filename_pattern="*/operator/copyrator/*")


class Forgetful(Operator):
    """Passes each Bundle on as kopf does: the body itself is kept by nobody."""

    def _watch_bundles(self) -> Registration:
        spec = WatchSpec(resource=BUNDLES, decode=self._pass_on)
        return self.pool.acquire(spec, lambda *_: None)

    def _pass_on(self, body: dict[str, Any]) -> str:
        self.controller.bundle_event(body, deleted=False)
        return str(body["metadata"]["resourceVersion"])


KINDS: dict[str, tuple[dict[str, Any], int]] = {
    "plain": ({}, BUNDLE),
    "watched": ({"health": "Watch"}, WATCHED),
}


@pytest.mark.parametrize("kind", KINDS if LONG else ["watched"])
@pytest.mark.needs("health")
async def test_a_bundle_more_keeps_at_most_twelve_kilobytes(
    cluster: BundleCluster,
    registry: FakeRegistry,
    bundle: Callable[..., dict[str, Any]],
    kind: str,
) -> None:
    asked, most = KINDS[kind]
    operator = Forgetful(cluster)
    await operator.start()

    async def grow(numbers: range) -> None:
        """Make more Bundles, and wait until the operator has nothing to do any more."""
        for number in numbers:
            registry.put(f"team-{number}/app", "1.0.0", "app")
            name = f"app-{number}"
            bundle(name, repo=f"team-{number}/app", suspend=True, **asked)
            history = status(number)
            for field in ("nextPollAt", "lastHandledRequest", "observedGeneration", "conditions"):
                del history[field]
            history["deployed"]["namespace"] = TEAM
            cluster.change("bundles", name, status=history)
        await eventually(lambda: all(map(polled, numbers)), "all are polled")
        await eventually(lambda: not operator.queue.working and not len(operator.queue))

    def held() -> int:
        """Bytes held by code of the operator."""
        gc.collect()
        found = tracemalloc.take_snapshot().filter_traces([OURS]).statistics("filename")
        return sum(each.size for each in found)

    def is_judged() -> bool:
        """Whether few are kept, if not at each of many looks: a poll holds more for a moment."""
        each.append((held() - before) / MORE)
        return each[-1] <= most or len(each) == LOOKS

    def polled(number: int) -> bool:
        found = cluster.status(f"app-{number}")
        return bool(found.get("nextPollAt") and found.get("conditions"))

    each: list[float] = []
    tracemalloc.start()
    try:
        await grow(range(FEW))
        before = held()
        await grow(range(FEW, FEW + MORE))
        await eventually(is_judged)
    finally:
        tracemalloc.stop()
        await operator.stop()
    assert 1_000 < each[-1] <= most, f"{each[-1]:.0f} bytes"
