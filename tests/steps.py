"""How long steps take: processor time of this thread, without what the test process adds to it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


class Steps:
    """What was seen while the loop ran.

    Attributes:
        longest: seconds of processor time of the longest step.
        where: what ran in it.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self.where = ""

    def saw(self, seconds: float, handle: Any) -> None:
        """Take one step's time."""
        if seconds > self.longest:
            self.longest, self.where = seconds, repr(handle)


@contextmanager
def measured_steps() -> Iterator[Steps]:
    """Measure every step of every event loop of this thread."""
    steps = Steps()
    run = asyncio.Handle._run

    def measured(handle: asyncio.Handle) -> None:
        begun = time.thread_time()
        run(handle)
        steps.saw(time.thread_time() - begun, handle)

    with patch.object(asyncio.Handle, "_run", measured), _own_garbage():
        yield steps


def least_cpu_seconds(work: Callable[[], object], times: int = 3) -> float:
    """The processor time that `work` takes; the least of some, since a busy machine adds to it."""
    spent = []
    with _own_garbage():
        for _ in range(times):
            begun = time.thread_time()
            work()
            spent.append(time.thread_time() - begun)
    return min(spent)


@contextmanager
def _own_garbage() -> Iterator[None]:
    """Let the garbage collector walk over new objects only.

    The test process has many more objects than an operator, and a full collection may begin in any
    step.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
