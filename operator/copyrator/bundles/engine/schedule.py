"""When each Bundle is reconciled next: the only owner of the work queue and of the due times.

Sources of events (handlers, watches, answers of registries) call ``changed`` with the reason. The
due times of a reconcile are a result of its steps (step.py); the reconciler passes on the earliest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from copyrator.api.keys import BundleKey, Key
from copyrator.bundles.engine.bundle import BundleCache, Memories
from copyrator.bundles.engine.step import AT_ONCE, Change, Stale

if TYPE_CHECKING:
    from copyrator.workqueue.queue import DueScheduler, WorkQueue


Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""


@dataclass(slots=True)
class _Changes:
    since_reconcile: frozenset[Change] = frozenset()
    """What has changed since the Bundle's last reconcile began."""


class Schedule:
    """When the Bundles are reconciled.

    Args:
        queue: the work queue, which others share.
        scheduler: calls ``queue.add(key)`` when a key is due; ``monotonic`` is its clock.
        bundles: all Bundles.
        memories: what is remembered of them.
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
        clock: Clock,
        monotonic: Callable[[], float],
    ) -> None:
        self._queue = queue
        self._scheduler = scheduler
        self._bundles = bundles
        self._memories = memories
        self._clock = clock
        self._monotonic = monotonic
        self.on_stale: Callable[[BundleKey, Stale, float], None] = lambda *_: None
        """Is called with what is stale of a Bundle, since which monotonic seconds."""
        memories.on_drop(scheduler.remove)
        bundles.on_rival = lambda key: self.changed(key, Change.RIVAL)

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
        if self._bundles.get(key) is not None:
            if why.stale is not Stale.NOTHING:
                self.on_stale(key, why.stale, self._monotonic() if since is None else since)
            self._memories.of(key, _Changes).since_reconcile |= {why}
        elif why.stale is Stale.DECISION:
            return
        self._queue.add_after(key, delay, why.priority)

    def take_changes(self, key: BundleKey) -> frozenset[Change]:
        """What has changed since a Bundle's last reconcile began; call it when one begins."""
        memory = self._memories.of(key, _Changes)
        found, memory.since_reconcile = memory.since_reconcile, frozenset()
        return found

    def set_due(self, key: BundleKey, moment: datetime | None) -> None:
        """Reconcile a Bundle at this time, in place of any earlier one; None: at none."""
        if moment is None:
            self._scheduler.remove(key)
        elif moment == AT_ONCE:
            self.changed(key, Change.STEP)
        else:
            delay = max((moment - self._clock()).total_seconds(), 0.0)
            self._scheduler.set(key, self._monotonic() + delay)
