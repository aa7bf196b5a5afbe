"""Conditions with the meaning that kstatus gives them, so that every tool can wait on ours.

Source: sigs.k8s.io/cli-utils/pkg/kstatus. ``Ready`` says whether the object is as asked.
``Reconciling`` and ``Stalled`` are abnormal when True: work is under way, or nothing more will be
tried until somebody changes something. All three always stand there, so that
``kubectl wait --for=condition=Reconciling=false`` has an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from copyrator.api.times import format_time

MAX_MESSAGE: Final = 2048
"""Characters of a condition's message that are kept."""


class ConditionType(StrEnum):
    """The types of conditions that our objects have."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class ConditionStatus(StrEnum):
    """The three answers of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Health(StrEnum):
    """What an object's conditions say as a whole."""

    READY = "Ready"
    """As asked; nothing to do."""
    PROGRESSING = "Progressing"
    """Not yet as asked; work is under way and nothing has failed."""
    RETRYING = "Retrying"
    """Something failed; it is tried again without anybody's doing."""
    STALLED = "Stalled"
    """Nothing more is tried until somebody changes something."""
    PAUSED = "Paused"
    """Nothing is tried because its author said so; whether it is as asked isn't known."""


_TRUE, _FALSE, _UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN

_STATUSES: Final[Mapping[Health, tuple[ConditionStatus, ConditionStatus, ConditionStatus]]] = {
    Health.READY: (_TRUE, _FALSE, _FALSE),
    Health.PROGRESSING: (_UNKNOWN, _TRUE, _FALSE),
    Health.RETRYING: (_FALSE, _TRUE, _FALSE),
    Health.STALLED: (_FALSE, _FALSE, _TRUE),
    Health.PAUSED: (_UNKNOWN, _FALSE, _FALSE),
}
"""Health to the statuses of Ready, Reconciling and Stalled."""


@dataclass(frozen=True, slots=True)
class ReadyCondition:
    """One answer for the whole object: its health, a stable word why, and a sentence."""

    health: Health
    reason: str
    message: str = ""


def build_conditions(
    previous: Any, verdict: ReadyCondition, *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Turn a verdict into the three conditions.

    ``previous`` is whatever stands in the status. A condition whose status is unchanged keeps its
    ``lastTransitionTime``, so building again from unchanged input gives an equal list.
    """
    before = conditions_by_type(previous)
    stamp = format_time(now)
    return [
        {
            "type": kind.value,
            "status": status.value,
            "reason": str(verdict.reason),
            "message": _shorten(verdict.message),
            "observedGeneration": generation,
            "lastTransitionTime": _since(before.get(kind), status, stamp),
        }
        for kind, status in zip(ConditionType, _STATUSES[verdict.health], strict=True)
    ]


def _since(before: Mapping[str, Any] | None, status: ConditionStatus, stamp: str) -> str:
    if before is None or before.get("status") != status:
        return stamp
    since = before.get("lastTransitionTime")
    return since if isinstance(since, str) and since else stamp


def _shorten(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def conditions_by_type(conditions: Any) -> dict[str, Mapping[str, Any]]:
    """The conditions of a status by type; junk is left out."""
    if not isinstance(conditions, Iterable) or isinstance(conditions, (str, bytes, Mapping)):
        return {}
    return {
        item["type"]: item
        for item in conditions
        if isinstance(item, Mapping) and isinstance(item.get("type"), str)
    }


def foreign_conditions(conditions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conditions that somebody else put beside ours (a newer version, another tool)."""
    return [item for item in conditions if item.get("type") not in tuple(ConditionType)]


def ready_reason(conditions: Any) -> str | None:
    """The reason of the Ready condition, or None."""
    reason = conditions_by_type(conditions).get(ConditionType.READY, {}).get("reason")
    return reason if isinstance(reason, str) else None
