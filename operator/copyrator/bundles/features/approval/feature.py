"""Deploys are planned first, and wait for somebody's approval."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.conditions import (
    PAUSES,
    ConditionStatus,
    ConditionType,
    NewConditions,
    ReadyCondition,
)
from copyrator.api.names import ANN_PLAN_AT
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.deciding import Proposal
from copyrator.bundles.engine.feature import Conclusion, Observed, P, Parts
from copyrator.bundles.engine.gate import Candidate, Findings
from copyrator.bundles.engine.step import Change, Step
from copyrator.bundles.features.approval.deploy_plans import DeployPlans
from copyrator.bundles.features.approval.endings import compares_stored, read_stored, record_end
from copyrator.bundles.features.approval.fields import (
    AS_APPROVED,
    AsApprovedStatus,
    as_approved_condition,
)
from copyrator.bundles.features.approval.gates import GATES, record_pause, use_plan
from copyrator.bundles.features.approval.metrics import ApprovalMetrics
from copyrator.bundles.features.approval.permissions import PermissionRecorder
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.features.approval.record import (
    DEPLOY,
    awaited_plan,
    awaits_approval_since,
    drop_plan,
    keep_plan,
    kept_candidate,
    needed_jobs,
    requested_plan,
    withdraw_plan,
)
from copyrator.bundles.features.approval.uninstalls import UninstallHolder
from copyrator.bundles.jobs.job import UninstallOrder
from copyrator.bundles.jobs.outcome import KILLED, Ending, JobRecord
from copyrator.bundles.jobs.pod import Kept
from copyrator.bundles.plans.endings import different_ending, planned_ending
from copyrator.bundles.plans.feature import HoldingFeature
from copyrator.bundles.plans.fields import (
    ApprovalSpec,
    PlanDecision,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
)
from copyrator.bundles.plans.jobs import LINE_BYTES
from copyrator.bundles.plans.machine import target_of

log = logging.getLogger(__name__)


class ApprovalFeature(HoldingFeature):
    """Plans, their approval, and what holds a deploy to its plan."""

    spec = ApprovalSpec
    status = (PlanStatus, AsApprovedStatus)
    annotation = ANN_PLAN_AT
    outlasts = True
    gates = GATES
    purposes = (DEPLOY,)
    corrects_drift = False

    def connect(self, parts: Parts) -> None:
        """Make what plans the next deploys, and what holds uninstalls to plans."""
        super().connect(parts)
        self._permissions = PermissionRecorder(self.context, self.planning.stored)
        self.plans = DeployPlans(self.planning, self._permissions)
        self._uninstalls = UninstallHolder(self.planning)

    async def stop(self) -> None:
        """End requests in flight."""
        await self._permissions.close()

    def publish(self) -> None:
        """Count the plans that wait for approval, and what was deployed as approved."""
        metrics, now = self.context.metrics.of(ApprovalMetrics), self.context.clock()
        stored: Counter[ConditionStatus] = Counter()
        waiting: list[datetime] = []
        for entry in self.context.bundles:
            status = entry.status
            found = as_approved_condition(status.part(AsApprovedStatus))
            stored.update(() if found is None else (found.status,))
            if not status.gates or status.ready_reason in PAUSES:
                continue
            if (made_at := awaits_approval_since(status)) is not None:
                waiting.append(made_at)
        for one in ConditionStatus:
            metrics.bundles_as_approved.labels(one).set(stored[one])
        metrics.plans_awaiting_approval.set(len(waiting))
        oldest = (now - min(waiting)).total_seconds() if waiting else 0.0
        metrics.oldest_plan_seconds.set(oldest)

    # --- a reconcile ------------------------------------------------------------------------------

    def review(self, entry: BundleEntry) -> Step:
        """Review the permissions that the deploy of a waiting plan needs."""
        assert isinstance(entry.spec, BundleSpec), "others' permissions aren't reviewed"
        return self._permissions.review(entry, entry.spec)

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> Observed:
        """The plan of the next deploy, and what a user has decided about it."""
        return await self.plans.progress(entry, spec)

    def undecided(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, missing: str | None
    ) -> BundleStatus:
        """The gate says that nothing is planned while updates are disabled."""
        is_paused = missing is None and not self.plans.is_job_created(entry, status)
        return record_pause(status) if is_paused else status

    def request(self, entry: BundleEntry, status: BundleStatus) -> str:
        """A plan of the next deploy."""
        return requested_plan(entry.annotations, status) or ""

    def awaits_answer(self, entry: BundleEntry) -> bool:
        """A plan's chart."""
        return entry.status.part(PlanStatus).is_running

    def awaits(self, status: BundleStatus) -> Candidate | None:
        """The version whose plan waits, or is approved."""
        plan = awaited_plan(status)
        return Candidate(plan.version or "", plan.digest) if plan.digest else None

    # --- a decision -------------------------------------------------------------------------------

    def propose(self, proposal: P) -> P:
        """The version whose plan waits, though a newer one was chosen; the input of its plan."""
        entry, spec, wanted = proposal.entry, proposal.spec, proposal.wanted
        status = withdraw_plan(proposal.status, spec.excluded)
        request = requested_plan(entry.annotations, entry.status)
        if not wanted.version and request is not None:
            # What refuses or lacks a version is in the conditions.
            status = status.with_part(PlanRequests(last_handled_plan=request))
        if not wanted.version or not (spec.uses(ApprovalSpec) or request is not None):
            return replace(proposal, status=status)
        target, waiting = target_of(entry, spec, wanted), None
        if not proposal.is_awaited_refused:
            found = Candidate(wanted.version, wanted.digest)
            waiting = kept_candidate(status, spec, found, target, proposal.now)
        plan, newer = status.part(PlanStatus), None
        if waiting is not None and request is None:
            newer = wanted.version
            wanted = replace(wanted, version=waiting.version, digest=waiting.digest)
            target = target_of(entry, spec, wanted)
        if plan.newer != newer:
            status = status.with_part(structs.replace(plan, newer=newer))
        decision = deciding.decide(status, wanted, spec.retry, proposal.now)
        if decision.action is deciding.DeployAction.NOTHING:
            status = drop_plan(status, target)
        findings = proposal.findings.replacing(target)
        return replace(proposal, status=status, wanted=wanted, findings=findings)

    async def precede(
        self,
        proposal: Proposal,
        verdict: ReadyCondition,
        find_account: Callable[[], Awaitable[Step | None]],
    ) -> Step | None:
        """Begin the plan that the gate waits for, or that a user requests."""
        return await self.plans.begin_required(proposal, verdict, find_account)

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """The plan is deployed, or wasn't needed."""
        status = proposal.status
        if is_correction:
            return status
        if proposal.spec.uses(ApprovalSpec):
            return self.with_approver(proposal.entry, use_plan(status))
        return status.with_part(status.part(PlanStatus).remove_plan())

    async def tidy(self, before: BundleEntry, written: BundleEntry) -> None:
        """End the Job of a plan that was dropped."""
        jobs = (one.status.part(PlanStatus).job for one in (before, written))
        if [job is None for job in jobs] == [False, True]:
            await self.plans.discard(written)

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """Of plans that wait, are approved or deployed."""
        return needed_jobs(status)

    # --- a deploy's Job ---------------------------------------------------------------------------

    def find_plan(self, status: BundleStatus) -> PlanStatus | None:
        """The plan of the next deploy, where that is it."""
        plan = status.part(PlanStatus)
        is_ours = plan.job == status.attempted.plan_job is not None
        return plan if is_ours and plan.outcome == PlanOutcome.PLANNED else None

    async def conclude(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """How a deploy has ended, and what its script found of what was stored, if it looked."""
        ending, different = planned_ending(ending), StoredReason.DEPLOYED_DIFFERENTLY
        if ending.reason is BundleReason.DEPLOYED_DIFFERENTLY:
            stored: StoredReason | None = different
        elif ending.outcome is not Outcome.SUCCEEDED:
            stored = None
        elif not pods and entry.status.attempted.plan_job is not None and spec.uses(ApprovalSpec):
            stored = StoredReason.UNREADABLE
        elif not compares_stored(pods):
            stored = None
        elif (ending.exit_code or 0) >= KILLED:  # a hook, which can read the nonce, may be the last
            stored = StoredReason.UNREADABLE
        else:
            nonce = self.planning.seals.derive(entry, job.name, "nonce")
            output = self.planning.all_jobs.output
            last = await output.log(pods, tail_lines=1, limit_bytes=LINE_BYTES)
            stored = read_stored(last, nonce)
            ending = different_ending(ending) if stored is different else ending
        # The log of one that was compared has no cause, but what hooks have printed.
        return Conclusion(ending, stored, is_explained=stored is not None)

    def finish(
        self, entry: BundleEntry, status: BundleStatus, ending: Ending, found: Findings
    ) -> BundleStatus:
        """The status with whether what was stored was approved, and with the deployed plan."""
        return record_end(status, ending, found)

    def has_copies(self, spec: BundleSpec, attempted: Attempted) -> bool:
        """Whether the attempt was planned."""
        return attempted.plan_job is not None

    # --- the Jobs of plans ------------------------------------------------------------------------

    def keeps(self, entry: BundleEntry, job: JobRecord) -> Kept | None:
        """How long a plan's Job is kept."""
        return keep_plan(job.name, entry.status, self.context.clock())

    def spares(self, entry: BundleEntry) -> str | None:
        """The render of what is deployed."""
        return self._uninstalls.renderer.job_of(entry)

    # --- an uninstall -----------------------------------------------------------------------------

    async def uninstall(
        self, entry: BundleEntry, spec: BundleSpec, order: UninstallOrder
    ) -> UninstallOrder | Step:
        """The order of a Job that may delete what approved plans had."""
        return await self._uninstalls.hold(entry, spec, order)

    async def release(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """End all plans, and delete the Secrets that no Bundle owns."""
        await self._uninstalls.clean_up(entry, spec)

    # --- a write of the status --------------------------------------------------------------------

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Whether what was deployed is what was approved."""
        found = status.find(AsApprovedStatus)
        return {} if found is None else {AS_APPROVED: as_approved_condition(found)}

    def is_told(
        self,
        condition: ConditionType,
        reason: AnyReason,
        before: BundleStatus,
        status: BundleStatus,
    ) -> bool:
        """UpdatePending tells that a plan was begun, and only that; a rejection has an Event."""
        if condition is ConditionType.READY:
            return reason == BundleReason.PLANNING and _is_planning(before)
        is_begun = reason != BundleReason.PLANNING or _is_planning(status)
        return reason == BundleReason.PLAN_REJECTED or not is_begun

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Tell what was decided about a plan, and that something else was deployed."""
        if before.status.part(PlanStatus) != written.status.part(PlanStatus):
            # For its Job's TTL and its Secrets.
            self.context.schedule.changed(written.key, Change.STEP)
            self._record_decision(before, written)
        old, new = (one.status.part(AsApprovedStatus) for one in (before, written))
        if new.is_different and new != old and (found := as_approved_condition(new)) is not None:
            self.context.emit(written, found.reason, found.message)

    def _record_decision(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where a plan was decided, unless Ready tells it."""
        old, plan = before.status.part(PlanStatus), written.status.part(PlanStatus)
        is_gated = bool(written.status.condition(ConditionType.UPDATE_PENDING))
        if not is_gated or not plan.decision or (plan.id, plan.decision) == (old.id, old.decision):
            return
        text = f"Plan {plan.id} of {plan.version} is {plan.decision.lower()}"
        text += plan.by_whom_and_why
        is_approved = plan.decision == PlanDecision.APPROVED
        reason = BundleEvent.PLAN_APPROVED if is_approved else BundleReason.PLAN_REJECTED
        if not reason == written.status.ready_reason != before.status.ready_reason:
            self.context.record(before, reason, text)
        log.info("%s: %s", before.key, text)


def _is_planning(status: BundleStatus) -> bool:
    """Whether the condition UpdatePending tells of a plan that was begun."""
    is_begun = status.part(PlanStatus).is_running
    return is_begun and ready_conditions.update_pending(status).reason == BundleReason.PLANNING


FEATURE = ApprovalFeature
