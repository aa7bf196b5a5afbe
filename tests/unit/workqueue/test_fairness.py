"""Places are bounded in number, also those of one key, and go round between keys."""

from __future__ import annotations

import asyncio

import pytest

from copyrator.workqueue.fairness import FairLimit


class Visits:
    """Takes places and notes whose are under way, and in which order they began."""

    def __init__(self, limit: FairLimit) -> None:
        self.limit = limit
        self.open: list[str] = []
        self.begun: list[str] = []
        self.most = 0

    async def visit(self, key: str) -> None:
        async with self.limit.slot(key):
            self.open.append(key)
            self.begun.append(key)
            self.most = max(self.most, len(self.open))
            assert self.open.count(key) <= 2
            for _ in range(3):
                await asyncio.sleep(0)
            self.open.remove(key)


async def test_there_are_never_more_turns_than_allowed_and_all_get_theirs() -> None:
    visits = Visits(FairLimit(each=2, together=3))

    await asyncio.gather(*(visits.visit(key) for key in "abcd" * 20))

    assert visits.most == 3
    assert len(visits.begun) == 80
    assert len(visits.limit) == 0


async def test_a_key_that_wants_many_turns_delays_another_by_one() -> None:
    visits = Visits(FairLimit(each=1, together=1))

    await asyncio.gather(*(visits.visit(key) for key in ["a"] * 100 + ["b"]))

    assert visits.begun.index("b") == 1


async def test_keys_take_turns_one_by_one_however_many_each_may_have() -> None:
    limit, served = FairLimit(each=3, together=2), []
    await limit.acquire("x")
    await limit.acquire("y")

    async def wait(key: str) -> None:
        await limit.acquire(key)
        served.append(key)

    waiting = [asyncio.create_task(wait(key)) for key in "aaabbb"]
    await asyncio.sleep(0)
    for held in "xyabab":
        limit.release(held)
        for _ in range(3):
            await asyncio.sleep(0)
    assert served == list("ababab")
    await asyncio.gather(*waiting)


async def test_a_key_with_all_its_turns_lets_others_pass() -> None:
    limit = FairLimit(each=1, together=2)
    async with limit.slot("a"):
        waiting = asyncio.create_task(Visits(limit).visit("a"))
        await asyncio.sleep(0)
        async with asyncio.timeout(60), limit.slot("b"):
            assert not waiting.done()
    await waiting


async def test_who_gives_up_while_waiting_or_just_as_its_turn_comes_leaves_nothing() -> None:
    limit = FairLimit(each=1, together=1)
    async with limit.slot("a"):
        waiting = [asyncio.create_task(Visits(limit).visit(key)) for key in "bc"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # it has its turn, and hasn't run since
    for task in waiting:
        with pytest.raises(asyncio.CancelledError):
            await task

    async with asyncio.timeout(60), limit.slot("d"):
        pass
    assert len(limit) == 0
