"""The queue of keys: each comes once, none is lost or starved, tenants take turns."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import Clock
from tests.long import LONG
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.api.keys import CopyKey
from copyrator.workqueue.fairness import working_for
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import (
    COMPARE_SECONDS,
    GRAIN,
    SLEW,
    STATUS_PATIENCE,
    DueScheduler,
    Priority,
    WorkQueue,
)

# --- The queue, polled by hand on the test's clock: each key once, none lost, none starved --------


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock=clock, jitter=lambda: 1.0)


def drain(queue: WorkQueue[str]) -> list[str]:
    found = []
    while (key := queue.poll()) is not None:
        found.append(key)
        queue.done(key)
    return found


def test_a_key_in_work_that_is_added_is_handed_out_after_it_is_done(queue: WorkQueue[str]) -> None:
    queue.add("a")
    assert queue.poll() == "a"
    queue.add("a")
    queue.add("a")
    assert queue.poll() is None  # never two workers on one key
    queue.done("a")
    assert drain(queue) == ["a"]


def test_the_more_urgent_priority_counts_and_the_key_still_comes_once(
    queue: WorkQueue[str],
) -> None:
    queue.add("slow", Priority.RESYNC)
    queue.add("a", Priority.RESYNC)
    queue.add("a", Priority.URGENT)
    queue.add("a", Priority.NORMAL)
    assert drain(queue) == ["a", "slow"]


def test_urgent_keys_go_first_but_no_priority_starves(queue: WorkQueue[str]) -> None:
    for number in range(210):
        for priority in Priority:
            queue.add(f"{priority.name}-{number}", priority)
    first = Counter(key.split("-")[0] for key in [queue.poll() for _ in range(105)] if key)
    assert first == {"URGENT": 80, "NORMAL": 20, "RESYNC": 5}


def test_statuses_come_after_all_others(queue: WorkQueue[str]) -> None:
    queue.add("status", Priority.STATUS)
    for priority in Priority:
        queue.add(priority.name, priority)
    assert drain(queue) == ["URGENT", "NORMAL", "RESYNC", "status", "STATUS"]


def test_a_status_that_has_waited_gets_its_share(queue: WorkQueue[str], clock: Clock) -> None:
    for number in range(100):
        queue.add(f"s{number}", Priority.STATUS)
        queue.add(f"u{number}", Priority.URGENT)
    clock.now += STATUS_PATIENCE
    first = Counter(key[0] for key in [queue.poll() for _ in range(34)] if key)
    assert first == {"u": 32, "s": 2}


def test_a_failing_key_comes_back_ever_later_up_to_five_minutes(
    queue: WorkQueue[str], clock: Clock
) -> None:
    delays = []
    queue.add("a")
    for _ in range(12):
        assert queue.poll() == "a"
        delays.append(queue.retry("a"))
        queue.done("a")
        clock.now += delays[-1] - 0.001
        assert queue.poll() is None
        clock.now += 0.002
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_delays_are_spread_so_that_failures_do_not_march_in_step(clock: Clock) -> None:
    queue: WorkQueue[int] = WorkQueue(clock=clock)
    delays = {queue.retry(key) for key in range(100)}
    assert len(delays) > 90
    assert all(0.8 <= delay <= 1.0 for delay in delays)


def test_a_relevant_change_makes_a_key_in_back_off_due_at_once(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.retry("a")
    queue.add("a")
    assert drain(queue) == ["a"]
    clock.now += 1
    assert drain(queue) == []
    assert queue.retry("a") == 2  # but it is still known to fail


def test_an_irrelevant_change_leaves_a_key_in_its_back_off(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.retry("a")
    queue.add("a", respect_backoff=True)
    queue.add("b", respect_backoff=True)
    assert drain(queue) == ["b"]
    clock.now += 1
    assert drain(queue) == ["a"]


def test_a_change_during_failing_work_is_looked_at_at_once(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.add("a")
    assert queue.poll() == "a"
    queue.add("a")  # the failure that follows may be about the old state
    queue.retry("a")
    queue.done("a")
    assert drain(queue) == ["a"]
    clock.now += 1
    assert drain(queue) == []


def test_who_failed_with_everybody_need_not_wait_any_longer_when_that_is_over(
    queue: WorkQueue[str], clock: Clock
) -> None:
    for _ in range(8):
        queue.add("failing")
        assert queue.poll() == "failing"
        queue.retry("failing")
        queue.done("failing")
    queue.add_after("meant to wait", 60)
    queue.add("working")
    assert queue.poll() == "working"
    queue.end_backoffs()
    assert queue.poll() == "failing"
    assert queue.poll() is None
    assert queue.retry("failing") == 256  # the ninth time


@pytest.mark.parametrize(
    ("delays", "due"), [((5, 2), 2), ((2, 5), 2), ((3, 0), 0), ((0, 3), 0), ((-1,), 0)]
)
def test_of_several_dates_the_earliest_counts(
    queue: WorkQueue[str], clock: Clock, delays: tuple[float, ...], due: float
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    clock.now += due - 0.001
    assert queue.poll() is None or due == 0
    clock.now += 10
    drain(queue)
    assert drain(queue) == []  # once


def test_what_came_before_there_was_anybody_to_work_counts_as_come_then(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.add("early")
    clock.now += 3600  # a standby
    queue.serve()
    assert queue.oldest_age() == 0
    clock.now += 5
    queue.add("late")
    assert queue.oldest_age() == 5
    assert drain(queue) == ["early", "late"]


def test_the_oldest_age_is_that_of_the_key_due_longest(queue: WorkQueue[str], clock: Clock) -> None:
    assert queue.oldest_age() == 0
    queue.add("low", Priority.RESYNC)
    clock.now += 5
    assert queue.oldest_age() == 5
    queue.add("high", Priority.URGENT)
    queue.add("low", Priority.URGENT)
    assert queue.poll() == "high"
    assert queue.oldest_age() == 5  # it has waited since it came, whatever its priority
    assert queue.oldest_age(now=clock.now + 1) == 6
    drain(queue)
    assert queue.oldest_age() == 0
    queue.add_after("later", 10)
    clock.now += 30
    assert queue.oldest_age() == 20  # also when nobody polls


def test_the_key_longest_in_work_is_known(queue: WorkQueue[str], clock: Clock) -> None:
    assert queue.longest_working() is None
    queue.add("a")
    queue.add("b")
    queue.poll()
    clock.now += 3
    queue.poll()
    clock.now += 4
    assert queue.longest_working() == ("a", 7)
    queue.done("a")
    assert queue.longest_working() == ("b", 4)


def test_a_hundred_thousand_keys_are_quick_and_small(clock: Clock) -> None:
    keys = [
        CopyKey("secrets", f"ns-{number}", "creds") for number in range(100_000 if LONG else 20_000)
    ]
    random.Random(7).shuffle(keys)
    tracemalloc.start()
    queue: WorkQueue[CopyKey] = WorkQueue(clock=clock)
    for key in keys:
        queue.add(key)
        queue.add(key)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size / len(keys) < 250  # bytes a key, the key itself left out
    for _ in keys:
        key = queue.poll()
        assert key is not None
        queue.forget(key)
        queue.done(key)
    assert queue.poll() is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "respect", "after", "work", "fail", "done", "again", "pass"]),
        st.sampled_from("abcd"),
        st.sampled_from(list(Priority)),
        st.floats(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_whatever_happens_no_key_is_lost_and_none_is_worked_on_twice(steps: list) -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(clock=clock, jitter=lambda: 1.0)
    working: list[str] = []
    owed: set[str] = set()  # keys that have to be handed out some day
    for step, key, priority, delay in steps:
        if step == "add":
            queue.add(key, priority)
            owed.add(key)
        elif step == "respect":
            queue.add(key, priority, respect_backoff=True)
            owed.add(key)
        elif step == "after":
            queue.add_after(key, delay, priority)
            owed.add(key)
        elif step == "pass":
            clock.now += delay
        elif step == "work":
            found = queue.poll()
            if found:
                assert found not in working
                assert found in owed
                working.append(found)
                owed.discard(found)
        elif working:
            mine = working.pop(0)
            if step == "fail":
                queue.retry(mine, priority)
                owed.add(mine)
            elif step == "again":
                queue.add_after(mine, delay, priority)
                owed.add(mine)
            queue.done(mine)
    for mine in working:
        queue.done(mine)
    clock.now += 1000
    assert set(drain(queue)) == owed
    clock.now += 1000
    assert drain(queue) == []
    assert (len(queue), queue.working) == (0, 0)


# --- Turns between namespaces in the queue, and who works for no tenant ---------------------------


def group(key: str) -> str | None:
    """Keys are ``tenant-number``; those of ``own`` are nobody's."""
    tenant = key.partition("-")[0]
    return None if tenant == "own" else tenant


@pytest.fixture
def shared() -> WorkQueue[str]:
    return WorkQueue(group=group, each=2, together=4, jitter=lambda: 1.0)


def add(
    shared: WorkQueue[str], tenant: str, count: int, priority: Priority = Priority.NORMAL
) -> None:
    for number in range(count):
        shared.add(f"{tenant}-{number}", priority)


def work(shared: WorkQueue[str], count: int) -> list[str]:
    """Whose the next keys are, each done before the next."""
    found = []
    for _ in range(count):
        key = shared.poll()
        assert key is not None
        found.append(key.partition("-")[0])
        shared.done(key)
    return found


def test_a_tenant_with_a_thousand_keys_delays_another_by_one(shared: WorkQueue[str]) -> None:
    add(shared, "many", 1000)
    add(shared, "few", 3)
    assert work(shared, 8) == ["many", "few", "many", "few", "many", "few", "many", "many"]


def test_all_tenants_together_leave_workers_to_the_operators_own_keys(
    shared: WorkQueue[str],
) -> None:
    for tenant in "abcd":
        add(shared, tenant, 5)
    assert [shared.poll() is not None for _ in range(5)] == [True] * 4 + [False]
    shared.add("own-1")
    assert shared.poll() == "own-1"


def test_the_operators_own_keys_pass_a_line_of_tenants_urgent_ones(shared: WorkQueue[str]) -> None:
    add(shared, "many", 1000, Priority.URGENT)
    add(shared, "own", 8, Priority.NORMAL)
    assert work(shared, 10).count("own") == 8
    add(shared, "own", 1000, Priority.URGENT)
    assert work(shared, 10).count("many") == 2  # nor does anybody starve


async def test_a_worker_that_found_only_blocked_keys_is_woken_when_one_may_go_on(
    shared: WorkQueue[str],
) -> None:
    add(shared, "many", 3)
    held = [await shared.get(), await shared.get()]
    waiting = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    shared.done(held[0])
    assert await asyncio.wait_for(waiting, 60) == "many-2"


def test_the_age_of_the_queue_is_not_that_of_a_tenant_who_has_had_its_share() -> None:
    now = 0.0
    queue: WorkQueue[str] = WorkQueue(group=group, each=1, clock=lambda: now)
    add(queue, "many", 2)
    assert queue.poll() == "many-0"
    now = 100.0
    assert queue.oldest_age() == 0
    queue.done("many-0")
    assert queue.oldest_age() == 100


def test_a_write_for_no_tenant_passes_the_tenants_that_wait() -> None:
    async def main(loop: SimulatedLoop) -> tuple[int, int]:
        limit = AdaptiveLimit(start=2, least=2, most=2, clock=loop.time)
        done: list[str] = []

        async def write(name: str, tenant: str | None) -> None:
            with working_for(tenant):
                async with limit.slot():
                    await asyncio.sleep(1)
            done.append(name)

        tenants = [asyncio.create_task(write("tenant", f"t{n}")) for n in range(46)]
        await asyncio.sleep(0)
        own = [asyncio.create_task(write("own", None)) for _ in range(8)]
        await asyncio.gather(*own)
        before = done.count("tenant")
        await asyncio.gather(*tenants)
        return before, len(done)

    before, all_of_them = simulate(main)
    assert before <= 6  # without turns it would be 46
    assert all_of_them == 54


# --- Due dates on a clock that the test moves -----------------------------------------------------


@pytest.fixture
def at_zero() -> Clock:
    return Clock(0.0)


@pytest.fixture
def fired() -> list[str]:
    return []


@pytest.fixture
def scheduler(at_zero: Clock, fired: list[str]) -> DueScheduler[str]:
    return DueScheduler(fired.append, clock=at_zero)


@pytest.mark.parametrize(("first", "second"), [(10, 20), (20, 10)])
def test_a_key_has_one_date_the_last_that_was_set(
    scheduler: DueScheduler[str], at_zero: Clock, fired: list[str], first: float, second: float
) -> None:
    scheduler.set("a", first)
    scheduler.set("a", second)
    assert scheduler.next_due() == second
    at_zero.now = second - 1
    assert scheduler.fire_due() == 0
    at_zero.now = 100
    scheduler.fire_due()
    assert fired == ["a"]


def test_a_callback_that_fails_does_not_stop_the_others(at_zero: Clock) -> None:
    fired: list[str] = []

    def callback(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        fired.append(key)

    scheduler = DueScheduler(callback, clock=at_zero)
    scheduler.set("bad", 1)
    scheduler.set("good", 2)
    at_zero.now = 3
    assert scheduler.fire_due() == 2
    assert fired == ["good"]


def test_a_key_that_is_moved_for_ever_takes_no_more_room(scheduler: DueScheduler[str]) -> None:
    for number in range(10_000):
        scheduler.set("a", 1_000_000 - number)
    assert len(scheduler._heap) < 100
    assert scheduler.next_due() == 1_000_000 - 9_999


def test_dates_close_together_are_met_together_and_a_past_one_at_once() -> None:
    async def run(loop: SimulatedLoop) -> list[tuple[str, float]]:
        fired: list[tuple[str, float]] = []
        scheduler: DueScheduler[str] = DueScheduler(
            lambda key: fired.append((key, round(loop.now, 6))), clock=loop.time
        )
        running = asyncio.ensure_future(scheduler.run())
        for key, due in (("a", 10.01), ("b", 10.1), ("c", 10.2), ("d", 10.26)):
            scheduler.set(key, due)
        await asyncio.sleep(3.1)
        scheduler.set("hurry", 2)
        await asyncio.sleep(10)
        running.cancel()
        return fired

    assert simulate(run) == [
        ("hurry", 3.1),
        *((key, 10 + GRAIN) for key in "abc"),
        ("d", 10 + 2 * GRAIN),
    ]


@pytest.mark.parametrize(
    ("step", "at"), [(3600.0, 100.0), (450.0, 550.0), (SLEW, 1000.0), (-90.0, 1000.0)]
)
def test_a_wall_clock_that_is_set_forward_brings_dates_forward(step: float, at: float) -> None:
    async def run(loop: SimulatedLoop) -> list[float]:
        fired: list[float] = []
        ahead = 0.0
        scheduler: DueScheduler[str] = DueScheduler(
            lambda _: fired.append(loop.now), clock=loop.time, wall=lambda: 5e8 + loop.now + ahead
        )
        running = asyncio.ensure_future(scheduler.run())
        scheduler.set("a", 1000.0)
        await asyncio.sleep(100)
        ahead = step
        await asyncio.sleep(2000)
        running.cancel()
        return fired

    (fired,) = simulate(run)
    assert at <= fired <= at + COMPARE_SECONDS


def test_keys_are_called_back_in_the_order_of_their_dates(
    scheduler: DueScheduler[str], at_zero: Clock, fired: list[str]
) -> None:
    for key, due in (("late", 30), ("early", 10), ("middle", 20)):
        scheduler.set(key, due)
    assert scheduler.next_due() == 10
    at_zero.now = 25
    assert scheduler.fire_due() == 2
    assert fired == ["early", "middle"]
    assert len(scheduler) == 1
    assert scheduler.due("late") == 30


def test_a_removed_key_is_not_called_back(
    scheduler: DueScheduler[str], at_zero: Clock, fired: list[str]
) -> None:
    scheduler.set("a", 1)
    scheduler.remove("a")
    scheduler.remove("never there")
    at_zero.now = 2
    assert scheduler.fire_due() == 0
    assert scheduler.next_due() is None


def test_a_key_that_becomes_due_while_in_work_waits_for_done(
    queue: WorkQueue[str], clock: Clock
) -> None:
    queue.add("a")
    assert queue.poll() == "a"
    queue.add_after("a", 1, Priority.URGENT)
    clock.now += 2
    assert queue.poll() is None
    queue.add("b")
    queue.done("a")
    assert drain(queue) == ["a", "b"]
