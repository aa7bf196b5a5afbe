"""The record of a plan in the status, from its beginning to its result. Pure.

A plan is made of a version's digest, the values, the spec and the operator's settings. It is spent
once an attempt has begun with it; the next attempt needs another plan. An approval is valid until
then, and carries over to a retry's plan without further operations (``operations.covers``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import BundleReason, BundleStatus, Outcome
from copyrator.api.plan_status import (
    MAX_RISKY,
    MAX_UNBOUND,
    ApprovedPlan,
    OperationCounts,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
)
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.policy.gates import Target
from copyrator.bundles.policy.identity import hash_of
from copyrator.bundles.policy.plans.due import content_of, is_for, is_spent
from copyrator.bundles.policy.plans.operations import (
    Operation,
    Plan,
    counts,
    covers,
    effects,
    plan_id,
    risky,
)
from copyrator.bundles.policy.schedule import retry_delay


def begun(
    status: BundleStatus, target: Target, job: str, now: datetime, *, is_requested: bool = False
) -> BundleStatus:
    """The status with a new plan recorded; its Job is created afterwards.

    ``is_requested``: a user requests a deploy, which an approval of an earlier one doesn't cover.
    """
    before = status.plan
    same = is_for(before, target)
    failed = same and before.outcome == PlanOutcome.FAILED
    plan = replace(
        before.remove_plan(),
        job=job,
        number=(before.number or 0) + 1,
        outcome=PlanOutcome.RUNNING,
        failures=before.failures if failed else None,
        version=target.version,
        digest=target.digest,
        values_hash=target.values_hash,
        spec_hash=target.spec_hash,
        job_hash=target.job_hash,
        attempt=status.attempted.attempt,
        started_at=format_time(now),
        approved=before.approved if same and _holds(status, is_requested) else ApprovedPlan(),
    )
    return replace(status, plan=plan)


def _holds(status: BundleStatus, is_requested: bool) -> bool:
    """Whether the approval may carry over to a plan of the same input.

    It may until the deploy has succeeded.
    """
    if not is_spent(status):
        return True
    return not is_requested and _is_tried(status)


def _is_tried(status: BundleStatus) -> bool:
    """Whether the last attempt had the plan's input, and didn't succeed."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    return failed and content_of(status.attempted) == content_of(status.plan)


def dropped(status: BundleStatus, target: Target) -> BundleStatus:
    """The status without a plan whose input isn't to be deployed any more.

    A plan that was deployed is kept, and so is one of what is deployed, which a user requested.
    """
    plan = status.plan
    if plan.outcome is None or is_spent(status) or is_for(plan, target):
        return status
    return replace(status, plan=plan.remove_plan())


def failed(
    status: BundleStatus, reason: BundleReason, message: str, retry: Retry, now: datetime
) -> BundleStatus:
    """The status where no plan could be made; it is retried up to the spec's limit."""
    failures = (status.plan.failures or 0) + 1
    due = None
    if failures <= retry.limit:
        due = format_time(now + timedelta(seconds=retry_delay(retry.backoff, failures)))
    plan = replace(
        status.plan,
        outcome=PlanOutcome.FAILED,
        reason=reason,
        message=message,
        failures=failures,
        next_retry_at=due,
    )
    return replace(status, plan=plan)


def with_message(status: BundleStatus, message: str | None) -> BundleStatus:
    """The status with the message why the plan isn't made yet; None removes it."""
    if message == status.plan.message:
        return status
    return replace(status, plan=replace(status.plan, message=message))


def needed(status: BundleStatus) -> tuple[str | None, ...]:
    """The names of the Jobs whose Secrets are still needed."""
    plan, attempted = status.plan, status.attempted
    found = [plan.approved.job, status.baseline.job, status.deployed.plan_job]
    if plan.outcome != PlanOutcome.FAILED:
        found.append(plan.job)
    if status.preview.outcome == PlanOutcome.RUNNING:
        found.append(status.preview.job)
    if status.drift.check.outcome == PlanOutcome.RUNNING:
        found.append(status.drift.check.job)
    found.append(status.drift.found_job)
    if attempted.outcome == Outcome.RUNNING:
        found += [attempted.job, attempted.plan_job]
    return tuple(found)


def ended_since(status: BundleStatus, then: datetime) -> bool:
    """Whether a plan or a planned attempt has ended since ``then``."""
    plan, preview, attempted = status.plan, status.preview, status.attempted
    ends = [plan.made_at or plan.started_at, preview.made_at or preview.started_at]
    if attempted.plan_job is not None:
        ends.append(attempted.finished_at)
    return any(end >= then for end in map(parse_time, ends) if end is not None)


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a plan Job."""

    plan: Plan
    missing_namespace: str | None
    """The release's namespace, where it doesn't exist."""
    seal: str | None = None
    """The seal of the Secret with the operations; None for a preview."""
    approved: Plan | None = None
    """The plan that was approved last; None where none was, or it can't be read."""
    baseline: Plan | None = None
    """The plan of the baseline; None likewise."""


def unbound_reasons(plan: Plan) -> tuple[str, ...]:
    """Why a deploy may write something else than was planned and shown, as sentences.

    werf renders once more when it applies, so that equal hashes of earlier renders aren't enough.
    """
    found = []
    if plan.render is None:
        found.append("two renders of the chart differed")
    if plan.image is None:
        found.append("the digest of werf's image isn't known, so another werf may deploy")
    found += plan.drawn
    found += (f"{one} is hidden from the diff (werf.io/sensitive)" for one in plan.hidden_names)
    if (more := plan.hidden - len(plan.hidden_names)) > 0:
        found.append(f"{more} more objects are hidden from the diff (werf.io/sensitive)")
    return tuple(found)


def found_by(made: Made) -> tuple[tuple[Operation, ...], dict[str, Any]]:
    """A plan's operations, and the fields of its record that are derived from them."""
    operations = effects(made.plan, made.missing_namespace)
    named = risky(operations, made.baseline.operations if made.baseline else ())
    unbound = unbound_reasons(made.plan)
    fields = {
        "outcome": PlanOutcome.PLANNED,
        "reason": None,
        "message": None,
        "revision": made.plan.revision,
        "operations": len(operations),
        "counts": OperationCounts.parse(counts(operations)),
        "risky": tuple(str(one) for one in named[:MAX_RISKY]),
        "risky_operations": len(named),
        "bound": not unbound,
        "unbound": unbound[:MAX_UNBOUND],
        "hidden": made.plan.hidden or None,
        "image": made.plan.image,
    }
    return operations, fields


def planned(status: BundleStatus, made: Made, spec: BundleSpec, now: datetime) -> BundleStatus:
    """The status with a plan that was made; an approval of the same deploy carries over."""
    before = status.plan
    operations, fields = found_by(made)
    plan = replace(
        before,
        **fields,
        failures=None,
        next_retry_at=None,
        made_at=format_time(now),
        expires_at=format_time(now + timedelta(seconds=spec.approval.expires)),
        id=_fresh(_id(before, made.plan, operations), status),
        seal=made.seal,
    )
    if not _covers(status, made, operations):
        plan = replace(plan, message=_why_uncovered(before, made))
    else:
        plan = replace(
            plan,
            decision=PlanDecision.APPROVED,
            by=before.approved.by,
            at=before.approved.at,
        )
    return replace(status, plan=plan)


def _why_uncovered(before: PlanStatus, made: Made) -> str | None:
    """Why an approval that was given doesn't carry over to the plan; None without one."""
    approved = made.approved
    if approved is None:
        return None
    if approved.render == made.plan.render:
        same = before.approved.image == made.plan.image
        what = "other operations" if same else "another image of werf"
        return f"the approval of plan {before.approved.id} was of {what}"
    return (
        f"the approval of plan {before.approved.id} was of other contents, which a chart gives "
        "that prints the release's revision or branches on .Release.IsInstall"
    )


def _covers(status: BundleStatus, made: Made, found: Collection[Operation]) -> bool:
    """Whether all operations were approved, or follow from an attempt with the approval."""
    approved = made.approved
    if approved is None or approved.render != made.plan.render:
        return False
    given = status.plan.approved
    if given.image != made.plan.image or (given.bound and unbound_reasons(made.plan)):
        return False  # another werf would deploy, or more than was approved
    operations = approved.operations
    if made.missing_namespace is not None:
        whole = effects(approved, made.missing_namespace)
        if _id(status.plan, approved, whole) == status.plan.approved.id:
            operations = whole
    if _is_tried(status) and _is_approved_before(status):
        return covers(operations, found)
    return set(found) <= set(operations)


def _is_approved_before(status: BundleStatus) -> bool:
    """Whether the approval is older than the last attempt, so that the attempt used it."""
    started, at = parse_time(status.attempted.started_at), parse_time(status.plan.approved.at)
    return started is not None and at is not None and at <= started


def _fresh(plan_id_: str, status: BundleStatus) -> str:
    """The ID, or another one where that of an earlier plan was deployed successfully.

    Plans are equal again where a release was uninstalled by hand, or where nothing is to be done.
    The annotation that approved the earlier one is mostly still there.
    """
    deployed = {one.plan for one in status.history if one.outcome == Outcome.SUCCEEDED}
    return hash_of(plan_id_, status.attempted.attempt) if plan_id_ in deployed else plan_id_


def _id(status: PlanStatus, plan: Plan, operations: Collection[Operation]) -> str:
    return plan_id(
        digest=status.digest or "",
        values_hash=status.values_hash,
        job={"hash": status.job_hash},
        revision=plan.revision,
        operations=operations,
        render=plan.render,
        rejections=status.rejections or 0,
    )
