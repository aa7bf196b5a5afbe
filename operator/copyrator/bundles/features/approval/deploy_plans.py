"""The plans of next deploys: they are begun, read, and decided on by users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.deciding import Proposal
from copyrator.bundles.engine.feature import Observed
from copyrator.bundles.engine.step import AT_ONCE, Step
from copyrator.bundles.features.approval.gates import (
    has_new_decision,
    record_decision,
    record_planning,
)
from copyrator.bundles.features.approval.permissions import PermissionRecorder
from copyrator.bundles.features.approval.record import (
    APPROVAL,
    DEPLOY,
    must_plan,
    record_result,
    requested_plan,
)
from copyrator.bundles.jobs.rights import list_missing
from copyrator.bundles.plans.fields import ApprovalSpec, Baseline, PlanRequests, PlanStatus
from copyrator.bundles.plans.jobs import EDITED
from copyrator.bundles.plans.machine import PlanMachine, PlanMemory, PlanTask
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.orders import is_made_of
from copyrator.bundles.plans.planning import Planning
from copyrator.bundles.plans.record import (
    PlanFault,
    PlanResult,
    PlanTarget,
    with_record,
    without_unstable_file,
)


@dataclass(slots=True)
class DeployPlanMemory(PlanMemory):
    """The plan of the next deploy."""

    values_of: str | None = None
    """The failed plan's Job whose values are deleted once its outcome is in the status."""


class DeployPlans(PlanMachine[DeployPlanMemory]):
    """Makes the plans of the next deploys of all Bundles."""

    purpose = DEPLOY
    memory = DeployPlanMemory

    def __init__(self, planning: Planning, permissions: PermissionRecorder) -> None:
        super().__init__(planning)
        self._permissions, self._enforcement = permissions, planning.enforcement
        self._judges = planning.judges

    async def progress(self, entry: BundleEntry, spec: BundleSpec) -> Observed:
        """The status with the progress of the plan and a user's decision; the caller writes it.

        None where neither changed: most reconciles don't even parse the status. And when to look
        again.

        Raises:
            ApiError: the plan's Job, pods or log can't be read now.
        """
        task = self.task(entry, spec)
        again = await self._tidy(task)
        has_turn = self.queue.has_turn(task.ticket)
        status, due, is_running = entry.status, again, task.record.is_running
        is_decided = has_new_decision(status, entry.annotations)
        if not (is_running or is_decided or has_turn):
            return Observed(due=due)
        # One that was made of something else is replaced by another plan.
        if is_running and is_made_of(status.part(PlanStatus), entry, spec):
            status, due = await self.observe(task)
            due = min(filter(None, (due, again)), default=None)
        status = record_decision(status, entry.annotations, self.context.clock())
        if status is entry.status and not has_turn:
            return Observed(due=due)
        self.poll_states.decide_again(entry.key, spec.interval)
        return Observed(status, due)

    async def begin_required(
        self,
        proposal: Proposal,
        verdict: ReadyCondition,
        find_account: Callable[[], Awaitable[Step | None]],
    ) -> Step | None:
        """Record a plan where the gate or a user requires one; None where it can't be begun yet."""
        entry, status = proposal.entry, proposal.status
        target = find_required(proposal)
        if target is None:
            self.skip(entry.key)
            return None
        if (missing := await find_account()) is not None:
            return missing
        step = self.begin(self.task(entry, proposal.spec), status, target)
        if step is None or step.status is None:
            return None
        status = record_planning(step.status)
        if (request := requested_plan(entry.annotations, entry.status)) is not None:
            status = status.with_part(PlanRequests(last_handled_plan=request))
        return replace(step, status=status, ready=verdict)

    def is_job_created(self, entry: BundleEntry, status: BundleStatus) -> bool:
        """Whether the Job of the running plan in the status was created."""
        plan = status.part(PlanStatus)
        return plan.is_running and self.remembered(entry.key).begun == plan.number

    async def _tidy(self, task: PlanTask) -> datetime | None:
        """Delete Secrets of plans that aren't needed any more; returns when to try again.

        Those of a failed plan are deleted once its message is in the status: until then the message
        may have to be determined again, without their contents.
        """
        entry, spec = task.entry, task.spec
        memory = self.remembered(entry.key)
        if memory.values_of is not None and not task.record.is_running:
            await self.seals.remove_job(entry, memory.values_of)
            memory.values_of = None
        end, may_have = task.record.made_at or task.record.started_at, spec.uses(ApprovalSpec)
        return await self.seals.tidy(entry, spec, end, may_have=may_have)

    def report_begun(self, task: PlanTask, fault: PlanFault | None) -> Step:
        """Of a fault the next reconcile reports, if need be."""
        return Step(task.entry, due=(None if fault is None else AT_ONCE,))

    def created(self, task: PlanTask) -> BundleStatus:
        """Nothing keeps it from being made any more."""
        return task.set_message(None)

    def refuse_job(self, task: PlanTask, fault: PlanFault) -> BundleStatus:
        """Where the values were edited, another plan replaces it."""
        return task.set_message(None) if fault is EDITED else self.fail(task, fault)

    def fail(self, task: PlanTask, why: PlanFault) -> BundleStatus:
        """The status where no plan could be made, with the permissions that were missing."""
        status = super().fail(task, why)
        # Deleted once this is written.
        self.remembered(task.entry.key).values_of = task.record.job
        if why.denied:
            self._permissions.ask_without_plan(task.entry, task.spec, why)
            status = with_record(status, DEPLOY, missing=list_missing(why.denied))
        return status

    async def record_result(self, task: PlanTask, plan: Plan) -> BundleStatus:
        """The status with a plan that was made, and what follows from it."""
        entry, spec, status, job = task.entry, task.spec, task.status, task.record.job or ""
        plan = without_unstable_file(status, status.part(PlanStatus), plan)
        seal = await self.stored.store(entry, job, plan.text)
        missing = await self.jobs.missing_namespace(spec)
        is_missing = missing is not None
        self._permissions.ask(entry, spec, plan.operations, is_namespace_missing=is_missing)
        result = PlanResult(
            plan,
            missing,
            seal,
            approved=await self.stored.find(entry, status.part(PlanStatus).approved),
            baseline=await self.stored.find(entry, status.part(Baseline)),
        )
        unenforced = await self._enforcement.find_reason(spec, result.operations)
        result = replace(result, unenforced=unenforced)
        if spec.auto_rollback and not unenforced:
            withheld = (await self.stored.find_rollback_hooks(entry)).unknown
            result = replace(result, rollback_withheld=withheld)
        status = record_result(status, result, spec, self.context.clock())
        changed, unknown = await self.jobs.inputs.find_changes(entry, status)
        status = with_record(status, DEPLOY, changed=changed, change_unknown=unknown or None)
        await self.seals.remove_values(entry, job)
        self.remembered(entry.key).values_of = None
        for judge in self._judges:
            status = await judge(entry, spec, status, result)
        return status


def find_required(proposal: Proposal) -> PlanTarget | None:
    """What is planned now, as the gate waits for it, or a user requests it; None: nothing. Pure."""
    target = proposal.findings.of(PlanTarget)
    if target is None or requested_plan(proposal.entry.annotations, proposal.entry.status):
        return target
    is_asked = any(one.gate == APPROVAL and one.objects for one in proposal.results)
    is_open = is_asked and not proposal.spec.suspend
    return target if is_open and must_plan(proposal.status, target, proposal.now) else None
