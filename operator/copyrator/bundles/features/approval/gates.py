"""The gate of approval: a deploy waits for its plan, and for a user's decision about it. Pure.

The annotations are seen as they are now: what was set and removed in between isn't known. So a
rejection wins over an approval, and an approval that was there when a plan was rejected doesn't
count when the rejection's annotation is gone: only one that is set after it was seen absent
(docs/adr/0022-plans-and-approval.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, GateStatus
from copyrator.api.names import (
    ANN_APPROVED_BY,
    ANN_APPROVED_PLAN,
    ANN_DISABLE_AUTOUPDATE,
    ANN_REJECTED_PLAN,
    ANN_REJECTION_REASON,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.structs import replace
from copyrator.api.text import format_time, one_line, parse_time, times
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    GateResult,
    Gates,
    Occasion,
    Refused,
    Verdict,
    Waiting,
    record_verdicts,
    uses,
)
from copyrator.bundles.features.approval.record import APPROVAL, must_plan
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.plans.fields import (
    MAX_DECISION_REASON,
    MAX_REJECTED_CONTENTS,
    ApprovalMode,
    ApprovalSpec,
    ApprovedPlan,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
    RejectedPlan,
)
from copyrator.bundles.plans.operations import describe_counts
from copyrator.bundles.plans.plan_words import UNKNOWN, find_lacking, find_uncertain
from copyrator.bundles.plans.record import PlanTarget, content_of, is_spent

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
    return status if plan == status.part(PlanStatus) else status.with_part(plan)


def has_new_decision(status: BundleStatus, annotations: Mapping[str, str]) -> bool:
    """Whether the annotations decide something that the status doesn't have yet."""
    return _decide(status, annotations, "") != status.part(PlanStatus)


def _decide(status: BundleStatus, annotations: Mapping[str, str], at: str) -> PlanStatus:
    plan = status.part(PlanStatus)
    by = _decider(annotations)
    approved, rejected = annotations.get(ANN_APPROVED_PLAN), annotations.get(ANN_REJECTED_PLAN)
    is_planned = plan.outcome == PlanOutcome.PLANNED and plan.id is not None
    is_rejected = is_planned and plan.decision == PlanDecision.REJECTED
    names_it = is_planned and rejected == plan.id
    if (names_it and not is_rejected) or (rejected and rejected == plan.approved.id):
        return _reject(plan, rejected or "", annotations, at)
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
        decision_reason=None,
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
            exact=plan.exact,
            enforced=plan.enforced,
            image=plan.image,
        ),
    )


def _decider(annotations: Mapping[str, str]) -> str:
    return annotations.get(ANN_APPROVED_BY, "")[:_NAME_LENGTH]


def _reject(plan: PlanStatus, plan_id: str, annotations: Mapping[str, str], at: str) -> PlanStatus:
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
    reason = one_line(annotations.get(ANN_REJECTION_REASON, ""), MAX_DECISION_REASON)
    return replace(
        plan,
        decision=PlanDecision.REJECTED,
        by=_decider(annotations) or None,
        at=at,
        decision_reason=reason or None,
        approval_cleared=annotations.get(ANN_APPROVED_PLAN) != plan.id,
    )


def _other_contents(rejected: RejectedPlan, plan: PlanStatus) -> tuple[str, ...]:
    """The inputs of rejected plans, but this one's."""
    content = hash_of(*content_of(plan))
    return tuple(one for one in rejected.contents if one != content)


def use_plan(status: BundleStatus) -> BundleStatus:
    """The status whose new attempt deploys the plan."""
    plan = status.part(PlanStatus)
    attempted = replace(status.attempted, plan=plan.id, plan_job=plan.job, approved_by=plan.by)
    return replace(status, attempted=attempted)


_NAMED: Final = 3
"""Reasons that a message names."""


def passes(plan: PlanStatus, approval: ApprovalSpec) -> bool:
    """Whether a plan may be deployed; one that isn't enforced, and bound or exact, is risky."""
    if plan.outcome != PlanOutcome.PLANNED or plan.decision == PlanDecision.REJECTED:
        return False
    is_certain = not any(_uncertainties(plan))
    if approval.must_be_bound and not is_certain:
        return False
    if plan.decision == PlanDecision.APPROVED:
        return True
    if approval.mode is not ApprovalMode.ON_RISK or plan.risky_operations or not is_certain:
        return False
    return hash_of(*content_of(plan)) not in plan.rejected.contents


def _judge(spec: BundleSpec, _candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    status, target = facts.status, facts.findings.of(PlanTarget)
    assert target is not None, "a moment gate judges a deploy"
    if _keeps_changing(status, target, spec) and not facts.is_requested:
        return Refused(
            BundleReason.PLAN_UNSTABLE,
            "what was planned couldn't be deployed by several Jobs: "
            f"{status.attempted.message}. It isn't tried again until the version, the spec or the "
            f"values change, or until {_command('reconcile', spec)}",
        )
    plan = status.part(PlanStatus)
    is_due = must_plan(status, target, now)
    if is_due or plan.outcome == PlanOutcome.RUNNING:
        if spec.suspend and is_due:
            text = "nothing is planned while spec.suspend is true, unless a plan is requested"
            return Waiting(BundleReason.SUSPENDED, f"{text}: {_command('plan', spec)} --refresh")
        message = None if is_due else plan.message  # where it is due, that is of an earlier plan
        return Waiting(BundleReason.PLANNING, message or _planned_first(target.version))
    if plan.outcome == PlanOutcome.FAILED:
        return _failure(plan)
    if passes(plan, spec.part(ApprovalSpec)):
        return PASSED
    return _undecided_verdict(plan, spec)


def _undecided_verdict(plan: PlanStatus, spec: BundleSpec) -> Verdict:
    """The verdict on a plan that may not be deployed."""
    if plan.decision == PlanDecision.REJECTED:
        text = f"{_describe_plan(plan)} was rejected{plan.by_whom_and_why}"
        return Refused(BundleReason.PLAN_REJECTED, text)
    if spec.part(ApprovalSpec).must_be_bound and (faults := list(_uncertainties(plan))):
        text = (
            f"{_describe_plan(plan)} isn't enforced, and bound or exact, as "
            f"bundles.requireBoundPlans requires in this namespace. {'. '.join(faults)}. "
            "Correct that, or ask an administrator to change the setting"
        )
        return Refused(BundleReason.PLAN_UNBOUND, text)
    why = f", as {plan.message}" if plan.message else ""
    what = f"{_describe_plan(plan)} ({summary(plan)})"
    text = f"{what} waits for approval{why}: {_command('approve', spec)}"
    return Waiting(BundleReason.AWAITING_APPROVAL, text, parse_time(plan.expires_at))


def _uncertainties(plan: PlanStatus) -> Iterator[str]:
    """Why a plan isn't enforced, and bound or exact; nothing where it is."""
    for word in find_uncertain(plan):
        reasons = "; ".join(word.reasons(plan)[:_NAMED]) or UNKNOWN
        yield f"{word.negation.capitalize()}: {reasons}"


def _planned_first(version: str | None) -> str:
    """True both while the plan is being made and before it can be begun."""
    return f"the deploy of {version} is planned first"


def _keeps_changing(status: BundleStatus, target: PlanTarget, spec: BundleSpec) -> bool:
    """Whether deploys of the same input ended too often because their plan had changed."""
    attempted = status.attempted
    same = content_of(attempted) == content_of(target)
    changed = attempted.reason in (BundleReason.PLAN_CHANGED, BundleReason.PLAN_FAILED)
    return same and changed and (attempted.interruptions or 0) > spec.retry.limit


def _failure(plan: PlanStatus) -> Verdict:
    due = parse_time(plan.next_retry_at)
    if due is None:
        text = f"planning failed {times(plan.failures or 0)}: {plan.message}"
        return Refused(BundleReason.PLAN_UNSTABLE, text)
    return Waiting(
        BundleReason.read(plan.reason or BundleReason.PLAN_FAILED), plan.message or "", due
    )


def _command(verb: str, spec: BundleSpec) -> str:
    return f"copyrator {verb} bundle -n {spec.namespace} {spec.name}"


def _describe_plan(plan: PlanStatus) -> str:
    """The plan with its version, as a newer one may be available."""
    return f"plan {plan.id} of {plan.version}"


def summary(plan: PlanStatus) -> str:
    """The number of a plan's operations by type: ``2 create, 1 delete; 1 risky``."""
    text = describe_counts(plan.counts) or "no changes"
    text += f"; {plan.risky_operations} risky" if plan.risky_operations else ""
    return "; ".join((text, *(word.lack for word in find_lacking(plan))))


def record_planning(status: BundleStatus) -> BundleStatus:
    """The status of a Bundle whose plan begins; its gates were evaluated before."""
    begins = Waiting(BundleReason.PLANNING, _planned_first(status.part(PlanStatus).version))
    return _set_verdict(status, begins, lambda _: True)


def record_pause(status: BundleStatus) -> BundleStatus:
    """The status of a Bundle whose updates are disabled, so that nothing is planned."""
    text = f"nothing is planned until the annotation {ANN_DISABLE_AUTOUPDATE} is removed"
    waits = Waiting(BundleReason.AUTOUPDATE_DISABLED, text)
    return _set_verdict(status, waits, lambda gate: gate.reason == BundleReason.PLANNING)


def _set_verdict(
    status: BundleStatus, verdict: Waiting, replaces: Callable[[GateStatus], bool]
) -> BundleStatus:
    """The status with this verdict in place of the gate's record, where ``replaces`` is true."""
    (ours,) = record_verdicts([GateResult(GATE.name, verdict)])
    gates = (ours if one.name == GATE.name and replaces(one) else one for one in status.gates)
    return replace(status, gates=tuple(gates))


GATE: Final = Gate(
    name=APPROVAL,
    concerns=uses(ApprovalSpec),
    occasions=frozenset(Occasion) - {Occasion.CORRECTION},
    judge=_judge,
    until="the plan is made again",
    unjudged="it is about the plan of the deploy: {plan} shows it",
)


GATES: Final = Gates(moment=(GATE,))
