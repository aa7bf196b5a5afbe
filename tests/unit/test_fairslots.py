"""Turns are bounded in number, also those of one key, and go round between keys."""

from __future__ import annotations

import asyncio

import pytest

from copyrator.fairslots import FairSlots


class Visits:
    """Takes turns and notes whose are under way, and in which order they began."""

    def __init__(self, slots: FairSlots) -> None:
        self.slots = slots
        self.open: list[str] = []
        self.begun: list[str] = []
        self.most = 0

    async def visit(self, key: str) -> None:
        async with self.slots.turn(key):
            self.open.append(key)
            self.begun.append(key)
            self.most = max(self.most, len(self.open))
            assert self.open.count(key) <= 2
            for _ in range(3):
                await asyncio.sleep(0)
            self.open.remove(key)


async def test_there_are_never_more_turns_than_allowed_and_all_get_theirs() -> None:
    visits = Visits(FairSlots(3, 2))

    await asyncio.gather(*(visits.visit(key) for key in "abcd" * 20))

    assert visits.most == 3
    assert len(visits.begun) == 80
    assert len(visits.slots) == 0


async def test_a_key_that_wants_many_turns_delays_another_by_one() -> None:
    visits = Visits(FairSlots(1, 1))

    await asyncio.gather(*(visits.visit(key) for key in ["a"] * 100 + ["b"]))

    assert visits.begun.index("b") == 2


async def test_a_key_with_all_its_turns_lets_others_pass() -> None:
    slots = FairSlots(2, 1)
    async with slots.turn("a"):
        waiting = asyncio.create_task(Visits(slots).visit("a"))
        await asyncio.sleep(0)
        async with asyncio.timeout(5), slots.turn("b"):
            assert not waiting.done()
    await waiting


async def test_who_gives_up_while_waiting_or_just_as_its_turn_comes_leaves_nothing() -> None:
    slots = FairSlots(1, 1)
    async with slots.turn("a"):
        waiting = [asyncio.create_task(Visits(slots).visit(key)) for key in "bc"]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # it has its turn, and hasn't run since
    for task in waiting:
        with pytest.raises(asyncio.CancelledError):
            await task

    async with asyncio.timeout(5), slots.turn("d"):
        pass
    assert len(slots) == 0
