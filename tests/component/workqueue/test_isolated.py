"""A child process does what would hold the loop, and its end is nobody else's."""

from __future__ import annotations

import asyncio
import os
import pickle
import select
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.component.bundles.waiting import eventually

from copyrator.workqueue.isolated import (
    InterruptedWorkError,
    Isolated,
    IsolatedError,
    IsolatedPool,
)


@pytest.fixture
async def isolated() -> AsyncIterator[Isolated]:
    child = Isolated(cpu_seconds=1, memory=256 * 2**20)
    yield child
    await child.close()


def product(a: int, b: int) -> int:
    return a * b


def process_id() -> int:
    return os.getpid()


def compute_for_ever() -> None:
    while True:
        pass


def allocate(size: int) -> int:
    return len(bytes(size))


def fail(secret: str) -> None:
    raise ValueError(secret)


def say(text: str) -> str:
    print(text, flush=True)  # noqa: T201 - what must not get between the answers
    return text


def wait_for(path: str) -> int:
    while not os.path.exists(path):  # noqa: PTH110 - in the child
        time.sleep(0.01)
    return os.getpid()


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def environment() -> dict[str, str]:
    return dict(os.environ)


async def test_one_child_does_one_piece_of_work_after_the_other(isolated: Isolated) -> None:
    asked = (isolated.call(process_id, group) for group in "abab")
    found = await asyncio.gather(*asked)
    assert len(set(found)) == 1
    assert found[0] != os.getpid()


async def test_too_much_processor_time_ends_this_work_and_no_other(isolated: Isolated) -> None:
    with pytest.raises(IsolatedError, match="processor time") as told:
        await isolated.call(compute_for_ever, "a")
    assert not isinstance(told.value, InterruptedWorkError)
    assert await isolated.call(product, "a", 2, 3) == 6


async def test_what_waits_too_long_is_ended_and_says_so() -> None:
    child = Isolated(wall_seconds=1)
    try:
        with pytest.raises(InterruptedWorkError, match="isn't done after 1 s"):
            await child.call(time.sleep, "a", 60)
    finally:
        await child.close()


async def test_too_much_memory_is_refused_and_the_child_goes_on(isolated: Isolated) -> None:
    before = await isolated.call(process_id, "a")
    with pytest.raises(IsolatedError, match="memory"):
        await isolated.call(allocate, "a", 2**30)
    assert await isolated.call(process_id, "a") == before


async def test_an_exception_is_told_by_its_type_and_quotes_nothing(isolated: Isolated) -> None:
    with pytest.raises(IsolatedError, match="ValueError") as told:
        await isolated.call(fail, "a", "pa55word")
    assert "pa55word" not in str(told.value)


async def test_a_child_that_is_killed_says_so_and_is_replaced(isolated: Isolated) -> None:
    with pytest.raises(InterruptedWorkError, match="its process was killed"):
        await isolated.call(kill, "a")
    assert await isolated.call(product, "a", 2, 2) == 4


async def test_a_child_whose_parent_is_gone_ends_without_a_word() -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from copyrator.workqueue.isolated import serve; serve()"),
        *("1", str(256 * 2**20)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout._transport.close()  # type: ignore[attr-defined] # as the parent's end does
    question = pickle.dumps((product, (1, 1), {}))
    child.stdin.write(len(question).to_bytes(8) + question)
    child.stdin.close()
    assert await child.stderr.read() == b""
    assert await child.wait() == 0


async def test_what_is_printed_is_no_answer(isolated: Isolated) -> None:
    assert await isolated.call(say, "a", "x" * 1000) == "x" * 1000
    assert await isolated.call(product, "a", 1, 1) == 1


async def test_a_caller_that_gives_up_leaves_no_answer_to_the_next(isolated: Isolated) -> None:
    given_up = asyncio.create_task(isolated.call(compute_for_ever, "a"))
    while isolated._child is None:
        await asyncio.sleep(0.01)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    assert await isolated.call(product, "a", 5, 5) == 25


async def test_a_long_answer_that_is_given_up_is_no_obstacle(isolated: Isolated) -> None:
    given_up = asyncio.create_task(isolated.call(bytes, "a", 50_000_000))
    while (child := isolated._child) is None or len(child.stdout._buffer) < 300_000:  # type: ignore[union-attr]
        await asyncio.sleep(0)
    pipe = child._transport.get_pipe_transport(1).get_extra_info("pipe")  # type: ignore[attr-defined]
    select.select([pipe], [], [])  # what is in it now nobody reads
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(given_up, 60)
    assert await isolated.call(product, "a", 5, 5) == 25


async def test_the_operators_environment_is_not_the_childs(
    isolated: Isolated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pa55word@proxy")
    assert "HTTPS_PROXY" not in await isolated.call(environment, "a")


async def test_a_group_with_much_work_lets_another_one_between(isolated: Isolated) -> None:
    order: list[str] = []

    async def work(group: str) -> None:
        await isolated.call(product, group, 1, 1)
        order.append(group)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(10):
            tasks.create_task(work("many"))
        tasks.create_task(work("few"))
    assert order.index("few") <= 2


async def test_work_that_takes_long_holds_up_no_other_and_children_are_bounded(
    tmp_path: Path,
) -> None:
    pool = IsolatedPool(Isolated, 2, 2, patience=0.1, long=60.0)
    ends = [tmp_path / "a", tmp_path / "b"]
    try:
        long = [asyncio.create_task(pool.call(wait_for, "a", str(ends[0])))]
        await eventually(lambda: pool.children[1]._child is not None)
        first = await pool.call(process_id, "b")
        assert await pool.call(process_id, "b") == first, "the one that is running"
        long.append(asyncio.create_task(pool.call(wait_for, "c", str(ends[1]))))
        await eventually(lambda: not pool._free)
        waits = asyncio.create_task(pool.call(process_id, "b"))
        await asyncio.sleep(0.3)
        assert not waits.done(), "no third one is started"
        ends[0].touch()
        assert await waits == await long[0]
        ends[1].touch()
        assert await long[1] == first
    finally:
        await pool.close()


async def test_work_that_takes_long_at_once_in_all_children_gives_way_to_others(
    tmp_path: Path,
) -> None:
    """Nothing of it is cut off; the number of children is bounded."""
    pool = IsolatedPool(Isolated, 1, 4, patience=0.1, long=0.3)
    end = tmp_path / "end"
    try:
        long = [
            asyncio.create_task(pool.call(wait_for, f"long {number}", str(end)))
            for number in range(3)
        ]
        await eventually(lambda: len(pool._free) == 1)
        last = await pool.call(process_id, "quick")
        assert await pool.call(process_id, "quick") == last
        assert not any(work.done() for work in long)
        long.append(asyncio.create_task(pool.call(wait_for, "long 3", str(end))))
        await eventually(lambda: not pool._free)
        waits = asyncio.create_task(pool.call(process_id, "quick"))
        await eventually(lambda: pool._changed._waiters)
        assert not waits.done(), "no fifth one is started"
        end.touch()
        children = set(await asyncio.gather(*long))
        assert len(children) == 4
        assert await waits in children
    finally:
        await pool.close()


async def test_work_that_is_given_up_ends_its_child_and_frees_its_place(tmp_path: Path) -> None:
    pool = IsolatedPool(Isolated, 1, 1, patience=0.1, long=60.0)
    try:
        work = asyncio.create_task(pool.call(wait_for, "a", str(tmp_path / "never")))
        await eventually(lambda: pool.children[0]._child is not None)
        process = pool.children[0]._child
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert process.returncode is not None
        assert await pool.call(process_id, "b") != process.pid
    finally:
        await pool.close()
