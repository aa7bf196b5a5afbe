"""The gate of approval: a deploy waits for its plan, and for a decision about it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Final

from copyrator.api.bundle_spec import Approval, ApprovalMode, BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, GateStatus
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.plan_status import PlanDecision, PlanOutcome, PlanStatus
from copyrator.api.text import times
from copyrator.api.times import parse_time
from copyrator.bundles.deploy.identity import hash_of
from copyrator.bundles.gates.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    GateResult,
    Occasion,
    PlanTarget,
    Refused,
    Verdict,
    Waiting,
    record_verdicts,
)
from copyrator.bundles.plan.operations import describe_counts
from copyrator.bundles.plan.record import APPROVAL, content_of, must_plan

_NAMED: Final = 3
"""Reasons that a message names."""


def passes(plan: PlanStatus, approval: Approval) -> bool:
    """Whether a plan may be deployed. One that isn't bound is risky."""
    if plan.outcome != PlanOutcome.PLANNED or plan.decision == PlanDecision.REJECTED:
        return False
    if approval.must_be_bound and not plan.bound:
        return False
    if plan.decision == PlanDecision.APPROVED:
        return True
    if approval.mode is not ApprovalMode.ON_RISK or plan.risky_operations or not plan.bound:
        return False
    return hash_of(*content_of(plan)) not in plan.rejected.contents


def _judge(spec: BundleSpec, _candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    status, target = facts.status, facts.target
    assert target is not None, "a moment gate judges a deploy"
    if _keeps_changing(status, target, spec) and not facts.is_requested:
        return Refused(
            BundleReason.PLAN_UNSTABLE,
            "what was planned couldn't be deployed by several Jobs: "
            f"{status.attempted.message}. It isn't tried again until the version, the spec or the "
            f"values change, or until {_command('reconcile', spec)}",
        )
    plan = status.plan
    is_due = must_plan(status, target, now)
    if is_due or plan.outcome == PlanOutcome.RUNNING:
        return _planning_verdict(plan, spec, target.version, is_begun=not is_due)
    if plan.outcome == PlanOutcome.FAILED:
        return _failure(plan)
    if passes(plan, spec.approval):
        return PASSED
    return _undecided_verdict(plan, spec)


def _undecided_verdict(plan: PlanStatus, spec: BundleSpec) -> Verdict:
    """The verdict on a plan that may not be deployed."""
    if plan.decision == PlanDecision.REJECTED:
        return Refused(
            BundleReason.PLAN_REJECTED, f"{_describe_plan(plan)} was rejected{_by(plan)}"
        )
    if spec.approval.must_be_bound and not plan.bound:
        why = "; ".join(plan.unbound[:_NAMED]) or "it was made before this was judged"
        text = (
            f"{_describe_plan(plan)} isn't bound, which bundles.requireBoundPlans requires in this "
            f"namespace: {why}. Change the chart, or ask an administrator to change the setting"
        )
        return Refused(BundleReason.PLAN_UNBOUND, text)
    why = f", as {plan.message}" if plan.message else ""
    what = f"{_describe_plan(plan)} ({summary(plan)})"
    text = f"{what} waits for approval{why}: {_command('approve', spec)}"
    return Waiting(BundleReason.AWAITING_APPROVAL, text, parse_time(plan.expires_at))


def _planning_verdict(
    plan: PlanStatus, spec: BundleSpec, version: str, *, is_begun: bool
) -> Waiting:
    if spec.suspend and not is_begun:
        text = "nothing is planned while spec.suspend is true, unless a plan is requested"
        return Waiting(BundleReason.SUSPENDED, f"{text}: {_command('plan', spec)} --refresh")
    message = plan.message if is_begun else None  # else it is of an earlier plan
    return Waiting(BundleReason.PLANNING, message or _planned_first(version))


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
    return Waiting(plan.reason or BundleReason.PLAN_FAILED, plan.message or "", due)


def _command(verb: str, spec: BundleSpec) -> str:
    return f"copyrator {verb} bundle -n {spec.namespace} {spec.name}"


def _describe_plan(plan: PlanStatus) -> str:
    """The plan with its version, as a newer one may be available."""
    return f"plan {plan.id} of {plan.version}"


def _by(plan: PlanStatus) -> str:
    return f" by {plan.by}" if plan.by else ""


def summary(plan: PlanStatus) -> str:
    """The number of a plan's operations by type: ``2 create, 1 delete; 1 risky``."""
    text = describe_counts(plan.counts) or "no changes"
    text += f"; {plan.risky_operations} risky" if plan.risky_operations else ""
    return text + ("; contents aren't bound" if plan.bound is False else "")


def record_planning(status: BundleStatus) -> BundleStatus:
    """The status of a Bundle whose plan begins; its gates were evaluated before."""
    begins = Waiting(BundleReason.PLANNING, _planned_first(status.plan.version))
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
    concerns=attrgetter("approval.is_enabled"),
    occasions=frozenset(Occasion) - {Occasion.CORRECTION},
    judge=_judge,
    until="the plan is made again",
    unjudged="it is about the plan of the deploy: {plan} shows it",
)
