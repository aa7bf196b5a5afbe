"""Ready of an object that its author suspended: it keeps its status, as Flux's objects do.

So `kubectl wait` and the health checks of GitOps tools neither hang nor fail because of it. Ready
as it was is recorded in the status: its condition is replaced, also by that of an invalid edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    Health,
    ReadyCondition,
    conditions_by_type,
)
from copyrator.api.records import Record

MAX_BEFORE: Final = 1024
"""Characters that are kept of the message of Ready as it was."""
MAX_REASON: Final = 64
"""Characters of its reason."""
MAX_PENDING: Final = 256
"""Characters of what is deployed later: a tag, the part of a digest that is shown, some words."""
PAUSES: Final = ("Suspended", "AutoupdateDisabled")
"""The reasons of Ready while an object is suspended; of a rule the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspension(Record):
    """Ready as it was when the object was suspended; empty while it isn't."""

    ready: str | None = None
    """The status of the condition, which it keeps."""
    reason: str | None = None
    """Absent where it had never been reconciled."""
    message: str | None = None
    generation: int | None = None
    """The object's generation then: with a later one it was edited since."""
    pending: str | None = None
    """What is deployed once the Bundle is resumed, as a clause; absent where nothing is."""

    @property
    def status(self) -> ConditionStatus:
        """The status that Ready keeps."""
        return next((one for one in ConditionStatus if one == self.ready), ConditionStatus.UNKNOWN)


NOT_SUSPENDED: Final = Suspension()


def suspend(conditions: Any, *, observed: int | None, generation: int, edits: int) -> Suspension:
    """Ready as it is in the status, when the object is found to be suspended.

    Args:
        conditions: those of the status.
        observed: the status's observedGeneration.
        generation: the object's.
        edits: 1 where ``spec.suspend`` is part of the generation, 0 where an annotation suspends.
    """
    found = conditions_by_type(conditions).get(ConditionType.READY, {})
    at = generation if observed is None else min(generation, observed + edits)
    reason = found.get("reason")
    if not isinstance(reason, str) or reason in PAUSES:  # then by an operator that kept nothing
        return Suspension(ready=_text(found.get("status")), generation=at)
    message = _text(found.get("message")) or ""
    return Suspension(
        ready=_text(found.get("status")),
        reason=reason[:MAX_REASON],
        message=message[:MAX_BEFORE],
        generation=at,
    )


def suspended_ready(kept: Suspension, reason: str, *, is_edited: bool) -> ReadyCondition:
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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
