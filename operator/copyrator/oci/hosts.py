"""The state of registry hosts, kept only as long as it is needed.

Bundles and registries choose the names, so the state of all hosts is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from copyrator.settings.limits import (
    REGISTRY_HOST_LABELS,
    REGISTRY_HOSTS,
    REGISTRY_REQUESTS_PER_HOST,
)

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

KEEP_ALIVE: Final = 75.0
"""Seconds that an idle connection is kept; longer than a common poll interval of a minute."""
KEPT_ALIVE: Final = 512
"""Hosts named by Bundles whose connections are kept, and ..."""
KEPT_ALIVE_OTHERS: Final = 32
"""... token servers and redirects' targets."""

OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of requests to one host; only tests use another than the default."""

    per_second: float = 50.0
    """Long-term limit; ``burst`` requests may be sent at once."""
    burst: int = 100


DEFAULT_RATE: Final = Rate()


class Host:
    """The limits of one host: requests at a time, a rate, and a pause after a 429 or 503."""

    __slots__ = ("_due", "_rate", "blocked_by", "blocked_until", "slots", "users")

    def __init__(self, rate: Rate) -> None:
        self.slots = asyncio.Semaphore(REGISTRY_REQUESTS_PER_HOST)
        self.blocked_until = 0.0
        self.blocked_by = 0
        """The status that caused the pause: 429 or 503."""
        self.users = 0
        """Requests that wait or are in flight."""
        self._rate = rate
        self._due = 0.0

    async def turn(self) -> None:
        """Wait until the next request may be sent: a steady rate, after a burst."""
        now = time.monotonic()
        rate = self._rate
        self._due = max(self._due, now - rate.burst / rate.per_second) + 1 / rate.per_second
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def is_idle(self, now: float) -> bool:
        """Whether it has no requests, no pause and its full burst, so that it can be dropped."""
        rate = self._rate
        idle = self._due <= now - rate.burst / rate.per_second + 1 / rate.per_second
        return not self.users and idle and self.blocked_until <= now


class Hosts:
    """The hosts with recent requests, or with a pause."""

    def __init__(self, rate: Rate = DEFAULT_RATE) -> None:
        self._rate = rate
        self._hosts: OrderedDict[str, Host] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hosts)

    @contextmanager
    def use(self, name: str) -> Iterator[Host]:
        """The host, while a request to it waits or is in flight."""
        host = self._hosts.setdefault(name, Host(self._rate))
        host.users += 1
        try:
            yield host
        finally:
            host.users -= 1
            self._hosts.move_to_end(name)
            self._forget(time.monotonic())

    def _forget(self, now: float) -> None:
        """Check the two least recently used hosts, so that more can be dropped than are added."""
        for _ in range(2):
            name, oldest = next(iter(self._hosts.items()))
            over = len(self._hosts) > REGISTRY_HOSTS and not oldest.users
            if over or oldest.is_idle(now):
                del self._hosts[name]
            else:
                self._hosts.move_to_end(name)
            if not self._hosts:
                return


class Labels:
    """The hosts with their own label values in metrics: those that Bundles name, up to a limit."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._named: set[str] = set()

    def of(self, host: str, *, named: bool) -> str:
        """The label's value for a request to `host`; `named`: a Bundle names it."""
        if named and len(self._named) < REGISTRY_HOST_LABELS:
            self._named.add(host)
        return host if host in self._named else OTHER

    def keep(self, hosts: Collection[str]) -> None:
        """Drop the series of all hosts but these."""
        for host in self._named.difference(hosts):
            self._named.discard(host)
            self._metrics.registry_requests.remove_by_labels({"host": host})
            self._metrics.registry_request_seconds.remove_by_labels({"host": host})


class KeptAlive:
    """The hosts whose connections are kept open after a request: at most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: OrderedDict[str, float] = OrderedDict()

    def use(self, host: str) -> bool:
        """Whether the connection of this request to `host` may be kept."""
        now = time.monotonic()
        if host not in self._used and len(self._used) >= self._most:
            oldest, last = next(iter(self._used.items()))
            if last > now - KEEP_ALIVE:
                return False
            del self._used[oldest]
        self._used[host] = now
        self._used.move_to_end(host)
        return True
