"""How the event loop's time and other limits are shared fairly: between tasks, and between tenants.

Work is done for a tenant, which is a namespace, or for none: the operator itself and the rules of
its own namespace, which are trusted. Those never wait for tenants.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

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


class Waiters:
    """A queue of waiting tasks. For one event loop."""

    def __init__(self) -> None:
        self._turns: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._turns)

    def join(self) -> asyncio.Future[None]:
        """Add the running task at the end; return its future, for which `wait` must be called."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        return turn

    async def wait(self, turn: asyncio.Future[None], on_lost: Callable[[], object]) -> None:
        """Wait until `call` wakes this task.

        Args:
            turn: the future that `join` returned.
            on_lost: called if the task was woken, but is cancelled before it runs: it must give
                what it was woken for, such as a free slot, to another task.
        """
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                on_lost()
            elif turn in self._turns:  # else `call` has removed it in the meantime
                self._turns.remove(turn)
            raise

    def call(self) -> bool:
        """Wake the first task that still waits; return False if none does."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return True
        return False


_tenant: ContextVar[str | None] = ContextVar("tenant", default=None)


def tenant() -> str | None:
    """The namespace that the running task works for; None for the operator and trusted rules."""
    return _tenant.get()


@contextmanager
def working_for(namespace: str | None) -> Iterator[None]:
    """Set the tenant inside; tasks that are created inside inherit it."""
    token = _tenant.set(namespace)
    try:
        yield
    finally:
        _tenant.reset(token)


class FairLimit:
    """Bounds what tenants, or hosts or peers, have in flight: each of them, and all together.

    Waiting ones are served in turn, so one with a thousand waiting delays another by one slot.
    Work without a tenant (None) has no limit and isn't counted. No state is kept for those that
    neither have nor await a slot. For one event loop.
    """

    def __init__(self, *, each: int, together: int) -> None:
        self._each = each
        self._together = together
        self._held: Counter[str] = Counter()
        self._total = 0
        self._waiting: dict[str, Waiters] = {}
        self._turns: dict[str, None] = {}
        """Those that wait and are below their limit, the next one first."""

    def __len__(self) -> int:
        return len(self._held.keys() | self._waiting.keys())

    @property
    def in_flight(self) -> int:
        """Slots that are held."""
        return self._total

    def try_acquire(self, namespace: str | None) -> bool:
        """Take a slot if one is free and none waits for it; `release` must follow."""
        if namespace is None:
            return True
        if self._total >= self._together or not self._may_have(namespace):
            return False
        self._take(namespace)
        return True

    async def acquire(self, namespace: str | None) -> None:
        """Wait for a slot; `release` must follow."""
        if namespace is None or self.try_acquire(namespace):
            return
        waiters = self._waiting.setdefault(namespace, Waiters())
        turn = waiters.join()
        if self._may_have(namespace):
            self._turns.setdefault(namespace)
        await waiters.wait(turn, lambda: self.release(namespace))

    def release(self, namespace: str | None) -> None:
        """Release a slot."""
        if namespace is None:
            return
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._total -= 1
        if namespace in self._waiting:
            self._turns.setdefault(namespace)
        self._serve()

    @asynccontextmanager
    async def slot(self, namespace: str | None) -> AsyncIterator[None]:
        """Hold a slot inside."""
        await self.acquire(namespace)
        try:
            yield
        finally:
            self.release(namespace)

    def _may_have(self, namespace: str) -> bool:
        return self._held[namespace] < self._each

    def _take(self, namespace: str) -> None:
        self._held[namespace] += 1
        self._total += 1

    def _serve(self) -> None:
        while self._turns and self._total < self._together:
            namespace = next(iter(self._turns))
            del self._turns[namespace]
            waiting = self._waiting[namespace]
            if waiting.call():
                self._take(namespace)
            if not waiting:
                del self._waiting[namespace]
            elif self._may_have(namespace):
                self._turns[namespace] = None
