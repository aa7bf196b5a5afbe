"""Workers on a real event loop: failures are a key's own, shutdown is clean, death is noticed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.clock import Clock

from copyrator.kube.errors import Forbidden, Unreachable
from copyrator.metrics import Metrics
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import (
    Done,
    Failed,
    Outcome,
    RequeueAfter,
    Workers,
    WorkQueue,
)

# --- Workers on a real event loop: failures are a key's own, shutdown is clean, death is noticed --


async def until(condition: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    try:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(jitter=lambda: 0.02)  # back-offs of 20 ms, 40 ms …


async def test_a_worker_waits_for_keys_and_for_dates(queue: WorkQueue[str]) -> None:
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("later", 0.02)
    assert await asyncio.wait_for(getting, 60) == "later"
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("later still", 60)
    queue.add("now")
    assert await asyncio.wait_for(getting, 60) == "now"


async def test_a_nearer_date_is_not_missed_by_who_waits_for_a_farther(
    queue: WorkQueue[str],
) -> None:
    queue.add_after("far", 60)
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add_after("near", 0.02)
    assert await asyncio.wait_for(getting, 60) == "near"


async def test_a_cancelled_worker_does_not_swallow_a_key(queue: WorkQueue[str]) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    queue.add("a")  # wakes the first …
    first.cancel()  # … which is cancelled before it runs
    assert await asyncio.wait_for(second, 60) == "a"


async def test_workers_wait_without_asking_while_keys_are_held() -> None:
    seen: list[str] = []
    asked = itertools.count()

    class Counted(WorkQueue[str]):
        def poll(self) -> str | None:
            next(asked)
            return super().poll()

    async def handler(key: str) -> Outcome:
        seen.append(key)
        return Done()

    queue = Counted()
    workers = Workers(queue, handler, count=3)
    workers.start()
    await asyncio.sleep(0)
    queue.pause()
    queue.add("ready")
    queue.add_after("delayed", 0.001)
    await asyncio.sleep(0.1)  # long enough for whoever asks again and again
    assert seen == []
    assert next(asked) < 10
    queue.serve()
    await until(lambda: sorted(seen) == ["delayed", "ready"], "both are handled")
    await workers.drain(5)


async def test_a_failure_is_retried_until_it_succeeds(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    outcomes: list[Outcome | Exception] = [
        Failed("no luck"),
        Forbidden("secrets is forbidden"),
        Unreachable("the API server is away"),  # told by who talks to it, once for all keys
        Forbidden("secrets is forbidden"),
        RuntimeError("a mistake of ours"),
        Done(),
    ]

    async def handler(key: str) -> Outcome:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    workers = Workers(queue, handler, count=2)
    workers.start()
    queue.add("a")
    await until(lambda: not outcomes and not queue.working, "six tries")
    assert queue.retry("a") == 0.02  # it counts as the first failure
    told = [r.getMessage().splitlines()[0] for r in caplog.records if r.name.startswith("copyr")]
    assert [text.split(";")[0] for text in told] == [
        "a: no luck",
        "a: Forbidden: Forbidden (403): secrets is forbidden",  # once, though it came twice
        "a: RuntimeError: a mistake of ours",
        "a: succeeds again",
    ]
    assert "test_workers.py" in caplog.text  # our own mistakes come with their place
    await workers.drain(1)


async def test_a_message_that_might_quote_data_is_not_logged(
    queue: WorkQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    outcomes: list[Outcome] = [Failed(ValueError(f"bad value: {'sentinel'}")), Done()]

    async def handler(key: str) -> Outcome:
        return outcomes.pop(0)

    workers = Workers(queue, handler, count=1)
    workers.start()
    queue.add("a")
    await until(lambda: not outcomes and not queue.working, "the failure and the success")
    assert "ValueError" in caplog.text
    assert "sentinel" not in caplog.text
    await workers.drain(1)


async def test_a_key_that_is_queued_again_at_once_does_not_hold_the_loop(
    queue: WorkQueue[str],
) -> None:
    """Its handler waits for nothing, as one that finds all it needs in memory."""
    handled, end = 0, time.thread_time() + 20.0

    async def handler(key: str) -> Outcome:
        nonlocal handled
        handled += 1
        if time.thread_time() < end:  # else this test would hang
            queue.add(key)
        return Done()

    workers = Workers(queue, handler, count=2)
    workers.start()
    queue.add("a")
    await until(lambda: handled, "it is handled")
    for _ in range(10):
        await asyncio.sleep(0)
    assert time.thread_time() < end
    queue.shutdown()
    assert await workers.drain(10.0)


async def test_drain_finishes_what_is_in_work_and_starts_nothing(queue: WorkQueue[str]) -> None:
    started, finished = [], []

    async def handler(key: str) -> Outcome:
        started.append(key)
        await asyncio.sleep(0.05)
        finished.append(key)
        return Done()

    workers = Workers(queue, handler, count=2)
    workers.start()
    for number in range(6):
        queue.add(f"k{number}")
    await until(lambda: len(started) == 2, "two are in work")
    assert await workers.drain(5)
    assert finished == started == ["k0", "k1"]
    assert workers.alive == 0


async def test_drain_gives_up_after_its_deadline(queue: WorkQueue[str]) -> None:
    async def handler(key: str) -> Outcome:
        await asyncio.Event().wait()
        return Done()

    workers = Workers(queue, handler, count=2)
    workers.start()
    queue.add("a")
    await until(lambda: queue.working == 1, "it is in work")
    assert not await workers.drain(0.05)
    assert workers.alive == 0
    assert queue.working == 0


async def test_a_dead_worker_is_replaced_and_its_key_is_not_lost(queue: WorkQueue[str]) -> None:
    begun: list[str] = []
    done: list[str] = []

    async def handler(key: str) -> Outcome:
        begun.append(key)
        if key == "a" and begun.count(key) == 1:
            return None  # type: ignore[return-value] # a mistake that no outcome covers
        done.append(key)
        return Done()

    workers = Workers(queue, handler, count=1, restart=0.0)
    workers.start()
    queue.add("a")
    queue.add("b")
    await until(lambda: sorted(done) == ["a", "b"], "both keys")
    assert workers.restarts == 1
    assert workers.alive == 1
    await workers.drain(1)


async def test_outcomes_are_counted(queue: WorkQueue[str]) -> None:
    metrics = Metrics()
    outcomes: list[Outcome] = [Failed("x"), RequeueAfter(0.01), Done()]

    async def handler(key: str) -> Outcome:
        return outcomes.pop(0)

    workers = Workers(queue, handler, count=1, metrics=metrics)
    workers.start()
    queue.add("a")
    await until(lambda: not outcomes and not queue.working, "three looks")
    for outcome in ("failed", "again", "done"):
        labels = {"key": "str", "outcome": outcome}
        assert metrics.registry.get_sample_value("copyrator_reconciles_total", labels) == 1
    await workers.drain(1)


# --- Long work lets others run when its slice of processor time is used up, and not before --------


async def test_within_its_slice_a_task_is_not_interrupted() -> None:
    others = 0

    async def count() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    clock = Clock(0.0)
    part = TimeSlice(1.0, clock=clock)
    for _ in range(10):
        await part.pause()
    assert others == 0
    clock.now = 1.0
    await part.pause()
    assert others == 1
    clock.now = 1.9
    await part.pause()
    assert others == 1
    task.cancel()


async def test_tasks_that_share_a_slice_have_one_in_all_before_others_run() -> None:
    clock = Clock(0.0)
    part = TimeSlice(1.0, clock=clock)
    steps, others = 0, [0]

    async def work() -> None:
        nonlocal steps
        for _ in range(20):
            await part.pause()
            clock.now += 0.5
            steps += 1

    tasks = [asyncio.create_task(work()) for _ in range(8)]
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        others.append(steps)
    assert steps == 160
    assert max(after - before for before, after in itertools.pairwise(others)) <= 3


async def test_a_worker_that_is_cancelled_before_a_key_comes_ends(queue: WorkQueue[str]) -> None:
    first, second = (asyncio.create_task(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    queue.add("a")  # before the first has noticed
    assert await asyncio.wait_for(second, 60) == "a"
    await asyncio.wait([first], timeout=60)
    assert first.cancelled()
