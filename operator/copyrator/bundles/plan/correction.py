"""Deploys that correct drift, and the condition Drifted. Pure.

A correction deploys again exactly what is deployed, and its Job continues only if it plans nothing
beyond what the check found, and renders the same. It needs no approval where it writes what was
approved: where the render has the hash of the baseline, which is bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Trust
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.drift import DriftMode
from copyrator.api.drift_status import MAX_DRIFTED, DriftCheck, DriftReason, DriftVerdict
from copyrator.api.plan_status import PlanOutcome, PlanStatus
from copyrator.bundles.plan import drift as drift_record
from copyrator.bundles.plan.drift import is_same

MOST_CORRECTIONS: Final = 2
"""Corrections of the same drift; then something else changes the objects each time."""


def find_plan(status: BundleStatus, job: str | None) -> PlanStatus | DriftCheck | None:
    """The plan in the status that this Job made; None where it isn't there any more."""
    found = (one for one in (status.plan, status.drift.check) if one.job == job is not None)
    plan = next(found, None)
    return plan if plan is not None and plan.outcome == PlanOutcome.PLANNED else None


def is_recurring(status: BundleStatus) -> bool:
    """Whether the same drift was found after MOST_CORRECTIONS corrections, so that no more is made.

    False until the check after the last correction has ended.
    """
    drift = status.drift
    return (
        drift.verdict == DriftVerdict.DRIFTED
        and drift.attempt == status.attempted.attempt
        and (drift.corrections or 0) >= MOST_CORRECTIONS
        and is_same(drift, drift.objects)
    )


def is_correction_due(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether what the last check found is to be corrected now.

    Not where an attempt began since, which may have changed it, or the signature isn't trusted.
    """
    drift = status.drift
    plan = find_plan(status, drift.found_job)
    return (
        spec.drift.mode is DriftMode.CORRECT
        and drift.verdict == DriftVerdict.DRIFTED
        and drift.reason is None
        and drift.check.outcome != PlanOutcome.RUNNING
        and drift.attempt == status.attempted.attempt
        and drift_record.has_baseline(status)
        and plan is not None
        and plan.seal is not None
        and not is_recurring(status)
        and status.verification.verdict in (None, Trust.TRUSTED)
    )


def correctable_job(status: BundleStatus, spec: BundleSpec) -> str | None:
    """The Job that found the drift that is to be corrected."""
    return status.drift.found_job if is_correction_due(status, spec) else None


def needs_approval(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether the correction is planned and approved as a deploy is.

    With an approval or a floor a correction by itself only puts back what was deployed.
    """
    if spec.drift.mode is not DriftMode.CORRECT or not spec.approval.is_enabled:
        return False
    return bool(status.drift.differs) or not status.baseline.bound


def record_correction(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status whose new attempt corrects what was found.

    It deploys the plan that was approved, where one is needed: a later check may have found more.
    """
    found = find_plan(status, status.drift.found_job)
    plan = status.plan if needs_approval(status, spec) else found
    assert plan is not None, "is_due"
    attempted = replace(
        status.attempted,
        plan=plan.id,
        plan_job=plan.job,
        approved_by=plan.by if isinstance(plan, PlanStatus) else None,
        correction=True,
    )
    return replace(status, attempted=attempted)


def record_corrected(status: BundleStatus) -> BundleStatus:
    """The status where the attempt that has ended corrected what was found."""
    drift = status.drift
    again = dict.fromkeys((*drift.corrected, *drift.objects))
    drift = replace(
        drift,
        corrections=(drift.corrections or 0) + 1,
        corrected=tuple(again)[:MAX_DRIFTED],
    )
    return replace(status, drift=drift)


_NAMED: Final = 5
"""Objects that a message names."""


def drifted_condition(status: BundleStatus, spec: BundleSpec) -> FurtherCondition | None:
    """The condition; None without ``spec.drift``."""
    drift = status.drift
    if not spec.drift.is_enabled:
        return None
    if drift.reason is not None:
        return FurtherCondition(ConditionStatus.UNKNOWN, drift.reason, drift.message or "")
    if not drift_record.has_baseline(status) or drift.verdict is None:
        text = "what is deployed hasn't been compared yet"
        return FurtherCondition(ConditionStatus.UNKNOWN, DriftReason.UNCHECKED, text)
    if drift.verdict == DriftVerdict.DRIFTED:
        return _true_condition(status, spec)
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


def _true_condition(status: BundleStatus, spec: BundleSpec) -> FurtherCondition:
    reason: str = DriftReason.DRIFTED
    text = f"{drifted_objects(status)} {has_or_have(status)} drifted"
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


def has_or_have(status: BundleStatus) -> str:
    """The verb for ``objects``: has or have."""
    return "has" if status.drift.count == 1 else "have"


def drifted_objects(status: BundleStatus) -> str:
    """The first drifted objects, and how many more there are."""
    drift = status.drift
    named = drift.objects[:_NAMED]
    more = (drift.count or len(drift.objects)) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
