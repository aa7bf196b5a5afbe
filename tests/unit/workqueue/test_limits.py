"""The write limit against simulated servers: it finds what they can take, and respects a no."""

import asyncio
import random
from statistics import median

import pytest
from tests.long import LONG
from tests.unit.workqueue.simulation import Server, SimulatedLoop, simulate, write_all

from copyrator.workqueue.limits import MOST, START, AdaptiveLimit


def adaptive(loop: SimulatedLoop) -> AdaptiveLimit:
    return AdaptiveLimit(clock=loop.time)


def fixed(loop: SimulatedLoop, number: int) -> AdaptiveLimit:
    return AdaptiveLimit(start=number, least=number, most=number, clock=loop.time)


@pytest.mark.parametrize(
    ("seats", "queue"), [(8, 8), (16, 0), (24, 8)], ids=["small", "strict", "middling"]
)
def test_it_beats_a_fixed_four_and_a_fixed_sixty_four_where_429_is_answered(
    seats: int, queue: int
) -> None:
    async def compare(loop: SimulatedLoop) -> dict[str, float]:
        times = {}
        for name, limit in (
            ("4", fixed(loop, 4)),
            ("64", fixed(loop, 64)),
            ("adaptive", adaptive(loop)),
        ):
            server = Server(loop, seats=seats, queue=queue, seconds=0.05)
            times[name] = await write_all(server, limit, 5_000 if LONG else 2_000)
        return times

    times = simulate(compare)
    assert times["adaptive"] < times["4"]
    assert times["adaptive"] < times["64"]


def test_it_grows_to_the_most_where_the_server_stays_quick() -> None:
    async def run(loop: SimulatedLoop) -> tuple[int, float]:
        limit = adaptive(loop)
        await write_all(Server(loop, seats=500, queue=0, seconds=0.2), limit, 12_000)
        return limit.limit, loop.now

    limit, seconds = simulate(run)
    assert limit == MOST
    assert seconds > MOST - START  # one more a second, no faster


@pytest.mark.parametrize("room", [6, 16, 34])
def test_it_settles_at_what_a_strict_server_takes_and_few_writes_are_refused(room: int) -> None:
    async def run(loop: SimulatedLoop) -> tuple[list[int], int, int]:
        limit, limits = adaptive(loop), list[int]()
        server = Server(loop, seats=room, queue=0, seconds=0.045)
        await write_all(server, limit, 100 * room)
        at_first = server.refused

        async def look() -> None:
            while True:
                await asyncio.sleep(0.1)
                limits.append(limit.limit)

        looks = asyncio.ensure_future(look())
        await write_all(server, limit, 400 * room)
        looks.cancel()
        return limits, at_first, server.refused - at_first

    limits, at_first, later = simulate(run)
    assert room // 2 <= min(limits)
    assert room <= max(limits) <= room + 1
    assert room * 0.6 <= median(limits)
    assert at_first <= 10, "it is halved until it fits"
    assert later <= 400 * room / 100


def test_it_settles_where_more_would_only_make_answers_slow() -> None:
    async def run(loop: SimulatedLoop) -> tuple[float, int]:
        limit = adaptive(loop)
        server = Server(loop, seats=16, queue=1000, seconds=0.05)
        limits = []

        async def look() -> None:
            while True:
                await asyncio.sleep(1)
                limits.append(limit.limit)

        looks = asyncio.ensure_future(look())
        await write_all(server, limit, 20_000 if LONG else 8_000)
        looks.cancel()
        return median(limits), server.most_inside

    limit, most = simulate(run)
    assert 12 <= limit <= 36
    assert most <= 40


def test_a_server_that_becomes_slow_halves_it_and_is_forgiven_in_the_end() -> None:
    async def run(loop: SimulatedLoop) -> tuple[int, int, int]:
        limit = adaptive(loop)
        server = Server(loop, seats=500, queue=0, seconds=0.03)
        await write_all(server, limit, 4_000)
        before = limit.limit
        server.seconds = 0.3
        await write_all(server, limit, 400)
        during = limit.limit
        await write_all(server, limit, 8_000)
        return before, during, limit.limit

    before, during, after = simulate(run)
    assert during < before / 2
    assert after > during


@pytest.mark.parametrize("seed", range(3 if LONG else 1))
def test_a_server_that_others_make_slow_now_and_then_is_not_left_alone_for_it(seed: int) -> None:
    """Writing less makes nothing faster there."""

    async def run(loop: SimulatedLoop, limit: AdaptiveLimit) -> float:
        server, chance = Server(loop, seats=500, queue=0, seconds=0.05), random.Random(seed)

        async def weather() -> None:
            while True:
                server.seconds = chance.choice([0.03, 0.1, 0.3])
                await asyncio.sleep(chance.uniform(1, 4))

        others = asyncio.ensure_future(weather())
        try:
            return await write_all(server, limit, 8_000 if LONG else 3_000)
        finally:
            others.cancel()

    of_four = simulate(lambda loop: run(loop, fixed(loop, 4)))
    assert 2 * simulate(lambda loop: run(loop, adaptive(loop))) < of_four


def test_it_does_not_grow_while_it_holds_nobody_back() -> None:
    async def run(loop: SimulatedLoop) -> int:
        limit = adaptive(loop)
        await write_all(Server(loop, seats=64, queue=0, seconds=0.05), limit, 1_000, clients=4)
        return limit.limit

    assert simulate(run) == START


def test_a_crowd_of_429s_halves_it_once() -> None:
    async def run(loop: SimulatedLoop) -> int:
        limit = adaptive(loop)
        for _ in range(START):
            limit.throttled()
        return limit.limit

    assert simulate(run) == START // 2


def test_it_never_falls_below_two() -> None:
    async def run(loop: SimulatedLoop) -> int:
        limit = adaptive(loop)
        for _ in range(50):
            limit.throttled()
            await asyncio.sleep(2)
        return limit.limit

    assert simulate(run) == 2


def test_retry_after_stops_everybody_those_in_the_line_too() -> None:
    async def run(loop: SimulatedLoop) -> list[float]:
        limit = fixed(loop, 2)
        times: list[float] = []

        async def client() -> None:
            async with limit.slot():
                times.append(loop.now)
                await asyncio.sleep(0.1)
                if len(times) == 2:
                    limit.throttled(5)

        await asyncio.gather(*(client() for _ in range(6)))
        return times

    times = simulate(run)
    assert times[:2] == [0, 0]
    assert all(time >= 5.1 for time in times[2:])
    assert max(times) < 6


def test_an_endless_retry_after_is_believed_for_a_minute() -> None:
    async def run(loop: SimulatedLoop) -> float:
        limit = adaptive(loop)
        limit.throttled(86_400)
        await limit.pause()
        return loop.now

    assert 60 <= simulate(run) < 61


def test_the_line_is_served_in_order_and_never_over_the_limit() -> None:
    async def run(loop: SimulatedLoop) -> tuple[list[int], int]:
        limit = fixed(loop, 3)
        order: list[int] = []
        most = 0

        async def client(number: int) -> None:
            nonlocal most
            async with limit.slot():
                order.append(number)
                most = max(most, limit.in_flight)
                await asyncio.sleep(0.01)

        await asyncio.gather(*(client(number) for number in range(20)))
        return order, most

    order, most = simulate(run)
    assert order == list(range(20))
    assert most == 3


def test_a_place_that_is_left_to_one_being_cancelled_goes_to_the_next() -> None:
    async def run(loop: SimulatedLoop) -> tuple[list[bool], int, int]:
        limit = fixed(loop, 1)
        since = await limit.acquire()
        tasks = [asyncio.create_task(limit.acquire()) for _ in range(3)]
        await asyncio.sleep(0.5)
        for task in tasks[:2]:
            task.cancel()
        limit.release(since)  # before either has noticed
        limit.release(await tasks[2])
        await asyncio.wait(tasks)
        return [task.cancelled() for task in tasks], limit.in_flight, limit.waiting

    assert simulate(run) == ([True, True, False], 0, 0)


def test_who_is_cancelled_in_the_line_or_inside_leaves_no_place_taken() -> None:
    async def run(loop: SimulatedLoop) -> tuple[int, int]:
        limit = fixed(loop, 1)

        async def client() -> None:
            async with limit.slot():
                await asyncio.sleep(1)

        tasks = [asyncio.create_task(client()) for _ in range(5)]
        await asyncio.sleep(0.5)
        for task in tasks[:3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return limit.in_flight, limit.waiting

    assert simulate(run) == (0, 0)
