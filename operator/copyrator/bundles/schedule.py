"""When each Bundle is reconciled next: the only owner of the work queue and of the due times.

Sources of events (handlers, watches, answers of registries) call ``changed`` with the reason. The
due times of a reconcile are a result of its steps (step.py); the reconciler passes on the earliest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey, Key
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.inputs import relations
from copyrator.bundles.inputs.relations import readiness
from copyrator.bundles.memory import Memories
from copyrator.bundles.step import AT_ONCE
from copyrator.workqueue.outcome import Priority

if TYPE_CHECKING:
    from copyrator.workqueue.queue import WorkQueue
    from copyrator.workqueue.scheduler import DueScheduler

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""


class Stale(Enum):
    """What a change invalidates of what is remembered of a Bundle."""

    NOTHING = auto()
    SETTLED = auto()
    """That there is nothing to do for its version: it is decided once more."""
    DECISION = auto()
    """The decision: it is made again, also by answers of the last interval, without a request."""
    ANSWERS = auto()
    """The registry's answers: it is polled at once, and once more after ``poll_after_push``."""


class Change(Enum):
    """Why a Bundle is reconciled: its priority in the queue, and what is stale."""

    CREATED = "a Bundle is new in the cache", Priority.NORMAL, Stale.NOTHING
    EDITED = "a Bundle was edited or deleted", Priority.URGENT, Stale.NOTHING
    JOB = "one of its Jobs changed", Priority.URGENT, Stale.NOTHING
    JOBS_LISTED = (
        "the watch of Jobs is new or forbidden",
        Priority.RESYNC,
        Stale.NOTHING,
    )
    REFERENCE = "an object that it names changed", Priority.URGENT, Stale.NOTHING
    CONSENT = "its release's namespace changed what it accepts", Priority.URGENT, Stale.NOTHING
    FREEZE = "a freeze began or ended", Priority.NORMAL, Stale.DECISION
    FREEZE_OF_JOB = "the same while its Job runs", Priority.URGENT, Stale.NOTHING
    TRUST = "the signature policy changed", Priority.NORMAL, Stale.NOTHING
    HEALTH = "its release's objects changed", Priority.NORMAL, Stale.NOTHING
    ACCOUNT = "its service account exists now", Priority.NORMAL, Stale.NOTHING
    PERMISSIONS = "its plan's permissions were reviewed", Priority.NORMAL, Stale.NOTHING
    PLAN_SLOT = "its plan may begin", Priority.NORMAL, Stale.NOTHING
    PLAN_READ = "its plan was read", Priority.NORMAL, Stale.NOTHING
    ANSWER = "the registry has answered", Priority.NORMAL, Stale.NOTHING
    PUSH = "something was pushed to its repository", Priority.URGENT, Stale.ANSWERS
    RIVAL = "another Bundle of its release changed", Priority.NORMAL, Stale.SETTLED
    DEPENDENCY = "a Bundle that it depends on changed", Priority.NORMAL, Stale.DECISION
    PROMOTION = "a Bundle that it is promoted from changed", Priority.NORMAL, Stale.DECISION
    SOURCE = "others are promoted from it now", Priority.NORMAL, Stale.NOTHING
    STEP = "a step of its last reconcile has more to do", Priority.NORMAL, Stale.NOTHING

    def __init__(self, _description: str, priority: Priority, stale: Stale) -> None:
        self.priority = priority
        self.stale = stale


class Schedule:
    """When the Bundles are reconciled.

    Args:
        queue: the work queue, which others share.
        scheduler: calls ``queue.add(key)`` when a key is due; ``monotonic`` is its clock.
        bundles: all Bundles.
        memories: the state that a change makes stale.
        poll_after_push: seconds until the second poll after a push.
        clock: the wall clock.
        monotonic: seconds.
    """

    def __init__(
        self,
        queue: WorkQueue[Key],
        scheduler: DueScheduler[Key],
        bundles: BundleCache,
        memories: Memories,
        *,
        poll_after_push: float,
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._scheduler = scheduler
        self._bundles = bundles
        self._memories = memories
        self._poll_after_push = poll_after_push
        self._clock = clock
        self._monotonic = monotonic
        memories.on_drop(lambda key, _: scheduler.remove(key))

    def changed(
        self, key: BundleKey, why: Change, *, since: float | None = None, delay: float = 0.0
    ) -> None:
        """Reconcile a Bundle, as something has changed; every source of events calls this.

        Args:
            key: the Bundle's; it may be deleted already.
            why: what changed.
            since: monotonic seconds of a push; the same for all Bundles that it concerns, so that
                they share their requests. None: now.
            delay: seconds in which further changes are collected, unless it is due before that.
        """
        if why.stale is Stale.DECISION:
            entry = self._bundles.get(key)
            if entry is None:
                return
            if isinstance(entry.spec, BundleSpec):
                self._unsettle(key)
                self._memories.decide_again(key, entry.spec.interval)
        elif why.stale is Stale.SETTLED:
            self._unsettle(key)
        elif why.stale is Stale.ANSWERS:
            memory, now = self._memories[key], self._monotonic() if since is None else since
            memory.poll.asked_since, memory.poll.again = now, now + self._poll_after_push
            memory.poll.asked_at = self._clock()
        if (known := self._memories.get(key)) is not None:
            known.changes |= {why}
        self._queue.add_after(key, delay, why.priority)

    def changed_with(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Reconcile the Bundles that a change of another one in the cache concerns.

        Call it whenever an entry was stored or removed; ``changes_of_others`` says which they are.
        """
        for key, why in changes_of_others(self._bundles, before, after):
            self.changed(key, why)

    def set_due(self, key: BundleKey, moment: datetime | None) -> None:
        """Reconcile a Bundle at this time, in place of any earlier one; None: at none."""
        if moment is None:
            self._scheduler.remove(key)
        elif moment == AT_ONCE:
            self.changed(key, Change.STEP)
        else:
            delay = max((moment - self._clock()).total_seconds(), 0.0)
            self._scheduler.set(key, self._monotonic() + delay)

    def _unsettle(self, key: BundleKey) -> None:
        if memory := self._memories.get(key):
            memory.poll.settled = None


def changes_of_others(
    bundles: BundleCache, before: BundleEntry | None, after: BundleEntry | None
) -> Iterator[tuple[BundleKey, Change]]:
    """The Bundles that a change of one in the cache concerns, and why.

    Args:
        bundles: the cache after the change.
        before: the entry before it; None where there was none.
        after: the entry in the cache; None where it was removed.
    """
    entry = after or before
    if entry is None:
        return
    if _ownership_inputs(before) != _ownership_inputs(after):
        for rival in _rivals(bundles, before, after):
            yield rival, Change.RIVAL  # its conflict message may have changed
    if readiness(before) != readiness(after):
        for key in bundles.dependants_of(entry.key):
            yield key, Change.DEPENDENCY
    shown = relations.evidence(before) != relations.evidence(after)
    for key in bundles.promoted_of(entry.key):
        was, may = (relations.allows(one, key.namespace) for one in (before, after))
        if was != may or (shown and may):
            yield key, Change.PROMOTION
    for key in _new_sources(before, after):
        if bundles.get(key) is not None:
            yield key, Change.SOURCE  # its soak is recorded from now on


def _rivals(bundles: BundleCache, *changed: BundleEntry | None) -> Iterator[BundleKey]:
    """The other Bundles of the releases that a Bundle has or had."""
    entries = [one for one in changed if one is not None]
    for release in {one for entry in entries for one in entry.releases}:
        for rival in bundles.bundles_of(release):
            if rival.key != entries[0].key:
                yield rival.key


def _new_sources(before: BundleEntry | None, after: BundleEntry | None) -> set[BundleKey]:
    """The Bundles of the same namespace that a Bundle is promoted from, and wasn't before."""
    if after is None:
        return set()
    new = set(after.promoted_from) - set(before.promoted_from if before else ())
    return {key for key in new if key.namespace == after.key.namespace}


def _ownership_inputs(entry: BundleEntry | None) -> tuple[object, ...]:
    """The fields of a Bundle by which the owner of a release is determined."""
    if entry is None:
        return ()
    running, deployed_at = entry.running_release, entry.status.deployed.time or ""
    consent = entry.status.known_consent
    return entry.uid, entry.releases, running, deployed_at, entry.deleting, consent
