"""The condition Drifted, in sentences that name the objects and the remedy. Pure."""

from __future__ import annotations

from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.drift import DriftMode
from copyrator.api.drift_status import DriftReason, DriftVerdict
from copyrator.bundles.policy.drift import due as drift_due
from copyrator.bundles.policy.drift.correction import MOST_CORRECTIONS, is_recurring, needs_approval

_NAMED: Final = 5
"""Objects that a message names."""


def drifted(status: BundleStatus, spec: BundleSpec) -> FurtherCondition | None:
    """The condition; None without ``spec.drift``."""
    drift = status.drift
    if not spec.drift.is_enabled:
        return None
    if drift.reason is not None:
        return FurtherCondition(ConditionStatus.UNKNOWN, drift.reason, drift.message or "")
    if not drift_due.has_baseline(status) or drift.verdict is None:
        text = "what is deployed hasn't been compared yet"
        return FurtherCondition(ConditionStatus.UNKNOWN, DriftReason.UNCHECKED, text)
    if drift.verdict == DriftVerdict.DRIFTED:
        return _drifted(status, spec)
    if drift.verdict != DriftVerdict.NOT_DRIFTED:
        text = drift.message or "the last check had no result"
        return FurtherCondition(ConditionStatus.UNKNOWN, DriftReason.UNCHECKED, text)
    text = "the objects of the release are as they were deployed"
    if status.baseline.unproven:
        text = (
            f"nothing has drifted since {status.baseline.made_at}; what had drifted before isn't "
            "seen, as the deploy was checked later than 15 minutes after its end"
        )
    return FurtherCondition(ConditionStatus.FALSE, DriftReason.IN_SYNC, text)


def _drifted(status: BundleStatus, spec: BundleSpec) -> FurtherCondition:
    reason: str = DriftReason.DRIFTED
    text = f"{objects(status)} {verb(status)} drifted"
    if spec.drift.mode is DriftMode.CORRECT and is_recurring(status):
        reason = DriftReason.DRIFT_RECURRING
        text += (
            f" again after {MOST_CORRECTIONS} corrections, so something else changes the "
            "same objects each time: find it, or name them in spec.drift.ignore"
        )
    elif needs_approval(status, spec):
        reason = BundleReason.RENDERED_DIFFERENTLY
        text += (
            ", and the chart may render differently now than when it was deployed: a deploy that "
            "corrects it is planned, and waits for approval"
        )
    elif spec.drift.mode is DriftMode.DETECT:
        command = f"copyrator reconcile bundle -n {spec.namespace} {spec.name} --force"
        text += f"; to restore what was deployed: {command}"
    return FurtherCondition(ConditionStatus.TRUE, reason, text)


def verb(status: BundleStatus) -> str:
    """The verb for ``objects``: has or have."""
    return "has" if status.drift.count == 1 else "have"


def objects(status: BundleStatus) -> str:
    """The first drifted objects, and how many more there are."""
    drift = status.drift
    named = drift.objects[:_NAMED]
    more = (drift.count or len(drift.objects)) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
