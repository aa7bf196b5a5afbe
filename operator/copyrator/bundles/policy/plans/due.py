"""When a plan is made, for which version, and whether the status has a valid one. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Protocol

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, GateState
from copyrator.api.plan_status import PlanDecision, PlanOutcome, PlanStatus
from copyrator.api.times import parse_time
from copyrator.bundles.policy.criteria import admits, is_below
from copyrator.bundles.policy.gates import Candidate, Target, judged_next

APPROVAL: Final = "approval"
"""The name of the gate that waits for plans."""


def is_current(status: BundleStatus, target: Target) -> bool:
    """Whether the plan in the status was made of this input, and no attempt has begun with it."""
    plan = status.plan
    return plan.outcome is not None and is_for(plan, target) and not is_spent(status)


def is_spent(status: BundleStatus) -> bool:
    """Whether an attempt has begun with the plan."""
    return status.plan.job is not None and status.plan.job == status.attempted.plan_job


def is_for(plan: PlanStatus, target: Target) -> bool:
    """Whether a plan was made of this input."""
    return target == Target(
        version=plan.version or "",
        digest=plan.digest or "",
        values_hash=plan.values_hash,
        spec_hash=plan.spec_hash or "",
        job_hash=plan.job_hash or "",
    )


def is_free_for(status: BundleStatus, target: Target) -> bool:
    """Whether the record may be of a plan of this input: no other deploy has a plan there."""
    plan = status.plan
    return plan.outcome is None or is_spent(status) or is_for(plan, target)


class _Made(Protocol):
    """A record of something that was made of a digest, values and a spec."""

    @property
    def digest(self) -> str | None: ...
    @property
    def values_hash(self) -> str | None: ...
    @property
    def spec_hash(self) -> str | None: ...


def content_of(made_of: _Made) -> tuple[str | None, str | None, str | None]:
    """The input of a deploy or plan except its version's name: digest, values and spec."""
    return made_of.digest, made_of.values_hash, made_of.spec_hash


def must_plan(status: BundleStatus, target: Target, now: datetime) -> bool:
    """Whether a plan has to be made now, before the deploy can continue."""
    plan = status.plan
    if not is_current(status, target):
        return True
    if plan.outcome == PlanOutcome.FAILED:
        due = parse_time(plan.next_retry_at)
        return due is not None and now >= due
    return plan.outcome == PlanOutcome.PLANNED and _has_expired(plan, now)


def next_check(status: BundleStatus) -> datetime | None:
    """When a gate's verdict changes by itself, or a failed plan is retried; None: neither.

    A failed plan that no deploy waits for, such as one that a user requested, isn't retried.
    """
    plan, due = status.plan, None
    if plan.outcome == PlanOutcome.FAILED and _waits_for_plan(status):
        due = parse_time(plan.next_retry_at)
    return min((at for at in (due, judged_next(status.gates)) if at is not None), default=None)


def _waits_for_plan(status: BundleStatus) -> bool:
    return any(one.name == APPROVAL and one.state == GateState.WAITING for one in status.gates)


def waits_until(status: BundleStatus, now: datetime) -> datetime | None:
    """When the plan expires; None where it doesn't wait for a decision."""
    plan, end = status.plan, parse_time(status.plan.expires_at)
    is_open = plan.outcome == PlanOutcome.PLANNED and plan.decision is None
    return end if is_open and end and now < end and not is_spent(status) else None


def _has_expired(plan: PlanStatus, now: datetime) -> bool:
    expires = parse_time(plan.expires_at)
    return plan.decision is None and expires is not None and now >= expires


def awaited(status: BundleStatus) -> PlanStatus:
    """The plan of a deploy that hasn't begun; an empty record where there is none."""
    waits = status.plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    return status.plan if waits and not is_spent(status) else PlanStatus()


def kept(
    status: BundleStatus, spec: BundleSpec, found: Candidate, target: Target, now: datetime
) -> Candidate | None:
    """The candidate whose plan is kept though ``found`` is newer; None where none is.

    A plan is kept while it is being made, waits or is approved.

    Args:
        status: with the plan.
        spec: must still admit the plan's version.
        found: the registry's version.
        target: the input for ``found``; its values and spec must be those of the plan.
        now: the time; an expired plan isn't kept.
    """
    plan = status.plan
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    if not waits or plan.decision == PlanDecision.REJECTED or is_spent(status):
        return None
    same = (plan.values_hash, plan.spec_hash) == (target.values_hash, target.spec_hash)
    if not same or _has_expired(plan, now) or plan.digest == status.deployed.digest:
        return None
    candidate = Candidate(plan.version or "", plan.digest or "")
    if candidate.digest in spec.skip_digests:
        return None
    if candidate == found or not admits(spec, candidate.version):
        return None
    if is_below(found.version, candidate.version):  # its tag was deleted
        return None
    return candidate
