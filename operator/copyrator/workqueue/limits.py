"""How many writes may be in flight: found out while writing, as TCP finds its window.

Too few waste time; too many are answered with 429, or make the API server slow for everybody. So
the limit grows by one a second while it is what holds us back, and is halved when the server says
429 or takes twice as long as it did.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from statistics import median
from types import TracebackType

from copyrator.workqueue.fairness import tenant

START = 32
"""The knee of an API server on two cores (docs/adr/0011); where it lies lower, that is found within
the first second of answers."""

LEAST = 2
MOST = 64

WINDOW_SECONDS = 1.0
"""Latencies are judged together for so long; the limit grows once a window and is halved at most
once, because all the answers that are on their way tell of the same crowd. The first window is as
long as ENOUGH answers take."""

ENOUGH = 8
"""Answers without which a median says nothing; a window lasts until there are so many."""

STALE_SECONDS = 10.0
"""A window that gets no such number within this time is thrown away."""

NOISE_SECONDS = 0.1
"""A median below this is never too slow, whatever it was before: alone a write takes milliseconds,
and in a crowd of a few dozen many times that, on both sides, without anybody being in trouble."""

FORGIVENESS = 1.2
"""What counts as normal grows by this in each window that was too slow: a server that has become
slower for good is accepted in the end (ten times slower: after nine windows). Where the least is in
flight, it isn't we who make it slow, and how it is now counts as normal at once."""

LONGEST_PAUSE = 60.0


TRUSTED_SHARE = 4
"""Places for who works for no tenant, for each one of a tenant, while both wait."""


class AdaptiveLimit:
    """Bounds what is in flight. For one event loop; first come, first served.

    Who works for no tenant (workqueue.fairness) needn't wait until those who do have had theirs.

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
        self._trusted: deque[asyncio.Future[None]] = deque()
        self._tenants: deque[asyncio.Future[None]] = deque()
        self._trusted_run = 0
        """Places given to no tenant since the last one for a tenant."""
        self._latencies: list[float] = []
        self._window_start = clock()
        self._was_full = False
        self._normal: float | None = None
        self._cut_at = float("-inf")
        self._paused_until = float("-inf")

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._trusted) + len(self._tenants)

    def slot(self) -> Slot:
        """A place in flight, as an async context manager. What raises in it isn't measured."""
        return Slot(self)

    async def pause(self) -> None:
        """Return when no Retry-After is running."""
        while (wait := self._paused_until - self._clock()) > 0:
            # Not all at the same moment, when it is over.
            await self._sleep(wait + random.uniform(0.0, 0.1))  # noqa: S311 - not for secrets

    def throttled(self, retry_after: float | None = None) -> None:
        """The server has too much to do. Everybody waits for `retry_after` seconds, if it says."""
        now = self._clock()
        if retry_after:
            self._paused_until = max(self._paused_until, now + min(retry_after, LONGEST_PAUSE))
        self._cut(now)

    async def acquire(self) -> float:
        """Wait for a place; returns when it was given, for `release`."""
        if self.in_flight < self.limit and not self.waiting:
            self.in_flight += 1
        else:
            self._was_full = True
            await self._turn()
        try:
            await self.pause()
        except BaseException:
            self._leave()
            raise
        return self._clock()

    def release(self, since: float, *, measured: bool = True) -> None:
        """Give the place back; `measured` says whether its time tells how busy the server is."""
        now = self._clock()
        if measured:
            self._latencies.append(now - since)
        age = now - self._window_start
        # The first answers come before there is a line on the other side: the best idea of normal.
        over = age >= WINDOW_SECONDS or self._normal is None
        if age >= STALE_SECONDS or (over and len(self._latencies) >= ENOUGH):
            self._judge(now)
        self._leave()

    async def _turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._trusted if tenant() is None else self._tenants
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave()
            else:
                line.remove(turn)
            raise

    def _leave(self) -> None:
        self.in_flight -= 1
        while self.waiting and self.in_flight < self.limit:
            turn = self._next()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def _next(self) -> asyncio.Future[None]:
        if self._tenants and (not self._trusted or self._trusted_run >= TRUSTED_SHARE):
            self._trusted_run = 0
            return self._tenants.popleft()
        self._trusted_run += 1
        return self._trusted.popleft()

    def _judge(self, now: float) -> None:
        """Close a window: slower than normal halves the limit, else it may grow."""
        latencies, self._latencies = self._latencies, []
        was_full, self._was_full = self._was_full, False
        self._window_start = now
        if not was_full or len(latencies) < ENOUGH:
            return  # the limit held nobody back, so nothing is to be learnt about it
        typical = median(latencies)
        if self._normal is not None and typical >= max(2 * self._normal, NOISE_SECONDS):
            if self.limit > self._least:
                self._normal *= FORGIVENESS
                self._cut(now)
                return
            self._normal = typical
        # Halfway only: one lucky window in a busy time says little.
        elif self._normal is None or typical < self._normal:
            self._normal = (typical + (self._normal or typical)) / 2
        if now - self._cut_at >= WINDOW_SECONDS:
            self.limit = min(self.limit + 1, self._most)

    def _cut(self, now: float) -> None:
        if now - self._cut_at >= WINDOW_SECONDS:
            self._cut_at = now
            self.limit = max(self.limit // 2, self._least)


class Slot:
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
