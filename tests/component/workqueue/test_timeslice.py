"""Long work lets others run when its slice of time is used up, and not before."""

from __future__ import annotations

import asyncio

from tests.clock import Clock

from copyrator.workqueue.fairness import TimeSlice


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
