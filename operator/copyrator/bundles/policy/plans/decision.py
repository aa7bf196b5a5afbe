"""A user's decision about a plan, and the attempt that deploys an approved plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.names import ANN_APPROVED_BY, ANN_APPROVED_PLAN, ANN_REJECTED_PLAN
from copyrator.api.plan_status import ApprovedPlan, PlanDecision, PlanOutcome, PlanStatus
from copyrator.api.times import format_time
from copyrator.bundles.policy.plans.due import is_spent

_NAME_LENGTH: Final = 256
"""Characters of an approver's name in the status."""


def decided(status: BundleStatus, annotations: Mapping[str, str], now: datetime) -> BundleStatus:
    """The status with the decision in the annotations, recorded when it is first seen.

    So a tool that removes them later changes nothing. An ID of another plan is ignored; so is a
    decision without the name of who made it, as anybody may remove that annotation.
    """
    plan = status.plan
    decision = _decision(plan, annotations)
    by = annotations.get(ANN_APPROVED_BY, "")[:_NAME_LENGTH]
    if decision is None or decision == plan.decision or not by or is_spent(status):
        return status
    at = format_time(now)
    approved = ApprovedPlan()  # a rejection ends an earlier approval, too
    if decision is PlanDecision.APPROVED:
        approved = ApprovedPlan(id=plan.id, by=by, at=at, job=plan.job, seal=plan.seal)
    return replace(status, plan=replace(plan, decision=decision, by=by, at=at, approved=approved))


def _decision(plan: PlanStatus, annotations: Mapping[str, str]) -> PlanDecision | None:
    if plan.outcome != PlanOutcome.PLANNED or plan.id is None:
        return None
    if annotations.get(ANN_REJECTED_PLAN) == plan.id:
        return PlanDecision.REJECTED
    return PlanDecision.APPROVED if annotations.get(ANN_APPROVED_PLAN) == plan.id else None


def used(status: BundleStatus) -> BundleStatus:
    """The status whose new attempt deploys the plan."""
    plan = status.plan
    attempted = replace(status.attempted, plan=plan.id, plan_job=plan.job, approved_by=plan.by)
    return replace(status, attempted=attempted)


def unused(status: BundleStatus) -> BundleStatus:
    """The status whose new attempt needs no plan: an earlier plan and its approval are removed."""
    return replace(status, plan=PlanStatus(number=status.plan.number))
