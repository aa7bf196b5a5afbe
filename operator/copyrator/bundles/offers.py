"""When a registry is asked for a Bundle, and the Bundle's wait for the answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.cache import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.policy import verdicts
from copyrator.bundles.policy.resolution import DesiredVersion, is_answered
from copyrator.bundles.polls import Polls
from copyrator.bundles.references import Access
from copyrator.bundles.resolver import Resolution, Resolver
from copyrator.bundles.status import StatusWriter

SHARING: Final = 1.0
"""Seconds that an answer may be older than a new wish: Bundles made together share one request."""
ERROR_SHARING: Final = 5.0
"""The same after a failed poll: less than the shortest retry."""
PATIENCE: Final = 3.0
"""Seconds after which a registry that doesn't answer is mentioned in the status."""


class Offers:
    """Asks registries for Bundles, and sees to it that they are visited when there is an answer."""

    def __init__(self, context: Context, writer: StatusWriter, polls: Polls) -> None:
        self._context = context
        self._writer = writer
        self._polls = polls

    async def ask(
        self, entry: BundleEntry, spec: BundleSpec, access: Access, wish: DesiredVersion
    ) -> Resolution | None:
        """The registry's offer if one is wanted and there; else make sure to be called again."""
        if not self._is_wanted(entry, spec, wish):
            return None
        since = self._context.memory(entry.key).asked_since or 0.0
        offer = Resolver(entry, spec, access, self._polls, since).offer()
        if offer is None:
            await self._mention_silence(entry, spec)
        return offer

    def taken(self, entry: BundleEntry, asked_since: float | None) -> None:
        """The answer to what was wanted since then has been acted on."""
        memory = self._context.memory(entry.key)
        if memory.asked_since == asked_since:  # else a push was announced meanwhile
            memory.asked_since = None
        if memory.again is not None:
            self._context.wake_at(entry.key, memory.next_poll, self._context.again_at(entry.key))

    def _is_wanted(self, entry: BundleEntry, spec: BundleSpec, wish: DesiredVersion) -> bool:
        now, monotonic = self._context.clock(), self._context.monotonic()
        memory = self._context.memory(entry.key)
        if memory.wish is None and is_answered(entry.status, wish):
            memory.wish = wish
            memory.next_poll = self._context.slot(entry, spec).after(now)
        if memory.asked_since is not None:
            return True
        slot, retry = self._slot(entry), entry.retry_at
        if memory.wish != wish:
            strict = bool(wish.request)
            memory.asked_since = monotonic - (0.0 if strict else SHARING)
        elif memory.again is not None and monotonic >= memory.again:
            memory.asked_since, memory.again = memory.again, None
        elif _is_past(slot, now) or _is_past(retry, now):
            age = spec.interval / 2
            memory.asked_since = monotonic - (
                min(age, ERROR_SHARING) if memory.poll_failures else age
            )
        else:
            self._context.wake_at(entry.key, slot, retry, self._context.again_at(entry.key))
            return False
        memory.asked_at = now
        return True

    def _slot(self, entry: BundleEntry) -> datetime | None:
        """The next regular poll: its slot, but not while somebody is still editing the Bundle."""
        memory = self._context.memory(entry.key)
        if memory.next_poll is None or memory.changed_at is None:
            return memory.next_poll
        idle = timedelta(seconds=self._context.settings.timer_idle)
        return max(memory.next_poll, memory.changed_at + idle)

    async def _mention_silence(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """A registry that takes its time leaves a new spec without a word; say what goes on."""
        if entry.observed_generation == entry.generation:
            return
        now = self._context.clock()
        asked_at = self._context.memory(entry.key).asked_at or now
        patience = asked_at + timedelta(seconds=PATIENCE)
        if now < patience:
            self._context.wake_at(entry.key, patience)
            return
        verdict = verdicts.polling(spec.reference, spec.version)
        await self._writer.write(entry, entry.status, verdict, decided=False)


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now >= moment
