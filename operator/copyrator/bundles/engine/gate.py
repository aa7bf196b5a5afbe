"""What a gate is: a check that a version must pass before it is deployed. Pure.

All have one interface. A version gate judges a version (a candidate: a tag and its digest); a
moment gate judges the time of a deploy. Their input is collected before: a gate sends no request
and writes nothing, so equal facts give the same verdict in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.bundle_status import BundleStatus, GateState, GateStatus, PassedOver
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Record
from copyrator.api.seen_time import SeenTime
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.features import load

if TYPE_CHECKING:
    from copyrator.bundles.engine.bundle import BundleCache, DeployRequest
    from copyrator.bundles.engine.links import Link


MAX_CANDIDATES: Final = 50
"""Tags that are resolved, at most, until one passes the version gates."""


class Occasion(StrEnum):
    """Why a version is judged; each gate names the occasions on which it is evaluated."""

    NEW_DIGEST = "NewDigest"
    EDIT = "Edit"
    """The spec or the values changed; the digest is the deployed one."""
    REQUEST = "Request"
    """The annotation requestedAt."""
    FORCE = "Force"
    """The annotation forceAt, or ``status.forceUpdate: 1``."""
    RETRY = "Retry"
    """A failed attempt is retried."""
    INTERRUPTED = "Interrupted"
    """An attempt that the infrastructure interrupted is repeated."""
    ROLLBACK = "Rollback"
    """The digest is pinned."""
    CORRECTION = "Correction"
    """What is deployed is deployed again, because it has drifted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version that could be deployed."""

    version: str
    """The tag."""
    digest: str
    """``sha256:…``."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The gate has no objection."""

    message: str = ""
    """Why it passes, where that isn't evident."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The gate will pass, or be decided, without a change of the spec."""

    reason: AnyReason
    message: str
    until: datetime | None = None
    """When it passes by itself; None where it waits for something else."""
    environments: tuple[str, ...] = ()
    """Of other clusters, whose evidence is missing or was withdrawn."""

    @property
    def is_unread(self) -> bool:
        """Whether what it judges by can't be read now."""
        unread = BundleReason.VERIFICATION_UNAVAILABLE, BundleReason.REGISTRY_UNREACHABLE
        return self.reason in unread


@dataclass(frozen=True, slots=True)
class Refused:
    """The gate doesn't pass until something changes."""

    reason: AnyReason
    message: str
    is_retried: bool = False
    """Something other than the spec has to change, so each poll evaluates the gate again."""


Verdict = Passed | Waiting | Refused
PASSED: Final = Passed()
_PASSED_OVER: Final = {
    Occasion.FORCE: "a forced deploy passes over it",
    Occasion.ROLLBACK: "a rollback passes over it",
}


F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Findings:
    """What features found out in one reconcile for their gates; only these look into it."""

    values: tuple[object, ...] = ()
    """Each of a type of its own."""

    def of(self, kind: type[F]) -> F | None:
        """The value of a type; None where there is none."""
        return next((one for one in self.values if isinstance(one, kind)), None)

    def including(self, more: Iterable[object | None]) -> Findings:
        """These and others; None is nothing."""
        return Findings((*self.values, *(one for one in more if one is not None)))

    def replacing(self, value: object) -> Findings:
        """These with a value in place of another of its type."""
        return Findings((*(one for one in self.values if type(one) is not type(value)), value))


NOTHING_FOUND: Final = Findings()


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of gates beside the spec and the candidate."""

    status: BundleStatus
    occasion: Occasion
    findings: Findings = NOTHING_FOUND
    """What features found out for their gates."""

    @property
    def is_requested(self) -> bool:
        """Whether a user requested this deploy."""
        return self.occasion in (Occasion.REQUEST, Occasion.FORCE)

    def is_deployed(self, candidate: Candidate) -> bool:
        """Whether this digest is deployed already, so that a gate needn't judge it again."""
        return candidate.digest == self.status.deployed.digest


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: for which Bundles and occasions it is evaluated, how it judges, what is said."""

    name: str
    """Its name in ``status.gates``."""
    concerns: Callable[[BundleSpec], object]
    """True, as a condition, where the spec, or the operator's settings, require this gate."""
    occasions: frozenset[Occasion]
    judge: Callable[[BundleSpec, Candidate, Facts, datetime], Verdict]
    is_permanent: bool = True
    """Whether a Bundle with it has the condition UpdatePending also while nothing waits."""
    changes: Callable[[BundleSpec, BundleStatus, Findings], Iterable[datetime]] = lambda *_: ()
    """When its verdicts on the versions on record change by themselves, past moments too.

    Needed by gates of versions, where another one than what waits may pass first.
    """
    ends: Callable[[BundleSpec], str] | None = None
    """What happens when it passes by itself, as a clause; None where time alone changes nothing."""
    until: str = "ends"
    """What happens at the time of a verdict that waits, as a verb."""
    delays_retries: bool = False
    """Whether a failed deploy is retried when it ends, where that is after the retry's own time."""
    remembers: bool = False
    """Whether ``status.candidates`` has the versions that it holds back, so that one whose tag was
    pushed anew may pass."""
    prefers: Callable[[Findings], frozenset[str]] = lambda _: frozenset()
    """Digests that stay in that list where it is full."""
    vouches: bool = False
    """Whether it lets only versions pass that somebody vouches for: then the spec is restricted,
    and the chart is judged; previews are judged by it, too."""
    awaits_registry: bool = False
    """Whether the registry is polled again soon while it objects, as what is missing is there."""
    record: type[Record] | None = None
    """The part of the status with its verdicts, which goes with the Bundle's last gate."""
    judges_awaited: bool = False
    """Whether the version that a feature awaits is judged again (``Feature.awaits``)."""
    confirms: Callable[[BundleSpec], bool] = lambda _: False
    """Whether what the registry says of a version is read once more before that is deployed."""
    judges_chart: bool = False
    """Whether it judges the chart: before a correction, and of what is only planned, too."""
    link: Link | None = None
    """The field that names the Bundles by which it judges."""
    find: Callable[[BundleCache, BundleSpec, Callable[[], SeenTime]], object] | None = None
    """What these give it, for ``Facts.findings``, by the periods in which an operator ran.

    None: it needs none, or more than them.
    """
    unjudged: str = ""
    """Why the command line can't evaluate it; empty where it can. ``{plan}`` is a command."""


def uses(kind: type[Part]) -> Callable[[BundleSpec], bool]:
    """Whether a spec has something of a feature; for ``Gate.concerns``."""
    return lambda spec: spec.uses(kind)


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's verdict on a candidate."""

    gate: str
    verdict: Verdict
    passed_over: Waiting | Refused | None = None
    """Its objection, where a forced deploy or rollback ignores it; ``verdict`` is Passed then."""
    awaits: bool = False
    """Whether what it objects to may be changed in the registry at any time."""
    delays: str = ""
    """What a retry waits for while it objects, as a clause; empty: it delays none."""

    @property
    def objects(self) -> bool:
        """Whether it keeps the candidate from being deployed now."""
        return not isinstance(self.verdict, Passed)


@dataclass(frozen=True, slots=True)
class Held:
    """A candidate that isn't deployed, with the verdicts of all gates that were evaluated."""

    candidate: Candidate
    results: tuple[GateResult, ...]

    @property
    def objection(self) -> Waiting | Refused:
        """The first of the gravest objections, in the order of the gates.

        A refusal that no poll changes is graver than one that a poll may change, and both than a
        wait: waiting is in vain while another gate refuses.
        """
        found = [one.verdict for one in self.results if not isinstance(one.verdict, Passed)]
        refused = [verdict for verdict in found if isinstance(verdict, Refused)]
        final = [verdict for verdict in refused if not verdict.is_retried]
        return (final or refused or found)[0]

    @property
    def is_final(self) -> bool:
        """Whether a gate refuses, and another poll can't change that."""
        return any(
            isinstance(one.verdict, Refused) and not one.verdict.is_retried for one in self.results
        )

    @property
    def is_refused(self) -> bool:
        """Whether a gate refuses."""
        return any(isinstance(one.verdict, Refused) for one in self.results)


@dataclass(frozen=True, slots=True)
class Gates:
    """The gates of this operator, in the order in which they are evaluated."""

    version: tuple[Gate, ...] = ()
    moment: tuple[Gate, ...] = ()

    def __iter__(self) -> Iterator[Gate]:
        return iter((*self.version, *self.moment))

    @classmethod
    def joined(cls, parts: Iterable[Gates]) -> Gates:
        """The gates of all parts, in their order."""
        found = tuple(parts)
        return cls(
            version=tuple(gate for one in found for gate in one.version),
            moment=tuple(gate for one in found for gate in one.moment),
        )

    def of(self, spec: BundleSpec) -> Iterator[Gate]:
        """Those that a Bundle has."""
        return (gate for gate in self if gate.concerns(spec))

    @property
    def links(self) -> tuple[Link, ...]:
        """The fields by which Bundles wait for others."""
        return tuple(gate.link for gate in (*self.moment, *self.version) if gate.link is not None)

    def any_of(self, spec: BundleSpec) -> bool:
        """Whether the Bundle has a permanent gate; a freeze isn't one."""
        return any(gate.is_permanent for gate in self.of(spec))

    def kept(self, spec: BundleSpec, found: Iterable[GateStatus]) -> tuple[GateStatus, ...]:
        """The recorded verdicts without those of gates that the Bundle no longer has."""
        names = {gate.name for gate in self.of(spec)}
        return tuple(one for one in found if one.name in names)

    def judge_versions(self, spec: BundleSpec) -> bool:
        """Whether the Bundle has a version gate."""
        return any(gate.concerns(spec) for gate in self.version)

    def preferred(self, spec: BundleSpec, findings: Findings) -> frozenset[str]:
        """The digests that stay among the versions which are remembered."""
        return frozenset(one for gate in self.of(spec) for one in gate.prefers(findings))

    def vouch(self, spec: BundleSpec) -> bool:
        """Whether the Bundle has a gate that lets only versions pass that somebody vouches for."""
        return any(gate.vouches and gate.concerns(spec) for gate in self)

    def remember(self, spec: BundleSpec) -> bool:
        """Whether the versions that the Bundle's gates hold back are remembered."""
        return any(gate.remembers and gate.concerns(spec) for gate in self)


def judge(
    gates: Iterable[Gate], spec: BundleSpec, candidate: Candidate, facts: Facts, now: datetime
) -> tuple[GateResult, ...]:
    """Evaluate all gates that the spec requires, in order.

    Those that a forced deploy or a rollback ignores are evaluated too, so that their objections are
    recorded.
    """
    results = []
    for gate in gates:
        if not gate.concerns(spec):
            continue
        is_asked, over = facts.occasion in gate.occasions, _PASSED_OVER.get(facts.occasion)
        verdict: Verdict = PASSED
        if is_asked or (over is not None and Occasion.REQUEST in gate.occasions):
            verdict = gate.judge(spec, candidate, facts, now)
        if is_asked or isinstance(verdict, Passed):
            delays = gate.ends(spec) if gate.delays_retries and gate.ends is not None else ""
            found = verdict if is_asked else PASSED
            awaits = gate.awaits_registry
            results.append(GateResult(gate.name, found, awaits=awaits, delays=delays))
        else:
            results.append(GateResult(gate.name, Passed(over or ""), verdict))
    return tuple(results)


def hold_back(candidate: Candidate, results: tuple[GateResult, ...]) -> Held | None:
    """The candidate as one that isn't deployed; None where all gates pass."""
    return Held(candidate, results) if any(one.objects for one in results) else None


def occasion(request: DeployRequest | None, deployed: str | None, digest: str) -> Occasion:
    """The occasion on which a digest is deployed, where no attempt at it has failed."""
    if request is not None:
        forced = request.force_update or request.force_at is not None
        return Occasion.FORCE if forced else Occasion.REQUEST
    return Occasion.EDIT if digest == deployed else Occasion.NEW_DIGEST


def next_verdict_change(found: Iterable[GateStatus]) -> datetime | None:
    """The first time at which a verdict in the status changes by itself; None where none does."""
    times = (parse_time(one.until) for one in found if one.state == GateState.WAITING)
    return min((time for time in times if time is not None), default=None)


def record_verdicts(results: Sequence[GateResult]) -> tuple[GateStatus, ...]:
    """The verdicts for ``status.gates``: equal ones give equal records whatever the time."""
    return tuple(map(_record_verdict, results))


def record_passed_over(results: Iterable[GateResult]) -> tuple[PassedOver, ...]:
    """The gates that a forced deploy or rollback ignores, for the record of the attempt."""
    return tuple(
        PassedOver(
            name=one.gate,
            reason=one.passed_over.reason,
            environments=getattr(one.passed_over, "environments", ()),
        )
        for one in results
        if one.passed_over is not None
    )


def _record_verdict(result: GateResult) -> GateStatus:
    match result.verdict:
        case Passed(message):
            return GateStatus(name=result.gate, state=GateState.PASSED, message=message or None)
        case Waiting(reason, message, until):
            return GateStatus(
                name=result.gate,
                state=GateState.WAITING,
                reason=reason,
                message=message,
                until=format_time(ceil_second(until)) if until else None,
            )
        case Refused(reason, message):
            return GateStatus(
                name=result.gate, state=GateState.REFUSED, reason=reason, message=message
            )


def ceil_second(moment: datetime) -> datetime:
    """The moment, rounded up to a whole second, as times in a status are."""
    down = moment.replace(microsecond=0)
    return down if down == moment else down + timedelta(seconds=1)


def load_gates() -> Gates:
    """The gates of all features, as commands know them."""
    return Gates.joined(one.GATES for one in load("gates"))
