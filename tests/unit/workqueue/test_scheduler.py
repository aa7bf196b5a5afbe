"""Due dates on a clock that the test moves."""

import asyncio

import pytest
from tests.clock import Clock
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.workqueue.queue import COMPARE_SECONDS, GRAIN, SLEW, DueScheduler


@pytest.fixture
def clock() -> Clock:
    return Clock(0.0)


@pytest.fixture
def fired() -> list[str]:
    return []


@pytest.fixture
def scheduler(clock: Clock, fired: list[str]) -> DueScheduler[str]:
    return DueScheduler(fired.append, clock=clock)


def test_keys_are_called_back_in_the_order_of_their_dates(
    scheduler: DueScheduler[str], clock: Clock, fired: list[str]
) -> None:
    for key, due in (("late", 30), ("early", 10), ("middle", 20)):
        scheduler.set(key, due)
    assert scheduler.next_due() == 10
    clock.now = 25
    assert scheduler.fire_due() == 2
    assert fired == ["early", "middle"]
    assert len(scheduler) == 1
    assert scheduler.due("late") == 30


@pytest.mark.parametrize(("first", "second"), [(10, 20), (20, 10)])
def test_a_key_has_one_date_the_last_that_was_set(
    scheduler: DueScheduler[str], clock: Clock, fired: list[str], first: float, second: float
) -> None:
    scheduler.set("a", first)
    scheduler.set("a", second)
    assert scheduler.next_due() == second
    clock.now = second - 1
    assert scheduler.fire_due() == 0
    clock.now = 100
    scheduler.fire_due()
    assert fired == ["a"]


def test_a_removed_key_is_not_called_back(
    scheduler: DueScheduler[str], clock: Clock, fired: list[str]
) -> None:
    scheduler.set("a", 1)
    scheduler.remove("a")
    scheduler.remove("never there")
    clock.now = 2
    assert scheduler.fire_due() == 0
    assert scheduler.next_due() is None


def test_a_key_can_be_set_again_by_its_own_callback(clock: Clock) -> None:
    times: list[float] = []

    def callback(key: str) -> None:
        times.append(clock.now)
        scheduler.set(key, clock.now + 10)

    scheduler = DueScheduler(callback, clock=clock)
    scheduler.set("a", 0)
    for clock.now in range(35):
        scheduler.fire_due()
    assert times == [0, 10, 20, 30]


def test_a_callback_that_fails_does_not_stop_the_others(clock: Clock) -> None:
    fired: list[str] = []

    def callback(key: str) -> None:
        if key == "bad":
            raise ValueError(key)
        fired.append(key)

    scheduler = DueScheduler(callback, clock=clock)
    scheduler.set("bad", 1)
    scheduler.set("good", 2)
    clock.now = 3
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
