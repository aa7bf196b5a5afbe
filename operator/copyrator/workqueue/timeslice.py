"""Long work on the event loop, done in slices so that nobody waits for it.

Measured in processor time of this thread: on a busy machine a slice isn't cut short by others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from copyrator.settings.limits import SLICE_SECONDS


class TimeSlice:
    """Lets others run whenever the work since the last pause has taken `seconds` of processor time.

    One for each task. Between two calls of `pause` a task must not wait for anything else long.
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
        """Whether the slice is used up, so that `pause` would let others run."""
        return self._clock() >= self._until

    async def pause(self) -> None:
        """Let everything else that is ready run once, if the slice is used up."""
        if self.spent:
            await asyncio.sleep(0)
            self._until = self._clock() + self._seconds
