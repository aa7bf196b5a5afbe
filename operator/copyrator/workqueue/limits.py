"""The number of writes in flight, adapted like TCP's congestion window.

Too few waste time; too many are answered with 429, or slow the API server down for all clients. So
the limit grows by one a second while it is reached, and is halved when the server answers 429 or
takes twice as long as before.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from statistics import median
from types import TracebackType

from copyrator.workqueue.fairness import Waiters, tenant

START = 32
"""The limit at which an API server on two cores writes most (docs/adr/0011); where that is
lower, the limit is cut within the first second of answers."""

LEAST = 2
MOST = 64

WINDOW_SECONDS = 1.0
"""Latencies are evaluated in windows of this length; the limit grows once a window and is halved at
most once, because all answers in flight are from the same load. The first window is as long as
MEDIAN_SIZE answers take."""

MEDIAN_SIZE = 8
"""Answers that a median needs; a window lasts until there are so many."""

STALE_SECONDS = 10.0
"""A window without MEDIAN_SIZE answers within this time is dropped."""

NOISE_SECONDS = 0.1
"""A median below this is never too slow, whatever it was before: a single write takes milliseconds,
and one of a few dozen in parallel many times that, on both sides, without any overload."""

NORMAL_GROWTH = 1.2
"""The normal latency is multiplied by this in each window that was too slow: a server that has
become slower permanently is accepted in the end (ten times slower: after nine windows). At the
least limit we don't cause the latency, and the present one becomes the normal one at once."""

LONGEST_PAUSE = 60.0


TRUSTED_SHARE = 4
"""Slots for work without a tenant, for each one of a tenant, while both wait."""


class AdaptiveLimit:
    """Bounds what is in flight. For one event loop; first come, first served.

    Work without a tenant (workqueue.fairness) doesn't wait for all tenants' work before it.

    Attributes:
        limit: how many may be in flight now.
        in_flight: how many are.
    """

    def __init__(
        self,
        *,
        start: int = START,
        least: int = LEAST,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.limit = start
        self.in_flight = 0
        self._least = least
        self._most = most
        self._clock = clock
        self._sleep = sleep
        self._trusted = Waiters()
        self._tenants = Waiters()
        self._trusted_run = 0
        """Slots given to work without a tenant since the last one for a tenant."""
        self._latencies: list[float] = []
        self._window_start = clock()
        self._was_full = False
        self._normal: float | None = None
        self._cut_at = float("-inf")
        self._paused_until = float("-inf")

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._trusted) + len(self._tenants)

    def slot(self) -> LimitSlot:
        """A slot as an async context manager; not measured if an exception is raised inside."""
        return LimitSlot(self)

    async def pause(self) -> None:
        """Return when no Retry-After is pending."""
        while (wait := self._paused_until - self._clock()) > 0:
            # With jitter, so that not all continue at the same moment.
            await self._sleep(wait + random.uniform(0.0, 0.1))  # noqa: S311 - not for secrets

    def throttled(self, retry_after: float | None = None) -> None:
        """Record that the server throttles; all wait for `retry_after` seconds, if it is given."""
        now = self._clock()
        if retry_after:
            self._paused_until = max(self._paused_until, now + min(retry_after, LONGEST_PAUSE))
        self._cut(now)

    async def acquire(self) -> float:
        """Wait for a slot; return the time at which it was acquired, for `release`."""
        if self.in_flight < self.limit and not self.waiting:
            self.in_flight += 1
        else:
            self._was_full = True
            waiters = self._trusted if tenant() is None else self._tenants
            await waiters.wait(waiters.join(), self._leave)
        try:
            await self.pause()
        except BaseException:
            self._leave()
            raise
        return self._clock()

    def release(self, since: float, *, measured: bool = True) -> None:
        """Release the slot; `measured`: its duration shows the server's load."""
        now = self._clock()
        if measured:
            self._latencies.append(now - since)
        age = now - self._window_start
        # The first answers come before the server has a queue: the best estimate of normal.
        over = age >= WINDOW_SECONDS or self._normal is None
        if age >= STALE_SECONDS or (over and len(self._latencies) >= MEDIAN_SIZE):
            self._judge(now)
        self._leave()

    def _leave(self) -> None:
        self.in_flight -= 1
        while self.waiting and self.in_flight < self.limit:
            if self._next().call():
                self.in_flight += 1

    def _next(self) -> Waiters:
        if self._tenants and (not self._trusted or self._trusted_run >= TRUSTED_SHARE):
            self._trusted_run = 0
            return self._tenants
        self._trusted_run += 1
        return self._trusted

    def _judge(self, now: float) -> None:
        """End a window: if slower than normal, halve the limit; else it may grow."""
        latencies, self._latencies = self._latencies, []
        was_full, self._was_full = self._was_full, False
        self._window_start = now
        if not was_full or len(latencies) < MEDIAN_SIZE:
            return  # the limit wasn't reached, so this is no evidence about it
        typical = median(latencies)
        if self._normal is not None and typical >= max(2 * self._normal, NOISE_SECONDS):
            if self.limit > self._least:
                self._normal *= NORMAL_GROWTH
                self._cut(now)
                return
            self._normal = typical
        # Halfway only: one fast window during high load is weak evidence.
        elif self._normal is None or typical < self._normal:
            self._normal = (typical + (self._normal or typical)) / 2
        if now - self._cut_at >= WINDOW_SECONDS:
            self.limit = min(self.limit + 1, self._most)

    def _cut(self, now: float) -> None:
        if now - self._cut_at >= WINDOW_SECONDS:
            self._cut_at = now
            self.limit = max(self.limit // 2, self._least)


class LimitSlot:
    """One use of the limit."""

    __slots__ = ("_limit", "_since")

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._since = 0.0

    async def __aenter__(self) -> None:
        self._since = await self._limit.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._limit.release(self._since, measured=kind is None)
