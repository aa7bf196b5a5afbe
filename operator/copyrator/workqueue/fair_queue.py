"""A bounded queue in which namespaces take turns, so that a flood affects only its namespace."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Holds at most `size` items of all namespaces. For one event loop and one consumer."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._total = 0
        self._lines: dict[str, deque[T]] = {}
        """By namespace, in the order in which they are served; none is empty."""
        self._filled = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        self._taken = False

    def __len__(self) -> int:
        return self._total

    def put(self, namespace: str, item: T) -> T | None:
        """Add an item; return the one that is dropped for it when the queue is full.

        That is the last one of the namespace with the most, which is the new one itself unless its
        namespace would have fewer afterwards than another has.
        """
        given_up = None
        if self._total >= self._size:
            fullest = max(self._lines, key=lambda name: len(self._lines[name]))
            if len(self._lines.get(namespace, ())) + 1 >= len(self._lines[fullest]):
                return item
            given_up = self._lines[fullest].pop()  # it has at least one more
            self._total -= 1
        self._lines.setdefault(namespace, deque()).append(item)
        self._total += 1
        self._filled.set()
        self._done.clear()
        return given_up

    async def get(self) -> T:
        """Wait for an item, and take the first of the next namespace; `done` must follow."""
        while not self._lines:
            self._filled.clear()
            await self._filled.wait()
        namespace = next(iter(self._lines))
        line = self._lines.pop(namespace)
        item = line.popleft()
        if line:
            self._lines[namespace] = line  # after all others
        self._total -= 1
        self._taken = True
        return item

    def done(self) -> None:
        """The item that was taken is processed."""
        self._taken = False
        if not self._lines:
            self._done.set()

    async def join(self) -> None:
        """Return when all items are processed."""
        while self._lines or self._taken:
            await self._done.wait()
