"""The plan of the next deploy in the status: when one is made, and how long it holds. Pure.

It is made of a version's digest, the values, the spec and the operator's settings. It is spent once
an attempt has begun with it; the next attempt needs another plan. An approval is valid until then,
and carries over to a retry's plan without further operations (``operations.covers``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import PASSING, BundleStatus, Outcome
from copyrator.api.names import ANN_PLAN_AT, ANN_PLAN_VERSION
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.engine.gate import Candidate
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.jobs.pod import LONG_TTL, Kept
from copyrator.bundles.plans.fields import (
    ApprovalSpec,
    ApprovedPlan,
    PlanDecision,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
)
from copyrator.bundles.plans.operations import Operation, Plan, covers, effects, has_further_objects
from copyrator.bundles.plans.record import (
    NewPlan,
    PlanFault,
    PlanPurpose,
    PlanResult,
    PlanTarget,
    content_of,
    id_of,
    is_exact,
    is_for,
    is_spent,
    summarize_result,
    unbound_reasons,
)
from copyrator.bundles.plans.rights import missing_of
from copyrator.bundles.tags import admits, is_below

APPROVAL: Final = "approval"
"""The name of the gate that waits for plans."""


class DeployPurpose(PlanPurpose):
    """The next deploy, which is compared with it."""

    keeps_inputs = True

    def record(self, status: BundleStatus) -> PlanStatus:
        """``status.plan``."""
        return status.part(PlanStatus)

    def begin(self, new: NewPlan) -> PlanStatus:
        """An approval may carry over to a plan of the same input until the deploy has succeeded."""
        status, before = new.status, new.status.part(PlanStatus)
        same = is_for(before, new.target)
        failed = same and before.outcome == PlanOutcome.FAILED
        is_open = not is_spent(status) or (not new.is_requested and _is_tried(status))
        return structs.replace(
            before.remove_plan(),
            **new.compared,
            pinned=new.target.digest == status.pin.digest or None,
            failures=before.failures if failed else None,
            interruptions=before.interruptions if failed else None,
            approved=before.approved if same and is_open else ApprovedPlan(),
            missing=missing_of(status),  # until this plan's are known
        )

    def failed(
        self, status: BundleStatus, why: PlanFault, retry: Retry, now: datetime
    ) -> dict[str, Any]:
        """It is made again up to the limit; without one where another cluster doesn't answer."""
        is_away, due = why.reason in PASSING, None
        name = "interruptions" if is_away else "failures"
        number = (getattr(status.part(PlanStatus), name) or 0) + 1
        if is_away or number <= retry.limit:
            due = format_time(now + timedelta(seconds=retry_delay(retry.backoff, number)))
        return {"interruptions": None, name: number, "next_retry_at": due}


DEPLOY: Final = DeployPurpose()


def is_current(status: BundleStatus, target: PlanTarget) -> bool:
    """Whether the plan in the status was made of this input, and no attempt has begun with it."""
    plan = status.part(PlanStatus)
    return plan.outcome is not None and is_for(plan, target) and not is_spent(status)


def must_plan(status: BundleStatus, target: PlanTarget, now: datetime) -> bool:
    """Whether a plan has to be made now, before the deploy can continue."""
    plan = status.part(PlanStatus)
    if not is_current(status, target):
        return True
    if plan.outcome == PlanOutcome.FAILED:
        due = parse_time(plan.next_retry_at)
        return due is not None and now >= due
    return plan.outcome == PlanOutcome.PLANNED and _has_expired(plan, now)


def awaits_approval_since(status: BundleStatus) -> datetime | None:
    """When the plan that waits for a decision was made; None where none does."""
    waits = any(one.reason == BundleReason.AWAITING_APPROVAL for one in status.gates)
    return parse_time(status.part(PlanStatus).made_at) if waits else None


def waits_until(status: BundleStatus, now: datetime) -> datetime | None:
    """When the plan expires; None where it doesn't wait for a decision."""
    plan, end = status.part(PlanStatus), parse_time(status.part(PlanStatus).expires_at)
    is_open = plan.outcome == PlanOutcome.PLANNED and plan.decision is None
    return end if is_open and end and now < end and not is_spent(status) else None


def _has_expired(plan: PlanStatus, now: datetime) -> bool:
    expires = parse_time(plan.expires_at)
    return plan.decision is None and expires is not None and now >= expires


def awaited_plan(status: BundleStatus) -> PlanStatus:
    """The plan of a deploy that hasn't begun; an empty record where there is none."""
    waits = status.part(PlanStatus).outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    is_open = waits and not is_spent(status) and not _is_left_by_pin(status)
    return status.part(PlanStatus) if is_open else PlanStatus()


def _is_left_by_pin(status: BundleStatus) -> bool:
    """Whether the plan is of another version than the pinned one, or of one that was unpinned."""
    plan, pin = status.part(PlanStatus), status.pin
    return plan.digest != pin.digest and bool(pin.digest or plan.pinned)


def kept_candidate(
    status: BundleStatus, spec: BundleSpec, found: Candidate, target: PlanTarget, now: datetime
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
    plan = status.part(PlanStatus)
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    is_over = plan.decision == PlanDecision.REJECTED or is_spent(status)
    if not waits or is_over or _is_left_by_pin(status):
        return None
    same = (plan.values_hash, plan.spec_hash) == (target.values_hash, target.spec_hash)
    if not same or _has_expired(plan, now) or plan.digest == status.deployed.digest:
        return None
    candidate = Candidate(plan.version or "", plan.digest or "")
    if candidate.digest in spec.excluded:
        return None
    if candidate == found or not admits(spec, candidate.version):
        return None
    if is_below(found.version, candidate.version):  # its tag was deleted
        return None
    return candidate


def _is_tried(status: BundleStatus) -> bool:
    """Whether the last attempt had the plan's input, and didn't succeed."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    return failed and content_of(status.attempted) == content_of(status.part(PlanStatus))


def drop_plan(status: BundleStatus, target: PlanTarget) -> BundleStatus:
    """The status without a plan whose input isn't to be deployed any more.

    A plan that was deployed is kept, and so is one of what is deployed, which a user requested.
    """
    plan = status.part(PlanStatus)
    if plan.outcome is None or is_spent(status) or is_for(plan, target):
        return status
    return status.with_part(plan.remove_plan())


def withdraw_plan(status: BundleStatus, skipped: Collection[str]) -> BundleStatus:
    """The status without the plan of a skipped digest, or of one that a pin or its end has left.

    The next plan has another ID, so that an approval has ended.
    """
    plan = status.part(PlanStatus)
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED) and not is_spent(status)
    if not waits or not plan.job or (plan.digest not in skipped and not _is_left_by_pin(status)):
        return status
    return status.with_part(
        structs.replace(plan.remove_plan(), rejections=(plan.rejections or 0) + 1)
    )


def needed_jobs(status: BundleStatus) -> tuple[str | None, ...]:
    """The names of the Jobs of plans of deploys whose Secrets are still needed."""
    plan = status.part(PlanStatus)
    return plan.approved.job, None if plan.outcome == PlanOutcome.FAILED else plan.job


def record_result(
    status: BundleStatus, made: PlanResult, spec: BundleSpec, now: datetime
) -> BundleStatus:
    """The status with a plan that was made; an approval of the same deploy carries over."""
    before = status.part(PlanStatus)
    operations, fields = summarize_result(made)
    plan = structs.replace(
        before,
        **fields,
        failures=None,
        interruptions=None,
        next_retry_at=None,
        made_at=format_time(now),
        expires_at=format_time(now + timedelta(seconds=spec.part(ApprovalSpec).expires)),
        id=_unused_id(id_of(before, made.plan, operations, before.rejections), status),
        seal=made.seal,
        enforced=not made.unenforced,
        unenforced=made.unenforced or None,
        rollback_withheld=made.rollback_withheld or None,
    )
    if not _is_covered(status, made, operations):
        plan = structs.replace(plan, message=_why_uncovered(status, made))
    else:
        given = before.approved
        plan = structs.replace(plan, decision=PlanDecision.APPROVED, by=given.by, at=given.at)
    return status.with_part(plan)


def _why_uncovered(status: BundleStatus, made: PlanResult) -> str | None:
    """Why an approval that was given doesn't carry over to the plan; None without one."""
    before, approved = status.part(PlanStatus), made.approved
    if approved is None:
        return None
    if approved.render == made.plan.render:
        what = "other operations"
        if before.approved.image != made.plan.image:
            what = "another image of werf"
        elif before.approved.enforced and made.unenforced:
            what = "a deploy that the API server holds to its plan, which it can't now"
        elif _is_other_file(status, approved, made.plan):
            what = "objects of the release that have changed since, or the chart draws"
        return f"the approval of plan {before.approved.id} was of {what}"
    return (
        f"the approval of plan {before.approved.id} was of other contents, which a chart gives "
        "that prints the release's revision or branches on .Release.IsInstall"
    )


def _is_covered(status: BundleStatus, made: PlanResult, found: Collection[Operation]) -> bool:
    """Whether all operations were approved, or follow from an attempt with the approval."""
    approved = made.approved
    if approved is None or approved.render != made.plan.render:
        return False
    given = status.part(PlanStatus).approved
    unbound = unbound_reasons(made.plan)
    weaker = (given.bound and unbound) or (given.exact and unbound and not is_exact(made.plan))
    if given.image != made.plan.image or weaker or (given.enforced and made.unenforced):
        return False  # another werf would deploy, or more than was approved
    if has_further_objects(approved, made.plan) or (
        unbound and _is_other_file(status, approved, made.plan)
    ):
        return False
    operations = approved.operations
    if made.missing_namespace is not None:
        whole = effects(approved, made.missing_namespace)
        plan = status.part(PlanStatus)
        if id_of(plan, approved, whole, plan.rejections) == given.id:
            operations = whole
    if _is_tried(status) and _is_approved_before(status):
        return covers(operations, found)
    return set(found) <= set(operations)


_NOTHING_WRITTEN: Final = (
    BundleReason.PLAN_CHANGED,
    BundleReason.PLAN_FAILED,
    BundleReason.GUARD_NOT_ACTIVE,
    BundleReason.FROZEN,
)
"""Reasons of attempts that ended before werf's apply; one before them may have failed in it."""


def _is_other_file(status: BundleStatus, approved: Plan, plan: Plan) -> bool:
    """Whether werf saved another plan than the approved one, and no attempt explains that.

    An attempt that did a part of it, or may have, left another state: then the file can't be equal.
    """
    if approved.exact is None or approved.exact == plan.exact:
        return False
    is_tried = _is_tried(status) and _is_approved_before(status)
    attempted = status.attempted
    return not is_tried or (attempted.reason in _NOTHING_WRITTEN and not attempted.failures)


def _is_approved_before(status: BundleStatus) -> bool:
    """Whether the approval is older than the last attempt, so that the attempt used it."""
    started, at = (
        parse_time(status.attempted.started_at),
        parse_time(status.part(PlanStatus).approved.at),
    )
    return started is not None and at is not None and at <= started


def _unused_id(plan_id_: str, status: BundleStatus) -> str:
    """The ID, or another one where that of an earlier plan was deployed successfully.

    Plans are equal again where a release was uninstalled by hand, or where nothing is to be done.
    The annotation that approved the earlier one is mostly still there.
    """
    deployed = {one.plan for one in status.past if one.outcome == Outcome.SUCCEEDED}
    return hash_of(plan_id_, status.attempted.attempt) if plan_id_ in deployed else plan_id_


def keep_plan(job: str, status: BundleStatus, now: datetime) -> Kept | None:
    """How long a plan's Job is kept after its end: its log has what people read.

    It must not be deleted while its plan isn't read yet, or waits for a decision. None: the plan
    in the status isn't of this Job.
    """
    if job != (plan := status.part(PlanStatus)).job:
        return None
    until = waits_until(status, now)
    return Kept(None if plan.is_running or until is not None else LONG_TTL, until=until)


def requested_plan(annotations: Mapping[str, str], status: BundleStatus) -> str | None:
    """The value of plan-at, where a plan of the next deploy is requested; None once handled."""
    token = annotations.get(ANN_PLAN_AT)
    is_new = (
        token != status.part(PlanRequests).last_handled_plan and ANN_PLAN_VERSION not in annotations
    )
    return token if is_new else None
