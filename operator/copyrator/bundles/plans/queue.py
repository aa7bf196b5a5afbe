"""Limits the plans that are made at the same time; the others wait in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from copyrator.api.keys import BundleKey
from copyrator.bundles.context import Context
from copyrator.bundles.jobs import Jobs

RECHECK_SECONDS: Final = 30.0
"""Seconds after which a Bundle that waits in the queue is reconciled again."""


class Ticket(NamedTuple):
    """A plan in the queue: a Bundle may have one of its next deploy, a preview, and a check."""

    key: BundleKey
    is_preview: bool = False
    is_check: bool = False
    """A check for drift: other plans have precedence, and checks get at most half of the slots."""


class PlanQueue:
    """The plans that are being made, and those that wait, in order."""

    def __init__(self, context: Context, jobs: Jobs) -> None:
        self._context = context
        self._jobs = jobs
        self._waiting: dict[Ticket, None] = {}
        self._called: dict[Ticket, bool] = {}
        """Plans that may begin; True once the Bundle's reconcile has started, until it ends."""
        self._beginning: dict[Ticket, str] = {}
        """Names of Jobs that were begun and that the watch hasn't reported yet."""
        jobs.plan_changed = self._changed

    def turn(self, ticket: Ticket) -> bool:
        """Whether the plan is in the queue, so that ``begin`` has to be called again."""
        return ticket in self._called or ticket in self._waiting

    @contextmanager
    def reconciling(self, key: BundleKey) -> Iterator[None]:
        """Wrap each reconcile of a Bundle: a slot that it doesn't use is given to the next plan."""
        for ticket in _tickets(key):
            if ticket in self._called:
                self._called[ticket] = True
        try:
            yield
        finally:
            for ticket in _tickets(key):
                if self._called.get(ticket):  # else it was called during this reconcile
                    del self._called[ticket]
                    self._call()

    def begin(self, ticket: Ticket, job: str) -> bool:
        """Whether this Job may be created now; if not, the plan is queued."""
        self._called.pop(ticket, None)
        if not self._free_for(ticket):
            self._waiting.setdefault(ticket)
            self._context.queue.add_after(ticket.key, RECHECK_SECONDS)
            return False
        self._waiting.pop(ticket, None)
        self._beginning[ticket] = job
        return True

    def end(self, ticket: Ticket) -> None:
        """Free the slot of a Job that wasn't created, or doesn't exist any more."""
        if self._beginning.pop(ticket, None) is not None:
            self._call()

    def forget(self, ticket: Ticket) -> None:
        """Remove a plan that isn't needed from the queue."""
        self._waiting.pop(ticket, None)

    def forget_all(self, key: BundleKey) -> None:
        """The Bundle was deleted."""
        for ticket in _tickets(key):
            self.forget(ticket)
            self.end(ticket)

    @property
    def _free(self) -> int:
        running = self._jobs.plans_running + len(self._beginning)
        return max(self._context.settings.max_plan_jobs - running, 0)

    def _free_for(self, ticket: Ticket) -> int:
        if not ticket.is_check:
            return self._free
        if any(not one.is_check for one in (*self._waiting, *self._called)):
            return 0
        return min(self._free, self._free_for_checks)

    @property
    def _free_for_checks(self) -> int:
        beginning = sum(ticket.is_check for ticket in self._beginning)
        running = self._jobs.checks_running + beginning
        return max(max(self._context.settings.max_plan_jobs // 2, 1) - running, 0)

    def _changed(self, key: BundleKey, job: str, has_ended: bool) -> None:
        for ticket in _tickets(key):
            if self._beginning.get(ticket) == job:
                del self._beginning[ticket]
        if has_ended:
            self._call()

    def _call(self) -> None:
        """Requeue as many Bundles as there are free slots.

        One whose plan isn't needed any more passes its slot on (``reconciling``).
        """
        free = self._free
        called = [ticket for ticket in self._waiting if not ticket.is_check][:free]
        most = min(free - len(called), self._free_for_checks)
        called += [ticket for ticket in self._waiting if ticket.is_check][:most]
        for ticket in called:
            del self._waiting[ticket]
            self._called[ticket] = False
            self._context.queue.add(ticket.key)


def _tickets(key: BundleKey) -> tuple[Ticket, ...]:
    return Ticket(key), Ticket(key, is_preview=True), Ticket(key, is_check=True)
