"""What the registry offers a Bundle, asked for when it is time to.

An exact tag is one question. A range is two: the tag list, from which all Bundles of the
repository choose, then what the chosen tag names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, parse_version
from copyrator.bundles import verdicts
from copyrator.bundles.candidates import Choice
from copyrator.bundles.criteria import criteria_of
from copyrator.bundles.resolution import Wish, is_answered, retry_at
from copyrator.bundles.schedule import next_slot
from copyrator.oci.errors import RegistryError
from copyrator.oci.reference import Repository
from copyrator.reconcile.bundle_context import Context
from copyrator.reconcile.bundle_polls import Listing, Polls, Question
from copyrator.reconcile.bundle_references import Access
from copyrator.reconcile.bundle_status import StatusWriter
from copyrator.registry.bundles import BundleEntry

SHARING: Final = 1.0
"""Seconds that an answer may be older than a new wish: Bundles made together share one request."""
ERROR_SHARING: Final = 5.0
"""The same after a failed poll: less than the shortest retry."""
PATIENCE: Final = 3.0
"""Seconds after which a registry that doesn't answer is mentioned in the status."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A tag and its digest, or why there is none: an error, or a choice that names no tag."""

    tag: str = ""
    digest: str = ""
    choice: Choice | None = None
    """Of a range."""
    error: RegistryError | None = None


class Offers:
    """Asks registries for Bundles, and sees to it that they are visited when there is an answer."""

    def __init__(self, context: Context, writer: StatusWriter, polls: Polls) -> None:
        self._context = context
        self._writer = writer
        self._polls = polls

    async def ask(
        self, entry: BundleEntry, spec: BundleSpec, access: Access, wish: Wish
    ) -> Offer | None:
        """The registry's offer if one is wanted and there; else make sure to be called again."""
        if not self._is_wanted(entry, spec, wish):
            return None
        offer = self._look(entry, spec, access)
        if offer is None:
            await self._mention_silence(entry, spec)
        return offer

    def _is_wanted(self, entry: BundleEntry, spec: BundleSpec, wish: Wish) -> bool:
        now, monotonic = self._context.clock(), self._context.monotonic()
        memory = self._context.memory(entry.key)
        if memory.wish is None and is_answered(entry.status, wish):
            memory.wish = wish
            memory.next_poll = next_slot(spec, now)
        if memory.asked_since is not None:
            return True
        slot, retry = self._slot(entry), retry_at(entry.status)
        if memory.wish != wish:
            strict = bool(wish.request)
            memory.asked_since = monotonic - (0.0 if strict else SHARING)
        elif _is_past(slot, now) or _is_past(retry, now):
            age = spec.interval / 2
            memory.asked_since = monotonic - (
                min(age, ERROR_SHARING) if memory.poll_failures else age
            )
        else:
            self._context.wake_at(entry.key, slot, retry)
            return False
        memory.asked_at = now
        return True

    def _look(self, entry: BundleEntry, spec: BundleSpec, access: Access) -> Offer | None:
        """What is known by now; None where the next answer is still on its way."""
        since = self._context.memory(entry.key).asked_since or 0.0
        repository = Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, access.ca
        )
        choice = None
        version = parse_version(spec.version)
        if isinstance(version, ExactTag):
            tag = version.tag
        else:
            criteria = criteria_of(spec, version, entry.status)
            listing = Listing(repository, access.credential)
            found = self._polls.choose(entry.key, listing, criteria, since)
            if found is None:
                return None
            if found.error is not None:
                return Offer(error=found.error)
            choice = found.choices[criteria]
            if choice.tag is None:
                return Offer(choice=choice)
            tag = choice.tag
        answer = self._polls.ask(entry.key, Question(repository, tag, access.credential), since)
        if answer is None:
            return None
        return Offer(tag, answer.digest or "", choice, answer.error)

    def _slot(self, entry: BundleEntry) -> datetime | None:
        """The next regular poll: its slot, but not while somebody is still editing the Bundle."""
        memory = self._context.memory(entry.key)
        if memory.next_poll is None or memory.changed_at is None:
            return memory.next_poll
        idle = timedelta(seconds=self._context.settings.timer_idle)
        return max(memory.next_poll, memory.changed_at + idle)

    async def _mention_silence(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """A registry that takes its time leaves a new spec without a word; say what goes on."""
        if entry.status.observed_generation == entry.generation:
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
