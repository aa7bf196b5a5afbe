"""When is something wrong, for /healthz and /readyz: a sentence, or None while all is well.

Not ready says "look here", and nobody is restarted for it. Not live makes the kubelet restart the
process, so it is said only of what a restart can mend.
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
"""A key that waits, or is worked on, for longer is somebody's trouble; said before the minute is
over in which supervision is promised."""

STUCK_SECONDS = 900.0
"""A reconcile waits for nothing but requests, which have timeouts; this one hangs."""

FAULT_SECONDS = 10.0
"""What has failed for less is a hiccup."""

UNHEARD_SECONDS = 57.0
"""A watch that is well is heard of more often: its streams last 50 s and end with a bookmark."""

IDLE_SECONDS = 20.0
"""An API server that wasn't asked for so long is asked something."""

PULSE_SECONDS = 2.0
"""Between such questions while they fail."""

PULSE_TIMEOUT = 5.0
"""For the answer to one."""


class Queue(Protocol):
    """What is asked of the queue."""

    def oldest_age(self) -> float:
        """Seconds that the key which is due longest has waited."""
        ...

    def longest_working(self) -> tuple[object, float] | None:
        """The key that has been in work longest, and for how long."""
        ...


def stale_queue(queue: Queue, *, failing: bool = False) -> str | None:
    """Not ready: work piles up or hangs; `failing` where no request succeeds, whatever is asked."""
    age = queue.oldest_age()
    if age > STALE_SECONDS:
        why = "all requests fail" if failing else "more changes than can be worked off"
        return f"a key has waited for {age:.0f} s: {why}"
    longest = queue.longest_working()
    if longest and longest[1] > STALE_SECONDS:
        return f"{longest[0]} has been worked on for {longest[1]:.0f} s"
    return None


def stuck_worker(queue: Queue) -> str | None:
    """Not live: a reconcile hangs."""
    longest = queue.longest_working()
    if longest and longest[1] > STUCK_SECONDS:
        return f"{longest[0]} has hung for {longest[1]:.0f} s"
    return None


def failing_watches(statuses: list[WatchStatus]) -> str | None:
    """Not ready: something isn't seen as it is now, whatever the watch itself knows of that.

    A kind that isn't served (404) is its rule's condition and no fault of the operator.
    """
    failing = []
    for status in statuses:
        if isinstance(status.failure, NotFound):
            continue
        if status.failure and status.failing_for > FAULT_SECONDS:
            failing.append(f"{_name(status)} for {status.failing_for:.0f} s ({status.failure})")
        elif status.unheard_for > UNHEARD_SECONDS:
            failing.append(f"{_name(status)} for {status.unheard_for:.0f} s (nothing is heard)")
    if not failing:
        return None
    more = f", and {len(failing) - 3} more" if len(failing) > 3 else ""
    return "no watch of " + ", ".join(failing[:3]) + more


def dead_watches(specs: list[WatchSpec]) -> str | None:
    """Not live: a watch has ended that should be endless."""
    return f"ended by itself: the watch of {specs[0].resource.key}" if specs else None


def outage(client: Client) -> str | None:
    """Not ready: the API server refuses everything, or isn't there."""
    found = client.outage
    if found is None or found[1] <= FAULT_SECONDS:
        return None
    return f"all requests fail for {found[1]:.0f} s ({found[0]})"


async def probe_api_server(
    client: Client, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Ask the API server for its version whenever nobody else has asked it anything for a while.

    Else an operator with nothing to do wouldn't notice that its credentials are refused: watches
    that are open stay open.
    """
    while True:
        wait = IDLE_SECONDS - client.unheard_for
        if wait <= 0:
            wait = PULSE_SECONDS
            with contextlib.suppress(ApiError):  # the client keeps account of that: `outage`
                await client.request("GET", "/version", timeout=PULSE_TIMEOUT)
        await sleep(wait)


def _name(status: WatchStatus) -> str:
    namespace = status.spec.namespace
    return status.spec.resource.key + (f" in {namespace}" if namespace else "")


class Client(Protocol):
    """The part of KubeClient that is asked how requests fare."""

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """What all requests fail with, and for how many seconds."""
        ...

    @property
    def unheard_for(self) -> float:
        """Seconds since the server last answered."""
        ...

    async def request(self, method: str, path: str, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Ask for anything; raises ApiError."""
        ...


class Background:
    """Endless tasks of the process; one that ends by itself is a fault that a restart mends."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Start an endless task inside the running loop."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_report)
        self._tasks.append(task)

    def dead(self) -> str | None:
        """Not live: a task that should be endless has ended."""
        dead = [task.get_name() for task in self._tasks if task.done()]
        return f"ended by itself: {', '.join(dead)}" if dead else None

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.error("%s ended by itself", task.get_name(), exc_info=task.exception())
