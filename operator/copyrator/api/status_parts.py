"""The parts of a Bundle's status, and how it is read with them."""

from __future__ import annotations

from typing import Any, Final

from copyrator.api.age import AgeStatus
from copyrator.api.attest import AttestationsStatus, AttestState
from copyrator.api.bundle_status import BundleStatus, GateState, Outcome
from copyrator.api.cluster import ClusterStatus
from copyrator.api.conditions import ConditionStatus, ConditionType
from copyrator.api.consent import ConsentStatus
from copyrator.api.drift import DriftStatus
from copyrator.api.plan_status import (
    AsApprovedStatus,
    Baseline,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
    PreviewPlan,
)
from copyrator.api.promotion import PromotionStatus
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.records import Record
from copyrator.api.rollback import PinStatus
from copyrator.api.verify import Verification

STATUS_PARTS: Final[tuple[type[Record], ...]] = (
    AgeStatus,
    AsApprovedStatus,
    AttestationsStatus,
    Baseline,
    ClusterStatus,
    ConsentStatus,
    DriftStatus,
    PinStatus,
    PlanRequests,
    PlanStatus,
    PreviewPlan,
    PromotionStatus,
    Verification,
)


def parse_status(body: Any, *fields: str) -> BundleStatus:
    """Read the status of a Bundle's body, or only some fields of it; never raises.

    Those that a rule's status has, too, are read of a rule alike.
    """
    raw = body.get("status") if isinstance(body, dict) else None
    if fields and isinstance(raw, dict):
        raw = {name: raw[name] for name in fields if name in raw}
    return BundleStatus.compose(STATUS_PARTS, raw, dict(_WORDS))


def running_plans(status: BundleStatus) -> tuple[str, ...]:
    """The Jobs of all plans without an outcome: of deploys, previews and checks for drift."""
    plans = status.part(PlanStatus), status.part(PreviewPlan), status.part(DriftStatus).check
    return tuple(one.job for one in plans if one.is_running and one.job)


_ENUMS: Final = (
    AttestState,
    BundleReason,
    ConditionStatus,
    ConditionType,
    GateState,
    Outcome,
    PlanOutcome,
)
_WORDS: Final = {str(one.value): str(one.value) for kind in _ENUMS for one in kind}
"""The texts that most statuses have, shared by all of them."""
