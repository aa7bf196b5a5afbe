"""The extension points of features: what the engine asks each of them, and when.

A feature is a folder of ``bundles/features/`` whose module ``feature.py`` has one subclass of
Feature; the controller makes it once. The engine knows only what is declared here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionType, NewConditions, ReadyCondition
from copyrator.api.keys import BundleKey
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec, Record
from copyrator.bundles.engine.bundle import BundleEntry, Memories
from copyrator.bundles.engine.deciding import Correction, Proposal
from copyrator.bundles.engine.gate import (
    NOTHING_FOUND,
    Candidate,
    Findings,
    Gates,
    Occasion,
    Verdict,
)
from copyrator.bundles.engine.links import Named
from copyrator.bundles.engine.lookup import Lookup
from copyrator.bundles.engine.references import TargetAccess
from copyrator.bundles.engine.step import Change, Step

if TYPE_CHECKING:
    from datetime import datetime

    from copyrator.api.bundle_status import Attempted
    from copyrator.bundles.engine.context import Context
    from copyrator.bundles.jobs.job import DeployOrder, UninstallOrder
    from copyrator.bundles.jobs.outcome import Blocked, Ending, Excuse, JobRecord
    from copyrator.bundles.jobs.pod import Kept
    from copyrator.oci.auth import Credential
    from copyrator.oci.errors import RegistryError


class JobPendingError(Exception):
    """What a feature adds to a Job isn't there yet; the feature requeues the Bundle."""


T = TypeVar("T")
A = TypeVar("A")
F = TypeVar("F")
P = TypeVar("P", bound=Proposal)


class Parts:
    """The engine's parts that features use, and the features, as some are built on another."""

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

    def look_up(self, lookup: Lookup[A, F], digest: str, by: A) -> F | RegistryError:
        """What a lookup of the feature reads of a digest, judged by something, or why it can't."""
        ...


@dataclass(frozen=True, slots=True)
class Rechecked:
    """What a feature says of versions that were judged before."""

    gate: str
    """Its gate's name."""
    awaited: Verdict
    """On the version that is awaited: refused, it goes; while it waits, nothing is deployed."""
    found: object
    """For ``Feature.judged``: a value of its own type."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a Job of an attempt has ended with."""

    ending: Ending
    found: object = None
    """For ``Feature.finish``: a value of its own type."""
    is_explained: bool = False
    """Whether the end of the log has no cause of a failure."""


class Observed(NamedTuple):
    """What has come of a feature's Jobs, and of what a user has decided."""

    status: BundleStatus | None = None
    """Isn't written yet: the decision that follows from it is written with it. None: nothing."""
    due: datetime | None = None
    """When to look again."""


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of what a version is made of."""

    unbound: tuple[str, ...]
    """Why it may render something else another time, or why that isn't known; empty: it doesn't."""
    literals: tuple[str, ...] = ()
    """Texts in it that may be in werf's errors: they aren't secret."""


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
    asked in the order of the list. Of a Bundle that has nothing of any feature (``is_plain``) those
    are asked that all Bundles use, for gates and in the process's life; and, while one ``reaches``
    such Bundles, where something is read, kept or written for it.
    """

    spec: ClassVar[type[Part] | tuple[type[Part], ...] | None] = None
    """Its part of the spec, or any of several; None: all Bundles use the feature."""
    status: ClassVar[type[Record] | tuple[type[Record], ...]] = ()
    """Its part of the status, by which Bundles use it, too; or any of several."""
    annotation: ClassVar[str | None] = None
    """The name of an annotation by which Bundles use it, too."""
    outlasts: ClassVar[bool] = False
    """Whether it has something to do while a Bundle is being deleted, too."""
    uses: Callable[[BundleSpec], bool] | None = None
    """Which Bundles use it in place of ``spec``, while something else than their specs tells."""
    keys: Collection[BundleKey] | None = None
    """The Bundles that it concerns, where their specs don't tell; valid ones or not."""
    memory: ClassVar[type[Any] | None] = None
    """What it remembers of a Bundle that it follows; the engine drops it after ``leave``."""
    reaches: bool | None = None
    """Whether it concerns Bundles that have nothing of any feature; None: while ``uses`` is set, or
    there are ``keys``."""
    writes_secrets: ClassVar[bool] = False
    """Whether it writes Secrets of its own for Jobs, which are deleted after them."""
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

    _is_ready = True

    @property
    def is_ready(self) -> bool:
        """Whether Bundles can be decided on; before, only those that are being deleted are."""
        return self._is_ready

    precedes_deletions: ClassVar[bool] = False
    """Whether these wait for that, too."""

    @property
    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Its checks of ``/readyz`` by name; each returns what is wrong, None: nothing."""
        return {}

    def publish(self) -> None:
        """Set its gauges; before each scrape."""

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> Iterable[tuple[BundleKey, Change]]:
        """The other Bundles that a change of one in the cache concerns, and why; at each change.

        Of a Bundle that uses the feature, or that others name (``named``). ``before`` is None for
        one that is new there, ``after`` for one that was removed.
        """
        return ()

    # --- a reconcile, in the order of its steps ---------------------------------------------------

    def reconciling(self, key: BundleKey) -> AbstractContextManager[None]:
        """Is entered before a reconcile of a Bundle, and left at its end, whatever that is."""
        return nullcontext()

    def due(self, key: BundleKey) -> datetime | None:
        """When it is reconciled again, as something waits for its turn; None: nothing does."""
        return None

    def follow(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Begin, or change, what is watched for a Bundle; first, also where its spec is refused."""

    def leave(self, key: BundleKey) -> None:
        """End that, as the Bundle is deleted or doesn't use the feature any more.

        Only features that offer it follow Bundles.
        """

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

    def tend(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Go on with what isn't awaited; next, where the settings don't refuse the spec.

        Of a Bundle that is being deleted before its release is uninstalled.
        """
        return Step(entry)

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Record what a user asks for; first of a valid spec, before anything else refuses it."""
        return Step(entry)

    async def locate(
        self, entry: BundleEntry, spec: BundleSpec, take: Callable[[Step], Awaitable[BundleEntry]]
    ) -> tuple[BundleEntry, BundleSpec]:
        """Complete the spec by where the release is; before it is decided who owns the release.

        Raises:
            MissingReferenceError: that can't be found, so that nothing is deployed.
        """
        return entry, spec

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """The same with the credential there; before a Job is created, and of deleted Bundles.

        Raises:
            MissingReferenceError: there is none that may be used.
        """
        return TargetAccess(spec)

    def review(self, entry: BundleEntry) -> Step:
        """Record what is found of a Bundle; before its Job is observed or the registry is asked."""
        return Step(entry)

    async def advance(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Go on with Jobs of its own that no decision depends on; while no attempt runs.

        Also where updates are disabled. Next, ``observe`` and ``undecided`` are.
        """
        return Step(entry)

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> Observed:
        """What has come of those that the decision depends on; before the objects are read.

        Raises:
            ApiError: it isn't known now.
        """
        return Observed()

    def undecided(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, missing: str | None
    ) -> BundleStatus:
        """The status where nothing is decided: updates are disabled, or an object is missing. Pure.

        ``missing`` says which; None: updates are disabled.
        """
        return status

    async def read(self, entry: BundleEntry, spec: BundleSpec, found: Findings) -> Reading | None:
        """What its gates need of the objects that the spec names; before the registry is asked.

        ``found`` has what those before it have read. Where the key differs from the one before, the
        registry is polled anew.

        Raises:
            MissingReferenceError: one doesn't exist, or isn't valid.
            ApiError: it can't be read.
        """
        return None

    async def check(self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None) -> Step:
        """Go on with Jobs of its own for which no registry is asked; once the objects are read.

        Not where ``observe`` has returned a changed status: then once that is written.
        """
        return Step(entry)

    def request(self, entry: BundleEntry, status: BundleStatus) -> str:
        """What a user requests, as text: the registry's answer has to be newer. Pure.

        Empty: nothing; also where the status says that it was handled.
        """
        return ""

    def awaits_answer(self, entry: BundleEntry) -> bool:
        """Whether an answer of the registry may be for one of the steps before the poll."""
        return False

    def awaits(self, status: BundleStatus) -> Candidate | None:
        """The version that may be deployed instead of what is chosen, so that it is judged, too.

        Such as one that somebody has approved. Pure.
        """
        return None

    def corrects(self, spec: BundleSpec) -> bool:
        """Whether what is deployed may be deployed again by itself, so that it is judged, too."""
        return False

    def ask(
        self, registry: Registry, candidate: Candidate, occasion: Occasion, found: Findings
    ) -> object | None:
        """What its gates judge one version by, from the registry; while versions are judged.

        ``found`` is what was read and found before.

        Raises:
            PendingError: the registry hasn't answered yet.
        """
        return None

    def recheck(
        self, registry: Registry, digest: str, awaited: str, found: Findings
    ) -> Rechecked | None:
        """What it says of what is deployed, and of the awaited digest; once all is chosen.

        Args:
            registry: the Bundle's.
            digest: what was chosen; empty: nothing.
            awaited: what ``awaits`` has returned; empty: nothing.
            found: what was read and found before.

        Raises:
            PendingError: the registry hasn't answered yet.
        """
        return None

    def judged(self, status: BundleStatus, findings: Findings, *, begins: bool) -> BundleStatus:
        """The status with what it says of what is deployed; where a resolution is recorded. Pure.

        ``findings``: what ``recheck`` has returned. ``begins``: what was chosen is deployed now.
        """
        return status

    def is_judged(self, status: BundleStatus, read: Findings) -> bool:
        """Whether, by the status, it has judged by what was read now; after a restart. Pure."""
        return True

    def find(self, spec: BundleSpec) -> object | None:
        """What its gates judge by, a value of its own type; before they are evaluated.

        Once more after the decision: where it isn't equal then, the Bundle is decided on again.
        """
        return None

    def wants(self, entry: BundleEntry, spec: BundleSpec) -> object | None:
        """What a version is chosen by; once it isn't equal any more, the registry is asked at once.

        Beside the spec and the values, whose changes need no feature.
        """
        return None

    # --- the decision about a version -------------------------------------------------------------

    def propose(self, proposal: P) -> P:
        """What is proposed instead, by the spec and the status; before that is decided on. Pure.

        Another version of it, what its gates judge by, or what has changed in the status.
        """
        return proposal

    def correct(self, proposal: Proposal, *, is_held: bool) -> Correction | None:
        """Whether what is deployed is to be deployed again, where nothing else is. Pure.

        ``is_held``: something else would be, if its gates let it.
        """
        return None

    def awaits_moment(self, entry: BundleEntry) -> bool:
        """Whether what is deployed is to be deployed again once the gates let it. Pure."""
        return False

    async def precede(
        self,
        proposal: Proposal,
        verdict: ReadyCondition,
        find_account: Callable[[], Awaitable[Step | None]],
    ) -> Step | None:
        """Begin what its gate waits for, or a user requests, where nothing is deployed now.

        Args:
            proposal: with the status that is written, and the gates' results.
            verdict: what is said of the Bundle else.
            find_account: returns the step that reports why no Job can be begun; None where one can.

        Returns:
            The step that begins it; None where nothing has to be begun, or it waits for its turn.
        """
        return None

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """The status with which an attempt begins; before that is written. Pure.

        ``proposal``: with the status that has the attempt.
        """
        return proposal.status

    async def tidy(self, before: BundleEntry, written: BundleEntry) -> None:
        """Remove what the status names no more; after a decision was written."""

    def stops(self, entry: BundleEntry, spec: BundleSpec) -> BundleReason | None:
        """Why a Job may not begin now: it is ended where its pod hasn't started. None: it may.

        Also of a Bundle that is being deleted.
        """
        return None

    # --- a Job of an attempt, or of its own -------------------------------------------------------
    # ``prepare`` is called for Bundles whose specs have a part of some feature.

    def credential(self, spec: BundleSpec) -> Credential | None:
        """The registry's in place of that of a Secret, for polls and Jobs; pure."""
        return None

    async def prepare(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Get what it adds to a Job; before its attempt is recorded, or its plan takes a slot.

        Raises:
            JobPendingError: it isn't there yet.
            RegistryError: there is none.
        """

    # The next ones are called for Bundles whose spec uses the feature, or whose status has
    # ``status``, deleted ones too.

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status with what it adds to a new attempt, such as another name of its Job.

        Before the attempt is recorded.

        Raises:
            ApiError: that can't be read now.
        """
        return status

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order with what it adds to the Job of this name; before that is created.

        Raises:
            JobPendingError: what it adds isn't there yet; the same name is tried again.
            MissingReferenceError: it can't be created as it was recorded.
            RegistryError: there is none.
            ApiError: a Secret can't be written.
        """
        return order

    async def conclude(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """How the Job of an attempt has ended, by what only its script tells; once it has ended.

        ``pods``: the Job's, newest last.

        Raises:
            ApiError: a pod can't be read now.
        """
        return Conclusion(ending)

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """How a Job has ended that failed by an error of werf, which is redacted; None: it may be.

        Raises:
            ApiError: what that is judged by can't be read now.
        """
        return None

    def finish(
        self, entry: BundleEntry, status: BundleStatus, ending: Ending, found: Findings
    ) -> BundleStatus:
        """The status with what it records of an attempt that has ended. Pure.

        ``found``: what ``conclude`` has found.
        """
        return status

    def has_copies(self, spec: BundleSpec, attempted: Attempted) -> bool:
        """Whether it had copies of values made for an attempt, which are deleted then. Pure."""
        return False

    async def uninstall(
        self, entry: BundleEntry, spec: BundleSpec, order: UninstallOrder
    ) -> UninstallOrder | Step:
        """The order with what it adds to an uninstall's Job; before that is created.

        A step: it can't be created yet, or what is awaited.

        Raises:
            ApiError: the next reconcile repeats it.
        """
        return order

    async def release(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Delete what the Bundle doesn't own; before its finalizer is removed.

        Raises:
            ApiError: the next reconcile repeats it.
        """

    async def attend(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> datetime | None:
        """Keep what it has added to an unfinished Job in force; returns when to do so again.

        Also of a deleted Bundle.

        Raises:
            ApiError: the API server didn't do what is needed.
        """
        return None

    # The next ones are called for Jobs of all Bundles: their specs may have been edited since.

    def spares(self, entry: BundleEntry) -> str | None:
        """The Job that an uninstall waits for; others of features are ended before that."""
        return None

    def keeps(self, entry: BundleEntry, job: JobRecord) -> Kept | None:
        """How long a Job of its own is kept, by the status; None: as those that deploy.

        So a restart changes nothing. Such a Job neither deploys nor uninstalls.
        """
        return None

    def hinders(self, key: BundleKey, job: JobRecord) -> Blocked | None:
        """Why an unfinished Job doesn't start for want of what it has added; None: it has that."""
        return None

    def excuse(
        self, key: BundleKey, job: JobRecord, error: str, *, is_refused: bool
    ) -> Excuse | None:
        """What it knows of a Job's failure by an error of werf; None: nothing.

        ``is_refused``: the registry refused the Job's login.
        """
        return None

    def secrets(self, key: BundleKey, job: JobRecord) -> Mapping[str, Sequence[bytes]]:
        """All that its Secrets for a Job have had, by their names; to redact what the Job printed.

        Raises:
            WithheldError: it isn't known.
        """
        return {}

    async def content(
        self, entry: BundleEntry, spec: BundleSpec, digest: str
    ) -> Content | RegistryError | None:
        """What a version is made of, by which the output of its Job is read; of all Bundles.

        None while that is being read: the Bundle is requeued when it is there. An error isn't
        kept: later it is tried again.

        Raises:
            ApiError: what the spec names for the registry can't be read now.
        """
        return Content(())

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """The names of the Jobs whose Secrets are still needed, beside those of attempts. Pure.

        Of Bundles whose status has ``status``.
        """
        return ()

    # --- a write of the status --------------------------------------------------------------------

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with what follows from the rest of it; last, before each write."""
        return status

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Its conditions, as part of a status that is written if it changed. Pure."""
        return {}

    def refresh(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with what is brought up to date where one is written anyway."""
        return status

    def is_told(
        self,
        condition: ConditionType,
        reason: AnyReason,
        before: BundleStatus,
        status: BundleStatus,
    ) -> bool:
        """Whether no Event is needed for a new reason of Ready or UpdatePending. Pure."""
        return False

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit Events and count the difference; after a status was written."""


def is_used_in(feature: Feature, spec: BundleSpec) -> bool:
    """Whether a Bundle uses a feature by its spec; also for ``Gate.concerns``."""
    if feature.uses is not None:
        return feature.uses(spec)
    if feature.spec is None:
        return True
    kinds = feature.spec if isinstance(feature.spec, tuple) else (feature.spec,)
    return any(map(spec.uses, kinds))


def _has_status(feature: Feature, status: BundleStatus) -> bool:
    kinds = feature.status if isinstance(feature.status, tuple) else (feature.status,)
    return any(status.find(kind) is not None for kind in kinds)


def _is_used_by(feature: Feature, entry: BundleEntry) -> bool:
    """Whether a Bundle uses it."""
    if feature.keys is not None:
        return entry.key in feature.keys
    if (entry.deleting and not feature.outlasts) or isinstance(entry.spec, InvalidSpec):
        return False
    return _is_touched(feature, entry)


def _is_touched(feature: Feature, entry: BundleEntry) -> bool:
    """Whether a Bundle, also a deleted one, has something of a feature."""
    return (
        (isinstance(entry.spec, BundleSpec) and is_used_in(feature, entry.spec))
        or _has_status(feature, entry.status)
        or feature.annotation in entry.annotations
    )


class Features:
    """The features of this process, in their order, and which of them a Bundle uses."""

    def __init__(self, features: Sequence[Feature], memories: Memories) -> None:
        self._features = tuple(features)
        self._offered = {
            name: tuple(one for one in features if getattr(type(one), name) is not point)
            for name, point in vars(Feature).items()
            if isinstance(point, FunctionType)
        }
        """Those that offer a point, by its name."""
        self._memories = memories
        self.followed: dict[BundleKey, tuple[Feature, ...]] = {}
        """The features by which a Bundle is followed."""
        memories.on_drop(self._leave)

    def __iter__(self) -> Iterator[Feature]:
        return iter(self._features)

    def of(self, entry: BundleEntry, point: Callable[..., Any]) -> Iterator[Feature]:
        """Those that a Bundle uses and that offer a point, such as ``Feature.review``."""
        return (one for one in self.offering(point) if _is_used_by(one, entry))

    def used_in(self, spec: BundleSpec, point: Callable[..., Any]) -> Iterator[Feature]:
        """Those that a spec has something of; also of a Bundle that is being deleted."""
        return (one for one in self.offering(point) if is_used_in(one, spec))

    def known_to(
        self, spec: BundleSpec, status: BundleStatus, point: Callable[..., Any]
    ) -> Iterator[Feature]:
        """Those that a spec or a status has something of; also of one that is being deleted."""
        offering = self.offering(point)
        return (one for one in offering if is_used_in(one, spec) or _has_status(one, status))

    def offering(self, point: Callable[..., Any]) -> tuple[Feature, ...]:
        """All that offer a point."""
        return self._offered[point.__name__]

    @property
    def reach_others(self) -> bool:
        """Whether one concerns Bundles now that have nothing of any, such as by a policy."""
        found = (
            bool(one.keys) or one.uses is not None if one.reaches is None else one.reaches
            for one in self
        )
        return any(found)

    @property
    def gates(self) -> Gates:
        """All their gates."""
        return Gates.joined(one.gates for one in self)

    def are_ready(self, *, deleting: bool) -> bool:
        """Whether Bundles can be decided on, or those that are being deleted."""
        return all(one.is_ready for one in self if not deleting or one.precedes_deletions)

    def connect(self, *parts: object) -> None:
        """Give them the engine's parts, and each other."""
        for one in self:
            one.connect(Parts(*parts, self, *self._features))

    def follow(self, entry: BundleEntry) -> None:
        """Have a Bundle followed by the features that it uses, and left by the others."""
        used = tuple(self.of(entry, Feature.leave))
        self._leave(entry.key, used)
        for one in used:
            assert isinstance(entry.spec, BundleSpec)
            self.followed[entry.key] = used
            one.follow(entry, entry.spec)

    def _leave(self, key: BundleKey, used: Sequence[Feature] = ()) -> None:
        for one in self.followed.pop(key, ()):
            if one not in used:
                one.leave(key)
                if one.memory is not None:
                    self._memories.forget(key, one.memory)

    def changed(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Have the other Bundles reconciled that a change of one in the cache concerns."""
        found = [one for one in (before, after) if one is not None]
        for one in self.offering(Feature.wakes):
            is_named = one.named is not None and any(each.key in one.named.keys for each in found)
            if is_named or any(_is_touched(one, each) for each in found):
                for key, why in one.wakes(before, after):
                    one.context.schedule.changed(key, why)

    async def admit(
        self, entry: BundleEntry, take: Callable[[Step], Awaitable[BundleEntry]]
    ) -> tuple[BundleEntry, ReadyCondition | None]:
        """The Bundle after their steps, and the first objection to where its release is."""
        objection = None
        for one in self.offering(Feature.admit):
            if entry.namespace_elsewhere is not None or _has_status(one, entry.status):
                step, found = await one.admit(entry)
                entry, objection = await take(step), objection or found
        return entry, objection

    @contextmanager
    def reconciling(self, entry: BundleEntry) -> Iterator[None]:
        """Wrap a reconcile of a Bundle."""
        with ExitStack() as stack:
            for one in self.of(entry, Feature.reconciling):
                stack.enter_context(one.reconciling(entry.key))
            yield

    def due(self, entry: BundleEntry) -> datetime | None:
        """When it is reconciled again, as something waits for its turn."""
        dues = (one.due(entry.key) for one in self.of(entry, Feature.due))
        return min(filter(None, dues), default=None)

    def undecided(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, missing: str | None = None
    ) -> BundleStatus:
        """The status where nothing is decided."""
        for one in self.of(entry, Feature.undecided):
            status = one.undecided(entry, spec, status, missing)
        return status

    def request(self, entry: BundleEntry, status: BundleStatus) -> str:
        """What users request of them."""
        found = (one.request(entry, status) for one in self.of(entry, Feature.request))
        return " ".join(filter(None, found))

    def needed_jobs(self, status: BundleStatus) -> list[str | None]:
        """The names of the Jobs whose Secrets a Bundle with this status still needs.

        Whatever its spec is now: what was approved stays so where that is refused for a while.
        """
        attempted, found = status.attempted, [status.deployed.plan_job]
        if attempted.is_running:
            found += [attempted.job, attempted.plan_job]
        for one in self.offering(Feature.needed_jobs):
            if _has_status(one, status):
                found += one.needed_jobs(status)
        return found

    def has_told(
        self, entry: BundleEntry, condition: ConditionType, reason: AnyReason, status: BundleStatus
    ) -> bool:
        """Whether no Event is needed for a new reason."""
        asked = self.of(entry, Feature.is_told)
        return any(one.is_told(condition, reason, entry.status, status) for one in asked)

    async def take(
        self,
        point: Callable[..., Step],
        entry: BundleEntry,
        take: Callable[[Step], Awaitable[BundleEntry]],
        *more: object,
    ) -> BundleEntry:
        """Have their steps at a point, such as ``Feature.review``, taken by ``take``.

        Returns the Bundle as it is then. ``more``: what the point is handed beside the Bundle.
        """
        for one in self.of(entry, point):
            entry = await take(getattr(one, point.__name__)(entry, *more))
        return entry

    async def target(self, entry: BundleEntry, spec: BundleSpec) -> TargetAccess:
        """Where the release is, and the credential there."""
        for one in self.used_in(spec, Feature.target):
            return await one.target(entry, spec)
        return TargetAccess(spec)

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Have the difference told."""
        for one in self.offering(Feature.record):
            if (
                _is_used_by(one, written)
                or _is_used_by(one, before)
                or _has_status(one, before.status)
            ):
                one.record(before, written)

    async def read(
        self, entry: BundleEntry, spec: BundleSpec, gates: Gates | None = None
    ) -> tuple[Findings, str]:
        """What they have read, and its key; raises as they do.

        ``gates``: only what these need, which are some of theirs.
        """
        keys, found = [], NOTHING_FOUND
        names = None if gates is None else {gate.name for gate in gates}
        for one in self.used_in(spec, Feature.read):
            if names is not None and names.isdisjoint(gate.name for gate in one.gates):
                continue
            if (read := await one.read(entry, spec, found)) is not None:
                found = found.including((read,))
                keys.append(read.key)
        return found, " ".join(keys)

    def judged(
        self, spec: BundleSpec, status: BundleStatus, findings: Findings, *, begins: bool
    ) -> BundleStatus:
        """The status with what they say of the versions."""
        for one in self.known_to(spec, status, Feature.judged):
            status = one.judged(status, findings, begins=begins)
        return status

    def have_judged(self, spec: BundleSpec, status: BundleStatus, read: Findings) -> bool:
        """Whether they all have judged by what was read, by the status."""
        judging = self.known_to(spec, status, Feature.is_judged)
        return all(one.is_judged(status, read) for one in judging)

    def find(self, spec: BundleSpec) -> Findings:
        """What they find for their gates."""
        return NOTHING_FOUND.including(one.find(spec) for one in self.used_in(spec, Feature.find))

    def credential(self, spec: BundleSpec) -> Credential | None:
        """The registry's by a feature; None: as the spec's Secrets have it."""
        found = (one.credential(spec) for one in self.used_in(spec, Feature.credential))
        return next(filter(None, found), None)

    async def prepare(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Have them get what they add to a Job; raises as they do."""
        for one in self.used_in(spec, Feature.prepare):
            await one.prepare(entry, spec)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a Job with what they add; raises as they do."""
        for one in self.known_to(spec, entry.status, Feature.shape):
            order = await one.shape(entry, spec, order, job)
        return order

    def have_secrets(self, spec: BundleSpec) -> bool:
        """Whether one writes Secrets of its own for a Bundle's Jobs."""
        return any(one.writes_secrets and is_used_in(one, spec) for one in self)

    async def attend(self, entry: BundleEntry, spec: BundleSpec, job: JobRecord) -> datetime | None:
        """Have them keep what they have added to a Job in force; returns when to do so again."""
        using = self.used_in(spec, Feature.attend)
        found = [await one.attend(entry, spec, job) for one in using]
        return min(filter(None, found), default=None)

    def hinders(self, key: BundleKey, job: JobRecord) -> Blocked | None:
        """Why a Job doesn't start for want of what one has added."""
        found = (one.hinders(key, job) for one in self.offering(Feature.hinders))
        return next(filter(None, found), None)

    def excuse(
        self, key: BundleKey, job: JobRecord, error: str, *, is_refused: bool
    ) -> Excuse | None:
        """What the first of them knows of a Job's failure."""
        offering = self.offering(Feature.excuse)
        found = (one.excuse(key, job, error, is_refused=is_refused) for one in offering)
        return next(filter(None, found), None)

    async def content(
        self, entry: BundleEntry, spec: BundleSpec, digest: str
    ) -> Content | RegistryError | None:
        """All that they know of what a version is made of; raises as they do."""
        if not (offering := self.offering(Feature.content)):
            return Content(("nothing judges the chart",))
        whole = Content(())
        for one in offering:
            found = await one.content(entry, spec, digest)
            if not isinstance(found, Content):
                return found
            whole = Content(whole.unbound + found.unbound, whole.literals + found.literals)
        return whole

    def secrets(self, key: BundleKey, job: JobRecord) -> dict[str, Sequence[bytes]]:
        """What their Secrets for a Job have had; raises as they do."""
        found: dict[str, Sequence[bytes]] = {}
        for one in self.offering(Feature.secrets):
            found |= one.secrets(key, job)
        return found
