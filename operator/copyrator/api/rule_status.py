"""The status of a CopyratorRule: its type, and one pure function that makes it from counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from copyrator.api.certificates import MAX_CERTIFICATES, Certificate, expiring, soonest
from copyrator.api.conditions import (
    Condition,
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    ReadyCondition,
    Suspension,
    build_conditions,
    find_condition,
)
from copyrator.api.reasons import Reason, described
from copyrator.api.reasons.rules import FailureReason, FieldsReason, RuleReason
from copyrator.api.rollout import RolloutState
from copyrator.api.schema import (
    COUNT,
    DERIVED,
    REQUIRED,
    SHOWN,
    TIME,
    TOTAL,
    StatusMap,
    Takes,
    custom,
    items,
    slots,
)

MAX_FAILURE_MESSAGE: Final = 512
"""Characters of a sample's message that are kept."""


def _named(kind: type[Reason]) -> Takes:
    return Takes({"description": f"Reason in CamelCase: {described(kind)}."})


class RuleCondition(Condition, frozen=True):
    """A condition as the CRD describes it."""

    type: Annotated[str, REQUIRED] | None = None
    """Ready (every copy is up to date), Reconciling (in progress) or Stalled (not retried until an
    object changes)."""
    reason: Annotated[str, REQUIRED, _named(RuleReason)] | None = None
    observed_generation: Annotated[int, COUNT] | None = None
    """Generation of the rule that the condition describes."""


class Failure(StatusMap, frozen=True, order=True):
    """A sample of a copy that failed."""

    namespace: str
    """Namespace of the copy."""
    name: str
    """Name of the copy."""
    reason: Annotated[str, _named(FailureReason)]
    message: str = ""
    """Human-readable message, what is wrong and how to fix it."""
    differs: Annotated[tuple[str, ...], DERIVED] = ()
    """The fields in which an object that isn't a copy differs from the copy."""

    @property
    def text(self) -> str:
        """The message with the fields that differ."""
        differs = f" (it differs in {', '.join(self.differs)})" if self.differs else ""
        return f"{self.message}{differs}"

    @property
    def sample(self) -> Failure:
        """As in the status."""
        return Failure(self.namespace, self.name, str(self.reason), self.text[:MAX_FAILURE_MESSAGE])


def shared_message(namespace: str, message: str) -> str:
    """A failure's message without the name of its namespace, so that it is the same in others."""
    return message.replace(f"namespace {namespace} ", "the namespace ")


class CopyCounts(StatusMap, frozen=True):
    """How many copies a rule wants, and their states."""

    desired: Annotated[int, TOTAL] = 0
    """Copies that the rule requires."""
    ready: Annotated[int, TOTAL] = 0
    """Copies that are up to date."""
    failed: Annotated[int, TOTAL] = 0
    """Copies that could not be written; they are retried."""
    conflicts: Annotated[int, TOTAL] = 0
    """Targets that are owned by another rule or client."""
    pending: Annotated[int, TOTAL] = 0
    """Copies that are not written yet."""
    satisfied: Annotated[int, COUNT] = 0
    """Of the ready ones, objects of other clients with the content that the rule requires; they
    aren't changed."""


NO_COPIES: Final = CopyCounts()


class PlanCounts(StatusMap, frozen=True):
    """What a rule in Plan mode would do."""

    create: Annotated[int, TOTAL] = 0
    """Copies that would be created."""
    update: Annotated[int, TOTAL] = 0
    """Copies that would be changed."""
    delete: Annotated[int, TOTAL] = 0
    """Copies that would be deleted."""


class UnconfirmedEdit(StatusMap, frozen=True):
    """The deletions of the rule's present generation aren't decided, or not confirmed."""

    confirmed_generation: Annotated[int, TOTAL] = 0
    """Last generation of the rule whose deletions were allowed."""
    copies: Annotated[int, COUNT] = 0
    """Copies that the edit would delete."""
    had: Annotated[int, COUNT] = msgspec.field(default=0, name="of")
    """Copies that the rule had before, outside Terminating namespaces."""


class SourceCluster(StatusMap, frozen=True):
    """Another cluster that a rule's sources are in."""

    secret: str = msgspec.field(name="secretName")
    """The Secret with the kubeconfig."""
    key: str
    """The Secret's key."""
    uid: str = ""
    """The uid of the Namespace kube-system there, which tells clusters apart. Absent where it may
    not be read: then the CA does."""
    ca: str = ""
    """A hash of the CA in the kubeconfig."""
    unreachable_since: Annotated[datetime, TIME] | None = None
    """Since when its sources can't be read; absent while they can."""

    @property
    def identity(self) -> str:
        """What confirms it in the annotation: the uid, or the CA's hash where there is none."""
        return self.uid or self.ca

    def is_same_as(self, other: SourceCluster) -> bool:
        """Whether it is the same cluster, as far as that is known."""
        if self.uid and other.uid:
            return self.uid == other.uid
        return self.ca == other.ca


class Overridden(StatusMap, frozen=True, order=True):
    """A registry that several sources have credentials for."""

    host: str
    """The registry."""
    source: str
    """The source whose credentials aren't used."""
    by: str
    """The source whose credentials are used."""


class PassedOver(StatusMap, frozen=True, order=True):
    """A source of which nothing is used."""

    source: str
    """The source."""
    reason: str
    """Why, such as a key that it lacks."""


FIELDS_DROPPED: Final = "FieldsDropped"
"""True where the API server drops fields of the copies; absent where it doesn't."""
_KINDS: Final = (
    *(ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED),
    *(ConditionType.CERTIFICATE_EXPIRING, FIELDS_DROPPED),
)


def _read_conditions(raw: Any) -> tuple[Condition, ...]:
    """Ours, in their order."""
    maps = [one for one in raw if isinstance(one, dict)] if isinstance(raw, list) else []
    found = {one["type"]: one for one in maps if isinstance(one.get("type"), str)}
    ours = [found[kind] for kind in _KINDS if kind in found]
    return tuple([Condition.parse(one) for one in ours if _is_ours(one)])


_CONDITIONS: Final = items(0, keys=("type",)).schema
del _CONDITIONS["maxItems"]


class RuleStatus(StatusMap, frozen=True):
    """What the operator has found of a rule."""

    conditions: Annotated[
        tuple[Condition, ...], custom(_read_conditions, _CONDITIONS, like=RuleCondition)
    ] = ()
    """Ready, Reconciling and Stalled, as defined by kstatus."""
    observed_generation: Annotated[int, COUNT] | None = None
    """Generation of the rule that this status describes."""
    sources: Annotated[int, TOTAL] = 0
    """Objects that are copied, or that the template reads."""
    targets: Annotated[int, TOTAL] = 0
    """Namespaces that get copies."""
    copies: Annotated[CopyCounts, SHOWN] = NO_COPIES
    """Copies by state."""
    plan: PlanCounts | None = None
    """In mode Plan, what Apply would do."""
    unconfirmed: UnconfirmedEdit | None = None
    """Present while the deletions of an edit of the rule are not decided or not confirmed."""
    overridden: Annotated[tuple[Overridden, ...], items(20)] = ()
    """Registries that several sources have credentials for (filter merge_dockerconfig): the first
    source is used; at most 20."""
    dropped_fields: Annotated[tuple[str, ...], items(20)] = ()
    """Fields of the copies that the API server doesn't know and drops; at most 20."""
    passed_over: Annotated[tuple[PassedOver, ...], items(20)] = ()
    """Sources that filters pass over, and certificates and keys in them; at most 20."""
    rollout: RolloutState | None = None
    """Of a rule with spec.rollout, the content that was written last, and the present step while it
    is being written."""
    composed_of: str = ""
    """Of a rule with spec.sources: the sources that its copies are made from, those of a selector
    with their number, as in hub, private (3)."""
    source_clusters: Annotated[tuple[SourceCluster, ...], items(32)] = ()
    """Other clusters that the sources are in, by kubeconfig."""
    certificates: Annotated[tuple[Certificate, ...], items(MAX_CERTIFICATES)] = ()
    """The certificates in PEM in the copies of Secrets and ConfigMaps that end soonest, and the
    credentials of other clusters, at most 5."""
    failures: Annotated[tuple[Failure, ...], items(20), SHOWN] = ()
    """At most 20 samples of copies that failed."""
    suspension: Suspension | None = None
    """Ready as it was when the rule was suspended by spec.suspend: it keeps its status, and its
    message has this reason and message. Absent otherwise."""
    last_handled_request: str | None = None
    """The value of the annotation copyrator.flant.com/requestedAt that was handled last: what had
    failed was retried, and this status has the outcome."""
    last_sync_time: Annotated[datetime, TIME] | None = None
    """When all copies were first up to date in the state that this status shows."""

    @property
    def confirmed_generation(self) -> int:
        """The last generation whose deletions were allowed; 0: none."""
        if self.unconfirmed is not None:
            return self.unconfirmed.confirmed_generation
        return self.observed_generation or 0

    def condition(self, kind: str) -> Condition:
        """The condition; an empty one where there is none."""
        return find_condition(self.conditions, kind)


NO_STATUS: Final = RuleStatus()
"""Of a rule that was never reconciled."""

MAX_FAILURES: Final = 20
"""Samples of failing copies that a status holds."""
DROPPED_FIELDS: Final = 20


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """The results of a rule's reconcile."""

    sources: int = 0
    targets: int = 0
    copies: CopyCounts = NO_COPIES
    failures: Sequence[Failure] = ()
    plan: PlanCounts | None = None
    unconfirmed: UnconfirmedEdit | None = None
    synced: bool = False
    """Everything wanted exists as of now."""
    overridden: Sequence[tuple[str, str, str]] = ()
    """Registries that several sources have: the source that isn't used, the one that is."""
    passed_over: Sequence[tuple[str, str]] = ()
    """Sources of which nothing is used, and why."""
    dropped: Sequence[str] | None = None
    """Fields of the copies that the API server drops; None where that isn't known."""
    composed_of: str = ""
    """The sources of a template, with numbers: ``hub, private (3)``; empty where it isn't known."""
    certificates: Sequence[Certificate] | None = None
    """Of the copies, sorted; None where they aren't known: the status keeps what it has."""
    warning: float = 0.0
    """Seconds before a certificate's end that the condition becomes True."""
    clusters: Sequence[SourceCluster] | None = None
    """The other clusters of its sources; None: the status keeps what it has."""
    rollout: RolloutState | None = None
    """None where it isn't known: the status keeps what it has."""
    steps: int | None = None
    """Of ``spec.rollout``; 0: the rule has none, and the status neither; None: not known."""
    suspension: Suspension | None = None
    """Ready as it was when the rule was suspended; None while it isn't."""
    request: str | None = None
    """The request that this reconcile has handled."""


def build_rule_status(
    before: RuleStatus,
    verdict: ReadyCondition,
    facts: RuleFacts,
    *,
    generation: int,
    now: datetime,
) -> RuleStatus:
    """Build the whole status. Equal input gives an equal status.

    ``last_sync_time`` changes only when the rule becomes synced, or is synced with another status
    than before: a heartbeat would cost a write without information.
    """
    certificates = before.certificates if facts.certificates is None else facts.certificates
    dropped = before.dropped_fields if facts.dropped is None else sorted(facts.dropped)
    clusters = before.source_clusters if facts.clusters is None else facts.clusters
    status = RuleStatus(
        conditions=build_conditions(
            before.conditions,
            {
                **verdict.conditions,
                ConditionType.CERTIFICATE_EXPIRING: expiring(certificates, now, facts.warning),
                FIELDS_DROPPED: _fields_dropped(dropped),
            },
            _KINDS,
            generation=generation,
            now=now,
        ),
        observed_generation=generation,
        sources=facts.sources,
        targets=facts.targets,
        copies=facts.copies,
        plan=facts.plan,
        unconfirmed=facts.unconfirmed,
        overridden=tuple(Overridden(*one) for one in sorted(facts.overridden)[:20]),
        dropped_fields=tuple(dropped[:DROPPED_FIELDS]),
        passed_over=tuple(PassedOver(*one) for one in sorted(facts.passed_over)[:20]),
        rollout=_rollout(before, facts),
        composed_of=facts.composed_of,
        source_clusters=tuple(map(_whole, clusters)),
        certificates=tuple(certificates),
        failures=tuple(one.sample for one in sorted(facts.failures)[:MAX_FAILURES]),
        suspension=facts.suspension,
        last_handled_request=facts.request or before.last_handled_request,
        last_sync_time=before.last_sync_time,
    )
    if facts.synced and (before.last_sync_time is None or status != before):
        return replace(status, last_sync_time=now.replace(microsecond=0))
    return status


def _whole(cluster: SourceCluster) -> SourceCluster:
    since = cluster.unreachable_since
    return replace(cluster, unreachable_since=since.replace(microsecond=0)) if since else cluster


def _rollout(before: RuleStatus, facts: RuleFacts) -> RolloutState | None:
    if facts.rollout is None or not facts.steps:
        return None if facts.steps == 0 else before.rollout
    if not facts.rollout.running:
        return RolloutState(facts.rollout.content)
    return replace(facts.rollout, steps=facts.steps)


def _fields_dropped(fields: Sequence[str]) -> FurtherCondition | None:
    if not fields:
        return None
    shown = ", ".join(fields[:DROPPED_FIELDS])
    them, what = ("them", "fields") if len(fields) > 1 else ("it", "field")
    return FurtherCondition(
        ConditionStatus.TRUE,
        FieldsReason.UNKNOWN_FIELD,
        f"the API server knows no {what} {shown} and drops {them}: the copies are written without "
        f"{them}. Correct spec.template, or the source",
    )


_MAX_PART: Final = 65_536
"""Characters of one part that are kept: twice what 20 samples of failures can have."""


@cache
def _fields() -> frozenset[str]:
    return frozenset(one.name for one in slots(RuleStatus))


def read_rule_status(body: Mapping[str, Any]) -> RuleStatus:
    """The status of a rule's body: its parts where we may have written them.

    Anybody who may write a rule's status can make it as large as an object may be.
    """
    raw, fields = body.get("status"), _fields()
    if not isinstance(raw, Mapping):
        return NO_STATUS
    ours = {
        name: value
        for name, value in raw.items()
        if name in fields and (name == "conditions" or _is_ours(value))
    }
    found = RuleStatus.read(ours, {}) or NO_STATUS
    return replace(found, certificates=soonest(found.certificates)) if found.certificates else found


def _is_ours(value: Any) -> bool:
    """Whether a part is no larger than what we write; reads no more than that of it."""
    left, pending = _MAX_PART, [value]
    while pending and left > 0:
        one = pending.pop()
        left -= 1
        kind = type(one)  # of JSON there are no other types
        if kind is str:
            left -= len(one)
        elif kind is dict:
            left -= 2 * len(one)
            if left > 0:
                left -= sum(map(len, one))
                pending += one.values()
        elif kind is list:
            left -= len(one)
            pending += () if left < 0 else one
    return left > 0
