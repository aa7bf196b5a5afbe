"""Service accounts of Jobs that don't exist: each is requested once for all Bundles that name it.

The operator may get a service account but not watch any, so a missing one is requested again with
growing pauses, once for all Bundles of the account. Meanwhile a Bundle without its account costs as
much as one that is deployed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.jobs.blocked import missing_account
from copyrator.bundles.step import Change, Step
from copyrator.bundles.version.polling import PollStates
from copyrator.kube.errors import Forbidden

LONGEST_PAUSE: Final = 300.0
"""Seconds between two requests at most; less where the Bundle's interval is shorter."""


@dataclass(slots=True)
class _MissingAccount:
    """An account that is missing."""

    text: str
    checked_at: float
    """Monotonic seconds, as `next_check`."""
    next_check: float
    wait: float
    waiting: set[BundleKey] = field(default_factory=set)


@dataclass(slots=True)
class AccountMemory:
    """The missing service account of a Bundle's Jobs."""

    check_at: datetime | None = None
    """When it is requested again; None where another Bundle does so, or it isn't missing."""


class ServiceAccountChecker:
    """The service accounts that were found missing, for all Bundles."""

    def __init__(self, context: Context, poll_states: PollStates) -> None:
        self._context = context
        self._poll_states = poll_states
        self._missing: dict[tuple[str, str], _MissingAccount] = {}
        context.memories.on_drop(self._leave)

    def is_awaited(self, key: BundleKey) -> bool:
        """Whether a Bundle's account was missing when it was looked for last."""
        return self._context.memories.find(key, AccountMemory) is not None

    def check_at(self, key: BundleKey) -> datetime | None:
        """When a missing account is requested again; None where another Bundle does so."""
        memory = self._context.memories.find(key, AccountMemory)
        return memory.check_at if memory is not None else None

    async def check(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Check whether an account that was missing exists now: then decide again.

        An account that isn't recorded as missing any more was found, or its request was forbidden.
        """
        is_recorded = (spec.namespace, spec.service_account) in self._missing
        if is_recorded and await self.missing(entry, spec):
            return Step(entry, due=(self.check_at(entry.key),))
        self._context.memories.forget(entry.key, AccountMemory)
        self._poll_states.decide_again(entry.key, spec.interval)
        return Step(entry)

    async def missing(
        self, entry: BundleEntry, spec: BundleSpec, *, recheck: bool = False
    ) -> str | None:
        """The message for the status where the account is missing, else None.

        The API server is requested only when a check is due.

        With `recheck` it is requested in any case, except right after another Bundle did. The
        Bundle whose request failed is requeued for the next one; all waiting Bundles are
        requeued once the account exists.
        """
        account = spec.namespace, spec.service_account
        now, timing = self._context.monotonic(), self._context.timing
        memories = self._context.memories
        memory = memories.find(entry.key, AccountMemory)
        if memory and memory.check_at is not None and memory.check_at <= self._context.clock():
            memory.check_at = None  # unless it sends this request, another Bundle has
        found = self._missing.get(account)
        if found and now < (
            found.checked_at + timing.account_sharing if recheck else found.next_check
        ):
            found.waiting.add(entry.key)
            memories.of(entry.key, AccountMemory)
            return found.text
        is_due = found is None or now >= found.next_check
        if found and is_due:
            found.next_check = now + found.wait  # no other Bundle requests it meanwhile
        try:
            text = await missing_account(self._context.client, spec)
        except Forbidden:
            self._requeue_waiting(entry.key, account)  # unknown from now on: each Bundle reports it
            raise
        found = self._missing.get(account)
        if text is None:
            self._requeue_waiting(entry.key, account)
            memories.forget(entry.key, AccountMemory)
            return None
        memory = memories.of(entry.key, AccountMemory)
        if found is None:
            wait = timing.account_recheck / 2
            found = self._missing[account] = _MissingAccount(text, now, now, wait)
        if is_due:
            found.wait = min(found.wait * 2, LONGEST_PAUSE, max(spec.interval, 1.0))
            found.next_check = now + found.wait
            memory.check_at = self._context.clock() + timedelta(seconds=found.wait)
        found.checked_at = now
        found.waiting.add(entry.key)
        return text

    def _requeue_waiting(self, finder: BundleKey, account: tuple[str, str]) -> None:
        """Remove the account; requeue the Bundles that wait for it, except the finder."""
        found = self._missing.pop(account, None)
        if found is not None:
            for key in found.waiting - {finder}:
                self._context.schedule.changed(key, Change.ACCOUNT)

    def _leave(self, key: BundleKey) -> None:
        """Remove a Bundle that was deleted."""
        for account, found in list(self._missing.items()):
            found.waiting.discard(key)
            if not found.waiting:
                del self._missing[account]
