"""Calls back when a key is due: polls of registries, TTLs, time limits.

A date is minutes ahead; the queue's own delays are for seconds and failures. One timer serves all
keys, and moving a key's date costs O(log n).
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

GRAIN = 0.25
"""Seconds: dates are rounded up to multiples of it, so those of a second fire in four groups. A
wake-up for each one costs as much processor time as the poll that is due."""
COMPARE_SECONDS = 5.0
"""Seconds between two comparisons of the wall clock with the monotonic one."""
SLEW = 1.0
"""Seconds by which the wall clock may get ahead between two comparisons without having been set."""


class DueScheduler(Generic[K]):
    """One date for each key, on the injected monotonic clock (seconds).

    With a wall clock, dates are brought forward when that is set forward: what is due at a time of
    day isn't late then. Nothing is done when it is set back: who is called back too early sets the
    date again.
    """

    def __init__(
        self,
        callback: Callable[[K], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._wall = wall or clock
        self._offset = self._wall() - clock()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # an entry that isn't in _due is void
        self._serial = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def due(self, key: K) -> float | None:
        """The key's date, or None."""
        return self._due.get(key)

    def set(self, key: K, due: float) -> None:
        """Set or replace the key's date; a date in the past is due now."""
        if self._due.get(key) == due:
            return
        self._due[key] = due
        self._serial += 1
        heapq.heappush(self._heap, (due, self._serial, key))
        if len(self._heap) > 64 + 2 * len(self._due):
            self._rebuild()
        if self._heap[0][2] == key:
            self._changed.set()

    def remove(self, key: K) -> None:
        """Remove the key's date, if it has one."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """The earliest date."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def fire_due(self) -> int:
        """Call back for every key that is due and remove its date. Return their number."""
        fired = 0
        now = self._clock()
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            fired += 1
            try:
                self._callback(key)
            except Exception:
                log.exception("%s was due, and its callback failed", key)
        return fired

    async def run(self) -> None:
        """Fire until cancelled."""
        while True:
            self._follow_wall_clock()
            self.fire_due()
            self._changed.clear()
            due = self.next_due()
            wait = None if due is None else math.ceil(due / GRAIN) * GRAIN - self._clock()
            if wait is not None and self._wall is not self._clock:
                wait = min(wait, COMPARE_SECONDS)
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _follow_wall_clock(self) -> None:
        before, self._offset = self._offset, self._wall() - self._clock()
        step = self._offset - before
        if step > SLEW:
            log.info("The wall clock was set forward by %.0f s; bringing due dates forward", step)
            self._due = {key: due - step for key, due in self._due.items()}
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop void entries: a key that is moved repeatedly must not fill the heap."""
        self._heap = [(due, number, key) for number, (key, due) in enumerate(self._due.items())]
        self._serial = len(self._heap)
        heapq.heapify(self._heap)
