"""How the event loop's time and other limits are shared fairly: between tasks, and between tenants.

Work is done for a tenant, which is a namespace, or for none: the operator itself and the rules of
its own namespace, which are trusted. Those never wait for tenants.

Turns are taken by `RoundRobin` alone: in the queue of keys, `FairLimit` and `FairQueue`. Other
ideas are elsewhere: a share that is offered to a rule (copies.sources.records), and a slot for the
namespace that has the fewest (bundles.plans.queue).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Final, Generic, TypeVar

SLICE_SECONDS: Final = 0.01
"""Seconds after which a long task yields to others."""


class TimeSlice:
    """Yields to other tasks after `seconds` since the last pause.

    One for each task, which must not wait long for anything else between two calls of `pause`; or
    one for tasks that wait in turn: they yield once for their time together. Processor time would
    be fairer on a busy machine, but reading it is a system call, and each may cost the thread its
    processor.
    """

    __slots__ = ("_clock", "_seconds", "_until")

    def __init__(
        self, seconds: float = SLICE_SECONDS, *, clock: Callable[[], float] = time.monotonic
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


Group = str | None
"""A tenant's namespace, a host or a peer; None for the operator and trusted rules."""


class RoundRobin(Generic[T]):
    """Items of groups: one of each group in turn, those of a group in their order.

    Each operation is O(1), amortized.

    Args:
        is_current: whether an item still counts; others are skipped.

    Attributes:
        items: by group; none is empty.
    """

    def __init__(self, is_current: Callable[[T], bool] = lambda _: True) -> None:
        self.items: dict[Group, deque[T]] = {}
        self._is_current = is_current
        self._turns: dict[Group, None] = {}
        """Groups with items that aren't blocked, the next one first."""
        self._blocked: set[Group] = set()

    def put(self, group: Group, item: T) -> None:
        """Append an item to its group; a new group is the last in turn."""
        items = self.items.get(group)
        if items is None:
            items = self.items[group] = deque()
        items.append(item)
        if group not in self._blocked:
            self._turns.setdefault(group)

    def head(self) -> tuple[Group, T] | None:
        """The next item and its group."""
        while self._turns:
            group = next(iter(self._turns))
            items = self.items[group]
            while items and not self._is_current(items[0]):
                items.popleft()
            if items:
                return group, items[0]
            del self._turns[group], self.items[group]
        return None

    def take(self) -> tuple[Group, T] | None:
        """Remove and return the next item; its group has the last turn then."""
        found = self.head()
        if found is not None:
            group = found[0]
            self.items[group].popleft()
            del self._turns[group]
            if self.items[group]:
                self._turns[group] = None
            else:
                del self.items[group]
        return found

    def remove(self, group: Group, item: T) -> None:
        """Remove an item, if it is there."""
        items = self.items.get(group)
        if items is not None and item in items:
            items.remove(item)
            if not items:
                del self.items[group]
                self._turns.pop(group, None)

    def block(self, group: Group) -> None:
        """Return none of a group's items until `unblock`."""
        self._blocked.add(group)
        self._turns.pop(group, None)

    def unblock(self, group: Group) -> None:
        """Return the group's items again, after the groups that wait now."""
        self._blocked.discard(group)
        if group in self.items:
            self._turns.setdefault(group)


class FairQueue(Generic[T]):
    """Holds at most `size` items of all namespaces. For one event loop and one consumer."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._total = 0
        self._waiting: RoundRobin[T] = RoundRobin()
        self._filled = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()

    def __len__(self) -> int:
        return self._total

    def put(self, namespace: str, item: T) -> T | None:
        """Add an item; return the one that is dropped for it when the queue is full.

        That is the last one of the namespace with the most, which is the new one itself unless its
        namespace would have fewer afterwards than another has.
        """
        given_up = None
        items = self._waiting.items
        if self._total >= self._size:
            fullest = max(items.values(), key=len)
            if len(items.get(namespace, ())) + 1 >= len(fullest):
                return item
            given_up = fullest.pop()  # it has at least one more
            self._total -= 1
        self._waiting.put(namespace, item)
        self._total += 1
        self._filled.set()
        self._done.clear()
        return given_up

    async def get(self) -> T:
        """Wait for an item, and take the first of the next namespace; `done` must follow."""
        while (found := self._waiting.take()) is None:
            self._filled.clear()
            await self._filled.wait()
        self._total -= 1
        return found[1]

    def done(self) -> None:
        """The item that was taken is processed."""
        if not self._total:
            self._done.set()

    async def join(self) -> None:
        """Return when all items are processed."""
        while not self._done.is_set():  # one may have been added since the last was done
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
        """Wait until `call` wakes this task, by the future that `join` returned.

        If the task was woken, but is cancelled before it runs, `on_lost` must give what it was
        woken for, such as a free slot, to another task.
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
        self._waiting: RoundRobin[asyncio.Future[None]] = RoundRobin(lambda turn: not turn.done())
        """Those that are at their limit are blocked."""

    def __len__(self) -> int:
        return len(self._held.keys() | self._waiting.items.keys())

    @property
    def in_flight(self) -> int:
        """Slots that are held."""
        return self._total

    def try_acquire(self, namespace: Group) -> bool:
        """Take a slot if one is free and none waits for it; `release` must follow."""
        if namespace is None:
            return True
        if self._total >= self._together or self._held[namespace] >= self._each:
            return False
        self._take(namespace)
        return True

    async def acquire(self, namespace: Group) -> None:
        """Wait for a slot; `release` must follow."""
        if namespace is None or self.try_acquire(namespace):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(namespace, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(namespace)  # it got a slot, and doesn't run any more
            else:
                self._waiting.remove(namespace, turn)
            raise

    def release(self, namespace: Group) -> None:
        """Release a slot."""
        if namespace is None:
            return
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._total -= 1
        self._waiting.unblock(namespace)
        found = self._waiting.take()
        if found is not None and found[0] is not None:
            self._take(found[0])
            found[1].set_result(None)

    @asynccontextmanager
    async def slot(self, namespace: Group) -> AsyncIterator[None]:
        """Hold a slot inside."""
        await self.acquire(namespace)
        try:
            yield
        finally:
            self.release(namespace)

    def _take(self, namespace: str) -> None:
        self._held[namespace] += 1
        self._total += 1
        if self._held[namespace] >= self._each:
            self._waiting.block(namespace)
