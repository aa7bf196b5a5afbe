"""Deploys that correct drift. Pure.

A correction deploys again exactly what is deployed, and its Job continues only if it plans nothing
beyond what the check found, and renders the same. It needs no approval where it writes what was
approved: where the render has the hash of the baseline, which is bound.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Trust
from copyrator.api.drift import DriftMode
from copyrator.api.drift_status import MAX_DRIFTED, DriftCheck, DriftVerdict
from copyrator.api.plan_status import PlanOutcome, PlanStatus
from copyrator.bundles.policy.drift import due as drift_due
from copyrator.bundles.policy.drift.record import is_same

MOST_CORRECTIONS: Final = 2
"""Corrections of the same drift; then something else changes the objects each time."""


def plan_of(status: BundleStatus, job: str | None) -> PlanStatus | DriftCheck | None:
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


def is_due(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether what the last check found is to be corrected now.

    Not where an attempt began since, which may have changed it, or the signature isn't trusted.
    """
    drift = status.drift
    plan = plan_of(status, drift.found_job)
    return (
        spec.drift.mode is DriftMode.CORRECT
        and drift.verdict == DriftVerdict.DRIFTED
        and drift.reason is None
        and drift.check.outcome != PlanOutcome.RUNNING
        and drift.attempt == status.attempted.attempt
        and drift_due.has_baseline(status)
        and plan is not None
        and plan.seal is not None
        and not is_recurring(status)
        and status.verification.verdict in (None, Trust.TRUSTED)
    )


def needs_approval(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether the correction is planned and approved as a deploy is.

    With an approval or a floor a correction by itself only puts back what was deployed.
    """
    if spec.drift.mode is not DriftMode.CORRECT or not spec.approval.is_enabled:
        return False
    return bool(status.drift.differs) or not status.baseline.bound


def begun(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status whose new attempt corrects what was found.

    It deploys the plan that was approved, where one is needed: a later check may have found more.
    """
    found = plan_of(status, status.drift.found_job)
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


def succeeded(status: BundleStatus) -> BundleStatus:
    """The status where the attempt that has ended corrected what was found."""
    drift = status.drift
    again = dict.fromkeys((*drift.corrected, *drift.objects))
    drift = replace(
        drift,
        corrections=(drift.corrections or 0) + 1,
        corrected=tuple(again)[:MAX_DRIFTED],
    )
    return replace(status, drift=drift)
