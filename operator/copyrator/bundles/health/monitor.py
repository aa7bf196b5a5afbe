"""The health of releases: the watches of their objects, and when the condition Healthy is written.

A rolling Deployment changes its status many times. So the first change is written after
``health_settle``, further ones after ``health_status`` or ``health_message`` (BundleTiming); an
equal condition never.

There is one watch for each kind and namespace where Bundles have ``spec.health``, shared by them.
Of an object only what the condition needs is kept, by release and kind; so the condition of one
release takes the same time however many releases there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    with_further,
)
from copyrator.api.consent import ConsentStatus
from copyrator.api.health import HealthSpec
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.reasons.bundles import HealthReason
from copyrator.api.structs import replace
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import BundleTiming, Context
from copyrator.bundles.health import judge
from copyrator.bundles.health.judge import (
    DECODERS,
    SELECTOR,
    HealthFault,
    ObjectHealth,
    Place,
    ReleaseObjects,
    View,
    decide,
)
from copyrator.bundles.inputs import consent
from copyrator.bundles.memory import HealthMemory
from copyrator.bundles.step import Change, Step
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.permissions import is_allowed
from copyrator.kube.resources import DAEMONSETS, DEPLOYMENTS, JOBS, STATEFULSETS
from copyrator.kube.watch.informers import WatchSpec
from copyrator.kube.watch.placement import WatchPlacement, watch_permissions
from copyrator.settings import limits

log = logging.getLogger(__name__)

Release = tuple[str, str]
"""Namespace and name."""

KINDS: Final = (DEPLOYMENTS, STATEFULSETS, DAEMONSETS, JOBS)
BLIND_SECONDS: Final = 60.0
"""Seconds for which objects may not have been listed before that is reported."""
REMEDY: Final = (
    "set bundles.health.enabled in the chart, or grant list and watch of deployments, "
    "statefulsets, daemonsets and jobs"
)


class _PlaceWatches:
    """The four watches of one place, and the releases whose objects they have listed."""

    def __init__(
        self,
        context: Context,
        place: Place,
        on_change: Callable[[Release], None],
        on_synced: Callable[[], None],
    ) -> None:
        self.by_release: dict[Release, ReleaseObjects] = {}
        self._clock = context.monotonic
        self._on_change = on_change
        self._registrations = [
            context.informers.acquire(
                WatchSpec(
                    resource=resource,
                    namespace=place,
                    label_selector=SELECTOR,
                    decode=DECODERS[resource.kind],
                    reserved=True,
                ),
                partial(self._changed, resource.kind),
                on_synced=on_synced,
            )
            for resource in KINDS
        ]

    @property
    def seen(self) -> bool:
        """Whether all four have listed their objects once."""
        return all(one.seen for one in self._registrations)

    @property
    def synced(self) -> bool:
        """Whether all four are up to date, so that an object without a record doesn't exist."""
        return all(one.synced for one in self._registrations)

    @property
    def failures(self) -> list[ApiError]:
        """The present errors of the watches."""
        return [one.failure for one in self._registrations if one.failure is not None]

    @property
    def denial(self) -> str:
        """The message of a 403 that one of them was answered with; else empty."""
        return next((one.message for one in self.failures if isinstance(one, Forbidden)), "")

    def close(self) -> None:
        """End the watches."""
        for one in self._registrations:
            one.release()

    def _changed(
        self, kind: str, name: ObjectName, old: ObjectHealth | None, new: ObjectHealth | None
    ) -> None:
        named, now = f"{kind}/{name.name}", self._clock()
        before = (name.namespace, old.release) if old is not None and old.release else None
        after = (name.namespace, new.release) if new is not None and new.release else None
        if before is not None and before == after and new is not None:
            self.by_release[before].replace(named, new, now)
            if not new.is_equivalent(old):
                self._on_change(before)
            return
        if before is not None:
            objects = self.by_release[before]
            objects.remove(named)
            if not objects.count:
                del self.by_release[before]
            self._on_change(before)
        if after is not None and new is not None:
            self.by_release.setdefault(after, ReleaseObjects()).add(named, new, now)
            self._on_change(after)


class HealthWatcher(WatchPlacement[Place, _PlaceWatches]):
    """Keeps the watches open that Bundles with ``spec.health`` need.

    Args:
        context: the controller's.
        on_change: called with each Bundle whose release may have changed; has to be cheap, as it is
            called for each change of an object.
    """

    def __init__(self, context: Context, on_change: Callable[[BundleKey], None]) -> None:
        super().__init__(context.timing.health_watches, context.monotonic)
        self._context = context
        self._on_change = on_change
        self._asked: dict[Release, tuple[BundleKey, ...]] = {}
        self._spaces: dict[str, set[BundleKey]] = {}
        self._since: dict[str, float] = {}
        """Monotonic seconds when the first Bundle of a namespace was followed."""
        self._reported: dict[str, _PlaceWatches | HealthFault | None] = {}
        """The state that was last reported to the Bundles of a namespace."""
        self._granted: set[Place] = set()
        self._reviewing = asyncio.Lock()

    def follow(self, key: BundleKey, memory: HealthMemory, release: Release | None) -> None:
        """Watch this release for a Bundle, in place of an earlier one; None: none."""
        before, memory.release = memory.release, release
        if before == release:
            return
        if before is not None:
            self._leave(key, before)
        if release is not None:
            self._asked[release] = (*self._asked.get(release, ()), key)
            self._since.setdefault(release[0], self._context.monotonic())
            self._spaces.setdefault(release[0], set()).add(key)
        self.arrange_soon()

    def _leave(self, key: BundleKey, release: Release) -> None:
        left = tuple(other for other in self._asked.pop(release) if other != key)
        if left:
            self._asked[release] = left
        space = release[0]
        self._spaces[space].discard(key)
        if not self._spaces[space]:
            del self._spaces[space], self._since[space]
            self._reported.pop(space, None)

    def view(self, release: Release) -> View | None:
        """The objects of a release that is followed; None while they haven't been listed yet."""
        state = self._state(release[0])
        if isinstance(state, _PlaceWatches):
            return state.by_release.get(release) or ReleaseObjects()
        return state

    def _state(self, space: str) -> _PlaceWatches | HealthFault | None:
        """The watches that have a namespace's objects, or why none has; None: not listed yet."""
        settings, most = self._context.settings, limits.ALL_HEALTH_NAMESPACES
        if not settings.serves(space):
            text = f"the operator doesn't serve namespace {space}: add it to watchNamespaces"
            return HealthFault(HealthReason.FORBIDDEN, text)
        scopes = [self.opened[place] for place in (space, None) if place in self.opened]
        for scope in scopes:
            if scope.synced:
                return scope
        if denied := self.denied.get(space):
            return HealthFault(HealthReason.FORBIDDEN, f"{denied.why}: {REMEDY}")
        is_full = len(self.chosen) >= most and not settings.watch_namespaces
        if is_full and not self.chosen & {space, None}:
            text = f"the operator watches {most} namespaces at most, unless all are granted"
            return HealthFault(HealthReason.FORBIDDEN, f"{text}: {REMEDY} in all namespaces")
        if any(scope.seen for scope in scopes) or self._is_blind(space):
            found = next((str(error) for scope in scopes for error in scope.failures), "")
            text = "the objects of the release can't be watched now" + (f": {found}" * bool(found))
            return HealthFault(HealthReason.UNCHECKED, text)
        return None

    def _is_blind(self, space: str) -> bool:
        since = self._since.get(space)
        return since is not None and self._context.monotonic() - since >= BLIND_SECONDS

    def _release_changed(self, release: Release) -> None:
        for key in self._asked.get(release, ()):
            self._on_change(key)

    # --- for the placement -----------------------------------------------------------------------

    def choose(self, denied: Set[Place], held: Set[Place]) -> set[Place]:
        """By the number of namespaces."""
        return decide(
            self._served,
            denied,
            held=None in held,
            bounded=not self._context.settings.watch_namespaces,
        )

    @property
    def _served(self) -> list[str]:
        return [space for space in self._spaces if self._context.settings.serves(space)]

    async def find_missing(self, place: Place) -> str:
        """The missing permission of a place, as a message; else empty.

        All namespaces are reviewed first, once: where they are granted, each of them is.
        """
        async with self._reviewing:
            if place not in self.wanted or self._granted & {place, None}:
                return ""
            is_bounded = not self._context.settings.watch_namespaces
            if place is not None and is_bounded and None not in self.denied:
                missing = await self._missing_in(None)
                if not missing:
                    self._granted.add(None)
                    return ""
                self.deny(None, missing)
                if place not in self.wanted:  # all were wanted meanwhile: now it is chosen anew
                    return ""
            missing = await self._missing_in(place)
            if not missing:
                self._granted.add(place)
            return missing

    async def _missing_in(self, place: Place) -> str:
        refusals = watch_permissions(KINDS, [place or ""])
        client = self._context.client
        granted = await asyncio.gather(*(is_allowed(client, one.attributes) for one in refusals))
        lacking = (one for one, is_ok in zip(refusals, granted, strict=True) if not is_ok)
        first = next(lacking, None)
        return f"the operator cannot {first}" if first else ""

    def open(self, place: Place) -> None:
        """Open the four watches."""
        self.opened[place] = _PlaceWatches(
            self._context, place, self._release_changed, self.arrange_soon
        )

    def may_end(self, place: Place) -> bool:
        """Whether the others have listed everything, or nothing is watched there any more."""
        replaced = all(other in self.opened and self.opened[other].seen for other in self.wanted)
        return replaced or (place is not None and place not in self._spaces)

    def forgets(self, place: Place, *, is_unused: bool) -> bool:  # noqa: ARG002 - kept until used
        """Whether nothing is to be watched there; the denial of all namespaces is remembered."""
        return place is not None and place not in self._served

    def on_denied(self, place: Place, why: str, *, is_new: bool) -> None:
        """Log it once, and review it again before it is retried."""
        self._granted.discard(place)
        level = logging.INFO if is_new else logging.DEBUG
        where = place or "all namespaces"
        log.log(level, "can't watch the objects of releases in %s: %s", where, why)

    def on_checked(self) -> None:
        """Report to the Bundles of each namespace whose state has changed: listed, or why not."""
        for space, keys in self._spaces.items():
            state = self._state(space)
            if space not in self._reported or self._reported[space] != state:
                self._reported[space] = state
                for key in keys:
                    self._on_change(key)


class HealthMonitor:
    """The health of the releases of all Bundles with ``spec.health``."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._timing = context.timing
        self._watches = HealthWatcher(context, self._on_change)
        context.memories.on_drop(lambda key, _: self._leave(key))

    def stop(self) -> None:
        """End the watches."""
        self._watches.close()

    def follow(self, entry: BundleEntry) -> None:
        """Watch the release of a Bundle with ``spec.health``; end the watch of one without.

        Nothing is watched in a namespace that doesn't accept the release.
        """
        spec = entry.spec
        if entry.deleting or not isinstance(spec, BundleSpec) or not spec.uses(HealthSpec):
            self._leave(entry.key)
            return
        memory = self._context.memories[entry.key]
        if memory.health is None:
            memory.health = HealthMemory()
        release = spec.project_namespace, spec.release
        is_accepted = consent.is_accepted(spec, entry.status.find(ConsentStatus))
        self._watches.follow(entry.key, memory.health, release if is_accepted else None)

    def _leave(self, key: BundleKey) -> None:
        """End the watch of a Bundle that was deleted, or has no ``spec.health`` any more."""
        memory = self._memory(key)
        if memory is not None:
            self._watches.follow(key, memory, None)
            self._context.memories[key].health = None

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
        found = status.condition(ConditionType.HEALTHY)
        if found.status not in tuple(ConditionStatus):
            text = "the objects of the release haven't been listed yet"
            return FurtherCondition(ConditionStatus.UNKNOWN, HealthReason.UNCHECKED, text)
        reason = HealthReason.read(found.reason or "")
        return FurtherCondition(ConditionStatus(found.status), reason, found.message or "")

    def review(self, entry: BundleEntry) -> Step:
        """Record the condition where it has changed and may be written now; else check it later."""
        memory = self._memory(entry.key)
        if memory is None:
            return Step(entry)
        status, now = entry.status, self._context.monotonic()
        is_due = memory.check_at is not None and memory.check_at <= now
        if memory.version == entry.resource_version and not is_due:
            return Step(entry, due=(self._check_time(memory),))
        if is_due:
            memory.check_at = None
        found = self.condition(entry, status)
        pause = _pause(status.condition(ConditionType.HEALTHY), found, self._timing)
        if found is not None and pause is not None and status.observed_generation is not None:
            if now >= memory.written_at + pause:
                status = self.record_condition(entry, status)
                return Step(entry, status, due=(self._check_time(memory),))
            _check_at(memory, memory.written_at + pause)
        memory.version = entry.resource_version
        view = self._view(entry, status)
        if view is not None:
            late = judge.grace_ends_at(status, view, now, self._timing.health_grace)
            if late is not None:
                _check_at(memory, late)
        return Step(entry, due=(self._check_time(memory),))

    def record_condition(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with the condition as it is now, which is written next."""
        conditions = with_further(
            status.conditions,
            ConditionType.HEALTHY,
            self.condition(entry, status),
            generation=status.observed_generation or 0,
            now=self._context.clock(),
        )
        return replace(status, conditions=conditions)

    def record_write(self, key: BundleKey) -> None:
        """Record the time of a write that changed the condition."""
        if (memory := self._memory(key)) is not None:
            memory.written_at = self._context.monotonic()

    def _view(self, entry: BundleEntry, status: BundleStatus) -> judge.View | None:
        """The release's objects, or why they are unknown; None while they haven't been listed."""
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or self._memory(entry.key) is None:
            return None
        if fault := judge.find_deploy_fault(spec, status):
            return fault
        if not consent.is_accepted(spec, status.find(ConsentStatus)):
            return judge.not_accepted_fault(spec)
        release = spec.project_namespace, spec.release
        owner = self._context.bundles.owner(spec.release_key)
        if owner is not None and owner.key != entry.key:
            text = "another Bundle owns the release"
            return judge.HealthFault(HealthReason.NOT_DEPLOYED, text)
        if (other := judge.other_manager(entry.labels, spec.env)) is not None:
            return judge.overridden_label_fault(other)
        return self._watches.view(release)

    def _on_change(self, key: BundleKey) -> None:
        """A release has changed: check the condition after the time for further changes."""
        memory, now = self._memory(key), self._context.monotonic()
        if memory is None:
            return
        known, moment = memory.check_at, now + self._timing.health_settle
        if known is None or known <= now or moment < known:
            memory.check_at = moment
            delay = self._timing.health_settle
            self._context.schedule.changed(key, Change.HEALTH, delay=delay)

    def _check_time(self, memory: HealthMemory) -> datetime | None:
        """When the condition is compared again, by the wall clock."""
        if memory.check_at is None:
            return None
        seconds = memory.check_at - self._context.monotonic()
        return self._context.clock() + timedelta(seconds=seconds)


def _check_at(memory: HealthMemory, moment: float) -> None:
    memory.check_at = moment if memory.check_at is None else min(moment, memory.check_at)


def _pause(before: Condition, now: FurtherCondition | None, timing: BundleTiming) -> float | None:
    """Seconds after the last write before this change is written; None where nothing changed."""
    if now is None:
        return None
    if (before.status, before.reason) != (now.status, now.reason):
        return timing.health_status
    return None if before.message == now.message else timing.health_message
