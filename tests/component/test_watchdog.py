"""What /healthz and /readyz call wrong, and what they don't."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from copyrator.handlers.lifecycle import EndlessBackoff, KopfWatch
from copyrator.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from copyrator.kube.resources import BUNDLES, RULES, SECRETS
from copyrator.kube.watchpool import WatchSpec, WatchStatus
from copyrator.watchdog import Background, failing_watches, stale_queue, stuck_worker


class Queue:
    def __init__(self, age: float = 0.0, working: tuple[object, float] | None = None) -> None:
        self._age, self._working = age, working

    def oldest_age(self) -> float:
        return self._age

    def longest_working(self) -> tuple[object, float] | None:
        return self._working


def status(failure: ApiError | None, seconds: float, namespace: str | None = None) -> WatchStatus:
    return WatchStatus(
        spec=WatchSpec(SECRETS, namespace),
        synced=failure is None,
        objects=3,
        subscribers=1,
        failure=failure,
        failing_for=seconds,
    )


@pytest.mark.parametrize(
    ("queue", "ready", "live"),
    [
        (Queue(), None, None),
        (Queue(age=59), None, None),
        (Queue(age=61), "a key has waited for 61 s", None),
        (Queue(working=("rule/a/b", 59)), None, None),
        (Queue(working=("rule/a/b", 61)), "rule/a/b has been worked on for 61 s", None),
        (Queue(working=("rule/a/b", 901)), "rule/a/b has been", "rule/a/b has hung for 901 s"),
    ],
)
def test_a_queue_that_stands_still(queue: Queue, ready: str | None, live: str | None) -> None:
    for said, expected in ((stale_queue(queue), ready), (stuck_worker(queue), live)):
        assert (said is None) == (expected is None)
        assert (said or "").startswith(expected or "")


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        ([status(None, 0)], None),
        ([status(Unreachable("away"), 5)], None),
        ([status(NotFound("no kind"), 500)], None),
        ([status(Unreachable("away"), 11)], "no watch of secrets for 11 s (away)"),
        (
            [status(Forbidden("no right"), 99, "team"), status(None, 0)],
            "no watch of secrets in team for 99 s (Forbidden (403): no right)",
        ),
    ],
)
def test_watches_that_fail(statuses: list[WatchStatus], says: str | None) -> None:
    assert failing_watches(statuses) == says


def test_of_many_failing_watches_three_are_named() -> None:
    says = failing_watches([status(Unreachable("away"), 20)] * 50)
    assert says is not None
    assert says.endswith(", and 47 more")


async def test_an_endless_task_that_ends_is_named() -> None:
    background = Background()
    background.start(asyncio.sleep(1000), "the one that stays")
    assert background.dead() is None

    async def fails() -> None:
        raise KeyError("gone")

    background.start(fails(), "the one that fails")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert background.dead() == "ended by itself: the one that fails"
    await background.stop()
    assert background.dead() is None


@pytest.fixture
async def tasks() -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """Tasks by the names that kopf gives its own."""
    made = {
        name: asyncio.create_task(asyncio.Event().wait(), name=name)
        for name in (
            "credentials retriever",
            "watcher for copyrators.v1.flant.com@None",
            "watcher for bundles.v1.operator.werf.dev@None",
        )
    }
    yield made
    for task in made.values():
        task.cancel()
    await asyncio.gather(*made.values(), return_exceptions=True)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_kopf_as_it_should_be(tasks: dict[str, asyncio.Task[None]]) -> None:
    assert KopfWatch(RULES, BUNDLES).fault() is None


async def test_kopf_without_its_keeper_of_credentials(tasks: dict[str, asyncio.Task[None]]) -> None:
    watch = KopfWatch(RULES, BUNDLES)
    assert watch.fault() is None
    await end(tasks["credentials retriever"])
    assert "keeps no credentials" in (watch.fault() or "")


async def test_kopf_that_missed_a_kind(tasks: dict[str, asyncio.Task[None]]) -> None:
    await end(tasks["watcher for bundles.v1.operator.werf.dev@None"])
    says = KopfWatch(RULES, BUNDLES).fault()
    assert says == "kopf doesn't watch bundles.operator.werf.dev"


async def test_a_kopf_with_other_names_is_no_fault() -> None:
    assert KopfWatch(RULES, BUNDLES).fault() is None


def test_delays_never_end_and_stay_bounded() -> None:
    delays = iter(EndlessBackoff())
    seen = [next(delays) for _ in range(1000)]
    assert seen[0] <= 1.0
    assert max(seen) <= 30.0
    assert min(seen[10:]) >= 15.0
    assert not hasattr(EndlessBackoff(), "__len__")  # by which kopf would count its tries
