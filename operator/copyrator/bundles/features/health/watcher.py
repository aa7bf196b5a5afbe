"""The watches of releases' objects.

There is one watch for each kind and namespace where Bundles have ``spec.health``, shared by them.
Of an object only what the condition needs is kept, by release and kind; so the condition of one
release takes the same time however many releases there are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from copyrator.api.keys import BundleKey, ObjectName
from copyrator.bundles.engine.context import Context
from copyrator.bundles.features.health import judge
from copyrator.bundles.features.health.judge import (
    DECODERS,
    SELECTOR,
    HealthFault,
    ObjectHealth,
    Place,
    ReleaseObjects,
    View,
    decide,
)
from copyrator.bundles.features.health.reasons import HealthReason
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.permissions import is_allowed
from copyrator.kube.resources import DAEMONSETS, DEPLOYMENTS, JOBS, STATEFULSETS
from copyrator.kube.watch.informers import PlacementTiming, WatchPlacement, watch_permissions
from copyrator.kube.watch.reflector import WatchSpec

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


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthTiming:
    """Durations in seconds."""

    settle: float = 1.0
    """For so long further changes of a release's objects are collected."""
    status: float = 10.0
    """After a write until the next one that changes the condition's status or reason."""
    message: float = 60.0
    """The same where only the message changes."""
    grace: float = 600.0
    """After so long an object that isn't current is unhealthy, unless a deploy runs: a
    Deployment's default progress deadline. The time restarts with a new generation."""
    watches: PlacementTiming = field(default_factory=lambda: PlacementTiming(check=5.0))
    """Of watches of releases."""


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
        super().__init__(context.timing.of(HealthTiming).watches, context.monotonic)
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

    def follow(self, key: BundleKey, before: Release | None, release: Release | None) -> None:
        """Watch this release for a Bundle, in place of the one before; None: none."""
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
        settings, most = self._context.settings, judge.ALL_HEALTH_NAMESPACES
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
