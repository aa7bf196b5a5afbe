"""A bounded number of turns, shared fairly between keys such as hosts or peers."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """At most `total` turns at a time and `each` of one key; waiting keys are served in rotation.

    A key that waits for a hundred turns delays another key by one turn. Nothing is remembered of a
    key that neither has nor awaits a turn.
    """

    def __init__(self, total: int, each: int) -> None:
        self._free = total
        self._each = each
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held.keys() | self._waiting.keys())

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn and have it until the end of the block."""
        await self._acquire(key)
        try:
            yield
        finally:
            self._release(key)

    async def _acquire(self, key: str) -> None:
        if self._free and self._held[key] < self._each:
            self._take(key)
            return
        if not self._held[key]:
            del self._held[key]
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release(key)
            else:
                self._give_up(key, turn)
            raise

    def _give_up(self, key: str, turn: asyncio.Future[None]) -> None:
        waiting = self._waiting[key]
        waiting.remove(turn)
        if not waiting:
            del self._waiting[key]

    def _take(self, key: str) -> None:
        self._free -= 1
        self._held[key] += 1

    def _release(self, key: str) -> None:
        self._free += 1
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        while self._free and (following := self._next()) is not None:
            self._take(following)
            waiting = self._waiting[following]
            waiting.popleft().set_result(None)
            if waiting:
                self._waiting.move_to_end(following)
            else:
                del self._waiting[following]

    def _next(self) -> str | None:
        """The key whose turn it is; few keys have all their turns, so few are passed over."""
        return next((key for key in self._waiting if self._held.get(key, 0) < self._each), None)
