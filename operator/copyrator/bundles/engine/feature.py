"""The extension points of features: what the engine asks each of them, and when.

A feature is a folder of ``bundles/features/`` whose module ``feature.py`` has one subclass of
Feature; the controller makes it once. The engine knows only what is declared here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionType, FurtherCondition, ReadyCondition
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.records import Record
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.engine.target import TargetAccess
from copyrator.bundles.gates.evidence import Attesters
from copyrator.bundles.gates.gate import NOTHING_FOUND, Candidate, Findings, Gates, Occasion
from copyrator.bundles.gates.links import Named
from copyrator.bundles.memory import Memories
from copyrator.bundles.step import Change, Step
from copyrator.signatures.model import DeployedEvidence

if TYPE_CHECKING:
    from copyrator.bundles.context import Context


T = TypeVar("T")


class Parts:
    """The engine's parts that features use."""

    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def of(self, kind: type[T]) -> T:
        """The part of a type."""
        return next(one for one in self._parts if isinstance(one, kind))


class Registry(Protocol):
    """What the registry answers about the versions of one Bundle.

    Raises:
        PendingError: by each method, while the answer is pending.
    """

    @property
    def entry(self) -> BundleEntry:
        """The Bundle."""
        ...

    @property
    def spec(self) -> BundleSpec:
        """Its spec, with what is withheld of it."""
        ...

    def evidence(self, digest: str, attesters: Attesters) -> DeployedEvidence:
        """What trusted keys attest of a digest."""
        ...


class Reading(Protocol):
    """What was read of objects that a spec names."""

    @property
    def key(self) -> str:
        """Equal ones have equal keys."""
        ...


class Feature:
    """What one feature does beside the engine's steps; each point may be left out.

    A point that is handed a Bundle is called for those that use the feature only: that aren't being
    deleted, unless it ``outlasts`` that, and whose spec is valid and has something of ``spec`` (or,
    beside that, what ``status`` and ``annotation`` say); or for its own ``keys``. The features are
    asked in the order of the list.
    """

    spec: ClassVar[type[Part] | None] = None
    """Its part of the spec; None: all Bundles use the feature."""
    status: ClassVar[type[Record] | None] = None
    """Its part of the status, by which Bundles use it, too."""
    annotation: ClassVar[str | None] = None
    """The name of an annotation by which Bundles use it, too."""
    outlasts: ClassVar[bool] = False
    """Whether it has something to do while a Bundle is being deleted, too."""
    keys: Collection[BundleKey] | None = None
    """The Bundles that it concerns, where their specs don't tell; valid ones or not."""
    memory: ClassVar[type[Any] | None] = None
    """What it remembers of a Bundle that it follows; the engine drops it after ``leave``."""
    named: Named | None = None
    """Which Bundles name one by its field; it keeps that up to date in ``wakes``."""
    gates: Gates = Gates()
    """Its gates, as this process evaluates them; those of ``gates.py`` are what commands know."""

    def __init__(self, context: Context) -> None:
        self.context = context

    # --- the process ------------------------------------------------------------------------------

    def connect(self, parts: Parts) -> None:
        """Take what it needs of the engine's parts; once, before ``start``."""

    def start(self) -> None:
        """Open what all Bundles need; before the first reconcile."""

    async def stop(self) -> None:
        """End it; no reconcile begins any more."""

    @property
    def is_ready(self) -> bool:
        """Whether Bundles can be decided on; before, only those that are being deleted are."""
        return True

    @property
    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Its checks of ``/readyz`` by name; each returns what is wrong, None: nothing."""
        return {}

    def publish(self) -> None:
        """Set its gauges; before each scrape."""

    def wakes(
        self,
        before: BundleEntry | None,  # noqa: ARG002
        after: BundleEntry | None,  # noqa: ARG002
    ) -> Iterable[tuple[BundleKey, Change]]:
        """The other Bundles that a change of one in the cache concerns, and why; at each change.

        Of a Bundle that uses the feature, or that others name (``named``). ``before`` is None for
        one that is new there, ``after`` for one that was removed.
        """
        return ()

    # --- a reconcile, in the order of its steps ---------------------------------------------------

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Begin, or change, what is watched for a Bundle; first, also where its spec is refused."""

    def leave(self, key: BundleKey) -> None:
        """End that, as the Bundle is deleted or doesn't use the feature any more."""

    async def admit(self, entry: BundleEntry) -> tuple[Step, ReadyCondition | None]:
        """Record whether a release may be in another namespace; returns Ready where it may not.

        First of all, also where the spec is refused, and of a deleted Bundle whose release others
        name; of Bundles with such a release, or with ``status``.
        """
        return Step(entry), None

    def keep(self, entry: BundleEntry) -> Step:
        """Record what has changed beside the status; first, also where the spec is refused."""
        return Step(entry)

    def retry(self, entry: BundleEntry) -> None:
        """Try again what has failed by objects that the spec names: one has changed."""

    def tend(self, entry: BundleEntry, spec: BundleSpec) -> Step:  # noqa: ARG002
        """Go on with what isn't awaited; next, where the settings don't refuse the spec.

        Of a Bundle that is being deleted before its release is uninstalled.
        """
        return Step(entry)

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> Step:  # noqa: ARG002
        """Record what a user asks for; first of a valid spec, before anything else refuses it."""
        return Step(entry)

    async def locate(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],  # noqa: ARG002
    ) -> tuple[BundleEntry, BundleSpec]:
        """Complete the spec by where the release is; before it is decided who owns the release.

        Raises:
            MissingReferenceError: that can't be found, so that nothing is deployed.
        """
        return entry, spec

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:  # noqa: ARG002
        """The same with the credential there; before a Job is created, and of deleted Bundles.

        Raises:
            MissingReferenceError: there is none that may be used.
        """
        return TargetAccess(spec)

    def review(self, entry: BundleEntry) -> Step:
        """Record what is found of a Bundle; before its Job is observed or the registry is asked."""
        return Step(entry)

    async def read(
        self,
        entry: BundleEntry,  # noqa: ARG002
        spec: BundleSpec,  # noqa: ARG002
        found: Findings,  # noqa: ARG002
    ) -> Reading | None:
        """What its gates need of the objects that the spec names; before the registry is asked.

        ``found`` has what those before it have read. Where the key differs from the one before, the
        registry is polled anew.

        Raises:
            MissingReferenceError: one doesn't exist, or isn't valid.
            ApiError: it can't be read.
        """
        return None

    def ask(
        self,
        registry: Registry,  # noqa: ARG002
        candidate: Candidate,  # noqa: ARG002
        occasion: Occasion,  # noqa: ARG002
        found: Findings,  # noqa: ARG002
    ) -> object | None:
        """What its gates judge one version by, from the registry; while versions are judged.

        ``found`` is what was read and found before.

        Raises:
            PendingError: the registry hasn't answered yet.
        """
        return None

    def find(self, spec: BundleSpec) -> object | None:  # noqa: ARG002
        """What its gates judge by, a value of its own type; before they are evaluated.

        Once more after the decision: where it isn't equal then, the Bundle is decided on again.
        """
        return None

    def wants(self, entry: BundleEntry, spec: BundleSpec) -> object | None:  # noqa: ARG002
        """What a version is chosen by; once it isn't equal any more, the registry is asked at once.

        Beside the spec and the values, whose changes need no feature.
        """
        return None

    def stops(self, entry: BundleEntry, spec: BundleSpec) -> BundleReason | None:  # noqa: ARG002
        """Why a Job may not begin now: it is ended where its pod hasn't started. None: it may.

        Also of a Bundle that is being deleted.
        """
        return None

    # --- a write of the status --------------------------------------------------------------------

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:  # noqa: ARG002
        """The status with what follows from the rest of it; last, before each write."""
        return status

    def conditions(
        self,
        entry: BundleEntry,  # noqa: ARG002
        status: BundleStatus,  # noqa: ARG002
    ) -> Mapping[ConditionType, FurtherCondition | None]:
        """Its conditions, as part of a status that is written if it changed. Pure."""
        return {}

    def refresh(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:  # noqa: ARG002
        """The status with what is brought up to date where one is written anyway."""
        return status

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit Events and count the difference; after a status was written."""


def _is_in(feature: Feature, spec: BundleSpec) -> bool:
    return feature.spec is None or spec.uses(feature.spec)


def _has_in(feature: Feature, entry: BundleEntry) -> bool:
    """Whether the spec of a Bundle, also of a deleted one, is valid and has something of it."""
    return isinstance(entry.spec, BundleSpec) and _is_in(feature, entry.spec)


def _has_status(feature: Feature, entry: BundleEntry) -> bool:
    return feature.status is not None and entry.status.find(feature.status) is not None


def _is_used_by(feature: Feature, entry: BundleEntry) -> bool:
    """Whether a Bundle uses it."""
    if feature.keys is not None:
        return entry.key in feature.keys
    spec = entry.spec
    if (entry.deleting and not feature.outlasts) or not isinstance(spec, BundleSpec):
        return False
    return (
        _has_status(feature, entry)
        or feature.annotation in entry.annotations
        or _is_in(feature, spec)
    )


def _is_touched(feature: Feature, entry: BundleEntry) -> bool:
    """Whether a Bundle, also a deleted one, has something of a feature."""
    return (
        _has_in(feature, entry)
        or _has_status(feature, entry)
        or feature.annotation in entry.annotations
    )


class Features:
    """The features of this process, in their order, and which of them a Bundle uses."""

    def __init__(self, features: Sequence[Feature], memories: Memories) -> None:
        self._features = tuple(features)
        self._memories = memories
        self._followed: dict[BundleKey, tuple[Feature, ...]] = {}
        """The features by which a Bundle is followed."""
        memories.on_drop(self._leave)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def of(self, entry: BundleEntry, point: Callable[..., Any]) -> Iterator[Feature]:
        """Those that a Bundle uses and that offer a point, such as ``Feature.review``."""
        return (one for one in self._offering(point) if _is_used_by(one, entry))

    def _offering(self, point: Callable[..., Any]) -> Iterator[Feature]:
        name = point.__name__
        return (one for one in self._features if getattr(type(one), name) is not point)

    @property
    def gates(self) -> Gates:
        """All their gates."""
        return Gates.joined(one.gates for one in self)

    @property
    def is_ready(self) -> bool:
        """Whether Bundles that aren't being deleted can be decided on."""
        return all(one.is_ready for one in self)

    def connect(self, parts: Parts) -> None:
        """Give them the engine's parts."""
        for one in self:
            one.connect(parts)

    def follow(self, entry: BundleEntry) -> None:
        """Have a Bundle followed by the features that it uses, and left by the others."""
        used = tuple(self.of(entry, Feature.follow))
        self._leave(entry.key, used)
        for one in used:
            assert isinstance(entry.spec, BundleSpec)
            self._followed[entry.key] = used
            one.follow(entry, entry.spec)

    def _leave(self, key: BundleKey, used: Sequence[Feature] = ()) -> None:
        for one in self._followed.pop(key, ()):
            if one not in used:
                one.leave(key)
                if one.memory is not None:
                    self._memories.forget(key, one.memory)

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> Iterator[tuple[BundleKey, Change]]:
        """The other Bundles that a change of one in the cache concerns, and why."""
        found = [one for one in (before, after) if one is not None]
        for one in self._offering(Feature.wakes):
            is_named = one.named is not None and any(each.key in one.named.keys for each in found)
            if is_named or any(_is_touched(one, each) for each in found):
                yield from one.wakes(before, after)

    async def admit(
        self, entry: BundleEntry, take: Callable[[Step], Awaitable[BundleEntry]]
    ) -> tuple[BundleEntry, ReadyCondition | None]:
        """The Bundle after their steps, and the first objection to where its release is."""
        objection = None
        for one in self._offering(Feature.admit):
            if entry.namespace_elsewhere is not None or _has_status(one, entry):
                step, found = await one.admit(entry)
                entry, objection = await take(step), objection or found
        return entry, objection

    async def keep(
        self, entry: BundleEntry, take: Callable[[Step], Awaitable[BundleEntry]]
    ) -> BundleEntry:
        """Have their first steps taken by ``take``; returns the Bundle as it is then."""
        for one in self.of(entry, Feature.keep):
            entry = await take(one.keep(entry))
        return entry

    def retry(self, entry: BundleEntry) -> None:
        """Have them try again what has failed."""
        for one in self.of(entry, Feature.retry):
            one.retry(entry)

    async def tend(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],
    ) -> BundleEntry:
        """Have what they go on with taken by ``take``; returns the Bundle as it is then."""
        for one in self.of(entry, Feature.tend):
            entry = await take(one.tend(entry, spec))
        return entry

    async def begin(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],
    ) -> BundleEntry:
        """Have what users ask for taken by ``take``; returns the Bundle as it is then."""
        for one in self.of(entry, Feature.begin):
            entry = await take(one.begin(entry, spec))
        return entry

    async def locate(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        take: Callable[[Step], Awaitable[BundleEntry]],
    ) -> tuple[BundleEntry, BundleSpec]:
        """The Bundle, and its spec with where the release is."""
        for one in self.of(entry, Feature.locate):
            entry, spec = await one.locate(entry, spec, take)
        return entry, spec

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """Where the release is, and the credential there."""
        for one in self._offering(Feature.target):
            if _is_in(one, spec):
                return await one.target(entry, spec)
        return TargetAccess(spec)

    def wants(self, entry: BundleEntry, spec: BundleSpec) -> tuple[object, ...]:
        """What a version is chosen by."""
        return tuple(one.wants(entry, spec) for one in self.of(entry, Feature.wants))

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Have the difference told."""
        for one in self._offering(Feature.record):
            if _is_used_by(one, written) or _is_used_by(one, before):
                one.record(before, written)

    async def review(
        self, entry: BundleEntry, take: Callable[[Step], Awaitable[BundleEntry]]
    ) -> BundleEntry:
        """Have their steps taken by ``take``; returns the Bundle as it is then."""
        for one in self.of(entry, Feature.review):
            entry = await take(one.review(entry))
        return entry

    async def read(
        self, entry: BundleEntry, spec: BundleSpec, found: Findings
    ) -> tuple[Findings, str]:
        """What they have read, beside ``found``, and its key; raises as they do."""
        keys = []
        for one in self._offering(Feature.read):
            if _is_in(one, spec) and (read := await one.read(entry, spec, found)) is not None:
                found = found.including((read,))
                keys.append(read.key)
        return found, " ".join(keys)

    def ask(
        self, registry: Registry, candidate: Candidate, occasion: Occasion, found: Findings
    ) -> Findings:
        """What they find out about a version, beside ``found``; raises as they do."""
        offering = self._offering(Feature.ask)
        asked = (one for one in offering if _is_in(one, registry.spec))
        return found.including(one.ask(registry, candidate, occasion, found) for one in asked)

    def find(self, spec: BundleSpec) -> Findings:
        """What they find for their gates."""
        offering = self._offering(Feature.find)
        return NOTHING_FOUND.including(one.find(spec) for one in offering if _is_in(one, spec))

    def stops(self, entry: BundleEntry, spec: BundleSpec) -> BundleReason | None:
        """The first reason why a Job of a Bundle may not begin now, deleted Bundles' too."""
        offering = self._offering(Feature.stops)
        found = (one.stops(entry, spec) for one in offering if _is_in(one, spec))
        return next(filter(None, found), None)
