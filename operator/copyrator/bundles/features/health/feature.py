"""When the condition Healthy is written, its Events and its gauge.

A rolling Deployment changes its status many times. So the first change is written after ``settle``,
further ones after ``status`` or ``message`` (HealthTiming); an equal condition never.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import Condition, ConditionStatus, FurtherCondition, NewConditions
from copyrator.api.consent import ConsentStatus, is_accepted
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.conditions import with_conditions
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.step import Change, Step
from copyrator.bundles.features.health import judge
from copyrator.bundles.features.health.fields import HEALTHY, HealthSpec, watched_health
from copyrator.bundles.features.health.metrics import HealthMetrics
from copyrator.bundles.features.health.reasons import HealthReason
from copyrator.bundles.features.health.watcher import HealthTiming, HealthWatcher, Release
from copyrator.bundles.jobs.identity import other_manager


@dataclass(slots=True)
class HealthMemory:
    """The condition Healthy of a Bundle whose release is watched."""

    written_at: float = -math.inf
    """Monotonic seconds of the last write that changed it."""
    version: str = ""
    """The Bundle's resourceVersion for which the condition was compared last."""
    release: Release | None = None
    """The release whose objects are watched; None where its namespace doesn't accept it."""
    check_at: float | None = None
    """Monotonic seconds when it is compared again."""


class HealthFeature(Feature):
    """The health of the releases of all Bundles with ``spec.health``."""

    spec = HealthSpec
    memory = HealthMemory

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._timing = context.timing.of(HealthTiming)
        self._watches = HealthWatcher(context, self._on_change)

    async def stop(self) -> None:
        """End the watches."""
        self._watches.close()

    def publish(self) -> None:
        """Count the Bundles by their condition."""
        found = Counter(watched_health(one.spec, one.status) for one in self.context.bundles)
        gauge = self.context.metrics.of(HealthMetrics).bundles_health
        for status in ConditionStatus:
            gauge.labels(status).set(found[status])

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Watch the release; nothing is watched in a namespace that doesn't accept it."""
        memory = self.context.memories.of(entry.key, HealthMemory)
        may_watch = is_accepted(spec, entry.status.find(ConsentStatus))
        before = memory.release
        memory.release = (spec.project_namespace, spec.release) if may_watch else None
        self._watches.follow(entry.key, before, memory.release)

    def leave(self, key: BundleKey) -> None:
        """End the watch."""
        self._watches.follow(key, self.context.memories.of(key, HealthMemory).release, None)

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """The condition as it is on record: ``review`` decides when a change alone is written."""
        return {HEALTHY: _recorded(entry.status)}

    def refresh(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with the condition as it is now."""
        changed = {HEALTHY: self._condition(entry, status)}
        return with_conditions(status, changed, self.context.clock())

    def review(self, entry: BundleEntry) -> Step:
        """Record the condition where it has changed and may be written now; else check it later."""
        memory = self.context.memories.of(entry.key, HealthMemory)
        status, now = entry.status, self.context.monotonic()
        is_due = memory.check_at is not None and memory.check_at <= now
        if memory.version == entry.resource_version and not is_due:
            return Step(entry, due=(self._check_time(memory),))
        if is_due:
            memory.check_at = None
        before = status.condition(HEALTHY)
        pause = _pause(before, self._condition(entry, status), self._timing)
        if pause is not None and status.observed_generation is not None:
            if now >= memory.written_at + pause:
                status = self.refresh(entry, status)
                return Step(entry, status, due=(self._check_time(memory),))
            _check_at(memory, memory.written_at + pause)
        memory.version = entry.resource_version
        view = self._view(entry, status)
        if view is not None:
            late = judge.grace_ends_at(status, view, now, self._timing.grace)
            if late is not None:
                _check_at(memory, late)
        return Step(entry, due=(self._check_time(memory),))

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where a release became unhealthy, or became healthy again."""
        found = written.status.condition(HEALTHY)
        if before.status.condition(HEALTHY) == found:
            return
        memory = self.context.memories.of(written.key, HealthMemory)
        memory.written_at = self.context.monotonic()
        was = watched_health(before.spec, before.status)
        now = watched_health(written.spec, written.status)
        is_over = (was, now) == (ConditionStatus.FALSE, ConditionStatus.TRUE)
        if is_over or (now == ConditionStatus.FALSE and was != now):
            reason = HealthReason.read(found.reason or "")
            self.context.emit(written, reason, found.message or "")

    def _condition(self, entry: BundleEntry, status: BundleStatus) -> FurtherCondition:
        """The condition as it is now; ``status`` has the ones before, and what is deployed."""
        view = self._view(entry, status)
        if view is None or not isinstance(entry.spec, BundleSpec):
            return _recorded(status)
        now = self.context.monotonic()
        return judge.healthy_condition(entry.spec, status, view, now, self._timing.grace)

    def _view(self, entry: BundleEntry, status: BundleStatus) -> judge.View | None:
        """The release's objects, or why they are unknown; None while they haven't been listed."""
        spec = entry.spec
        is_followed = self.context.memories.find(entry.key, HealthMemory) is not None
        if not isinstance(spec, BundleSpec) or not is_followed:
            return None
        if fault := judge.find_deploy_fault(spec, status):
            return fault
        if not is_accepted(spec, status.find(ConsentStatus)):
            return judge.not_accepted_fault(spec)
        release = spec.project_namespace, spec.release
        owner = self.context.bundles.owner(spec.release_key)
        if owner is not None and owner.key != entry.key:
            text = "another Bundle owns the release"
            return judge.HealthFault(HealthReason.NOT_DEPLOYED, text)
        if (other := other_manager(entry.labels, spec.env)) is not None:
            return judge.overridden_label_fault(other)
        return self._watches.view(release)

    def _on_change(self, key: BundleKey) -> None:
        """A release has changed: check the condition after the time for further changes."""
        memory = self.context.memories.find(key, HealthMemory)
        now = self.context.monotonic()
        if memory is None:
            return
        known, moment = memory.check_at, now + self._timing.settle
        if known is None or known <= now or moment < known:
            memory.check_at = moment
            self.context.schedule.changed(key, Change.WATCHED, delay=self._timing.settle)

    def _check_time(self, memory: HealthMemory) -> datetime | None:
        """When the condition is compared again, by the wall clock."""
        if memory.check_at is None:
            return None
        seconds = memory.check_at - self.context.monotonic()
        return self.context.clock() + timedelta(seconds=seconds)


def _check_at(memory: HealthMemory, moment: float) -> None:
    memory.check_at = moment if memory.check_at is None else min(moment, memory.check_at)


def _recorded(status: BundleStatus) -> FurtherCondition:
    """The condition in the status, else one with Unknown."""
    found = status.condition(HEALTHY)
    if found.status not in tuple(ConditionStatus):
        text = "the objects of the release haven't been listed yet"
        return FurtherCondition(ConditionStatus.UNKNOWN, HealthReason.UNCHECKED, text)
    reason = HealthReason.read(found.reason or "")
    return FurtherCondition(ConditionStatus(found.status), reason, found.message or "")


def _pause(before: Condition, now: FurtherCondition, timing: HealthTiming) -> float | None:
    """Seconds after the last write before this change is written; None where nothing changed."""
    if (before.status, before.reason) != (now.status, now.reason):
        return timing.status
    return None if before.message == now.message else timing.message


FEATURE = HealthFeature
