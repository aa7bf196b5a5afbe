"""Workers take keys from the queue and call the handler; a failure affects only its key."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from copyrator.workqueue.fairness import TimeSlice, working_for
from copyrator.workqueue.outcome import Done, Failed, Outcome, RequeueAfter
from copyrator.workqueue.queue import QueueShutDownError, WorkQueue

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

Handler = Callable[[K], Awaitable[Outcome]]

RESTART_SECONDS = 1.0
"""Seconds until a worker that died is replaced."""

LOGGED_ERRORS = 10_000
"""Failing keys whose last error is remembered; beyond these an error may be logged again."""

_LOGGABLE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    OSError,
    RuntimeError,
    TypeError,
)
"""Types of exceptions whose messages name types, keys and files, and never quote a value."""


class Workers(Generic[K]):
    """`count` workers on one queue.

    The handler's exceptions are failures like `Failed`: logged when the key's error changes, and
    retried after the key's back-off. A worker that dies is replaced.

    Attributes:
        restarts: workers that were replaced: 0 unless there is a bug in this module.
    """

    def __init__(
        self,
        queue: WorkQueue[K],
        handler: Handler[K],
        *,
        count: int = 64,
        metrics: Metrics | None = None,
        restart: float = RESTART_SECONDS,
    ) -> None:
        self.restarts = 0
        self._queue = queue
        self._handler = handler
        self._count = count
        self._metrics = metrics
        self._restart = restart
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors: dict[K, int] = {}

    @property
    def alive(self) -> int:
        """Number of running workers."""
        return sum(not task.done() for task in self._tasks)

    def start(self) -> None:
        """Start the workers; must be called in the running loop."""
        self._queue.serve()
        for number in range(self._count):
            task = asyncio.create_task(self._supervise(), name=f"worker {number}")
            self._tasks.add(task)

    async def drain(self, deadline: float) -> bool:
        """Finish the reconciles in progress and start no new ones; abort after `deadline` seconds.

        Returns:
            True if all of them were finished.
        """
        self._queue.shutdown()
        if not self._tasks:
            return True
        _, late = await asyncio.wait(self._tasks, timeout=deadline)
        for task in late:
            task.cancel()
        if late:
            log.warning("Reconciles cancelled after %.0f s: %d", deadline, self._queue.working)
            await asyncio.wait(late, timeout=1.0)
        return not late

    async def _supervise(self) -> None:
        while not self._queue.closed:
            try:
                await self._work()
            except QueueShutDownError:
                return
            except Exception:
                self.restarts += 1
                log.exception("a worker failed; it is replaced")
                await asyncio.sleep(self._restart)

    async def _work(self) -> None:
        slice_ = TimeSlice()
        while True:
            await slice_.pause()  # neither a ready queue nor every handler waits for anything
            key = await self._queue.get()
            started = time.monotonic()
            outcome: Outcome = Failed("interrupted")
            try:
                with working_for(self._queue.tenant_of(key)):
                    outcome = await self._handler(key)
            except Exception as error:
                outcome = Failed(error)
            finally:
                # Also when cancelled: a key must not stay in progress without a worker.
                self._settle(key, outcome)
                self._count_outcome(key, outcome, time.monotonic() - started)

    def _settle(self, key: K, outcome: Outcome) -> None:
        try:
            match outcome:
                case Failed(error):
                    delay = self._queue.retry(key)
                    self._report(key, error, delay)
                case RequeueAfter(after, priority):
                    self._succeeded(key)
                    self._queue.add_after(key, after, priority)
                case Done():
                    self._succeeded(key)
                case _:  # the handler violated its contract
                    self._queue.retry(key)
                    raise TypeError(f"the handler returned {outcome!r} for {key}")
        finally:
            self._queue.done(key)

    def _succeeded(self, key: K) -> None:
        self._queue.forget(key)
        if self._errors.pop(key, None) is not None:
            log.info("%s: succeeds again", key)

    def _report(self, key: K, error: Exception | str, delay: float) -> None:
        if getattr(error, "concerns_all", False):
            # An outage: the circuit breaker logs it once, not for each key.
            log.debug("%s: %s", key, describe(error))
            return
        text = describe(error)
        said = hash(text)
        if self._errors.get(key) == said:
            return
        if len(self._errors) < LOGGED_ERRORS:
            self._errors[key] = said
        where = ""
        if isinstance(error, Exception) and not hasattr(error, "transient"):
            where = "\n" + "".join(traceback.format_tb(error.__traceback__))
        log.warning(
            "%s: %s; retried in %.0f s, then with growing delays%s", key, text, delay, where
        )

    def _count_outcome(self, key: K, outcome: Outcome, seconds: float) -> None:
        if self._metrics is None:
            return
        kind = type(key).__name__
        self._metrics.reconciles.labels(kind, outcome.label).inc()
        self._metrics.reconcile_seconds.labels(kind).observe(seconds)
        if isinstance(outcome, Failed):
            self._metrics.queue_retries.labels(kind).inc()


def describe(error: Exception | str) -> str:
    """The log text of an error. A message that might quote a Secret's value is left out."""
    if isinstance(error, str):
        return error
    name = type(error).__name__
    if hasattr(error, "transient") or isinstance(error, _LOGGABLE):
        return f"{name}: {error}"
    return f"{name} (its message isn't logged: it may contain data)"
