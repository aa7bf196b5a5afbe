"""Plans of the next deploy: from the record in the status, by a Job, to the operations found.

As with attempts, a plan is recorded before its Job is created and read before its Job may be
deleted. A plan changes nothing, so a Job that doesn't exist after a restart is created again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.api.keys import BundleKey
from copyrator.api.plan_status import PlanOutcome
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy.identity import job_name
from copyrator.bundles.deploy.orders import is_made_of
from copyrator.bundles.deploy.outcome import JobRecord
from copyrator.bundles.deploy.pod import JobKind
from copyrator.bundles.gates import approval
from copyrator.bundles.gates.gate import PlanTarget
from copyrator.bundles.plan import decision as plan_decision
from copyrator.bundles.plan import record as plan_record
from copyrator.bundles.plan.drift import CheckedPlan
from copyrator.bundles.plan.drift_judge import DriftJudge
from copyrator.bundles.plan.jobs import PAUSED, PlanDelay, PlanFault, PlanJobs, RefusedError
from copyrator.bundles.plan.operations import Plan
from copyrator.bundles.plan.permissions import PlanPermissions
from copyrator.bundles.plan.queue import PlanQueue, Ticket
from copyrator.bundles.plan.record import PlanResult
from copyrator.bundles.plan.rights import list_missing
from copyrator.bundles.plan.sealed import PlanInputs, Seals
from copyrator.bundles.status import StatusWriter

log = logging.getLogger(__name__)

LEFT_WITHIN: Final = timedelta(hours=1)
"""Time after an outcome in which a new process removes what an earlier one left."""


class Plans:
    """The plans of all Bundles."""

    def __init__(
        self,
        context: Context,
        plan_jobs: PlanJobs,
        queue: PlanQueue,
        writer: StatusWriter,
        *,
        seals: Seals,
        permissions: PlanPermissions,
        judge: DriftJudge,
        inputs: PlanInputs,
    ) -> None:
        self._context = context
        self._plan_jobs = plan_jobs
        self._queue = queue
        self._writer = writer
        self._seals = seals
        self._permissions = permissions
        self._judge = judge
        self._inputs = inputs

    def unneeded(self, key: BundleKey) -> None:
        """Remove a Bundle from the queue of plans: none has to be begun."""
        self._queue.forget(Ticket(key))

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> BundleStatus | None:
        """The status with the progress of the plan and a user's decision; the caller writes it.

        None where neither changed: most reconciles don't even parse the status.

        Raises:
            ApiError: the plan's Job, pods or log can't be read now.
        """
        await self._tidy(entry, spec)
        has_turn = self._queue.turn(Ticket(entry.key))
        if not (entry.is_planning or entry.is_decided or has_turn):
            return None
        status = before = entry.status
        if entry.is_planning:
            status = await self._observed(entry, spec, status)
        status = plan_decision.record_decision(status, entry.annotations, self._context.clock())
        if status is before and not has_turn:
            return None
        self._context.schedule.decide_again(entry.key, spec)
        return status

    async def _tidy(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Delete Secrets of plans that aren't needed any more.

        Those of a failed plan are deleted once its message is in the status: until then the message
        may have to be determined again, without their contents. After a start also what a former
        process left.
        """
        memory = self._context.memory(entry.key)
        if memory.plan.values_of is not None and not entry.is_planning:
            await self._seals.remove_job(entry, memory.plan.values_of)
            memory.plan.values_of = None
        if not memory.plan.is_tidied and (spec.approval.is_enabled or entry.has_preview):
            status = entry.status
            if plan_record.has_ended_since(status, self._context.clock() - LEFT_WITHIN):
                await self._seals.remove_others(entry, plan_record.needed_jobs(status))
        memory.plan.is_tidied = True

    def is_made(self, entry: BundleEntry, status: BundleStatus) -> bool:
        """Whether the plan in the status is being made: its Job was created."""
        begun = self._context.memory(entry.key).plan.plan_begun
        return status.plan.outcome == PlanOutcome.RUNNING and begun == status.plan.number

    async def begin(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        target: PlanTarget,
        verdict: ReadyCondition,
    ) -> bool:
        """Record a plan, then create its Job.

        False where too many plans are being made: it is queued.
        """
        number = (entry.status.plan.number or 0) + 1
        job = job_name(spec.name, JobKind.PLAN, entry.uid, number)
        if not self._queue.begin(Ticket(entry.key), job):
            return False
        is_requested = entry.request is not None
        now = self._context.clock()
        status = plan_record.record_plan(status, target, job, now, is_requested=is_requested)
        status = approval.record_planning(status)
        if entry.plan_request is not None:
            status = replace(status, last_handled_plan=entry.plan_request)
        is_made = False
        try:
            is_made = await self._begin(entry, spec, status, verdict)
        finally:
            if not is_made:
                self._queue.end(Ticket(entry.key))
        return True

    async def _begin(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, verdict: ReadyCondition
    ) -> bool:
        """Record a plan, then create its Job; returns whether the Job was created."""
        entry = await self._writer.write(entry, status, verdict)
        await self.discard(entry)
        with suppress(RefusedError):  # the next reconcile tries again, and records why not
            if await self._make_job(entry, spec):
                return True
        self._context.schedule.repeat(
            entry.key
        )  # the watch may not report the change that was just read
        return False

    async def discard(self, entry: BundleEntry) -> None:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        await self._plan_jobs.discard(entry)

    async def _make_job(self, entry: BundleEntry, spec: BundleSpec) -> bool:
        plan = entry.status.plan
        if is_made := await self._plan_jobs.create(entry, spec, plan):
            self._context.memory(entry.key).plan.plan_begun = plan.number
        return is_made

    async def _observed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        plan, memory = status.plan, self._context.memory(entry.key)
        if not is_made_of(plan, entry, spec):
            return status  # another plan replaces it
        job = await self._plan_jobs.find(entry, plan)
        if job is None:
            self._queue.end(Ticket(entry.key))
            if entry.is_paused and memory.plan.plan_begun != plan.number:
                return plan_record.set_message(status, PAUSED.format(plan.job))
            text = f"Job {plan.job} was deleted before its plan was read"
            if memory.plan.plan_begun != plan.number:
                try:
                    await self._make_job(entry, spec)
                    return plan_record.set_message(status, None)
                except RefusedError as error:
                    text = str(error)
            return self._failed(entry, spec, status, PlanFault(text))
        memory.plan.plan_begun = plan.number
        found = await self._plan_jobs.progress(entry, spec, job, plan)
        if isinstance(found, PlanDelay):
            return plan_record.set_message(status, found.message)
        status = await self._taken(entry, spec, status, job, found)
        if memory.plan.plan_counted != plan.number:
            memory.plan.plan_counted = plan.number
            succeeded = status.plan.outcome == PlanOutcome.PLANNED
            self._plan_jobs.count(job, succeeded=succeeded)
        return status

    async def _taken(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        job: JobRecord,
        plan: Plan | PlanFault,
    ) -> BundleStatus:
        """The status with the plan of a Job that has ended, or with the reason why it has none."""
        if isinstance(plan, PlanFault):
            return self._failed(entry, spec, status, plan)
        seal = await self._seals.store_operations(entry, job.name, plan.text)
        missing = await self._plan_jobs.missing_namespace(spec)
        self._permissions.ask(
            entry, spec, plan.operations, is_namespace_missing=missing is not None
        )
        made = PlanResult(
            plan,
            missing,
            seal,
            approved=await self._seals.operations(entry, status.plan.approved),
            baseline=await self._seals.operations(entry, status.baseline),
        )
        status = plan_record.record_result(status, made, spec, self._context.clock())
        changed, unknown = await self._inputs.changed(entry, status)
        status = replace(
            status, plan=replace(status.plan, changed=changed, change_unknown=unknown or None)
        )
        await self._seals.remove_values(entry, job.name)
        self._context.memory(entry.key).plan.values_of = None
        found = CheckedPlan(plan, made.missing_namespace, bound=bool(status.plan.bound))
        return await self._judge.plan(entry, spec, status, found)

    def _failed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, why: PlanFault
    ) -> BundleStatus:
        memory = self._context.memory(entry.key).plan
        memory.values_of = status.plan.job  # deleted once this is written
        now = self._context.clock()
        status = plan_record.record_failure(status, why.reason, why.message, spec.retry, now)
        if not why.denied:
            return status
        self._permissions.ask_without_plan(entry, spec, why.denied)
        return replace(status, plan=replace(status.plan, missing=list_missing(why.denied)))
