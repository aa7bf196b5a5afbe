"""Conditions with kstatus's meaning, so that every tool can wait on ours.

Source: sigs.k8s.io/cli-utils/pkg/kstatus. ``Ready`` is True when the object is as specified.
``Reconciling`` and ``Stalled`` are abnormal when True: work is in progress, or nothing is retried
until a user changes something. All three are always present, because ``kubectl wait
--for=condition=Reconciling=false`` needs the condition to exist.

Ready of an object that its author suspended keeps its status, as that of Flux's objects does. So
`kubectl wait` and the health checks of GitOps tools neither hang nor fail because of it. Ready as
it was is recorded in the status: its condition is replaced, also by that of an invalid edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from copyrator.api.reasons import AnyReason, Reason
from copyrator.api.schema import COUNT, REQUIRED, Record, Takes, Time
from copyrator.api.text import format_time, truncate

MAX_MESSAGE: Final = 2048
"""Characters of a condition's message that are kept."""


class ConditionType(StrEnum):
    """The types that rules and Bundles have, or the engine of Bundles."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    UPDATE_PENDING = "UpdatePending"
    SETTINGS_WITHHELD = "SettingsWithheld"
    CERTIFICATE_EXPIRING = "CertificateExpiring"
    """Whether a certificate in a rule's copies ends soon; only where there is one.

    Of a Bundle: True where the credential of its kubeconfig does; else absent.
    """


class ConditionStatus(StrEnum):
    """The three values of a condition's status."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Health(StrEnum):
    """The overall state in an object's conditions."""

    READY = "Ready"
    """As specified; nothing to do."""
    PROGRESSING = "Progressing"
    """Not yet as specified; work is in progress and nothing has failed."""
    RETRYING = "Retrying"
    """Something failed; it is retried automatically."""
    STALLED = "Stalled"
    """Nothing is retried until a user changes something."""
    PAUSED = "Paused"
    """Nothing is done because its author paused it; ``ReadyCondition.kept`` is Ready's status."""


_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

_ALWAYS: Final = (ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED)
_STATUSES: Final[Mapping[Health, tuple[ConditionStatus, ConditionStatus, ConditionStatus]]] = {
    Health.READY: (_TRUE, _FALSE, _FALSE),
    Health.PROGRESSING: (_UNKNOWN, _TRUE, _FALSE),
    Health.RETRYING: (_FALSE, _TRUE, _FALSE),
    Health.STALLED: (_FALSE, _FALSE, _TRUE),
}
"""Health to the statuses of Ready, Reconciling and Stalled."""


@dataclass(frozen=True, slots=True)
class ReadyCondition:
    """The overall state of an object: its health, a stable reason, and a message."""

    health: Health
    reason: AnyReason
    message: str = ""
    kept: ConditionStatus = ConditionStatus.UNKNOWN
    """The status of Ready where the health is PAUSED."""

    @property
    def is_failure(self) -> bool:
        """Whether something has failed."""
        return self.health in (Health.RETRYING, Health.STALLED)

    @property
    def statuses(self) -> tuple[ConditionStatus, ConditionStatus, ConditionStatus]:
        """The statuses of Ready, Reconciling and Stalled."""
        if self.health is Health.PAUSED:
            return self.kept, _FALSE, _FALSE
        return _STATUSES[self.health]

    @property
    def conditions(self) -> dict[str, FurtherCondition | None]:
        """Those three."""
        return {
            kind: FurtherCondition(status, self.reason, self.message)
            for kind, status in zip(_ALWAYS, self.statuses, strict=True)
        }


@dataclass(frozen=True, slots=True)
class FurtherCondition:
    """A condition beside the three that every object has."""

    status: ConditionStatus
    reason: AnyReason
    message: str = ""


NewConditions: TypeAlias = Mapping[str, FurtherCondition | None]
"""Conditions to set, by type; None removes one."""
_STATUS: Final = Takes({"enum": [one.value for one in ConditionStatus]})


class Condition(Record, frozen=True):
    """A condition, of ours or of another controller; those of others are kept as they are."""

    KEEPS_WRONG: ClassVar[bool] = True

    type: Annotated[str, REQUIRED] | None = None
    """Its name."""
    status: Annotated[str, REQUIRED, _STATUS] | None = None
    """Status of the condition: True, False or Unknown."""
    reason: Annotated[str, REQUIRED] | None = None
    """Reason in CamelCase."""
    message: Annotated[str, REQUIRED] | None = None
    """Human-readable message, what is wrong and how to fix it."""
    observed_generation: Annotated[int, COUNT] | None = None
    """Generation of the object that the condition describes."""
    last_transition_time: Annotated[Time, REQUIRED] | None = None
    """When the condition's status last changed."""
    reason_time: Time | None = None
    """When its reason last changed, if that was later than its status."""

    @property
    def since(self) -> str | None:
        """Since when it has its reason."""
        return self.reason_time or self.last_transition_time

    def __bool__(self) -> bool:
        """Whether there is one."""
        return self.type is not None

    @property
    def is_true(self) -> bool:
        """Whether its status is True."""
        return self.status == ConditionStatus.TRUE

    @property
    def is_false(self) -> bool:
        """Whether its status is False; one that is absent isn't."""
        return self.status == ConditionStatus.FALSE


NO_CONDITION: Final = Condition()
"""Shared by all that have none of a type."""


def build_conditions(
    previous: Iterable[Condition],
    changed: NewConditions,
    order: Iterable[str],
    *,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Conditions of which some are ``changed``.

    Those of ``order`` are in it, and others (a newer version's, another tool's) after them, each
    type once: the API server refuses a list with two of a type, or with one that has none. A
    condition whose status is unchanged keeps its ``lastTransitionTime``, and with an unchanged
    reason its ``reasonTime``, so that building again from unchanged input gives equal conditions.
    """
    found = conditions_by_type(previous)
    for kind, one in changed.items():
        known = found.pop(kind, NO_CONDITION)
        if one is not None:
            found[kind] = _build(kind, one, known, generation, now)
    ours = [found.pop(kind) for kind in order if kind in found]
    assert not found.keys() & changed, "each condition that is built is in the order"
    return (*ours, *found.values())


def _build(
    kind: str, found: FurtherCondition, known: Condition, generation: int, now: datetime
) -> Condition:
    same = known.status == found.status
    reason_time = None
    if same:
        is_new = known.reason != str(found.reason)
        reason_time = format_time(now) if is_new else known.reason_time
    return Condition(
        type=str(kind),
        status=found.status.value,
        reason=str(found.reason),
        message=truncate(found.message, MAX_MESSAGE),
        observed_generation=generation,
        last_transition_time=(same and known.last_transition_time) or format_time(now),
        reason_time=reason_time,
    )


def read_conditions(body: Mapping[str, Any]) -> dict[str, Condition]:
    """The conditions of an object of any kind, by type."""
    status = body.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    return conditions_by_type(map(Condition.parse, listed if isinstance(listed, list) else ()))


def conditions_by_type(conditions: Iterable[Condition]) -> dict[str, Condition]:
    """The conditions of a status by type; of two of a type the last one counts."""
    return {one.type: one for one in conditions if one.type is not None}


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition:
    """The condition of a type; an empty one where there is none."""
    found = NO_CONDITION
    for one in conditions:
        if one.type == kind:
            found = one  # of two of a type the last one counts
    return found


def ready_reason(conditions: Iterable[Condition]) -> str | None:
    """The reason of the Ready condition, or None."""
    return find_condition(conditions, ConditionType.READY).reason


MAX_BEFORE: Final = 1024
"""Characters that are kept of the message of Ready as it was."""
MAX_REASON: Final = 64
"""Characters of its reason."""
MAX_PENDING: Final = 256
"""Characters of what is deployed later: a tag, the part of a digest that is shown, some words."""
PAUSES: Final = ("Suspended", "AutoupdateDisabled")
"""The reasons of Ready while an object is suspended; of a rule the first."""


class Suspension(Record, frozen=True):
    """Ready as it was when the object was suspended; empty while it isn't."""

    ready: str | None = None
    """The status of Ready; absent where the object had never been reconciled."""
    reason: str | None = None
    """The reason of Ready."""
    message: str | None = None
    """The message of Ready, at most 1,024 characters."""
    generation: Annotated[int, COUNT] | None = None
    """Generation of the object then; with a later one it was edited while suspended."""
    pending: str | None = None
    """What is deployed once the Bundle is resumed, such as an available version."""

    @property
    def status(self) -> ConditionStatus:
        """The status that Ready keeps."""
        return next((one for one in ConditionStatus if one == self.ready), ConditionStatus.UNKNOWN)


NOT_SUSPENDED: Final = Suspension()


def suspend(ready: Condition, *, observed: int | None, generation: int, edits: int) -> Suspension:
    """Ready as it is in the status, when the object is found to be suspended.

    Args:
        ready: its condition.
        observed: the status's observedGeneration.
        generation: the object's.
        edits: 1 where ``spec.suspend`` is part of the generation, 0 where an annotation suspends.
    """
    at = generation if observed is None else min(generation, observed + edits)
    if ready.reason is None or ready.reason in PAUSES:  # then by an operator that kept nothing
        return Suspension(ready=ready.status, generation=at)
    return Suspension(
        ready=ready.status,
        reason=ready.reason[:MAX_REASON],
        message=(ready.message or "")[:MAX_BEFORE],
        generation=at,
    )


def suspended_ready(kept: Suspension, reason: Reason, *, is_edited: bool) -> ReadyCondition:
    """Ready while the object is suspended."""
    parts = ["suspended"]
    if kept.reason:
        before = f"before: {kept.reason[:MAX_REASON]}"
        parts.append(f"{before}: {kept.message[:MAX_BEFORE]}" if kept.message else before)
    elif not kept.ready:
        parts.append("never reconciled")
    parts += ["edited while suspended"] if is_edited else []
    parts += [kept.pending[:MAX_PENDING]] if kept.pending else []
    return ReadyCondition(Health.PAUSED, reason, "; ".join(parts), kept.status)
