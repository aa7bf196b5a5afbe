"""The queue of keys to reconcile, the scheduler of keys that are due later, and the workers.

The queue is de-duplicated, with urgent keys first, and failing ones with back-off. A key added
twice is reconciled once, and one added while it is in progress is reconciled once more afterwards.
No key is lost: it is ready, delayed, or in progress until its worker calls `done`. Ready keys of
one priority take turns between their groups.

The scheduler is for polls of registries, TTLs and time limits: a date is minutes ahead, while the
queue's own delays are for seconds and failures. One timer serves all keys, and moving a key's date
costs O(log n).

Workers take keys and call the handler, whose outcome says when a key is due again; a failure
affects only its key.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import logging
import math
import random
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from copyrator.workqueue.fairness import Group, RoundRobin, TimeSlice, Waiters, working_for

if TYPE_CHECKING:
    from copyrator.metrics import Metrics


class Priority(enum.IntEnum):
    """A key's priority; within one first come, first served."""

    URGENT = 0
    """A new namespace, a user's request."""
    NORMAL = 1
    RESYNC = 2
    """Without a known change."""
    STATUS = 3
    """Only its status may be out of date: after all others, or after STATUS_PATIENCE."""


@dataclass(frozen=True, slots=True)
class Done:
    """The reconcile succeeded; nothing is left to do."""

    label: ClassVar[str] = "done"
    """The label `outcome` of copyrator_reconciles_total."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Not a failure; reconcile again in `after` seconds (a poll, a running Job)."""

    label: ClassVar[str] = "again"
    after: float
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed; reconcile again after the key's back-off. `error` is logged when it changes."""

    label: ClassVar[str] = "failed"
    error: Exception | str


Outcome = Done | RequeueAfter | Failed


log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

# The scheduler -----------------------------------------------------------------------------------

GRAIN = 0.25
"""Seconds: dates are rounded up to multiples of it, so those of a second fire in four groups. A
wake-up for each one costs as much processor time as the poll that is due."""
COMPARE_SECONDS = 5.0
"""Seconds between two comparisons of the wall clock with the monotonic one."""
SLEW = 1.0
"""Seconds by which the wall clock may get ahead between two comparisons without having been set."""


class DueScheduler(Generic[K]):
    """One date for each key, on the injected monotonic clock (seconds).

    With a wall clock, dates are brought forward when that is set forward: what is due at a time of
    day isn't late then. Nothing is done when it is set back: who is called back too early sets the
    date again.
    """

    def __init__(
        self,
        callback: Callable[[K], None],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._wall = wall or clock
        self._offset = self._wall() - clock()
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []  # an entry that isn't in _due is void
        self._serial = 0
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def due(self, key: K) -> float | None:
        """The key's date, or None."""
        return self._due.get(key)

    def set(self, key: K, due: float) -> None:
        """Set or replace the key's date; a date in the past is due now."""
        if self._due.get(key) == due:
            return
        self._due[key] = due
        self._serial += 1
        heapq.heappush(self._heap, (due, self._serial, key))
        if len(self._heap) > 64 + 2 * len(self._due):
            self._rebuild()
        if self._heap[0][2] == key:
            self._changed.set()

    def remove(self, key: K) -> None:
        """Remove the key's date, if it has one."""
        self._due.pop(key, None)

    def next_due(self) -> float | None:
        """The earliest date."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def fire_due(self) -> int:
        """Call back for every key that is due and remove its date. Return their number."""
        fired = 0
        now = self._clock()
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            fired += 1
            try:
                self._callback(key)
            except Exception:
                log.exception("%s was due, and its callback failed", key)
        return fired

    async def run(self) -> None:
        """Fire until cancelled."""
        while True:
            self._follow_wall_clock()
            self.fire_due()
            self._changed.clear()
            due = self.next_due()
            wait = None if due is None else math.ceil(due / GRAIN) * GRAIN - self._clock()
            if wait is not None and self._wall is not self._clock:
                wait = min(wait, COMPARE_SECONDS)
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _follow_wall_clock(self) -> None:
        before, self._offset = self._offset, self._wall() - self._clock()
        step = self._offset - before
        if step > SLEW:
            log.info("The wall clock was set forward by %.0f s; bringing due dates forward", step)
            self._due = {key: due - step for key, due in self._due.items()}
            self._rebuild()

    def _rebuild(self) -> None:
        """Drop void entries: a key that is moved repeatedly must not fill the heap."""
        self._heap = [(due, number, key) for number, (key, due) in enumerate(self._due.items())]
        self._serial = len(self._heap)
        heapq.heapify(self._heap)


# The queue ---------------------------------------------------------------------------------------

Ready = tuple[float, Priority, K, Group]
"""Ready since, priority, key, group."""

SHARES = {Priority.URGENT: 16, Priority.NORMAL: 4, Priority.RESYNC: 1, Priority.STATUS: 1}
"""Of 22 keys while keys of each priority wait, so that none waits for ever."""

STATUS_PATIENCE = 2.0
"""Seconds that a key of Priority.STATUS waits for all others before it gets its share."""


class ReadyKeys(Generic[K]):
    """The keys that are ready; each operation is O(1), amortized.

    `is_current` returns whether an entry counts: a key whose priority was raised leaves a
    void one at the old priority.
    """

    def __init__(self, is_current: Callable[[Ready[K]], bool]) -> None:
        self._by_priority: dict[Priority, RoundRobin[Ready[K]]] = {
            priority: RoundRobin(is_current) for priority in Priority
        }
        self._credit = dict(SHARES)

    def put(self, entry: Ready[K]) -> None:
        """Append a ready key to its group."""
        self._by_priority[entry[1]].put(entry[3], entry)

    def heads(self) -> list[Ready[K]]:
        """The next key of each priority."""
        heads = [turns.head() for turns in self._by_priority.values()]
        return [head[1] for head in heads if head is not None]

    def take(self, now: float) -> Ready[K] | None:
        """The next key: of the first priority with keys and credit, from the next group.

        When the credit of all priorities with keys is used up, it is renewed.
        """
        waiting = [
            priority
            for priority, turns in self._by_priority.items()
            if turns.items and turns.head() is not None
        ]
        if not waiting:
            return None
        if len(waiting) > 1 and waiting[-1] is Priority.STATUS:
            last = self._by_priority[Priority.STATUS].head()
            if last is not None and now - last[1][0] < STATUS_PATIENCE:
                waiting.pop()
        if not any(self._credit[priority] for priority in waiting):
            self._credit = dict(SHARES)
        priority = next(priority for priority in waiting if self._credit[priority])
        self._credit[priority] -= 1
        found = self._by_priority[priority].take()
        return found and found[1]

    def block(self, group: Group) -> None:
        """Return none of a group's keys until `unblock`."""
        for turns in self._by_priority.values():
            turns.block(group)

    def unblock(self, group: Group) -> None:
        """Return the group's keys again, after the groups that wait now."""
        for turns in self._by_priority.values():
            turns.unblock(group)


FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
"""Seconds: a key that fails is retried after 1 s, 2 s, 4 s … 5 min."""

TRUSTED_SHARE = 4
"""Keys without a tenant for each one of a tenant, while both wait."""

UNLIMITED = 1_000_000_000


class QueueShutDownError(Exception):
    """The queue is shut down and returns no more keys."""


class WorkQueue(Generic[K]):
    """De-duplicating, with priorities and a back-off for each key. For one event loop.

    `group` returns a key's tenant. Keys of tenants are returned in turn, one of each tenant, and no
    more than `each` of one tenant and `together` of all tenants are in progress at a time. Keys
    without a tenant (None) have no limit, and come first while no tenant has waited for four.
    """

    def __init__(
        self,
        *,
        group: Callable[[K], Group] = lambda _: None,
        each: int = UNLIMITED,
        together: int = UNLIMITED,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.8, 1.0),  # noqa: S311 - no secret
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._group = group
        self._each = each
        self._together = together
        self._ready: dict[K, Ready[K]] = {}  # an entry whose priority isn't the one here is void
        self._trusted: ReadyKeys[K] = ReadyKeys(self._is_current)
        self._tenants: ReadyKeys[K] = ReadyKeys(self._is_current)
        self._trusted_run = 0
        """Keys without a tenant that were returned since the last one of a tenant."""
        self._delayed: list[tuple[float, int, K]] = []  # heap; an entry not in _due is void
        self._due: dict[K, tuple[float, Priority]] = {}
        self._failures: dict[K, int] = {}
        self._working: dict[K, tuple[float, Group]] = {}
        self._busy: Counter[str] = Counter()
        """Keys in progress of each tenant."""
        self._tenants_busy = 0
        self._again: dict[K, Priority] = {}
        self._serial = 0
        self._closed = False
        self._getters = Waiters()
        self._timer: asyncio.TimerHandle | None = None
        self._served_since = clock()
        self._paused = False

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def working(self) -> int:
        """Keys in progress."""
        return len(self._working)

    @property
    def closed(self) -> bool:
        """Whether `shutdown` was called."""
        return self._closed

    def oldest_age(self, now: float | None = None) -> float:
        """Seconds that the longest waiting of the next keys has been due; 0 for an empty queue."""
        self._release_due()
        now = self._clock() if now is None else now
        heads = [*self._trusted.heads(), *self._tenants.heads()]
        return max((now - max(head[0], self._served_since) for head in heads), default=0.0)

    def longest_working(self) -> tuple[K, float] | None:
        """The key that has been in progress longest, and its seconds."""
        if not self._working:
            return None
        key = next(iter(self._working))  # dicts keep the order of insertion
        return key, self._clock() - self._working[key][0]

    def tenant_of(self, key: K) -> Group:
        """The tenant of a key in progress."""
        return self._working[key][1]

    def is_delayed(self, key: K) -> bool:
        """Whether a key is only due later."""
        return key in self._due

    def pause(self) -> None:
        """Return no keys until `serve`; added keys are kept."""
        self._paused = True

    def serve(self) -> None:
        """Return keys (again), and count waiting times from now on."""
        self._paused = False
        self._served_since = self._clock()
        self._getters.call()

    # --- in --------------------------------------------------------------------------------------

    def add(
        self, key: K, priority: Priority = Priority.NORMAL, *, respect_backoff: bool = False
    ) -> None:
        """Make a key due now, also a delayed one: something relevant has changed.

        With `respect_backoff` a key in back-off stays there: the change doesn't make a success more
        likely.
        """
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
        elif not (respect_backoff and key in self._failures and key in self._due):
            self._due.pop(key, None)
            self._make_ready(key, priority, self._clock())

    def add_after(self, key: K, delay: float, priority: Priority = Priority.NORMAL) -> None:
        """Make a key due in `delay` seconds, unless it is due before that anyway."""
        if delay <= 0:
            self.add(key, priority)
        elif key in self._ready:
            if self._ready[key][1] is Priority.STATUS:  # it may wait for longer than this
                self._make_ready(key, priority, self._clock())
        elif key not in self._again:
            self._delay(key, self._clock() + delay, priority)

    def retry(self, key: K, priority: Priority = Priority.NORMAL) -> float:
        """Record a failure and make the key due after its back-off, which is returned (seconds)."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(FIRST_DELAY * 2.0 ** min(failures - 1, 30), LONGEST_DELAY) * self._jitter()
        if key not in self._ready and key not in self._again:
            self._due.pop(key, None)  # an earlier date is from before the failure
            self._delay(key, self._clock() + delay, priority)
        return delay

    def end_backoffs(self) -> None:
        """Make all keys in back-off due: an outage that affected all of them is over."""
        for key in self._failures.keys() & self._due.keys():
            self.add(key, self._due[key][1])

    def forget(self, key: K) -> None:
        """Reset the key's failures: it has succeeded, or doesn't exist any more."""
        self._failures.pop(key, None)

    # --- out -------------------------------------------------------------------------------------

    def poll(self) -> K | None:
        """Return the next key that is due, or None; `done` must follow."""
        if self._closed or self._paused:
            return None
        self._release_due()
        entry = self._next()
        if entry is None:
            return None
        _, _, key, group = entry
        del self._ready[key]
        self._working[key] = self._clock(), group
        if group is not None:
            self._busy[group] += 1
            self._tenants_busy += 1
            if self._busy[group] >= self._each:
                self._tenants.block(group)
        return key

    async def get(self) -> K:
        """Wait for the next key; `done` must follow.

        Raises:
            QueueShutDownError: the queue is shut down.
        """
        while not self._closed:
            key = self.poll()
            if key is not None:
                if self._ready:
                    self._getters.call()
                return key
            getter = self._getters.join()
            self._arm()
            await self._getters.wait(getter, self._getters.call)
        raise QueueShutDownError

    def done(self, key: K) -> None:
        """End a key's reconcile; if it was added meanwhile, it is due again."""
        _, group = self._working.pop(key)
        if group is not None:
            self._left(group)
        priority = self._again.pop(key, None)
        if priority is not None:
            self._due.pop(key, None)
            self._make_ready(key, priority, self._clock())

    def shutdown(self) -> None:
        """Return no more keys; keys in progress are finished by their workers."""
        self._closed = True
        if self._timer:
            self._timer.cancel()
        while self._getters:
            self._getters.call()

    # --- inside ----------------------------------------------------------------------------------

    def _make_ready(self, key: K, priority: Priority, since: float) -> None:
        known = self._ready.get(key)
        if known is None or priority < known[1]:
            group = self._group(key)
            entry = self._ready[key] = (known[0] if known else since, priority, key, group)
            (self._trusted if group is None else self._tenants).put(entry)
            self._getters.call()

    def _delay(self, key: K, due: float, priority: Priority) -> None:
        known = self._due.get(key)
        if known and known[0] <= due:
            self._due[key] = known[0], min(priority, known[1])
            return
        if known and priority is not Priority.STATUS:
            priority = min(priority, known[1])
        self._due[key] = due, priority
        self._serial += 1
        heapq.heappush(self._delayed, (due, self._serial, key))
        self._arm()

    def _release_due(self) -> None:
        """Make due keys ready, and drop void entries from the heap's top."""
        now = self._clock()
        while self._delayed:
            due, _, key = self._delayed[0]
            entry = self._due.get(key)
            if entry and entry[0] == due:
                if due > now:
                    return
                del self._due[key]
                if key in self._working:
                    self._again[key] = min(entry[1], self._again.get(key, entry[1]))
                else:
                    self._make_ready(key, entry[1], due)
            heapq.heappop(self._delayed)

    def _is_current(self, entry: Ready[K]) -> bool:
        return self._ready.get(entry[2]) is entry

    def _next(self) -> Ready[K] | None:
        """The next key: one without a tenant, unless it is a tenant's turn."""
        now = self._clock()
        full = self._tenants_busy >= self._together
        tenants_turn = self._trusted_run >= TRUSTED_SHARE
        entry = self._tenants.take(now) if tenants_turn and not full else None
        if entry is None and (entry := self._trusted.take(now)) is not None:
            self._trusted_run += 1
            return entry
        if entry is None and not (tenants_turn or full):
            entry = self._tenants.take(now)
        self._trusted_run = 0
        return entry

    def _left(self, group: str) -> None:
        """A tenant's key isn't in progress any more: another one of the tenant may be returned."""
        self._busy[group] -= 1
        self._tenants_busy -= 1
        if self._busy[group] == self._each - 1:
            self._tenants.unblock(group)
        if not self._busy[group]:
            del self._busy[group]
        if self._ready:
            self._getters.call()

    def _arm(self) -> None:
        """Set the timer to the next due time, where a `get` waits for it."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._delayed and self._getters and not self._paused:
            delay = max(self._delayed[0][0] - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._getters.call)


# The workers -------------------------------------------------------------------------------------

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
        self._slice = TimeSlice()
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

        Return whether all of them were finished.
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
        while True:
            await self._slice.pause()  # neither a ready queue nor every handler waits for anything
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
