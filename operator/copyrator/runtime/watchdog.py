"""Faults for /healthz and /readyz: a message, or None without a fault.

"Not ready" only reports a fault; the process isn't restarted. "Not live" makes the kubelet restart
the process, so it is reported only for faults that a restart can repair.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from copyrator.kube.errors import ApiError, NotFound
from copyrator.kube.watch.informers import WatchSpec, WatchStatus

log = logging.getLogger(__name__)

STALE_SECONDS = 50.0
"""A key that is queued or in progress for longer is a fault; below 60 s, because supervision
promises a report within a minute."""

STUCK_SECONDS = 900.0
"""A reconcile only waits for requests, which have timeouts; one that takes longer hangs."""

FAULT_SECONDS = 10.0
"""Shorter failures aren't reported."""

SILENT_SECONDS = 57.0
"""Longer silence means a fault: streams of a healthy watch last 50 s and end with a bookmark."""

IDLE_SECONDS = 20.0
"""Seconds without a request to the API server after which it is probed."""

PULSE_SECONDS = 2.0
"""Seconds between probes that fail."""

PULSE_TIMEOUT = 5.0
"""Timeout of a probe in seconds."""


class Queue(Protocol):
    """The part of the work queue that the checks use."""

    def oldest_age(self) -> float:
        """Seconds that the key which is due longest has waited."""
        ...

    def longest_working(self) -> tuple[object, float] | None:
        """The key that has been in progress longest, and its seconds."""
        ...


def stale_queue(queue: Queue, *, failing: bool = False) -> str | None:
    """Not ready: keys wait or hang too long; `failing`: all requests fail at present."""
    age = queue.oldest_age()
    if age > STALE_SECONDS:
        why = "all requests fail" if failing else "changes arrive faster than they can be processed"
        return f"a key has waited for {age:.0f} s: {why}"
    longest = queue.longest_working()
    if longest and longest[1] > STALE_SECONDS:
        return f"{longest[0]} has been reconciled for {longest[1]:.0f} s"
    return None


def stuck_worker(queue: Queue) -> str | None:
    """Not live: a reconcile hangs."""
    longest = queue.longest_working()
    if longest and longest[1] > STUCK_SECONDS:
        return f"{longest[0]} has been blocked for {longest[1]:.0f} s"
    return None


def failing_watches(statuses: list[WatchStatus]) -> str | None:
    """Not ready: a cache isn't current, whether or not the watch itself reports a fault.

    A kind that isn't served (404) is in its rule's condition and no fault of the operator.
    """
    failing = []
    for status in statuses:
        if isinstance(status.failure, NotFound):
            continue
        if status.failure and status.failing_for > FAULT_SECONDS:
            failing.append(f"{_name(status)} for {status.failing_for:.0f} s ({status.failure})")
        elif status.silent_for > SILENT_SECONDS:
            failing.append(f"{_name(status)} for {status.silent_for:.0f} s (no event or bookmark)")
    if not failing:
        return None
    more = f", and {len(failing) - 3} more" if len(failing) > 3 else ""
    return "no watch of " + ", ".join(failing[:3]) + more


def dead_watches(specs: list[WatchSpec]) -> str | None:
    """Not live: an endless watch has ended."""
    return f"ended unexpectedly: the watch of {specs[0].resource.key}" if specs else None


def outage(client: Client) -> str | None:
    """Not ready: all requests to the API server fail."""
    found = client.outage
    if found is None or found[1] <= FAULT_SECONDS:
        return None
    return f"all requests fail for {found[1]:.0f} s ({found[0]})"


async def probe_api_server(
    client: Client, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Request the API server's version after IDLE_SECONDS without another request.

    Otherwise an idle operator wouldn't detect that its credentials are refused: open watches stay
    open.
    """
    while True:
        wait = IDLE_SECONDS - client.silent_for
        if wait <= 0:
            wait = PULSE_SECONDS
            with contextlib.suppress(ApiError):  # the client records it: `outage`
                await client.request("GET", "/version", timeout=PULSE_TIMEOUT)
        await sleep(wait)


def _name(status: WatchStatus) -> str:
    namespace = status.spec.namespace
    return status.spec.resource.key + (f" in {namespace}" if namespace else "")


class Client(Protocol):
    """The part of KubeClient that the checks and the probe use."""

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """The error that all requests get and its duration in seconds; None while they succeed."""
        ...

    @property
    def silent_for(self) -> float:
        """Seconds since the server last answered."""
        ...

    async def request(self, method: str, path: str, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Send a request; raises ApiError."""
        ...


class Background:
    """Endless tasks of the process; the end of one is a fault that a restart repairs."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start an endless task in the running loop."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        self._tasks.append(task)

    def dead(self) -> str | None:
        """Not live: an endless task has ended."""
        dead = [task.get_name() for task in self._tasks if task.done()]
        return f"ended unexpectedly: {', '.join(dead)}" if dead else None

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.error("%s ended unexpectedly", task.get_name(), exc_info=task.exception())
