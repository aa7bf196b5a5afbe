"""The plan of the next deploy, as the status has it, and the gate that asks for approval. Pure.

A plan is made of a version's digest, the values, the spec and the operator's settings. It is spent
once an attempt has begun with it; the next attempt is planned anew. An approval holds until then,
and carries over to the plan of a retry that does nothing more (``plan.covers``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import ApprovalMode, BundleSpec, Retry
from copyrator.api.bundle_status import (
    MAX_RISKY,
    ApprovedPlan,
    Attempted,
    Baseline,
    BundleReason,
    BundleStatus,
    Deployed,
    OperationCounts,
    Outcome,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
)
from copyrator.api.names import ANN_APPROVED_BY, ANN_APPROVED_PLAN, ANN_REJECTED_PLAN
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.policy.criteria import admits, is_below
from copyrator.bundles.policy.gates import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Occasion,
    Refused,
    Target,
    Verdict,
    Waiting,
    judged_next,
)
from copyrator.bundles.policy.plan import Operation, Plan, counts, covers, effects, plan_id, risky
from copyrator.bundles.policy.schedule import retry_delay

_NAME_LENGTH: Final = 256
"""Characters of an approver's name in the status."""


def is_current(status: BundleStatus, target: Target) -> bool:
    """Whether the plan in the status was made of the same, and no attempt has begun with it."""
    plan = status.plan
    return plan.outcome is not None and _is_for(plan, target) and not is_spent(status)


def is_spent(status: BundleStatus) -> bool:
    """Whether an attempt has begun with the plan."""
    return status.plan.job is not None and status.plan.job == status.attempted.plan_job


def _is_for(plan: PlanStatus, target: Target) -> bool:
    return target == Target(
        version=plan.version or "",
        digest=plan.digest or "",
        values_hash=plan.values_hash,
        spec_hash=plan.spec_hash or "",
        job_hash=plan.job_hash or "",
    )


def _content(
    made_of: Target | PlanStatus | Deployed | Attempted | Baseline,
) -> tuple[str | None, str | None, str | None]:
    return made_of.digest, made_of.values_hash, made_of.spec_hash


def must_plan(status: BundleStatus, target: Target, now: datetime) -> bool:
    """Whether a plan is to be made now, before the deploy can go on."""
    plan = status.plan
    if not is_current(status, target):
        return True
    if plan.outcome == PlanOutcome.FAILED:
        due = parse_time(plan.next_retry_at)
        return due is not None and now >= due
    return plan.outcome == PlanOutcome.PLANNED and _has_expired(plan, now)


def next_look(status: BundleStatus) -> datetime | None:
    """When a gate's verdict changes by itself, or a failed plan is made again."""
    plan = status.plan
    due = parse_time(plan.next_retry_at) if plan.outcome == PlanOutcome.FAILED else None
    return min((at for at in (due, judged_next(status.gates)) if at is not None), default=None)


def _has_expired(plan: PlanStatus, now: datetime) -> bool:
    expires = parse_time(plan.expires_at)
    return plan.decision is None and expires is not None and now >= expires


def must_make_baseline(
    status: BundleStatus, spec: BundleSpec, target: Target, now: datetime
) -> bool:
    """Whether what is deployed, and isn't to change, is to be planned once.

    The plan has what the chart does every time, such as recreating its hooks.
    """
    return (
        spec.approval.mode is ApprovalMode.ON_RISK
        and _content(target) == _content(status.deployed) != _content(status.baseline)
        and must_plan(status, target, now)
    )


def awaited(status: BundleStatus) -> PlanStatus:
    """The plan of a deploy that hasn't begun; an empty one where there is none."""
    waits = status.plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    return status.plan if waits and not is_spent(status) else PlanStatus()


def kept(
    status: BundleStatus, spec: BundleSpec, found: Candidate, target: Target, now: datetime
) -> Candidate | None:
    """The candidate whose plan is being made, waits or is approved, while ``found`` is newer.

    Args:
        status: has the plan.
        spec: must still admit that version.
        found: what the registry has.
        target: for ``found``; its values and spec must be those of the plan.
        now: a plan whose time to be decided is over isn't kept.
    """
    plan = status.plan
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    if not waits or plan.decision == PlanDecision.REJECTED or is_spent(status):
        return None
    same = (plan.values_hash, plan.spec_hash) == (target.values_hash, target.spec_hash)
    if not same or _has_expired(plan, now) or plan.digest == status.deployed.digest:
        return None
    candidate = Candidate(plan.version or "", plan.digest or "")
    if candidate == found or not admits(spec, candidate.version):
        return None
    if is_below(found.version, candidate.version):  # its tag was deleted
        return None
    return candidate


def begun(
    status: BundleStatus, target: Target, job: str, now: datetime, *, is_requested: bool = False
) -> BundleStatus:
    """The status with a new plan recorded; its Job is created afterwards.

    ``is_requested``: a user asks for a deploy, which an approval of an earlier one doesn't cover.
    """
    before = status.plan
    same = _is_for(before, target)
    failed = same and before.outcome == PlanOutcome.FAILED
    plan = PlanStatus(
        job=job,
        number=(before.number or 0) + 1,
        outcome=PlanOutcome.RUNNING,
        failures=before.failures if failed else None,
        version=target.version,
        digest=target.digest,
        values_hash=target.values_hash,
        spec_hash=target.spec_hash,
        job_hash=target.job_hash,
        started_at=format_time(now),
        approved=before.approved if same and _holds(status, is_requested) else ApprovedPlan(),
    )
    return replace(status, plan=plan)


def _holds(status: BundleStatus, is_requested: bool) -> bool:
    """Whether the approval may carry over to a plan of the same: its deploy hasn't succeeded."""
    if not is_spent(status):
        return True
    return not is_requested and _is_tried(status)


def _is_tried(status: BundleStatus) -> bool:
    """Whether the last attempt was at what the plan was made of, and didn't succeed."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    return failed and _content(status.attempted) == _content(status.plan)


def dropped(status: BundleStatus, target: Target) -> BundleStatus:
    """The status without a plan of something that isn't to be deployed any more.

    A plan that was deployed stays, and one of what is deployed, which a user asked for.
    """
    plan = status.plan
    if plan.outcome is None or is_spent(status) or _is_for(plan, target):
        return status
    return replace(status, plan=PlanStatus(number=plan.number))


def failed(
    status: BundleStatus, reason: BundleReason, message: str, retry: Retry, now: datetime
) -> BundleStatus:
    """The status where no plan could be made: it is made again, a limited number of times."""
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


def needed(status: BundleStatus) -> tuple[str | None, ...]:
    """The Jobs whose Secrets are still needed."""
    plan, attempted = status.plan, status.attempted
    found = [plan.approved.job, status.baseline.job]
    if plan.outcome != PlanOutcome.FAILED:
        found.append(plan.job)
    if attempted.outcome == Outcome.RUNNING:
        found += [attempted.job, attempted.plan_job]
    return tuple(found)


def ended_since(status: BundleStatus, then: datetime) -> bool:
    """Whether a plan or a planned attempt has ended since."""
    plan, attempted = status.plan, status.attempted
    ends = [plan.made_at or plan.started_at]
    if attempted.plan_job is not None:
        ends.append(attempted.finished_at)
    return any(end >= then for end in map(parse_time, ends) if end is not None)


@dataclass(frozen=True, slots=True)
class Made:
    """What a plan Job found."""

    plan: Plan
    missing_namespace: str | None
    """The release's namespace, where it doesn't exist."""
    seal: str
    """Of the Secret that holds the operations."""
    approved: Plan | None = None
    """The plan that was approved last; None where none was, or it can't be read."""
    baseline: Plan | None = None
    """The baseline; likewise."""


def planned(status: BundleStatus, made: Made, spec: BundleSpec, now: datetime) -> BundleStatus:
    """The status with a plan that was made; an approval of the same deploy carries over."""
    before = status.plan
    operations = effects(made.plan, made.missing_namespace)
    found = risky(operations, made.baseline.operations if made.baseline else ())
    plan = replace(
        before,
        outcome=PlanOutcome.PLANNED,
        reason=None,
        message=None,
        failures=None,
        next_retry_at=None,
        made_at=format_time(now),
        expires_at=format_time(now + timedelta(seconds=spec.approval.expires)),
        id=_id(before, made.plan.revision, operations),
        revision=made.plan.revision,
        operations=len(operations),
        counts=OperationCounts.parse(counts(operations)),
        risky=tuple(str(one) for one in found[:MAX_RISKY]),
        risky_operations=len(found),
        seal=made.seal,
    )
    if _covers(status, made, operations):
        plan = replace(
            plan,
            decision=PlanDecision.APPROVED,
            by=before.approved.by,
            at=before.approved.at,
        )
    return _with_baseline(replace(status, plan=plan), spec)


def _covers(status: BundleStatus, made: Made, found: Collection[Operation]) -> bool:
    """Whether all that was found was approved, or follows from an attempt at it."""
    approved = made.approved
    if approved is None:
        return False
    operations = approved.operations
    if made.missing_namespace is not None:
        whole = effects(approved, made.missing_namespace)
        if _id(status.plan, approved.revision, whole) == status.plan.approved.id:
            operations = whole
    return covers(operations, found) if _is_tried(status) else set(found) <= set(operations)


def _id(plan: PlanStatus, revision: int, operations: Collection[Operation]) -> str:
    return plan_id(
        digest=plan.digest or "",
        values_hash=plan.values_hash,
        job={"hash": plan.job_hash},
        revision=revision,
        operations=operations,
    )


def _with_baseline(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status whose first plan of what is deployed is the baseline."""
    plan = status.plan
    is_first = _content(plan) == _content(status.deployed) != _content(status.baseline)
    if spec.approval.mode is not ApprovalMode.ON_RISK or not is_first:
        return status
    baseline = Baseline(
        digest=plan.digest,
        values_hash=plan.values_hash,
        spec_hash=plan.spec_hash,
        job=plan.job,
        seal=plan.seal,
    )
    return replace(status, baseline=baseline)


def decided(status: BundleStatus, annotations: Mapping[str, str], now: datetime) -> BundleStatus:
    """The status with the decision that the annotations name, taken when it is first seen.

    So a tool that removes them later changes nothing. An ID that isn't the plan's means nothing,
    nor does a decision without the name of who made it, which anybody may remove.
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
    """The status whose new attempt deploys what the plan says."""
    plan = status.plan
    attempted = replace(status.attempted, plan=plan.id, plan_job=plan.job, approved_by=plan.by)
    return replace(status, attempted=attempted)


def unused(status: BundleStatus) -> BundleStatus:
    """The status whose new attempt needs no plan: what was planned or approved before is void."""
    return replace(status, plan=PlanStatus(number=status.plan.number))


def passes(plan: PlanStatus, mode: ApprovalMode) -> bool:
    """Whether a plan may be deployed."""
    if plan.outcome != PlanOutcome.PLANNED or plan.decision == PlanDecision.REJECTED:
        return False
    if plan.decision == PlanDecision.APPROVED:
        return True
    return mode is ApprovalMode.ON_RISK and not plan.risky_operations


def _judge(spec: BundleSpec, _candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    status, target = facts.status, facts.target
    assert target is not None, "a moment gate is asked about a deploy"
    if _keeps_changing(status, target, spec) and not facts.is_requested:
        return Refused(
            BundleReason.PLAN_UNSTABLE,
            "what was planned can't be deployed, as its Jobs found again and again: "
            f"{status.attempted.message}. It isn't tried again until the version, the spec or the "
            f"values change, or until {_command('reconcile', spec)}",
        )
    plan = status.plan
    if must_plan(status, target, now) or plan.outcome == PlanOutcome.RUNNING:
        return Waiting(BundleReason.PLANNING, plan.message or "the deploy is being planned")
    if plan.outcome == PlanOutcome.FAILED:
        return _failure(plan)
    if passes(plan, spec.approval.mode):
        return PASSED
    if plan.decision == PlanDecision.REJECTED:
        return Refused(BundleReason.PLAN_REJECTED, f"plan {plan.id} was rejected{_by(plan)}")
    text = f"plan {plan.id} ({summary(plan)}) waits for approval: {_command('approve', spec)}"
    return Waiting(BundleReason.AWAITING_APPROVAL, text, parse_time(plan.expires_at))


def _keeps_changing(status: BundleStatus, target: Target, spec: BundleSpec) -> bool:
    """Whether deploys of the same ended so often because their plan had changed."""
    attempted = status.attempted
    same = _content(attempted) == _content(target)
    changed = attempted.reason in (BundleReason.PLAN_CHANGED, BundleReason.PLAN_FAILED)
    return same and changed and (attempted.interruptions or 0) > spec.retry.limit


def _failure(plan: PlanStatus) -> Verdict:
    due = parse_time(plan.next_retry_at)
    if due is None:
        text = f"no plan could be made {plan.failures} times: {plan.message}"
        return Refused(BundleReason.PLAN_UNSTABLE, text)
    return Waiting(plan.reason or BundleReason.PLAN_FAILED, plan.message or "", due)


def _command(verb: str, spec: BundleSpec) -> str:
    return f"copyrator {verb} bundle -n {spec.namespace} {spec.name}"


def _by(plan: PlanStatus) -> str:
    return f" by {plan.by}" if plan.by else ""


def summary(plan: PlanStatus) -> str:
    """The plan in a few words: ``2 create, 1 delete; 1 risky``."""
    found = plan.counts
    parts = (
        f"{number} {name}"
        for name, number in (
            ("create", found.create),
            ("update", found.update),
            ("delete", found.delete),
            ("recreate", found.recreate),
            ("blind apply", found.apply),
        )
        if number
    )
    text = ", ".join(parts) or "no changes"
    return text + (f"; {plan.risky_operations} risky" if plan.risky_operations else "")


GATE: Final = Gate(
    name="approval",
    concerns=lambda spec: spec.approval.is_asked,
    occasions=frozenset(Occasion),
    judge=_judge,
)
