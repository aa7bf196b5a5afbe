"""Whether the last deploy that was planned and approved stored what was approved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.records import Record


class StoredReason(StrEnum):
    """Reasons of the condition AsApproved: stable values, part of the API."""

    AS_APPROVED = "AsApproved"
    EXACT = "Exact"
    """werf applied the very plan that was approved."""
    DEPLOYED_DIFFERENTLY = "DeployedDifferently"
    RENDERS_DIFFER = "RendersDiffer"
    """Two renders of the chart differed, so its contents have no hash."""
    NOTHING_STORED = "NothingStored"
    """werf found nothing to change, and the revision before isn't equal."""
    NOT_SUPPORTED = "NotSupported"
    """This version of werf can't be asked what it has stored."""
    UNREADABLE = "Unreadable"
    """What was stored, or the Job's log, couldn't be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsApprovedStatus(Record):
    """What was found about a deploy; empty where none was planned and approved."""

    reason: str | None = None
    """A value of StoredReason."""
    version: str | None = None
    revision: int | None = None
    at: str | None = None

    @property
    def is_different(self) -> bool:
        """Whether something else was deployed than what was approved."""
        return self.reason == StoredReason.DEPLOYED_DIFFERENTLY


NOT_JUDGED: Final = AsApprovedStatus()
"""Shared by all Bundles without such a deploy."""

_TEXTS: Final[Mapping[str, str]] = {
    StoredReason.AS_APPROVED: "what was stored is what was approved",
    StoredReason.EXACT: "the plan that was approved is the one that werf applied",
    StoredReason.DEPLOYED_DIFFERENTLY: "what was stored isn't what was approved",
    StoredReason.RENDERS_DIFFER: (
        "the chart rendered differently each time it was planned, so what was stored can't be "
        "compared"
    ),
    StoredReason.NOTHING_STORED: (
        "werf found nothing to change and stored nothing, and the revision before isn't equal to "
        "what was approved"
    ),
    StoredReason.NOT_SUPPORTED: (
        "this version of werf can't be asked what it has stored, and the plan wasn't exact"
    ),
    StoredReason.UNREADABLE: "what was stored, or the log of the Job, couldn't be read",
}


def as_approved_condition(found: AsApprovedStatus) -> FurtherCondition | None:
    """The condition AsApproved; None where no deploy was judged."""
    text = _TEXTS.get(found.reason or "")
    if found.reason is None or text is None:
        return None
    status = ConditionStatus.UNKNOWN
    if found.reason in (StoredReason.AS_APPROVED, StoredReason.EXACT):
        status = ConditionStatus.TRUE
    elif found.is_different:
        status = ConditionStatus.FALSE
    revision = f" (revision {found.revision})" if found.revision else ""
    return FurtherCondition(status, found.reason, f"{found.version}{revision}: {text}")
