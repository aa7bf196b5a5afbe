"""The process watches itself: faults for /healthz and /readyz, callbacks that block the event loop.

A fault is a message, None is none.

"Not ready" only reports a fault; the process isn't restarted. "Not live" makes the kubelet restart
the process, so it is reported only for faults that a restart can repair.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from copyrator.api.keys import Key
from copyrator.api.text import count
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError, NotFound
from copyrator.kube.watch.informers import WatchStatus
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.workqueue.queue import WorkQueue

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


def stale_queue(queue: WorkQueue[Key], *, failing: bool = False) -> str | None:
    """Not ready: keys wait or hang too long; `failing`: all requests fail at present."""
    age = queue.oldest_age()
    if age > STALE_SECONDS:
        why = "all requests fail" if failing else "changes arrive faster than they can be processed"
        return f"a key has waited for {age:.0f} s: {why}"
    longest = queue.longest_working()
    if longest and longest[1] > STALE_SECONDS:
        return f"{longest[0]} has been reconciled for {longest[1]:.0f} s"
    return None


def stuck_worker(queue: WorkQueue[Key]) -> str | None:
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


def outage(client: KubeClient) -> str | None:
    """Not ready: all requests to the API server fail."""
    found = client.outage
    if found is None or found[1] <= FAULT_SECONDS:
        return None
    return f"all requests fail for {found[1]:.0f} s ({found[0]})"


async def probe_api_server(
    client: KubeClient, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
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


NOTED_SECONDS = 0.01
"""Shorter callbacks are ignored."""

LOGGED_SECONDS = 0.25
"""Longer callbacks are a fault, and logged with their name."""

MARK_SECONDS = 0.002
"""Processor time is read at most this often between callbacks."""

LINES = 6
"""Log lines per `WINDOW_SECONDS`; further ones are counted."""

WINDOW_SECONDS = 60.0

_DEPTH = 50
"""Limit of nested coroutines that are followed."""


class StallMeter:
    """Measures the callbacks of the loop that runs at `install`, in processor time of its thread.

    asyncio runs every callback, timer and step of a task through `asyncio.Handle._run`. The meter
    wraps it while it is installed, so that it also works under `kopf run`, whose loop isn't ours.

    `time.thread_time` is a system call, so it isn't read for each callback: elapsed time is never
    less than processor time, so a callback that took less than `NOTED_SECONDS` on the clock is
    ignored. The processor time at a callback's start is read at most once in `MARK_SECONDS`; the
    error of a result is less than that. Measured (2 cores under load, Python 3.11, 200,000 empty
    callbacks): less than 0.9 µs a callback, within the spread of the runs; reading `thread_time`
    twice costs 1.6 to 2.9. One copy takes 11 callbacks, so less than 10 µs of 1,000 to 2,000 of
    processor time.

    `Handle._run`, `_callback` and `_context` are private names of asyncio (3.11 to 3.14). The meter
    checks them when it is installed; where Python has changed them, it logs that once and stays
    off.

    Args:
        observe: called with the processor time, in seconds, of each long callback.
        in_work: returns the key that the current context works on, or worked on last
            (logs.in_work).
        logged: longer callbacks are logged; seconds.
        clock: limits the log lines.
    """

    def __init__(
        self,
        observe: Callable[[float], object],
        *,
        in_work: Callable[[], Mapping[str, str]] = dict,
        logged: float = LOGGED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._observe = observe
        self._in_work = in_work
        self._logged = logged
        self._clock = clock
        self._measured: Callable[[asyncio.Handle], None] | None = None
        self._original: Callable[[asyncio.Handle], None] | None = None
        self._seen = False
        self._window = 0.0
        self._lines = 0
        self._suppressed = 0

    @property
    def on(self) -> bool:
        """Whether callbacks are measured."""
        return self._measured is not None

    def install(self) -> None:
        """Measure from the next callback on. To be called in the running loop."""
        original = getattr(asyncio.Handle, "_run", None)
        slots = getattr(asyncio.Handle, "__slots__", ())
        if original is None or not {"_callback", "_context"} <= set(slots):
            self._log_disabled()
            return
        self._original = original
        self._measured = self._around(original)
        asyncio.Handle._run = self._measured  # type: ignore[method-assign,assignment]
        self._seen = False
        asyncio.get_running_loop().call_soon(self._check)

    def uninstall(self) -> None:
        """Stop measuring; idempotent."""
        if self._measured is not None and asyncio.Handle._run is self._measured:
            asyncio.Handle._run = self._original  # type: ignore[method-assign,assignment]
        self._measured = None

    def _around(
        self, original: Callable[[asyncio.Handle], None]
    ) -> Callable[[asyncio.Handle], None]:
        wall, processor = time.perf_counter, time.thread_time
        loop = asyncio.get_running_loop()
        marked_at = marked = 0.0

        def measured(handle: Any) -> None:
            nonlocal marked_at, marked
            if handle._loop is not loop:  # another thread's
                original(handle)
                return
            start = wall()
            if start - marked_at > MARK_SECONDS:
                if not marked_at:
                    self._seen = True
                marked_at, marked = start, processor()
            original(handle)
            if wall() - start > NOTED_SECONDS:
                self._took(handle, processor() - marked)

        return measured

    def _took(self, handle: Any, seconds: float) -> None:
        """Record one callback that took long on the clock; raises nothing into the loop."""
        if seconds < NOTED_SECONDS or not self.on:
            return
        try:
            self._observe(seconds)
            if seconds > self._logged and self._may_log():
                # A copy: the callback's own context may be entered elsewhere.
                handle._context.copy().run(self._log_stall, handle, seconds)
        except Exception:
            log.exception("The event loop's stalls aren't measured any more")
            self.uninstall()

    def _may_log(self) -> bool:
        now = self._clock()
        if now - self._window > WINDOW_SECONDS:
            self._window, self._lines = now, 0
        self._lines += 1
        if self._lines > LINES:
            self._suppressed += 1
        return self._lines <= LINES

    def _log_stall(self, handle: Any, seconds: float) -> None:
        work = " ".join(f"{key}={value}" for key, value in self._in_work().items())
        suppressed, self._suppressed = self._suppressed, 0
        log.warning(
            "The event loop was blocked for %.2f s of processor time by one callback: %s%s%s",
            seconds,
            name_of(handle),
            f", the current or last key: {work}" if work else "",
            f" ({count(suppressed, 'more stall')} not logged)" if suppressed else "",
        )

    def _check(self) -> None:
        """Turn the meter off if the callback that runs now didn't go through it."""
        if self.on and not self._seen:
            self.uninstall()
            self._log_disabled()

    def _log_disabled(self) -> None:
        log.warning(
            "copyrator_event_loop_stall_seconds stays empty: this version of Python "
            "runs asyncio's callbacks in an unknown way"
        )


def name_of(handle: Any) -> str:
    """A callback's name, or its task's: names from the code only, never an argument."""
    callback = handle._callback
    if callback is None:
        return "a cancelled callback"
    while isinstance(callback, functools.partial):
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    if not isinstance(owner, asyncio.Task):
        name = getattr(callback, "__qualname__", None) or type(callback).__name__
        return f"{getattr(callback, '__module__', None) or '?'}.{name}"
    return f"task {owner.get_name()!r}, {_position(owner.get_coro())}"


def _position(coroutine: Any) -> str:
    """A task's coroutine and its present await; the code that blocked the loop is before that."""
    first = getattr(coroutine, "__qualname__", "?")
    last = ""
    for _ in range(_DEPTH):
        frame = getattr(coroutine, "cr_frame", None)
        if frame is None:
            break  # it has ended, or isn't a coroutine
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith("asyncio."):
            last = f", which waits now in {coroutine.__qualname__} ({module}:{frame.f_lineno})"
        coroutine = coroutine.cr_await
    return first + last
