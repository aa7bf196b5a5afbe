"""The status of a CopyratorRule: one pure function from counts to the map that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.certificates import Certificate, expiring, read_certificates
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    ReadyCondition,
    Suspension,
    build_conditions,
    conditions_by_type,
)
from copyrator.api.fields import map_in, maps_in, number_in, texts_in
from copyrator.api.reasons.rules import FailureReason, FieldsReason
from copyrator.api.times import format_time, parse_time

if TYPE_CHECKING:
    from copyrator.api.rollout import RolloutState

OVERRIDDEN_HOSTS: Final = 20
"""Hosts in status.overridden."""

DROPPED_FIELDS: Final = 20
"""Fields in status.droppedFields."""

PASSED_OVER_SOURCES: Final = 20
"""Sources in status.passedOver."""

MAX_SOURCE_CLUSTERS: Final = 32
"""Other clusters that a status holds: as many as spec.sources has entries."""

MAX_FAILURES: Final = 20
"""Samples of failing copies that a status holds."""
MAX_FAILURE_MESSAGE: Final = 512
"""Characters of a sample's message that are kept."""


@dataclass(frozen=True, slots=True, order=True)
class Failure:
    """A sample of a copy that failed."""

    namespace: str
    name: str
    reason: FailureReason
    message: str = ""
    differs: tuple[str, ...] = ()
    """The fields in which an object that isn't a copy differs from the copy."""

    @property
    def text(self) -> str:
        """The message with the fields that differ."""
        differs = f" (it differs in {', '.join(self.differs)})" if self.differs else ""
        return f"{self.message}{differs}"

    def to_dict(self) -> dict[str, str]:
        """As in the status."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "reason": self.reason.value,
            "message": self.text[:MAX_FAILURE_MESSAGE],
        }


def shared_message(namespace: str, message: str) -> str:
    """A failure's message without the name of its namespace, so that it is the same in others."""
    return message.replace(f"namespace {namespace} ", "the namespace ")


@dataclass(frozen=True, slots=True)
class CopyCounts:
    """How many copies a rule wants, and their states."""

    desired: int = 0
    ready: int = 0
    failed: int = 0
    conflicts: int = 0
    pending: int = 0
    satisfied: int = 0
    """Of the ready ones: objects of other clients with the wanted content."""

    def to_dict(self) -> dict[str, int]:
        """As in the status; ``satisfied`` only where there are any."""
        found: dict[str, int] = asdict(self)
        if not self.satisfied:
            del found["satisfied"]
        return found


def read_copy_counts(status: Mapping[str, Any]) -> CopyCounts:
    """The counts of a stored status; what isn't a number counts as 0."""
    kept = map_in(status, "copies")
    return CopyCounts(*(max(number_in(kept, one.name) or 0, 0) for one in fields(CopyCounts)))


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """What a rule in Plan mode would do."""

    create: int = 0
    update: int = 0
    delete: int = 0


@dataclass(frozen=True, slots=True)
class UnconfirmedEdit:
    """The deletions of the rule's present generation aren't decided, or not confirmed."""

    confirmed_generation: int
    """The last generation whose deletions were allowed."""
    copies: int = 0
    """Copies that would be deleted; 0: not decided yet."""
    had: int = 0
    """Copies that the rule had before the edit."""

    def to_dict(self) -> dict[str, int]:
        """As in the status."""
        found = {"confirmedGeneration": self.confirmed_generation}
        return found | ({"copies": self.copies, "of": self.had} if self.copies else {})


def read_unconfirmed(status: Mapping[str, Any]) -> UnconfirmedEdit | None:
    """The unconfirmed edit of a stored status, or None."""
    found = status.get("unconfirmed")
    if not isinstance(found, Mapping):
        return None
    numbers = (number_in(found, name) or 0 for name in ("confirmedGeneration", "copies", "of"))
    return UnconfirmedEdit(*(max(one, 0) for one in numbers))


def confirmed_generation(status: Mapping[str, Any]) -> int:
    """The last generation whose deletions were allowed, by a stored status; 0: none."""
    if edit := read_unconfirmed(status):
        return edit.confirmed_generation
    return number_in(status, "observedGeneration") or 0


@dataclass(frozen=True, slots=True)
class SourceCluster:
    """Another cluster that a rule's sources are in."""

    secret: str
    key: str
    uid: str = ""
    """Of its Namespace kube-system; empty where that may not be read."""
    ca: str = ""
    """A hash of the CA in its kubeconfig."""
    unreachable_since: datetime | None = None

    @property
    def identity(self) -> str:
        """What confirms it in the annotation: the uid, or the CA's hash where there is none."""
        return self.uid or self.ca

    def is_same_as(self, other: SourceCluster) -> bool:
        """Whether it is the same cluster, as far as that is known."""
        if self.uid and other.uid:
            return self.uid == other.uid
        return self.ca == other.ca

    def to_dict(self) -> dict[str, str]:
        """As in the status."""
        found = {"secretName": self.secret, "key": self.key, "uid": self.uid, "ca": self.ca}
        if self.unreachable_since is not None:
            found["unreachableSince"] = format_time(self.unreachable_since)
        return {name: value for name, value in found.items() if value}


def read_source_clusters(status: Mapping[str, Any]) -> tuple[SourceCluster, ...]:
    """The other clusters of a stored status; malformed ones are left out."""
    found: list[SourceCluster] = []
    for item in maps_in(status, "sourceClusters")[:MAX_SOURCE_CLUSTERS]:
        texts = [item.get(part, "") for part in ("secretName", "key", "uid", "ca")]
        if all(isinstance(text, str) for text in texts):
            secret, key, uid, ca = texts
            since = parse_time(item.get("unreachableSince"))
            found.append(SourceCluster(secret, key, uid, ca, since))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class RuleFacts:
    """The results of a rule's reconcile."""

    sources: int = 0
    targets: int = 0
    copies: CopyCounts = field(default_factory=CopyCounts)
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
    previous: Any, verdict: ReadyCondition, facts: RuleFacts, *, generation: int, now: datetime
) -> dict[str, Any]:
    """Build the whole status. Equal input gives an equal status.

    ``lastSyncTime`` changes only when the rule becomes synced, or is synced with another status
    than before: a heartbeat would cost a write without information.
    """
    before = previous if isinstance(previous, Mapping) else {}
    certificates = read_certificates(before) if facts.certificates is None else facts.certificates
    ends = expiring(certificates, now, facts.warning)
    dropped = read_dropped(before) if facts.dropped is None else sorted(facts.dropped)
    status: dict[str, Any] = {
        "conditions": build_conditions(
            before.get("conditions"),
            verdict,
            generation=generation,
            now=now,
            further={
                ConditionType.CERTIFICATE_EXPIRING: ends,
                ConditionType.FIELDS_DROPPED: _fields_dropped(dropped),
            },
        ),
        "observedGeneration": generation,
        "sources": facts.sources,
        "targets": facts.targets,
        "copies": facts.copies.to_dict(),
        "failures": [failure.to_dict() for failure in sorted(facts.failures)[:MAX_FAILURES]],
    }
    if facts.plan is not None:
        status["plan"] = asdict(facts.plan)
    if facts.unconfirmed is not None:
        status["unconfirmed"] = facts.unconfirmed.to_dict()
    if facts.suspension is not None:
        status["suspension"] = facts.suspension.to_dict()
    status |= _composed(before, facts)
    if dropped or before.get("droppedFields"):
        status["droppedFields"] = dropped[:DROPPED_FIELDS]
    if facts.composed_of:
        status["composedOf"] = facts.composed_of
    if certificates or before.get("certificates"):
        status["certificates"] = [one.to_dict() for one in certificates]
    status |= _continued(before, facts)
    request = facts.request or before.get("lastHandledRequest")
    if isinstance(request, str):
        status["lastHandledRequest"] = request
    last = before.get("lastSyncTime")
    if facts.synced and (not isinstance(last, str) or not _same(before, status)):
        last = format_time(now)
    if isinstance(last, str):
        status["lastSyncTime"] = last
    return status


def read_dropped(status: Mapping[str, Any]) -> list[str]:
    """The fields that a status lists as dropped by the API server."""
    return texts_in(status, "droppedFields", DROPPED_FIELDS)


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


def _composed(before: Mapping[str, Any], facts: RuleFacts) -> dict[str, Any]:
    """What of a template's sources isn't used; empty lists where that was so only before."""
    unused: dict[str, list[dict[str, str]]] = {
        "overridden": [
            {"host": host, "source": source, "by": by}
            for host, source, by in sorted(facts.overridden)[:OVERRIDDEN_HOSTS]
        ],
        "passedOver": [
            {"source": source, "reason": reason}
            for source, reason in sorted(facts.passed_over)[:PASSED_OVER_SOURCES]
        ],
    }
    return {name: found for name, found in unused.items() if found or before.get(name)}


def _continued(before: Mapping[str, Any], facts: RuleFacts) -> dict[str, Any]:
    """Other clusters, and the rollout: as before where they aren't known."""
    found: dict[str, Any] = {}
    clusters = read_source_clusters(before) if facts.clusters is None else facts.clusters
    if clusters or before.get("sourceClusters"):
        found["sourceClusters"] = [one.to_dict() for one in clusters]
    if facts.rollout is not None and facts.steps:
        found["rollout"] = facts.rollout.to_dict(facts.steps)
    elif facts.steps != 0 and "rollout" in before:
        found["rollout"] = before["rollout"]
    return found


_PARTS: Final = """
    observedGeneration sources targets copies failures plan unconfirmed overridden passedOver
    droppedFields composedOf certificates sourceClusters rollout suspension lastHandledRequest
    lastSyncTime
    """.split()  # noqa: SIM905 - shorter than a line for each
"""What build_rule_status writes beside the conditions."""

_MAX_PART: Final = 65_536
"""Characters of one part that are kept: twice what 20 samples of failures can have."""


def read_rule_status(status: Any) -> dict[str, Any]:
    """The relevant parts of a stored status: ours, where we may have written them.

    Anybody who may write a rule's status can make it as large as an object may be.
    """
    if not isinstance(status, Mapping):
        return {}
    kept = {name: status[name] for name in _PARTS if name in status and _is_ours(status[name])}
    if "conditions" in status:
        found = conditions_by_type(status["conditions"])
        ours = (found[kind] for kind in ConditionType if kind in found)
        kept["conditions"] = [dict(one) for one in ours if _is_ours(one)]
    return kept


def _is_ours(value: Any) -> bool:
    """Whether a part is no larger than what we write; reads no more than that of it."""
    left, pending = _MAX_PART, [value]
    while pending and left > 0:
        one = pending.pop()
        left -= 1
        if isinstance(one, str):
            left -= len(one)
        elif isinstance(one, Mapping):
            left -= len(one)
            pending += () if left < 0 else (*one, *one.values())
        elif isinstance(one, list):
            left -= len(one)
            pending += () if left < 0 else one
    return left > 0


def _same(before: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    return all(before.get(name) == value for name, value in status.items())
