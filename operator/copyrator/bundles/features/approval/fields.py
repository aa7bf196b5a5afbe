"""``status.asApproved``: whether a deploy stored what was approved.

``spec.approval`` and ``status.plan`` are in ``plans/fields.py``, as drift reads them, too.
"""

from __future__ import annotations

from typing import ClassVar, Final

from copyrator.api.bundle_status import BundleCondition
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.reasons import Severity
from copyrator.api.schema import Record, Time
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.plans.fields import (
    ApprovalSpec,
    Baseline,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
)

AS_APPROVED: Final = "AsApproved"


class AsApprovedStatus(Record, frozen=True):
    """What was found about a deploy; empty where none was planned and approved."""

    FIELD: ClassVar[str] = "asApproved"
    """Whether the last deploy that was planned and approved stored what was approved."""

    reason: str | None = None
    """Reason of the condition AsApproved."""
    version: str | None = None
    """Tag that was deployed."""
    revision: int | None = None
    """The release's revision that was stored."""
    at: Time | None = None
    """When the deploy had ended."""

    @property
    def is_different(self) -> bool:
        """Whether something else was deployed than what was approved."""
        return self.reason == StoredReason.DEPLOYED_DIFFERENTLY


NOT_JUDGED: Final = AsApprovedStatus()
"""Shared by all Bundles without such a deploy."""

_STATUSES: Final = {
    Severity.SUCCESS: ConditionStatus.TRUE,
    Severity.INFO: ConditionStatus.UNKNOWN,
    Severity.FAILURE: ConditionStatus.FALSE,
}


def as_approved_condition(found: AsApprovedStatus) -> FurtherCondition | None:
    """The condition AsApproved; None where no deploy was judged."""
    reason = StoredReason.read(found.reason or "")
    if not isinstance(reason, StoredReason):
        return None
    revision = f" (revision {found.revision})" if found.revision else ""
    text = f"{found.version}{revision}: {reason.meaning}"
    return FurtherCondition(_STATUSES[reason.severity], reason, text)


SPEC: Final = (ApprovalSpec,)
STATUS: Final = (AsApprovedStatus, Baseline, PlanRequests, PlanStatus)
TEXTS: Final = (PlanOutcome,)
CONDITIONS: Final = (
    BundleCondition(
        *(AS_APPROVED, 8, "the last deploy stored what was approved", StoredReason),
        withdraws=(ConditionStatus.FALSE, "{version} wasn't deployed as approved"),
    ),
)
