"""Limits the plans that are made at the same time; the others wait in order.

A plan takes a slot from its beginning to its Job's end, unless its pod doesn't start within
PENDING_AFTER: it may wait for a node. Such a plan is pending and takes none until its pod runs.
No namespace has plans, pending ones included, for more than half of the slots; the next slot is for
the namespace with the fewest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.job_client import JobClient
from copyrator.bundles.engine.step import Change
from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.plans.record import PlanPurpose

PENDING_AFTER: Final = 60.0
"""Seconds that a plan's pod may take to start before the plan gives its slot back."""
MAX_PENDING: Final = 2
"""Plans of a namespace that may have given their slots back, the oldest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTiming:
    """Durations in seconds; only tests use others than the defaults."""

    requeue: float = 30.0
    """After so long a Bundle that waits in the queue is reconciled again."""
    log_timeout: float = 10.0
    """Timeout of reading a plan's log."""
    log_retry: float = 10.0
    """Between two tries to read a plan's log."""
    log_patience: float = 120.0
    """After the Job's end an unreadable log is requested again for so long: its node may become
    Ready again."""


class Ticket(NamedTuple):
    """A plan in the queue: a Bundle may have one of each purpose."""

    key: BundleKey
    purpose: PlanPurpose

    @property
    def gives_way(self) -> bool:
        """Whether other plans have precedence, and it gets one of half of the slots."""
        return self.purpose.gives_way


class _Usage:
    """How many plans are being made, of each namespace and in total."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._half = max(most // 2, 1)
        self._taken = 0
        self._giving = 0
        self._of: Counter[str] = Counter()

    def add(self, namespace: str, *, gives_way: bool, is_pending: bool = False) -> None:
        """Count a plan; one that is pending takes no slot, but is one of its namespace's plans."""
        self._of[namespace] += 1
        if not is_pending:
            self._taken += 1
            self._giving += gives_way

    def is_full(self, *, gives_way: bool) -> bool:
        """Whether no namespace may begin another plan, or check."""
        return self._taken >= self._most or (gives_way and self._giving >= self._half)

    def next_of(self, namespaces: Iterable[str]) -> str | None:
        """The namespace that may begin a plan: of those with the fewest, the first."""
        may = (one for one in namespaces if self._of[one] < self._half)
        return min(may, key=self._of.__getitem__, default=None)


class PlanQueue:
    """The plans that are being made, and those that wait, in order; ``most`` at the same time."""

    def __init__(self, context: Context, jobs: JobClient, most: int) -> None:
        self._context = context
        self._jobs = jobs
        self._most = most
        self._waiting: dict[bool, dict[str, dict[Ticket, None]]] = {False: {}, True: {}}
        """By ``gives_way`` and namespace; one whose plan is called or ends goes to the end."""
        self._called: dict[Ticket, bool] = {}
        """Plans that may begin; True once the Bundle's reconcile has started, until it ends."""
        self._beginning: dict[Ticket, str] = {}
        """Names of Jobs that were begun and that the watch hasn't reported yet."""
        self._running: dict[BundleKey, None] = {}
        """The Bundles whose status names Jobs of plans without an outcome."""
        self._purposes: list[PlanPurpose] = []
        jobs.further_changed = self._handle_job
        context.memories.on_drop(self._drop)

    def add(self, purpose: PlanPurpose) -> None:
        """Have plans of a purpose in the queue."""
        self._purposes.append(purpose)

    def running(self, status: BundleStatus) -> list[str | None]:
        """The Jobs of the plans without an outcome."""
        records = (purpose.record(status) for purpose in self._purposes)
        return [one.job for one in records if one.is_running and one.job]

    def watch(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Take a change of a Bundle in the cache."""
        if after is not None and self.running(after.status):
            self._running[after.key] = None
        elif (entry := after or before) is not None:
            self._running.pop(entry.key, None)

    def has_turn(self, ticket: Ticket) -> bool:
        """Whether the plan is in the queue, so that ``begin`` has to be called again."""
        return ticket in self._called or self._is_waiting(ticket)

    def _is_waiting(self, ticket: Ticket) -> bool:
        return ticket in self._waiting[ticket.gives_way].get(ticket.key.namespace, ())

    @contextmanager
    def reconciling(self, key: BundleKey) -> Iterator[None]:
        """Wrap each reconcile of a Bundle: a slot that it doesn't use is given to the next plan."""
        for ticket in self._tickets(key):
            if ticket in self._called:
                self._called[ticket] = True
        try:
            yield
        finally:
            for ticket in self._tickets(key):
                if self._called.get(ticket):  # else it was called during this reconcile
                    del self._called[ticket]
            self._call()  # its status may name fewer Jobs now, too

    def begin(self, ticket: Ticket, job: str) -> bool:
        """Whether this Job may be created now; if not, the plan is queued."""
        if self._called.pop(ticket, None) is None:
            waiting = self._waiting[ticket.gives_way].setdefault(ticket.key.namespace, {})
            waiting.setdefault(ticket)
            self._call(asking=ticket)
            if self._called.pop(ticket, None) is None:
                return False
        self._beginning[ticket] = job
        return True

    def due(self, key: BundleKey) -> datetime | None:
        """When a Bundle whose plan waits is reconciled again: the next slot may be free then."""
        if not any(map(self._is_waiting, self._tickets(key))):
            return None
        now = self._context.clock()
        latest = now + timedelta(seconds=self._context.timing.of(PlanTiming).requeue)
        dues = (_pending_at(job) for job in self._plans())
        return min((latest, *(due for due in dues if due is not None and due > now)))

    def end(self, ticket: Ticket) -> None:
        """Free the slot of a Job that wasn't created, or doesn't exist any more."""
        if self._beginning.pop(ticket, None) is not None:
            self._call()

    def forget(self, ticket: Ticket) -> None:
        """Remove a plan that isn't needed from the queue."""
        namespaces, namespace = self._waiting[ticket.gives_way], ticket.key.namespace
        waiting = namespaces.get(namespace, {})
        waiting.pop(ticket, None)
        if not waiting:
            namespaces.pop(namespace, None)

    def leave(self, key: BundleKey, *purposes: PlanPurpose) -> None:
        """Remove the plans of a Bundle that needs none for these purposes any more."""
        for purpose in purposes:
            ticket = Ticket(key, purpose)
            self.forget(ticket)
            self._called.pop(ticket, None)
        self._call()

    def _drop(self, key: BundleKey) -> None:
        """The Bundle was deleted."""
        for ticket in self._tickets(key):
            self._beginning.pop(ticket, None)
        self.leave(key, *self._purposes)

    def _handle_job(self, key: BundleKey, job: str, has_ended: bool) -> None:
        for ticket in self._tickets(key):
            if self._beginning.get(ticket) == job:
                del self._beginning[ticket]
        if has_ended:
            for namespaces in self._waiting.values():
                if (waiting := namespaces.pop(key.namespace, None)) is not None:
                    namespaces[key.namespace] = waiting  # the others have the next turn
            self._call()

    def _call(self, asking: Ticket | None = None) -> None:
        """Requeue as many Bundles as there are free slots, except the one that is ``asking``.

        One whose plan isn't needed any more passes its slot on (``reconciling``).
        """
        if not any(self._waiting.values()):
            return
        usage = self._usage()
        for gives_way, namespaces in self._waiting.items():
            while not usage.is_full(gives_way=gives_way):
                namespace = usage.next_of(namespaces)
                if namespace is None:
                    break
                waiting = namespaces.pop(namespace)
                ticket = next(iter(waiting))
                del waiting[ticket]
                if waiting:
                    namespaces[namespace] = waiting
                usage.add(namespace, gives_way=gives_way)
                self._called[ticket] = False
                if ticket != asking:
                    self._context.schedule.changed(ticket.key, Change.AWAITED)

    def _plans(self) -> list[JobRecord]:
        """The unfinished Jobs of plans, for whatever purpose, that a Bundle's status names.

        Everybody who can create a Job can give it the operator's labels; such a Job isn't counted.
        """
        entries = (self._context.bundles.get(key) for key in self._running)
        return [
            job
            for entry in entries
            if entry is not None
            for job in self._jobs.of(entry.key, entry.uid)
            if job.name in self.running(entry.status) and not job.done
        ]

    def _tickets(self, key: BundleKey) -> list[Ticket]:
        return [Ticket(key, purpose) for purpose in self._purposes]

    def _usage(self) -> _Usage:
        usage, now = _Usage(self._most), self._context.clock()
        pending: Counter[str] = Counter()
        giving = {one.job_kind for one in self._purposes if one.gives_way}
        for job in sorted(self._plans(), key=lambda one: (one.created or now, one.name)):
            due = _pending_at(job)
            is_pending = due is not None and due <= now and pending[job.namespace] < MAX_PENDING
            pending[job.namespace] += is_pending
            gives_way = job.kind in giving
            usage.add(job.namespace, gives_way=gives_way, is_pending=is_pending)
        for ticket in (*self._beginning, *self._called):
            usage.add(ticket.key.namespace, gives_way=ticket.gives_way)
        return usage


def _pending_at(job: JobRecord) -> datetime | None:
    """When a plan gives its slot back unless its pod has started by then; None if it has."""
    if job.started or job.created is None:
        return None
    return job.created + timedelta(seconds=PENDING_AFTER)
