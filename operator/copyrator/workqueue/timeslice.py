"""Long work on the event loop, done in slices so that other tasks don't wait for it.

Measured in processor time of this thread: on a busy machine other processes don't shorten a slice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from copyrator.settings.limits import SLICE_SECONDS


class TimeSlice:
    """Yields to other tasks after `seconds` of processor time since the last pause.

    One for each task. Between two calls of `pause` a task must not wait long for anything else.
    """

    __slots__ = ("_clock", "_seconds", "_until")

    def __init__(
        self, seconds: float = SLICE_SECONDS, *, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._until = clock() + seconds

    @property
    def spent(self) -> bool:
        """Whether the slice is used up, so that `pause` would yield."""
        return self._clock() >= self._until

    async def pause(self) -> None:
        """Let everything else that is ready run once, if the slice is used up."""
        if self.spent:
            await asyncio.sleep(0)
            self._until = self._clock() + self._seconds
