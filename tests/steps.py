"""How long the steps of an event loop are: processor time of this thread in one callback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
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

    with patch.object(asyncio.Handle, "_run", measured):
        yield steps
