"""Which Bundles may begin a plan now: so many are made at once, the others wait their turn."""

from __future__ import annotations

from typing import Final

from copyrator.api.keys import BundleKey
from copyrator.bundles.context import Context
from copyrator.bundles.jobs import Jobs

LOOK_AGAIN: Final = 30.0
"""Seconds after which a Bundle asks again whose turn hasn't come."""


class PlanQueue:
    """The plans that are being made, and the Bundles that wait, in their order."""

    def __init__(self, context: Context, jobs: Jobs) -> None:
        self._context = context
        self._jobs = jobs
        self._waiting: dict[BundleKey, None] = {}
        self._called: dict[BundleKey, bool] = {}
        """Those whose turn has come, and whether they have taken it, until that reconcile ends."""
        self._beginning: dict[BundleKey, str] = {}
        """Jobs that were begun and that the watch hasn't shown yet, by their Bundle."""
        jobs.plan_changed = self._changed

    def turn(self, key: BundleKey) -> bool:
        """Whether a Bundle that waits is to ask again now."""
        return key in self._called or key in self._waiting

    def reconciling(self, key: BundleKey) -> None:
        """A reconcile begins: it takes the turn, if that has come."""
        if key in self._called:
            self._called[key] = True

    def reconciled(self, key: BundleKey) -> None:
        """It has ended: a turn that it took and didn't use is the next one's."""
        if self._called.get(key):  # else it was called meanwhile, and is reconciled again
            del self._called[key]
            self._call()

    def begin(self, key: BundleKey, job: str) -> bool:
        """Whether the Bundle may create this Job now; else it waits."""
        self._called.pop(key, None)
        if not self._free:
            self._waiting.setdefault(key)
            self._context.queue.add_after(key, LOOK_AGAIN)
            return False
        self._waiting.pop(key, None)
        self._beginning[key] = job
        return True

    def end(self, key: BundleKey) -> None:
        """The Job that was begun isn't created, or doesn't exist any more."""
        if self._beginning.pop(key, None) is not None:
            self._call()

    def forget(self, key: BundleKey) -> None:
        """The Bundle needs no plan."""
        self._waiting.pop(key, None)

    @property
    def _free(self) -> int:
        running = self._jobs.plans_running + len(self._beginning)
        return max(self._context.settings.max_plan_jobs - running, 0)

    def _changed(self, key: BundleKey, job: str, has_ended: bool) -> None:
        if self._beginning.get(key) == job:
            del self._beginning[key]
        if has_ended:
            self._call()

    def _call(self) -> None:
        """Requeue as many Bundles as may begin; who doesn't need a plan any more holds up none."""
        for key in list(self._waiting)[: self._free]:
            del self._waiting[key]
            self._called[key] = False
            self._context.queue.add(key)
