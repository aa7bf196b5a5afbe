"""What is remembered of registry hosts, and no longer than it matters.

Bundles and registries choose the names: whatever is kept for each is bounded here.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from copyrator.settings.limits import (
    REGISTRY_HOST_LABELS,
    REGISTRY_HOSTS,
    REGISTRY_REQUESTS_PER_HOST,
)

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

PER_SECOND: Final = 50.0
"""Requests that one host gets a second in the long run; ``BURST`` of them may come at once."""
BURST: Final = 100
KEEP_ALIVE: Final = 75.0
"""Seconds that an idle connection is kept; longer than a common poll interval of a minute."""
KEPT_ALIVE: Final = 512
"""Hosts named by Bundles whose connections are kept, and ..."""
KEPT_ALIVE_OTHERS: Final = 32
"""... token servers and redirects' targets."""

OTHER: Final = "other"


class Host:
    """What we owe one host: few requests at a time, and none while it says it has enough."""

    __slots__ = ("_due", "blocked_by", "blocked_until", "slots", "users")

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(REGISTRY_REQUESTS_PER_HOST)
        self.blocked_until = 0.0
        self.blocked_by = 0
        """The status that asked to be left alone until then: 429 or 503."""
        self.users = 0
        """Requests that wait or are under way."""
        self._due = 0.0

    async def turn(self) -> None:
        """Wait until the next request may be sent: a steady rate, after a burst."""
        now = time.monotonic()
        self._due = max(self._due, now - BURST / PER_SECOND) + 1 / PER_SECOND
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def is_as_new(self, now: float) -> bool:
        """Tell whether forgetting it changes nothing."""
        idle = self._due <= now - BURST / PER_SECOND + 1 / PER_SECOND
        return not self.users and idle and self.blocked_until <= now


class Hosts:
    """The hosts that were asked lately, or want to be left alone."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[str, Host] = OrderedDict()

    def __len__(self) -> int:
        return len(self._hosts)

    @contextmanager
    def use(self, name: str) -> Iterator[Host]:
        """The host, while a request to it waits or is under way."""
        host = self._hosts.setdefault(name, Host())
        host.users += 1
        try:
            yield host
        finally:
            host.users -= 1
            self._hosts.move_to_end(name)
            self._forget(time.monotonic())

    def _forget(self, now: float) -> None:
        """Look at the two that were asked longest ago: more go than come."""
        for _ in range(2):
            name, oldest = next(iter(self._hosts.items()))
            over = len(self._hosts) > REGISTRY_HOSTS and not oldest.users
            if over or oldest.is_as_new(now):
                del self._hosts[name]
            else:
                self._hosts.move_to_end(name)
            if not self._hosts:
                return


class Labels:
    """Which hosts have metrics of their own: those that Bundles name, up to a number."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._named: set[str] = set()

    def of(self, host: str, *, named: bool) -> str:
        """The value of the label for a request to `host`, which a Bundle may have `named`."""
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
    """Which hosts' connections are kept open after a request: `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: OrderedDict[str, float] = OrderedDict()

    def use(self, host: str) -> bool:
        """Tell whether the connection of this request to `host` may be kept."""
        now = time.monotonic()
        if host not in self._used and len(self._used) >= self._most:
            oldest, last = next(iter(self._used.items()))
            if last > now - KEEP_ALIVE:
                return False
            del self._used[oldest]
        self._used[host] = now
        self._used.move_to_end(host)
        return True
