"""The meter of the event loop's stalls, on real loops: what it counts, names and leaves alone."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import AsyncIterator

import pytest
from tests.e2e import stalls as e2e_stalls

from copyrator.runtime import logs, watchdog
from copyrator.runtime.watchdog import StallMeter

SECRET = "hunter2"


def burn(seconds: float, *_anything: object) -> None:
    """Use processor time of this thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@pytest.fixture
async def seen() -> AsyncIterator[list[float]]:
    """The stalls that a meter sees during the test."""
    found: list[float] = []
    meter = StallMeter(found.append, in_work=logs.in_work)
    meter.install()
    await asyncio.sleep(0)
    assert meter.on
    yield found
    meter.uninstall()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture):
    """The meter's lines in the log."""

    def lines() -> list[str]:
        return [
            one.getMessage() for one in caplog.records if one.name == "copyrator.runtime.watchdog"
        ]

    return lines


async def in_a_task(work, *arguments: object, name: str = "worker 7") -> None:
    async def run() -> None:
        await asyncio.sleep(0)
        work(*arguments)
        await asyncio.sleep(0)

    await asyncio.create_task(run(), name=name)


async def test_a_tasks_step_that_holds_the_loop_is_counted_and_short_ones_are_not(seen):
    began = time.thread_time()
    await in_a_task(burn, 0.05)
    spent = time.thread_time() - began
    for _ in range(100):
        await in_a_task(burn, 0.0)
    assert len(seen) == 1
    assert 0.05 <= seen[0] < spent + 0.01


async def test_one_that_holds_it_too_long_is_named_with_its_task_and_key(seen, told):
    async def run() -> None:
        with logs.bound(rule="team-a/main", reconcile="1f"):
            burn(watchdog.LOGGED_SECONDS + 0.02)

    await asyncio.create_task(run(), name="worker 7")
    (line,) = told()
    assert "blocked for 0.2" in line
    assert "task 'worker 7'" in line
    assert run.__qualname__ in line
    assert "rule=team-a/main reconcile=1f" in line, "though the step has ended that reconcile"


async def test_a_named_callback_tells_none_of_its_arguments(seen, told):
    loop = asyncio.get_running_loop()
    work = functools.partial(burn, watchdog.LOGGED_SECONDS + 0.02, SECRET)
    loop.call_soon(work, SECRET)
    await asyncio.sleep(0)
    (line,) = told()
    assert f"{burn.__module__}.burn" in line
    assert SECRET not in line


async def test_the_tests_with_real_operators_find_that_line_in_a_log_once(seen, told, tmp_path):
    await in_a_task(burn, watchdog.LOGGED_SECONDS + 0.02, name="worker 7")
    log = tmp_path / "operator.log"
    e2e_stalls.follow(log)
    assert e2e_stalls.new_ones() == [], "it isn't there yet"
    log.write_text(f"Started\n{told()[0]}\n")
    (found,) = e2e_stalls.new_ones()
    assert "worker 7" in found
    assert e2e_stalls.new_ones() == []
    e2e_stalls.forget()


async def test_not_every_one_is_logged_where_there_are_many(told):
    seen: list[float] = []
    now = 1000.0
    meter = StallMeter(seen.append, logged=0.02, clock=lambda: now)
    meter.install()
    await asyncio.sleep(0)
    for _ in range(watchdog.LINES + 3):
        await in_a_task(burn, 0.03)
    assert len(told()) == watchdog.LINES
    assert len(seen) == watchdog.LINES + 3
    now += watchdog.WINDOW_SECONDS + 1
    await in_a_task(burn, 0.03)
    meter.uninstall()
    assert "(3 more stalls not logged)" in told()[-1]


async def test_a_fault_of_the_meter_ends_the_measuring_and_nothing_else(caplog):
    def broken(_seconds: float) -> None:
        raise RuntimeError

    before = asyncio.Handle._run
    meter = StallMeter(broken)
    meter.install()
    await in_a_task(burn, 0.03)
    assert not meter.on
    assert asyncio.Handle._run is before
    assert "aren't measured any more" in caplog.text


async def test_on_a_python_that_runs_callbacks_otherwise_it_stays_off(monkeypatch, told):
    class Unused(asyncio.Handle):
        """The class that a loop would no longer use."""

        __slots__ = ()

    with monkeypatch.context() as patched:
        patched.setattr(watchdog.asyncio, "Handle", Unused)
        patched.setattr(Unused, "__slots__", asyncio.events.Handle.__slots__)
        meter = StallMeter(lambda _seconds: None)
        meter.install()
        await asyncio.sleep(0)
        assert not meter.on
    assert len(told()) == 1


def test_this_python_is_one_that_can_be_measured():
    """Red where a new Python changed asyncio's names: then StallMeter needs another way in."""

    async def measured() -> bool:
        meter = StallMeter(lambda _seconds: None)
        meter.install()
        await asyncio.sleep(0)
        try:
            return meter.on
        finally:
            meter.uninstall()

    assert asyncio.run(measured())


@pytest.mark.parametrize("missing", ["_run", "__slots__"])
async def test_on_a_python_whose_handles_look_different_it_stays_off(monkeypatch, told, missing):
    class Handle:
        """What another Python's may be."""

    class Run:
        """Has a way to run and no attributes that we know."""

        __slots__ = ("_other",)

        def _run(self) -> None: ...

    other = Handle if missing == "_run" else Run
    with monkeypatch.context() as patched:
        patched.setattr(watchdog.asyncio, "Handle", other)
        meter = StallMeter(lambda _seconds: None)
        meter.install()
    assert not meter.on
    assert len(told()) == 1


async def test_nothing_is_left_when_it_is_taken_off():
    before = asyncio.Handle._run
    meter = StallMeter(lambda _seconds: None)
    meter.install()
    assert asyncio.Handle._run is not before
    meter.uninstall()
    meter.uninstall()
    assert asyncio.Handle._run is before


async def test_time_that_passes_without_work_is_no_stall(seen):
    await in_a_task(time.sleep, 0.05)
    await asyncio.sleep(0.05)
    assert seen == []
