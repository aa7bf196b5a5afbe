"""Work side by side ends as if it had been done in order."""

import asyncio

import pytest

from copyrator.cli.core.cluster import ahead, all_of


async def fail(word, seconds):
    await asyncio.sleep(seconds)
    raise OSError(word)


@pytest.fixture
def hanging():
    """Work that never ends, and whether it was cancelled."""
    cancelled = []

    async def work():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    return work, cancelled


async def test_of_several_errors_the_first_in_order_is_raised_and_the_rest_is_cancelled(hanging):
    work, cancelled = hanging
    with pytest.raises(OSError, match="first"):
        await all_of([fail("first", 0.01), fail("second", 0.0), work()])
    assert cancelled == [True]


async def test_results_are_in_the_order_of_the_work():
    assert await all_of(asyncio.sleep(0.02 - one / 100, one) for one in range(3)) == [0, 1, 2]


async def test_an_error_before_a_result_is_awaited_wins_and_cancels_it(hanging):
    work, cancelled = hanging
    with pytest.raises(OSError, match="first"):
        async with ahead(work()), ahead(fail("second", 0.0)):
            await fail("first", 0.01)
    assert cancelled == [True]


async def test_an_error_is_raised_where_the_result_is_awaited():
    async with ahead(fail("late", 0.0)) as task:
        await asyncio.sleep(0.01)
        with pytest.raises(OSError, match="late"):
            await task
