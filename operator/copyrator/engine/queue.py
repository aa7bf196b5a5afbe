"""The queue of keys to reconcile: each once, the urgent first, the failing later.

A key stands for "look at this again", so adding it twice means looking once, and adding it while it
is looked at means looking once more afterwards. Nothing is ever lost: a key is ready, delayed, or
in work, until its worker is done with it.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from copyrator.engine.outcome import Again, Done, Failed, Lane, Outcome

__all__ = ["Again", "Done", "Failed", "Lane", "Outcome", "QueueShutDownError", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

_Ready = tuple[float, Lane, K]
"""Since when, in which lane, which key."""

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
"""Seconds: a key that fails is tried again after 1 s, 2 s, 4 s … 5 min."""


SHARES = {Lane.URGENT: 16, Lane.NORMAL: 4, Lane.RESYNC: 1}
"""Of 21 keys while all lanes are full; so no lane waits for ever."""


class QueueShutDownError(Exception):
    """The queue hands out no more keys."""


class WorkQueue(Generic[K]):
    """De-duplicating, with lanes and a back-off for each key. For one event loop."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.0),  # noqa: S311 - no secret
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._lanes: dict[Lane, deque[_Ready[K]]] = {lane: deque() for lane in Lane}
        self._ready: dict[K, _Ready[K]] = {}  # an entry of a lane that isn't the one here is void
        self._delayed: list[tuple[float, int, K]] = []  # heap; an entry not in _due is void
        self._due: dict[K, tuple[float, Lane]] = {}
        self._failures: dict[K, int] = {}
        self._working: dict[K, float] = {}
        self._again: dict[K, Lane] = {}
        self._credit = dict(SHARES)
        self._serial = 0
        self._closed = False
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._served_since = clock()
        self._held = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """Keys that are not due yet."""
        return len(self._due)

    @property
    def working(self) -> int:
        """Keys that workers hold."""
        return len(self._working)

    @property
    def closed(self) -> bool:
        """Whether `shutdown` was called."""
        return self._closed

    def depth(self, lane: Lane) -> int:
        """Ready keys of a lane."""
        return sum(1 for entry in self._ready.values() if entry[1] is lane)

    def failures(self, key: K) -> int:
        """How many times in a row the key has failed."""
        return self._failures.get(key, 0)

    def oldest_age(self, now: float | None = None) -> float:
        """Seconds that the longest waiting of the next keys has been due; 0 for an empty queue."""
        self._release_due()
        now = self._clock() if now is None else now
        heads = [self._head(lane) for lane in Lane]
        return max((now - max(head[0], self._served_since) for head in heads if head), default=0.0)

    def longest_working(self, now: float | None = None) -> tuple[K, float] | None:
        """The key that has been in work longest, and for how many seconds."""
        if not self._working:
            return None
        key = next(iter(self._working))  # dicts keep the order in which keys were handed out
        return key, (self._clock() if now is None else now) - self._working[key]

    def hold(self) -> None:
        """Hand out nothing until `serve`; what comes is kept."""
        self._held = True

    def serve(self) -> None:
        """Somebody works (again): hand out what there is, and count waiting from now on."""
        self._held = False
        self._served_since = self._clock()
        self._wake()

    # --- in --------------------------------------------------------------------------------------

    def add(self, key: K, lane: Lane = Lane.NORMAL, *, respect_backoff: bool = False) -> None:
        """Make a key due now, also one that is delayed: something relevant has changed.

        With `respect_backoff` a key that waits after a failure goes on waiting: what has changed
        is no reason to believe that it would succeed now.
        """
        if key in self._working:
            self._again[key] = min(lane, self._again.get(key, lane))
        elif not (respect_backoff and key in self._failures and key in self._due):
            self._due.pop(key, None)
            self._make_ready(key, lane, self._clock())

    def add_after(self, key: K, delay: float, lane: Lane = Lane.NORMAL) -> None:
        """Make a key due in `delay` seconds, unless it is due before that anyway."""
        if delay <= 0:
            self.add(key, lane)
        elif key not in self._ready and key not in self._again:
            self._delay(key, self._clock() + delay, lane)

    def retry(self, key: K, lane: Lane = Lane.NORMAL) -> float:
        """Note a failure and make the key due after its back-off, which is returned (seconds)."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_DELAY * 2.0 ** min(failures - 1, 30), LONGEST_DELAY) * self._jitter()
        if key not in self._ready and key not in self._again:
            self._due.pop(key, None)  # an earlier date was set before the failure was known
            self._delay(key, self._clock() + delay, lane)
        return delay

    def hurry(self) -> None:
        """Make everything due that waits after a failure: what failed everybody is over."""
        for key in self._failures.keys() & self._due.keys():
            self.add(key, self._due[key][1])

    def forget(self, key: K) -> None:
        """Forget the key's failures: it has succeeded, or is no concern any more."""
        self._failures.pop(key, None)

    # --- out -------------------------------------------------------------------------------------

    def poll(self) -> K | None:
        """Hand out the next key that is due, if there is one; `done` has to follow."""
        if self._closed or self._held:
            return None
        self._release_due()
        lane = self._next_lane()
        if lane is None:
            return None
        _, _, key = self._lanes[lane].popleft()
        del self._ready[key]
        self._working[key] = self._clock()
        return key

    async def get(self) -> K:
        """Hand out the next key, when there is one; `done` has to follow.

        Raises:
            QueueShutDownError: there will be none.
        """
        while not self._closed:
            key = self.poll()
            if key is not None:
                if self._ready:
                    self._wake()
                return key
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            self._arm()
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # the call was for somebody; let another take it
                else:
                    self._getters.remove(getter)
                raise
        raise QueueShutDownError

    def done(self, key: K) -> None:
        """The worker is done with the key; if it was added meanwhile, it is due again."""
        del self._working[key]
        lane = self._again.pop(key, None)
        if lane is not None:
            self._due.pop(key, None)
            self._make_ready(key, lane, self._clock())

    def shutdown(self) -> None:
        """Hand out nothing more; keys in work are finished by their workers."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        while self._getters:
            self._wake()

    # --- inside ----------------------------------------------------------------------------------

    def _make_ready(self, key: K, lane: Lane, since: float) -> None:
        known = self._ready.get(key)
        if known is None or lane < known[1]:
            entry = self._ready[key] = (known[0] if known else since, lane, key)
            self._lanes[lane].append(entry)
            self._wake()

    def _delay(self, key: K, due: float, lane: Lane) -> None:
        known = self._due.get(key)
        if known:
            lane = min(lane, known[1])
            if known[0] <= due:
                self._due[key] = known[0], lane
                return
        self._due[key] = due, lane
        self._serial += 1
        heapq.heappush(self._delayed, (due, self._serial, key))
        self._arm()

    def _release_due(self) -> None:
        """Move what is due to its lane, and drop void entries from the heap's top."""
        now = self._clock()
        while self._delayed:
            due, _, key = self._delayed[0]
            entry = self._due.get(key)
            if entry and entry[0] == due:
                if due > now:
                    return
                del self._due[key]
                if key in self._working:
                    self._again[key] = min(entry[1], self._again.get(key, entry[1]))
                else:
                    self._make_ready(key, entry[1], due)
            heapq.heappop(self._delayed)

    def _next_lane(self) -> Lane | None:
        """The first lane with keys and credit; when all credit of those is spent, give it anew."""
        waiting = [lane for lane in Lane if self._head(lane)]
        if not waiting:
            return None
        if not any(self._credit[lane] for lane in waiting):
            self._credit = dict(SHARES)
        lane = next(lane for lane in waiting if self._credit[lane])
        self._credit[lane] -= 1
        return lane

    def _head(self, lane: Lane) -> _Ready[K] | None:
        entries = self._lanes[lane]
        while entries and self._ready.get(entries[0][2]) is not entries[0]:
            entries.popleft()  # the key moved to a more urgent lane
        return entries[0] if entries else None

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _arm(self) -> None:
        """Set the timer to the next due time, where somebody waits for it."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._delayed and self._getters and not self._held:
            delay = max(self._delayed[0][0] - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)
