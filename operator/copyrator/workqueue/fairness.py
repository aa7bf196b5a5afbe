"""The tenant of the running task, and limits that tenants share fairly.

Work is done for a tenant, which is a namespace, or for none: the operator itself and the rules of
its own namespace, which are trusted. Those never wait for tenants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from copyrator.workqueue.waiters import Waiters

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
