"""Measures how long single callbacks block the event loop, in processor time of its thread.

asyncio runs every callback, timer and step of a task through `asyncio.Handle._run`. The meter wraps
it while it is installed, so that it also works under `kopf run`, whose loop isn't ours.

`time.thread_time` is a system call, so it isn't read for each callback: elapsed time is never less
than processor time, so a callback that took less than `NOTED_SECONDS` on the clock is ignored.
The processor time at a callback's start is read at most once in `MARK_SECONDS`; the error of a
result is less than that. Measured (2 cores under load, Python 3.11, 200,000 empty callbacks): less
than 0.9 µs a callback, within the spread of the runs; reading `thread_time` twice costs 1.6 to 2.9.
One copy takes 11 callbacks, so less than 10 µs of 1,000 to 2,000 of processor time.

`Handle._run`, `_callback` and `_context` are private names of asyncio (3.11 to 3.14). The meter
checks them when it is installed; where Python has changed them, it logs that once and stays off.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from copyrator.api.text import count

log = logging.getLogger(__name__)

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
    """Measures the callbacks of the loop that runs at `install`.

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
