"""When each Bundle is reconciled next: the only owner of the work queue and of the due times.

Sources of events (handlers, watches, answers of registries) call ``changed`` with the reason. The
due times of a reconcile are a result of its steps (step.py); the reconciler passes on the earliest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey, Key
from copyrator.bundles.bundle import BundleCache
from copyrator.bundles.memory import Memories
from copyrator.bundles.step import AT_ONCE, Change, Stale

if TYPE_CHECKING:
    from copyrator.workqueue.queue import DueScheduler, WorkQueue

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""


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
