"""A user's decision about a plan, and the attempt that deploys an approved plan. Pure.

The annotations are seen as they are now: what was set and removed in between isn't known. So a
rejection wins over an approval, and an approval that was there when a plan was rejected doesn't
count when the rejection's annotation is gone: only one that is set after it was seen absent
(docs/adr/0031-a-rejection-ends-an-approval.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.names import ANN_APPROVED_BY, ANN_APPROVED_PLAN, ANN_REJECTED_PLAN
from copyrator.api.plan_status import (
    MAX_REJECTED_CONTENTS,
    ApprovedPlan,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
    RejectedPlan,
)
from copyrator.api.times import format_time
from copyrator.bundles.deploy.identity import hash_of
from copyrator.bundles.plan.record import content_of, is_spent

_NAME_LENGTH: Final = 256
"""Characters of an approver's name in the status."""


def record_decision(
    status: BundleStatus, annotations: Mapping[str, str], now: datetime
) -> BundleStatus:
    """The status with the decision in the annotations, recorded when it is first seen.

    So a tool that removes them later changes nothing. An ID of another plan is ignored, and so is
    an approval without the name of who gave it, as anybody may remove that annotation. A rejection
    counts without a name, and while a plan is made it ends the approval that would carry over.
    """
    plan = _decide(status, annotations, format_time(now))
    return status if plan == status.plan else replace(status, plan=plan)


def has_new_decision(status: BundleStatus, annotations: Mapping[str, str]) -> bool:
    """Whether the annotations decide something that the status doesn't have yet."""
    return _decide(status, annotations, "") != status.plan


def _decide(status: BundleStatus, annotations: Mapping[str, str], at: str) -> PlanStatus:
    plan = status.plan
    by = annotations.get(ANN_APPROVED_BY, "")[:_NAME_LENGTH]
    approved, rejected = annotations.get(ANN_APPROVED_PLAN), annotations.get(ANN_REJECTED_PLAN)
    is_planned = plan.outcome == PlanOutcome.PLANNED and plan.id is not None
    is_rejected = is_planned and plan.decision == PlanDecision.REJECTED
    names_it = is_planned and rejected == plan.id
    if (names_it and not is_rejected) or (rejected and rejected == plan.approved.id):
        return _reject(plan, rejected or "", by, at, is_cleared=approved != plan.id)
    if is_rejected and (names_it or approved != plan.id):
        return replace(plan, approval_cleared=approved != plan.id)
    if not is_planned or approved != plan.id or not by or is_spent(status):
        return plan
    if plan.decision == PlanDecision.APPROVED or (is_rejected and not plan.approval_cleared):
        return plan
    return replace(
        plan,
        decision=PlanDecision.APPROVED,
        by=by,
        at=at,
        # One that is approved after all may be rejected once more.
        rejected=RejectedPlan(
            id=None if plan.rejected.id == plan.id else plan.rejected.id,
            contents=_other_contents(plan.rejected, plan),
        ),
        approval_cleared=None,
        approved=ApprovedPlan(
            id=plan.id,
            by=by,
            at=at,
            job=plan.job,
            seal=plan.seal,
            bound=plan.bound,
            image=plan.image,
        ),
    )


def _reject(plan: PlanStatus, plan_id: str, by: str, at: str, *, is_cleared: bool) -> PlanStatus:
    """The plan without an approval, after a rejection of it or of the one that was approved.

    Also while it is being deployed: a retry then needs an approval of its own.
    """
    contents = (hash_of(*content_of(plan)), *_other_contents(plan.rejected, plan))
    plan = replace(
        plan,
        rejections=(plan.rejections or 0) + 1,
        rejected=RejectedPlan(id=plan_id, contents=contents[:MAX_REJECTED_CONTENTS]),
        approved=ApprovedPlan(),
    )
    if plan_id != plan.id and plan.decision != PlanDecision.APPROVED:
        return plan  # it waits, or is being made
    return replace(
        plan,
        decision=PlanDecision.REJECTED,
        by=by or None,
        at=at,
        approval_cleared=is_cleared,
    )


def _other_contents(rejected: RejectedPlan, plan: PlanStatus) -> tuple[str, ...]:
    """The inputs of rejected plans, but this one's."""
    content = hash_of(*content_of(plan))
    return tuple(one for one in rejected.contents if one != content)


def use_plan(status: BundleStatus) -> BundleStatus:
    """The status whose new attempt deploys the plan."""
    plan = status.plan
    attempted = replace(status.attempted, plan=plan.id, plan_job=plan.job, approved_by=plan.by)
    return replace(status, attempted=attempted)
