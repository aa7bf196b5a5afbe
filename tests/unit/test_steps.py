"""Processor time in tests' limits is scaled by what the reference takes at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests import steps
from tests.steps import REFERENCE_SECONDS, assert_quick, least_cpu_seconds, measured_steps


class Machine:
    """A clock that only work moves on; `slow` says how many times as long all takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slow = 1.0

    def works(self, seconds: float, *slow_after: float) -> Callable[[], None]:
        """Work of so many seconds; the machine's speed changes after each."""
        changes = iter(slow_after)

        def work() -> None:
            self.now += seconds * self.slow
            self.slow = next(changes, self.slow)

        return work


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr("time.thread_time", lambda: found.now)
    monkeypatch.setattr(steps, "_reference", found.works(REFERENCE_SECONDS))
    return found


@pytest.mark.parametrize(("slow", "taken"), [(0.5, 0.04), (1.0, 0.08), (2.0, 0.08), (9.0, 0.08)])
def test_a_slow_machine_is_allowed_more_and_a_fast_one_no_less(
    machine: Machine, slow: float, taken: float
) -> None:
    machine.slow = slow
    assert least_cpu_seconds(machine.works(0.08)) == pytest.approx(taken)


def test_what_the_work_takes_itself_is_seen_on_any_machine(machine: Machine) -> None:
    machine.slow = 3.0
    assert least_cpu_seconds(machine.works(0.8)) == pytest.approx(0.8)


def test_what_is_quick_once_is_done_no_more(machine: Machine) -> None:
    machine.slow = 3.0
    assert_quick(machine.works(0.04, 9.0), 0.13)  # not scaled
    assert machine.now == pytest.approx(0.12)
    machine.slow = 3.0
    assert_quick(machine.works(0.08, 3.0, 9.0), 0.1)  # scaled
    assert machine.now == pytest.approx(0.12 + 0.24 + 3 * REFERENCE_SECONDS)


@pytest.mark.parametrize("slow", [1.0, 3.0])
def test_what_is_never_quick_fails(machine: Machine, slow: float) -> None:
    machine.slow = slow
    with pytest.raises(AssertionError, match=r"0\.200 s of processor time; the limit is 0\.1 s"):
        assert_quick(machine.works(0.2), 0.1)


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [(1.0, 1.0, 0.08), (2.0, 2.0, 0.08), (2.0, 1.0, 0.08), (0.5, 0.5, 0.04)],
)
async def test_so_is_the_longest_step_of_a_loop(
    machine: Machine, before: float, after: float, taken: float
) -> None:
    machine.slow = before
    with measured_steps() as found:
        asyncio.get_running_loop().call_soon(machine.works(0.02, before))
        asyncio.get_running_loop().call_soon(machine.works(0.08, after))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert found.longest == pytest.approx(taken)
    assert "Machine" in found.where


async def test_work_that_never_yields_is_a_step_and_so_is_what_comes_after_the_last_one(
    machine: Machine,
) -> None:
    with measured_steps() as found:
        machine.works(0.08)()
    assert found.longest == pytest.approx(0.08)
    with measured_steps() as found:
        await asyncio.sleep(0)
        machine.works(0.06)()
    assert found.longest == pytest.approx(0.06)
    await asyncio.sleep(0)
    machine.works(0.5)()
    await asyncio.sleep(0)
    assert found.longest == pytest.approx(0.06), "what follows the block isn't measured"
