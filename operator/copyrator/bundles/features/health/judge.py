"""The condition Healthy, from a release's objects by kstatus's rules, and what is watched. Pure.

An object that has failed makes it False at once. For kstatus a rollout and an object that will
never be ready are both in progress: that is Unknown for a while, and False from then on. False
lasts until everything is current again, so that a rollout that fails, or a container that crashes
repeatedly, doesn't change the condition each time.

Each watch is a connection, and a namespace takes four. So where releases are in many namespaces,
one watch of each kind for all namespaces is opened, if that is allowed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.kstatus import RULES, Status, compute
from copyrator.api.text import printable_start, quoted
from copyrator.bundles.features.health.fields import HEALTHY
from copyrator.bundles.features.health.reasons import HealthReason
from copyrator.bundles.jobs.identity import release_of

ALL_HEALTH_NAMESPACES: Final = 32
"""Namespaces whose objects are watched for spec.health where watches of all namespaces aren't
granted; Bundles whose release is in a further one report Healthy as Unknown."""

HEALTH_NAMESPACES: Final = 16
"""Namespaces whose Deployments, StatefulSets, DaemonSets and Jobs of releases are watched for
spec.health, with a watch of each kind. For more there is one of each kind for all namespaces."""

Place = str | None
"""A namespace, or all of them."""


def decide(
    wanted: Collection[str], refused: Collection[Place], *, held: bool, bounded: bool
) -> set[Place]:
    """The places to watch, including forbidden ones: else each of many would be reviewed in turn.

    Args:
        wanted: the namespaces of releases that are to be watched.
        refused: places that are forbidden.
        held: all namespaces are watched now; that is kept until there are clearly fewer, so that
            creating and deleting one Bundle opens and ends no watch.
        bounded: whether there is a limit, and all namespaces may be watched.
    """
    if not bounded:
        return set(wanted)
    most = HEALTH_NAMESPACES
    if None not in refused and len(wanted) > (most * 3 // 4 if held else most):
        return {None}
    return set(heapq.nsmallest(ALL_HEALTH_NAMESPACES, wanted))


SELECTOR: Final = f"{names.LABEL_MANAGED_BY}={names.HELM}"
"""Selects the objects of releases."""
_NAMED: Final = 5
"""Objects that a message names."""
_TEXT: Final = 200
"""Characters of an object's own message that are kept."""
_KINDS: Final = "Deployment, StatefulSet, DaemonSet or Job"


@dataclass(frozen=True, slots=True)
class ObjectHealth:
    """The cached record of an object with Helm's label."""

    resource_version: str
    release: str
    """The release of its own namespace that it belongs to; empty where it belongs to none."""
    status: Status = Status.CURRENT
    text: str = ""
    """Why it isn't Current."""
    generation: int = 0

    def is_equivalent(self, other: ObjectHealth | None) -> bool:
        """Whether both records have the same release, status, text and generation."""
        return other is not None and (
            (self.release, self.status, self.text, self.generation)
            == (other.release, other.status, other.text, other.generation)
        )


def _judge(kind: str, body: Mapping[str, Any]) -> ObjectHealth:
    metadata = body["metadata"]
    version, generation = str(metadata.get("resourceVersion", "")), metadata.get("generation")
    release = release_of(metadata)
    if not release:
        return ObjectHealth(version, "")
    result = compute(kind, body)
    text = printable_start(result.message, _TEXT) if result.status is not Status.CURRENT else ""
    known = generation if type(generation) is int else 0
    return ObjectHealth(version, release, result.status, text, known)


def _decoder(kind: str) -> Callable[[Mapping[str, Any]], ObjectHealth]:
    return lambda body: _judge(kind, body)


DECODERS: Final = {kind: _decoder(kind) for kind in RULES}
"""Decodes an object for a watch, by kind; one function for a kind, so that watches are shared."""


class PendingObject(NamedTuple):
    """An object that isn't current yet."""

    text: str
    since: float
    """Monotonic seconds when this generation was first seen not to be current."""
    generation: int


_NO_TEXTS: Final[dict[str, str]] = {}
_NO_PENDING: Final[dict[str, PendingObject]] = {}


@dataclass(slots=True)
class ReleaseObjects:
    """The objects of one release in its namespace: a count, and those that aren't current.

    The time of its methods grows little with the number of objects.
    """

    count: int = 0
    failed: dict[str, str] = field(default_factory=lambda: _NO_TEXTS)
    """Messages by ``Kind/name``."""
    unread: dict[str, str] = field(default_factory=lambda: _NO_TEXTS)
    pending: dict[str, PendingObject] = field(default_factory=lambda: _NO_PENDING)
    """By ``Kind/name``, the one that is pending for longest first."""

    def add(self, name: str, judged: ObjectHealth, now: float) -> None:
        """Add a new object."""
        self.count += 1
        if judged.status is Status.CURRENT:
            return
        if judged.status is Status.FAILED:
            self.failed = self.failed or {}
            self.failed[name] = judged.text
        elif judged.status is Status.UNKNOWN:
            self.unread = self.unread or {}
            self.unread[name] = judged.text
        else:
            self.pending = self.pending or {}
            self.pending[name] = PendingObject(judged.text, now, judged.generation)

    def replace(self, name: str, judged: ObjectHealth, now: float) -> None:
        """Replace an object's state by a newer one."""
        before, waits = self.pending.get(name), (Status.IN_PROGRESS, Status.TERMINATING)
        if before and before.generation == judged.generation and judged.status in waits:
            self.pending[name] = before._replace(text=judged.text)  # keeps its place
            return
        self.remove(name)
        self.add(name, judged, now)

    def remove(self, name: str) -> None:
        """Remove an object that was deleted, or isn't of this release any more."""
        self.count -= 1
        self.failed.pop(name, None)
        self.unread.pop(name, None)
        self.pending.pop(name, None)

    @property
    def oldest(self) -> float | None:
        """Monotonic seconds since which the longest pending object isn't current; else None."""
        return next((one.since for one in self.pending.values()), None)

    def named(self, namespace: str) -> str:
        """Text with the first objects that aren't current, failed ones first, and a command."""
        found = heapq.nsmallest(_NAMED, self.failed)
        found += heapq.nsmallest(_NAMED - len(found), self.pending)
        found += heapq.nsmallest(_NAMED - len(found), self.unread)
        more = len(self.failed) + len(self.pending) + len(self.unread) - len(found)
        text = ", ".join(f"{name} ({self._why(name)})" for name in found)
        text += f" and {more} more" if more > 0 else ""
        return f"{text}; see: kubectl describe -n {namespace} {found[0].lower()}"

    def _why(self, name: str) -> str:
        text = self.failed.get(name) or self.unread.get(name)
        pending = self.pending.get(name)
        return text or (pending.text if pending else "") or "no message"


@dataclass(frozen=True, slots=True)
class HealthFault:
    """Why a release's objects aren't known."""

    reason: HealthReason
    message: str


View = ReleaseObjects | HealthFault


def find_deploy_fault(spec: BundleSpec, status: BundleStatus) -> HealthFault | None:
    """Why a Bundle has no objects to judge; None where it has some."""
    if not (status.deployed.digest or status.deploy.digest):
        return HealthFault(HealthReason.NOT_DEPLOYED, "nothing is deployed yet")
    where = status.deployed.namespace or spec.project_namespace
    if where != spec.project_namespace:
        text = f"the release is in namespace {where}, not in {spec.project_namespace}"
        return HealthFault(HealthReason.NOT_DEPLOYED, text)
    return None


def not_accepted_fault(spec: BundleSpec) -> HealthFault:
    """The fault where the release's namespace is another one that hasn't accepted the release."""
    text = f"nothing is read in namespace {spec.project_namespace}: it hasn't accepted the release"
    return HealthFault(HealthReason.RELEASE_NOT_ACCEPTED, text)


def overridden_label_fault(value: str) -> HealthFault:
    """The fault where a Bundle sets another value of Helm's label on its objects."""
    return HealthFault(
        HealthReason.OTHER_MANAGER,
        f"the objects of the release are watched by the label {SELECTOR}, and the Bundle gives "
        f"them {quoted(value)} instead: remove that label from the Bundle",
    )


def healthy_condition(
    spec: BundleSpec, status: BundleStatus, view: View, now: float, grace: float
) -> FurtherCondition:
    """The condition, from what is known of the release's objects.

    Args:
        spec: the Bundle's.
        status: with the conditions before.
        view: the release's objects.
        now: monotonic seconds.
        grace: seconds for which an object may be pending before the release is unhealthy.
    """
    if isinstance(view, HealthFault):
        return FurtherCondition(ConditionStatus.UNKNOWN, view.reason, view.message)
    runs = status.attempted.outcome == Outcome.RUNNING
    oldest = view.oldest
    is_late = not runs and oldest is not None and now - oldest >= grace
    lasts = oldest is not None and status.condition(HEALTHY).is_false
    namespace = spec.project_namespace
    named = view.named(namespace) if view.failed or view.pending or view.unread else ""
    if view.failed or is_late or lasts:
        text = f"not healthy: {named}"
        return FurtherCondition(ConditionStatus.FALSE, HealthReason.UNHEALTHY, text)
    if oldest is not None:
        text = f"in progress: {named}"
        return FurtherCondition(ConditionStatus.UNKNOWN, HealthReason.PROGRESSING, text)
    if view.unread:
        text = f"can't be judged: {named}"
        return FurtherCondition(ConditionStatus.UNKNOWN, HealthReason.UNCHECKED, text)
    where = f"in namespace {namespace}; objects elsewhere aren't seen"
    text = f"each {_KINDS} of the release is current {where}"
    if not view.count:
        text = f"the release has no {_KINDS} {where}"
    return FurtherCondition(ConditionStatus.TRUE, HealthReason.HEALTHY, text)


def grace_ends_at(status: BundleStatus, view: View, now: float, grace: float) -> float | None:
    """Monotonic seconds when the grace of the longest pending object ends; None where none does."""
    if isinstance(view, HealthFault) or status.attempted.outcome == Outcome.RUNNING:
        return None
    oldest = view.oldest
    return None if oldest is None or oldest + grace <= now else oldest + grace
