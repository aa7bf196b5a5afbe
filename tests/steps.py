"""How long steps take: processor time of this thread, scaled to a machine of a known speed.

A machine whose cores are shared or slow needs more processor time for the same work. So the same
reference work is measured beside the steps, and what these took is divided by how much longer the
reference took than it should: limits in tests are then ratios within one run. A faster machine
makes no limit stricter.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

STEP_SECONDS = 0.05
"""Seconds of processor time that one step of the event loop may take: leader election, probes and
all other objects are delayed that long."""

REFERENCE_SECONDS = 0.009
"""Processor time of the reference work on an idle core of an AMD EPYC with Python 3.11."""

_DOCUMENT = [
    {"metadata": {"name": f"app-{n}", "labels": {"app": "x", "n": str(n)}}, "values": [n, 1.5, ""]}
    for n in range(2_000)
]


def _reference() -> None:
    """Dictionaries, lists and texts, and more of them than a core's cache holds."""
    names: dict[str, list[str]] = {}
    for one in json.loads(json.dumps(_DOCUMENT)):
        metadata = one["metadata"]
        for key, value in metadata["labels"].items():
            names.setdefault(f"{key}={value}", []).append(metadata["name"])


def cpu_seconds(work: Callable[[], object]) -> float:
    """The processor time that this thread needs for `work`, not scaled."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def slowness() -> float:
    """How many times as slow as the reference's machine this one is at present; 1 if it is faster.

    Without the collection of garbage: that of others would be counted.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return max(1.0, cpu_seconds(_reference) / REFERENCE_SECONDS)
    finally:
        if collects:
            gc.enable()


class Steps:
    """What was seen while the loop ran.

    Attributes:
        longest: seconds of processor time of the longest step; scaled once the block has ended.
        where: what ran in it.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self.where = ""
        self._slowness = slowness()
        self._ended = False

    def saw(self, seconds: float, handle: Any) -> None:
        """Take one step's time, and the machine's speed just after one that may matter."""
        if not self._ended and seconds > self.longest:
            self.longest, self.where = seconds, repr(handle)
            if seconds > REFERENCE_SECONDS:
                self._look()

    def end(self) -> None:
        """Scale: the machine may have been slow in that step only, so its slowest moment counts."""
        self._look()
        self.longest /= self._slowness
        self._ended = True

    def _look(self) -> None:
        self._slowness = max(self._slowness, slowness())


@contextmanager
def measured_steps() -> Iterator[Steps]:
    """Measure every step of every event loop of this thread, and what of a step is in the block."""
    _leave_out_the_tests_garbage()
    steps = Steps()
    run, this_thread = asyncio.Handle._run, threading.get_ident()
    last = time.thread_time()

    def ends(where: Any) -> None:
        nonlocal last
        steps.saw(time.thread_time() - last, where)
        last = time.thread_time()

    def measured(handle: asyncio.Handle) -> None:
        if threading.get_ident() != this_thread:
            run(handle)
            return
        ends("the step in which the block begins")
        run(handle)
        ends(handle)

    with patch.object(asyncio.Handle, "_run", measured):
        yield steps
        ends("the step in which the block ends")
    steps.end()


def assert_quick(work: Callable[[], object], limit: float, times: int = 3) -> None:
    """Fail if `work` takes as long as the limit each time, scaled as in `least_cpu_seconds`."""
    least = least_cpu_seconds(work, times, enough=limit)
    assert least < limit, f"{least:.3f} s of processor time; the limit is {limit} s"


def least_cpu_seconds(work: Callable[[], object], times: int = 3, enough: float = 0.0) -> float:
    """The processor time that `work` takes, scaled; the least of some, since others may add to it.

    Each is divided by the greater slowness of those before and after it: the machine may have
    become slower or faster meanwhile. What takes less than the reference is not scaled: the limits
    below that are many times what is measured, and property tests measure often. Less than `enough`
    is returned at once: scaled it would only be less.
    """
    _leave_out_the_tests_garbage()
    least, before = float("inf"), 1.0
    for _ in range(times):
        seconds = cpu_seconds(work)
        if seconds < enough:
            return seconds
        if seconds > REFERENCE_SECONDS:
            after = slowness()
            seconds /= max(before, after)
            before = after
        least = min(least, seconds)
        if least < enough:
            break
    return least


def _leave_out_the_tests_garbage() -> None:
    """Let the garbage collector walk over new objects only.

    The test process has many more objects than an operator, and a full collection may begin in any
    step. They stay frozen: to unfreeze them would undo what tests/conftest.py freezes.
    """
    gc.freeze()
