"""Which plans may be begun now: so many are made at once, the others wait their turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from copyrator.api.keys import BundleKey
from copyrator.bundles.context import Context
from copyrator.bundles.jobs import Jobs

RECHECK_SECONDS: Final = 30.0
"""Seconds after which a Bundle that waits in the queue asks again."""


class Ticket(NamedTuple):
    """A plan in the queue: a Bundle may have one of its next deploy, a preview, and a check."""

    key: BundleKey
    is_preview: bool = False
    is_check: bool = False
    """For drift: others go first, and take at least half of the places."""


class PlanQueue:
    """The plans that are being made, and those that wait, in their order."""

    def __init__(self, context: Context, jobs: Jobs) -> None:
        self._context = context
        self._jobs = jobs
        self._waiting: dict[Ticket, None] = {}
        self._called: dict[Ticket, bool] = {}
        """Those whose turn has come, and whether they have taken it, until that reconcile ends."""
        self._beginning: dict[Ticket, str] = {}
        """Jobs that were begun and that the watch hasn't shown yet."""
        jobs.plan_changed = self._changed

    def turn(self, ticket: Ticket) -> bool:
        """Whether one that waits is to ask again now."""
        return ticket in self._called or ticket in self._waiting

    @contextmanager
    def reconciling(self, key: BundleKey) -> Iterator[None]:
        """Around each reconcile of a Bundle: a turn that it doesn't use is the next one's."""
        for ticket in _tickets(key):
            if ticket in self._called:
                self._called[ticket] = True
        try:
            yield
        finally:
            for ticket in _tickets(key):
                if self._called.get(ticket):  # else it was called meanwhile: it is reconciled again
                    del self._called[ticket]
                    self._call()

    def begin(self, ticket: Ticket, job: str) -> bool:
        """Whether this Job may be created now; else the plan waits."""
        self._called.pop(ticket, None)
        if not self._free_for(ticket):
            self._waiting.setdefault(ticket)
            self._context.queue.add_after(ticket.key, RECHECK_SECONDS)
            return False
        self._waiting.pop(ticket, None)
        self._beginning[ticket] = job
        return True

    def end(self, ticket: Ticket) -> None:
        """The Job that was begun isn't created, or doesn't exist any more."""
        if self._beginning.pop(ticket, None) is not None:
            self._call()

    def forget(self, ticket: Ticket) -> None:
        """The plan isn't needed."""
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
        """Requeue as many Bundles as may begin; a plan that isn't needed any more holds up none."""
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
