"""When the condition Healthy of Bundles with ``spec.health`` is written.

A rolling Deployment changes its status many times. So the first change is written after
``health_settle``, further ones after ``health_status`` or ``health_message`` seconds
(BundleTiming); an equal condition never.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    conditions_by_type,
)
from copyrator.api.health import HealthMode, HealthReason
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context, cancel_all
from copyrator.bundles.health import judge
from copyrator.bundles.health.watches import HealthWatcher
from copyrator.bundles.inputs import consent
from copyrator.bundles.memory import HealthMemory
from copyrator.bundles.schedule import Change
from copyrator.bundles.timing import BundleTiming
from copyrator.workqueue.scheduler import DueScheduler


class HealthMonitor:
    """The health of the releases of all Bundles with ``spec.health``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._timing = context.timing
        self._watches = HealthWatcher(context, self._on_change)
        self._due: DueScheduler[BundleKey] = DueScheduler(self._requeue, clock=context.monotonic)
        context.memories.on_drop(lambda key, _: self._leave(key))
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Begin to requeue Bundles whose release has changed."""
        self._tasks.add(asyncio.create_task(self._due.run(), name="changes of health"))

    async def stop(self) -> None:
        """End the watches."""
        await cancel_all(self._tasks)
        await self._watches.close()

    def follow(self, entry: BundleEntry) -> None:
        """Watch the release of a Bundle with ``spec.health``; end the watch of one without.

        Nothing is watched in a namespace that doesn't accept the release.
        """
        spec = entry.spec
        if entry.deleting or not isinstance(spec, BundleSpec) or spec.health is HealthMode.OFF:
            self._leave(entry.key)
            return
        memory = self._context.memory(entry.key)
        if memory.health is None:
            memory.health = HealthMemory()
        release = spec.project_namespace, spec.release
        is_accepted = consent.is_accepted(spec, entry.status.known_consent)
        self._watches.follow(entry.key, memory.health, release if is_accepted else None)

    def _leave(self, key: BundleKey) -> None:
        """End the watch of a Bundle that was deleted, or has no ``spec.health`` any more."""
        memory = self._memory(key)
        if memory is not None:
            self._watches.follow(key, memory, None)
            self._due.remove(key)
            self._context.memory(key).health = None

    def _memory(self, key: BundleKey) -> HealthMemory | None:
        memory = self._context.memories.get(key)
        return None if memory is None else memory.health

    def condition(self, entry: BundleEntry, status: BundleStatus) -> FurtherCondition | None:
        """The condition as it is now; None without ``spec.health``.

        ``status`` has the conditions before, and what is deployed.
        """
        view = self._view(entry, status)
        if view is None or not isinstance(entry.spec, BundleSpec):
            return self.before(entry, status)
        now, grace = self._context.monotonic(), self._timing.health_grace
        return judge.healthy_condition(entry.spec, status, view, now, grace)

    def before(self, entry: BundleEntry, status: BundleStatus) -> FurtherCondition | None:
        """The condition in the status, else one with Unknown; None without ``spec.health``."""
        if self._memory(entry.key) is None:
            return None
        found = _stored(status)
        if found.get("status") not in tuple(ConditionStatus):
            text = "the objects of the release haven't been listed yet"
            return FurtherCondition(ConditionStatus.UNKNOWN, HealthReason.UNCHECKED, text)
        reason, message = str(found.get("reason")), str(found.get("message"))
        return FurtherCondition(ConditionStatus(found["status"]), reason, message)

    def due(self, entry: BundleEntry) -> FurtherCondition | None:
        """The condition where it has changed and may be written now; else it is checked later."""
        memory = self._memory(entry.key)
        if memory is None or memory.version == entry.resource_version:
            return None
        status, now = entry.status, self._context.monotonic()
        found = self.condition(entry, status)
        pause = _pause(_stored(status), found, self._timing)
        if found is not None and pause is not None and status.observed_generation is not None:
            if now >= memory.written_at + pause:
                return found
            self._check_at(entry.key, memory.written_at + pause)
        memory.version = entry.resource_version
        view = self._view(entry, status)
        if view is not None:
            late = judge.grace_ends_at(status, view, now, self._timing.health_grace)
            if late is not None:
                self._check_at(entry.key, late)
        return None

    def wrote(self, before: BundleEntry, written: BundleEntry) -> None:
        """Record the time of a write that changed the condition."""
        memory = self._memory(before.key)
        if memory is not None and _stored(before.status) != _stored(written.status):
            memory.written_at = self._context.monotonic()

    def _view(self, entry: BundleEntry, status: BundleStatus) -> judge.View | None:
        """The release's objects, or why they are unknown; None while they haven't been listed."""
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or self._memory(entry.key) is None:
            return None
        if fault := judge.find_deploy_fault(spec, status):
            return fault
        if not consent.is_accepted(spec, status.consent):
            return judge.not_accepted_fault(spec)
        release = spec.project_namespace, spec.release
        owner = self._context.bundles.owner(release)
        if owner is not None and owner.key != entry.key:
            text = "another Bundle owns the release"
            return judge.HealthFault(HealthReason.NOT_DEPLOYED, text)
        if (other := judge.other_manager(entry.labels, spec.env)) is not None:
            return judge.overridden_label_fault(other)
        return self._watches.view(release)

    def _on_change(self, key: BundleKey) -> None:
        self._check_at(key, self._context.monotonic() + self._timing.health_settle)

    def _check_at(self, key: BundleKey, moment: float) -> None:
        known = self._due.due(key)
        if known is None or moment < known:
            self._due.set(key, moment)

    def _requeue(self, key: BundleKey) -> None:
        if memory := self._memory(key):
            memory.version = ""
            self._context.schedule.changed(key, Change.HEALTH)


def _stored(status: BundleStatus) -> Mapping[str, Any]:
    return conditions_by_type(status.conditions).get(ConditionType.HEALTHY, {})


def _pause(
    before: Mapping[str, Any], now: FurtherCondition | None, timing: BundleTiming
) -> float | None:
    """Seconds after the last write before this change is written; None where nothing changed."""
    if now is None:
        return None
    if (before.get("status"), before.get("reason")) != (now.status, now.reason):
        return timing.health_status
    return None if before.get("message") == now.message else timing.health_message
