"""Plans: each is recorded, its Job is created, observed and read, and its result is recorded.

A record is written before its Job is created, and the Job is read before it may be deleted. A plan
changes nothing, so a Job that doesn't exist after a restart is created again. Each purpose
(``PlanPurpose``) has a record, a number and Jobs of its own, as the plan of the next deploy may
wait for approval for days. docs/architecture.md has a table of what differs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.approval import ApprovalSpec, ApprovedPlan, PlanStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.api.drift import DriftCheck, DriftSpec, DriftStatus
from copyrator.api.keys import BundleKey
from copyrator.api.plan_status import Baseline, PlanOutcome, PlanRecord, PlanRequests, PreviewPlan
from copyrator.api.reasons.bundles import DriftReason
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deciding import DesiredDeploy
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval.gates import has_new_decision, record_decision
from copyrator.bundles.features.approval.guard.enforcement import EnforcementReviewer
from copyrator.bundles.features.approval.input_store import InputsStore
from copyrator.bundles.features.approval.jobs import EDITED, PAUSED, PlanDelay, PlanJobClient
from copyrator.bundles.features.approval.operations import Plan, covers
from copyrator.bundles.features.approval.orders import is_made_of, target_of
from copyrator.bundles.features.approval.permissions import PermissionRecorder
from copyrator.bundles.features.approval.plan_store import PlanStore
from copyrator.bundles.features.approval.previews import PreviewResolver
from copyrator.bundles.features.approval.queue import PlanQueue, Ticket
from copyrator.bundles.features.approval.record import (
    PlanFault,
    PlanPurpose,
    PlanResult,
    has_ended_since,
    needed_jobs,
    next_number,
    record_failure,
    record_of,
    record_plan,
    record_preview_result,
    record_result,
    refuse_preview,
    remove_expired_preview,
    request_preview,
    requested_preview,
    set_message,
    unbound_reasons,
    with_record,
    without_unstable_file,
)
from copyrator.bundles.features.drift.record import (
    DriftFindings,
    break_off_check,
    compare_with_baseline,
    correctable_job,
    due_at,
    find_hindrance,
    has_baseline,
    is_judged_by,
    is_regular_check,
    record_check_result,
    record_verdict,
    set_baseline,
    set_unknown,
    switch_off_drift,
)
from copyrator.bundles.gates.gate import PlanTarget
from copyrator.bundles.gates.restrictions import describe_left_out
from copyrator.bundles.jobs.rights import list_missing
from copyrator.bundles.jobs.sealed import SealStore
from copyrator.bundles.rhythm import check_rhythm
from copyrator.bundles.step import AT_ONCE, Step, record_part
from copyrator.bundles.version.polling import PollStates
from copyrator.bundles.version.resolve import ERROR_SECONDS
from copyrator.kube.errors import ApiError, Forbidden

log = logging.getLogger(__name__)

LEFT_WITHIN: Final = timedelta(hours=1)
"""Time after an outcome in which a new process removes what an earlier one left."""


@dataclass(frozen=True, slots=True)
class _Task:
    """The plan of a purpose of a Bundle, as its record is now."""

    entry: BundleEntry
    spec: BundleSpec
    purpose: PlanPurpose

    @property
    def status(self) -> BundleStatus:
        return self.entry.status

    @property
    def record(self) -> PlanRecord:
        return record_of(self.entry.status, self.purpose)

    @property
    def ticket(self) -> Ticket:
        return Ticket(self.entry.key, self.purpose)

    def set_message(self, message: str | None) -> BundleStatus:
        """The status with why the plan isn't made yet."""
        return set_message(self.entry.status, self.purpose, message)


@dataclass(slots=True)
class PlanMemory:
    """The newest plan of one purpose."""

    begun: int | None = None
    """The plan whose Job this process has created or seen: if it doesn't exist, it is lost."""
    counted: int | None = None
    """The plan whose outcome was counted in the metrics."""


@dataclass(slots=True)
class DeployPlanMemory(PlanMemory):
    """The plan of the next deploy."""

    values_of: str | None = None
    """The failed plan's Job whose values are deleted once its outcome is in the status."""


@dataclass(slots=True)
class PreviewMemory(PlanMemory):
    """The plan of a version that a user names."""


@dataclass(slots=True)
class CheckMemory(PlanMemory):
    """The checks for drift."""

    is_tidied: bool = False
    """Whether this process has ended Jobs that a former one may have left."""
    correctable: str | None = None
    """The Job that found the drift whose correction was decided on."""
    missed_until: datetime | None = None
    """While a check waits in the queue: the time up to which missed checks are counted."""


_MEMORIES: Final[Mapping[PlanPurpose, type[PlanMemory]]] = {
    PlanPurpose.DEPLOY: DeployPlanMemory,
    PlanPurpose.CHECK: CheckMemory,
    PlanPurpose.PREVIEW: PreviewMemory,
}


@dataclass(eq=False)
class PlanMachine:
    """Makes the plans of all Bundles."""

    context: Context
    plan_jobs: PlanJobClient
    plan_queue: PlanQueue
    _: KW_ONLY
    seals: SealStore
    permissions: PermissionRecorder
    enforcement: EnforcementReviewer
    inputs: InputsStore
    previews: PreviewResolver
    poll_states: PollStates
    _plans: PlanStore = field(init=False)

    def __post_init__(self) -> None:
        self._plans = PlanStore(self.context, self.seals)

    # --- the plan of the next deploy --------------------------------------------------------------

    async def observe_plan(
        self, entry: BundleEntry, spec: BundleSpec
    ) -> tuple[BundleStatus | None, datetime | None]:
        """The status with the progress of the plan and a user's decision; the caller writes it.

        None where neither changed: most reconciles don't even parse the status. And when to look
        again.

        Raises:
            ApiError: the plan's Job, pods or log can't be read now.
        """
        task = _Task(entry, spec, PlanPurpose.DEPLOY)
        again = await self._tidy_plan(task)
        has_turn = self.plan_queue.has_turn(task.ticket)
        status, due = entry.status, again
        is_decided = has_new_decision(status, entry.annotations)
        if not (status.part(PlanStatus).is_running or is_decided or has_turn):
            return None, due
        if status.part(PlanStatus).is_running:
            status, due = await self._observe(task)
            due = min(filter(None, (due, again)), default=None)
        status = record_decision(status, entry.annotations, self.context.clock())
        if status is entry.status and not has_turn:
            return None, due
        self.poll_states.decide_again(entry.key, spec.interval)
        return status, due

    def begin_plan(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        target: PlanTarget,
        verdict: ReadyCondition,
    ) -> Step | None:
        """Record a plan; its Job is created once that is on record.

        None where too many plans are being made: it is queued.
        """
        step = self._begin(_Task(entry, spec, PlanPurpose.DEPLOY), status, target)
        if step is None or step.status is None:
            return None
        status = approval.record_planning(step.status)
        if entry.plan_request is not None:
            status = status.with_part(PlanRequests(last_handled_plan=entry.plan_request))
        return replace(step, status=status, ready=verdict)

    def skip_plan(self, key: BundleKey) -> None:
        """Remove a Bundle from the queue of plans: none has to be begun."""
        self.plan_queue.forget(Ticket(key, PlanPurpose.DEPLOY))

    def is_job_created(self, entry: BundleEntry, status: BundleStatus) -> bool:
        """Whether the Job of the running plan in the status was created."""
        begun = self.context.memories.of(entry.key, DeployPlanMemory).begun
        return status.part(PlanStatus).is_running and begun == status.part(PlanStatus).number

    async def discard(self, entry: BundleEntry) -> Step:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        await self.plan_jobs.discard(entry)
        return Step(entry)

    async def _tidy_plan(self, task: _Task) -> datetime | None:
        """Delete Secrets of plans that aren't needed any more.

        Those of a failed plan are deleted once its message is in the status: until then the message
        may have to be determined again, without their contents. After a start also what a former
        process left, of attempts too; returns when to try that again, as it stops nothing.
        """
        entry, memory = task.entry, self.context.memories.of(task.entry.key, DeployPlanMemory)
        if memory.values_of is not None and not task.record.is_running:
            await self.seals.remove_job(entry, memory.values_of)
            memory.values_of = None
        status, now = entry.status, self.context.clock()
        has_secrets = self.plan_jobs.features.have_secrets(task.spec)
        since = AT_ONCE if has_secrets else now - LEFT_WITHIN
        is_planned = task.spec.uses(ApprovalSpec) or status.part(PreviewPlan).outcome is not None
        may_be = is_planned or bool(task.spec.auth or has_secrets or task.spec.is_remote)
        if not may_be:
            return None
        if not self.seals.is_tidied(entry.key) and has_ended_since(status, since):
            try:
                await self.seals.remove_others(entry, needed_jobs(status))
            except ApiError as error:
                log.debug("%s: Secrets can't be deleted now: %s", entry.key, error)
                return self.context.clock() + timedelta(seconds=ERROR_SECONDS)
        self.seals.set_tidied(entry.key)
        return None

    # --- checks for drift -------------------------------------------------------------------------

    async def visit_check(
        self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None
    ) -> Step:
        """Take the next steps of a check for drift.

        No registry is polled, as what is checked is deployed already.

        Raises:
            ApiError: the next reconcile repeats the step.
        """
        task = _Task(entry, spec, PlanPurpose.CHECK)
        if not task.record.is_running:
            return await self._check(task, values_hash)
        step = await self._observe_check(task)
        return step.then(lambda written: self._check(replace(task, entry=written), values_hash))

    async def _observe_check(self, task: _Task) -> Step:
        before, memory = task.status, self.context.memories.of(task.entry.key, CheckMemory)
        status, due = await self._observe(task)
        check = status.part(DriftStatus).check
        if check.is_running:
            return Step(task.entry, status, due=(due,))

        async def tidy(written: BundleEntry) -> Step:
            left = set(needed_jobs(before)) - set(needed_jobs(status))
            left -= {check.job} if check.outcome == PlanOutcome.PLANNED else set()
            if left or not memory.is_tidied:
                await self.plan_jobs.discard(written)
                memory.is_tidied = True
            return Step(written, due=(AT_ONCE,))  # its Job isn't needed any more

        return Step(task.entry, status, effect=tidy)

    async def _check(self, task: _Task, values_hash: str | None) -> Step:
        """Begin a check that is due."""
        entry, status, now = task.entry, task.status, self.context.clock()
        due = due_at(status, task.spec, entry.spec_hash, entry.uid)
        if due is None and not status.part(DriftStatus).check.is_running:
            self.plan_queue.forget(task.ticket)
            return Step(entry)
        memory = self.context.memories.of(entry.key, CheckMemory)
        within = self.context.timing.drift_tidied
        checked_at = parse_time(status.part(DriftStatus).checked_at)
        if not memory.is_tidied and checked_at and now < checked_at + within:
            await self.plan_jobs.discard(entry)  # what a former process may have left
            memory.is_tidied = True
        found = correctable_job(status, task.spec)
        if found is not None and memory.correctable != found:
            memory.correctable = found
            self.poll_states.decide_again(entry.key, task.spec.interval)
        is_due = due is not None and due <= self.context.clock()
        if is_due and not find_hindrance(status, task.spec, entry.spec_hash, values_hash):
            await self.plan_jobs.prepare(entry, task.spec)
            return self._begin_check(task)
        self.plan_queue.forget(task.ticket)
        memory.missed_until = None
        return Step(entry, due=(None if is_due else due,))

    def _begin_check(self, task: _Task) -> Step:
        """Record a check; while it waits in the queue, the scheduled ones it misses are counted."""
        entry, memory = task.entry, self.context.memories.of(task.entry.key, CheckMemory)
        there = task.status.deployed
        wanted = DesiredDeploy(
            version=there.version or "",
            digest=there.digest or "",
            values_hash=there.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
        )
        step = self._begin(task, task.status, target_of(entry, task.spec, wanted))
        if step is None:
            now = self.context.clock()
            since, memory.missed_until = memory.missed_until or now, now
            count = check_rhythm(entry.uid, task.spec.part(DriftSpec).interval).count(since, now)
            self.context.metrics.drift_checks_skipped.inc(count)
            return Step(entry)
        return step

    # --- previews ---------------------------------------------------------------------------------

    async def visit_preview(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Take the next steps of a preview.

        Raises:
            ApiError: nothing is marked as handled; the next reconcile repeats the step.
        """
        task = _Task(entry, spec, PlanPurpose.PREVIEW)
        if task.record.outcome is None:
            return await self._begin_preview(task)
        step = await self._observe_preview(task)
        return step.then(lambda written: self._begin_preview(replace(task, entry=written)))

    async def _observe_preview(self, task: _Task) -> Step:
        entry = task.entry
        if not task.record.is_running:
            return record_part(entry, remove_expired_preview(task.status, self.context.clock()))
        status, due = await self._observe(task)
        if status.part(PreviewPlan).is_running:
            return record_part(entry, status, due)

        async def remove_values(written: BundleEntry) -> Step:
            await self.seals.remove_values(written, status.part(PreviewPlan).job)
            return Step(written)

        return record_part(entry, status, due).then(remove_values)

    async def _begin_preview(self, task: _Task) -> Step:
        """Record a preview that is requested, or why it isn't possible."""
        entry, spec, preview = task.entry, task.spec, task.status.part(PreviewPlan)
        request = requested_preview(entry.annotations, task.status)
        if request is None:
            self.plan_queue.forget(task.ticket)
        end = parse_time(preview.expires_at) if preview.outcome is not None else None
        unchanged = Step(entry, due=(end,))
        if request is None or entry.is_paused:
            return unchanged
        target = await self.previews.resolve(entry, spec, request)
        if isinstance(target, PlanTarget):
            await self.plan_jobs.prepare(entry, spec)
            target = await self.plan_jobs.missing_account(spec) or target
        if target is None:
            return unchanged
        status = request_preview(task.status, request)
        if isinstance(target, PlanFault):
            status = refuse_preview(status, target, spec.retry, self.context.clock())
            return record_part(entry, status).then(self.discard)
        return self._begin(task, status, target) or unchanged

    # --- of any purpose ---------------------------------------------------------------------------

    def _begin(self, task: _Task, status: BundleStatus, target: PlanTarget) -> Step | None:
        """Record a plan; its Job is created once that is on record. None: the plan is queued."""
        entry, purpose, now = task.entry, task.purpose, self.context.clock()
        number = next_number(task.status, purpose)
        job = purpose.job_of(task.spec.name, entry.uid, number)
        if not self.plan_queue.begin(task.ticket, job):
            return None
        is_requested = entry.request is not None
        status = record_plan(status, purpose, target, job, now, is_requested=is_requested)

        async def create(written: BundleEntry) -> Step:
            begun = replace(task, entry=written)
            if purpose is not PlanPurpose.CHECK:
                await self.plan_jobs.discard(written)
            return self._report_begun(begun, await self._create_job(begun))

        step = record_part(entry, status).then(create)
        return replace(step, guard=self._keep_slot(task.ticket, number))

    @contextmanager
    def _keep_slot(self, ticket: Ticket, number: int) -> Iterator[None]:
        """Free the slot of a plan whose Job isn't created."""
        try:
            yield
        finally:
            if self._slot_of(ticket).begun != number:
                self.plan_queue.end(ticket)

    def _report_begun(self, task: _Task, fault: PlanFault | None) -> Step:
        """Report why no Job was created; of a deploy's plan the next reconcile does, if need be."""
        entry = task.entry
        if task.purpose is PlanPurpose.DEPLOY:
            return Step(entry, due=(None if fault is None else AT_ONCE,))
        status = task.status if fault is None else self._refuse_job(task, fault)
        if task.purpose is PlanPurpose.PREVIEW:
            return record_part(entry, status)
        self.context.memories.of(entry.key, CheckMemory).missed_until = None
        # The watch may not report the change that was just read.
        step = Step(entry, status, due=(AT_ONCE,))
        return step if fault is None else step.then(self.discard)

    async def _create_job(self, task: _Task) -> PlanFault | None:
        """Create the Job of the recorded plan; the result says why it can't be."""
        entry, spec, renders = task.entry, task.spec, 2
        if task.purpose is PlanPurpose.PREVIEW:
            renders = 1
        elif task.purpose is PlanPurpose.CHECK:
            if not is_made_of(task.status.part(DriftStatus).check, entry, spec):
                return EDITED
            if (missing := await self.plan_jobs.missing_account(spec)) is not None:
                return missing
            # A chart that draws gets no hash, with which its correction would never be equal.
            is_bound = has_baseline(task.status) and task.status.part(Baseline).bound
            renders = 1 if is_bound else 2
        fault = await self.plan_jobs.create(entry, spec, task.purpose, task.record, renders=renders)
        if fault is None:
            self._slot(task).begun = task.record.number
        return fault

    def _refuse_job(self, task: _Task, fault: PlanFault) -> BundleStatus:
        """The status without the Job of the recorded plan."""
        if fault is not EDITED or task.purpose is PlanPurpose.PREVIEW:
            return self._fail(task, fault)
        if task.purpose is PlanPurpose.CHECK:
            return break_off_check(task.status)
        return task.set_message(None)  # another plan replaces it

    async def _observe(self, task: _Task) -> tuple[BundleStatus, datetime | None]:
        """The status with the progress of a recorded plan, and when to look again."""
        entry, status, record = task.entry, task.status, task.record
        if task.purpose is PlanPurpose.DEPLOY and not is_made_of(
            status.part(PlanStatus), entry, task.spec
        ):
            return status, None  # another plan replaces it
        job = await self.plan_jobs.find(entry, record)
        if job is None:
            return await self._replace_job(task), None
        slot = self._slot(task)
        slot.begun = record.number
        found = await self.plan_jobs.progress(entry, task.spec, job, record)
        if isinstance(found, PlanDelay):
            return task.set_message(found.message), found.due
        status = self._fail(task, found) if isinstance(found, PlanFault) else status
        if isinstance(found, Plan):
            status = await self._record_result(task, found)
        if slot.counted != record.number:
            slot.counted = record.number
            self.plan_jobs.count(job, succeeded=isinstance(found, Plan))
        return status, None

    async def _replace_job(self, task: _Task) -> BundleStatus:
        """The status with the recorded plan whose Job doesn't exist: it was lost, or is created."""
        self.plan_queue.end(task.ticket)
        if self._slot(task).begun == task.record.number:
            text = f"Job {task.record.job} was deleted before its plan was read"
            return self._fail(task, PlanFault(text))
        if task.entry.is_paused:
            return task.set_message(PAUSED.format(task.record.job))
        if (fault := await self._create_job(task)) is not None:
            return self._refuse_job(task, fault)
        return task.set_message(None) if task.purpose is PlanPurpose.DEPLOY else task.status

    def _fail(self, task: _Task, why: PlanFault) -> BundleStatus:
        """The status where no plan could be made."""
        now = self.context.clock()
        status = record_failure(task.status, task.purpose, why, task.spec.retry, now)
        if task.purpose is PlanPurpose.CHECK:
            return set_unknown(status, why.reason, why.message)
        if task.purpose is PlanPurpose.DEPLOY:
            memory = self.context.memories.of(task.entry.key, DeployPlanMemory)
            memory.values_of = status.part(PlanStatus).job  # deleted once this is written
            if why.denied:
                self.permissions.ask_without_plan(task.entry, task.spec, why)
                missing = list_missing(why.denied)
                status = with_record(status, task.purpose, missing=missing)
        return status

    def _slot(self, task: _Task) -> PlanMemory:
        return self._slot_of(task.ticket)

    def _slot_of(self, ticket: Ticket) -> PlanMemory:
        return self.context.memories.of(ticket.key, _MEMORIES[ticket.purpose])

    # --- results ----------------------------------------------------------------------------------

    async def _record_result(self, task: _Task, plan: Plan) -> BundleStatus:
        """The status with the plan of a Job that has ended."""
        entry = task.entry
        if isinstance(record := task.record, PlanStatus | DriftCheck):
            plan = without_unstable_file(task.status, record, plan)
        if task.purpose is PlanPurpose.DEPLOY:
            return await self._record_plan_result(task, plan)
        missing = await self.plan_jobs.missing_namespace(task.spec)
        if task.purpose is PlanPurpose.CHECK:
            status = await self._judge_check(task, PlanResult(plan, missing))
            await self.seals.remove_values(entry, status.part(DriftStatus).check.job)
            return status
        baseline = await self._plans.find(entry, task.status.part(Baseline))
        result = PlanResult(plan, missing, baseline=baseline)
        status = record_preview_result(task.status, result, self.context.clock())
        return set_message(status, task.purpose, describe_left_out(task.spec))

    async def _record_plan_result(self, task: _Task, plan: Plan) -> BundleStatus:
        entry, spec, status, job = task.entry, task.spec, task.status, task.record.job or ""
        seal = await self._plans.store(entry, job, plan.text)
        missing = await self.plan_jobs.missing_namespace(spec)
        is_missing = missing is not None
        self.permissions.ask(entry, spec, plan.operations, is_namespace_missing=is_missing)
        result = PlanResult(
            plan,
            missing,
            seal,
            approved=await self._plans.find(entry, status.part(PlanStatus).approved),
            baseline=await self._plans.find(entry, status.part(Baseline)),
        )
        enforcement = await self.enforcement.of(spec, result.operations)
        result = replace(result, unenforced=enforcement.reason)
        if spec.auto_rollback and enforcement.is_enforced:
            withheld = (await self._plans.find_rollback_hooks(entry)).unknown
            result = replace(result, rollback_withheld=withheld)
        status = record_result(status, result, spec, self.context.clock())
        changed, unknown = await self.inputs.find_changes(entry, status)
        status = with_record(status, task.purpose, changed=changed, change_unknown=unknown or None)
        await self.seals.remove_values(entry, job)
        self.context.memories.of(entry.key, DeployPlanMemory).values_of = None
        return await self._judge_plan(task, status, result)

    async def _judge_plan(
        self, task: _Task, status: BundleStatus, result: PlanResult
    ) -> BundleStatus:
        """The status with the verdict on drift by a plan of what is deployed, as a user requested.

        As by a check for drift; of another plan none.
        """
        entry, spec, plan = task.entry, task.spec, status.part(PlanStatus)
        if not spec.uses(DriftSpec) or not is_judged_by(status, plan.attempt):
            return status
        if find_hindrance(status, spec, entry.spec_hash, plan.values_hash) is not None:
            return status
        baseline = await self._plans.find(entry, status.part(Baseline))
        if baseline is None:
            return status
        found = compare_with_baseline(result.operations, baseline.operations, spec.part(DriftSpec))
        differs = _differs(status, baseline, result.plan)
        return self._record_verdict(task, status, found, differs=differs)

    async def _judge_check(self, task: _Task, result: PlanResult) -> BundleStatus:
        """The status with the result of a check: the baseline, or a verdict.

        Raises:
            ApiError: the baseline can't be read, or the operations can't be stored now.
        """
        entry, spec, status, now = task.entry, task.spec, task.status, self.context.clock()
        bound = not unbound_reasons(result.plan)
        baseline = None
        if has_baseline(status):
            try:
                baseline = await self._plans.read(entry, status.part(Baseline))
            except Forbidden as error:
                status = record_check_result(status, result, now, bound=bound)
                text = f"the Secret with the baseline can't be read: {error.message}"
                return set_unknown(status, DriftReason.BASELINE_UNREADABLE, text)
        if baseline is None:
            # Where its Secret was deleted, this plan, of one render, becomes the baseline.
            bound = bound and not has_baseline(status)
            if bound and spec.uses(ApprovalSpec):
                bound = await self._follows_from_plan(entry, status, result.plan)
            result = await self._store(task, result)
            status = set_baseline(record_check_result(status, result, now, bound=bound), now)
            return switch_off_drift(status, spec)
        found = compare_with_baseline(result.operations, baseline.operations, spec.part(DriftSpec))
        if found.drifted:
            result = await self._store(task, result)
        status = record_check_result(status, result, now, bound=bound)
        differs = _differs(status, baseline, result.plan)
        return self._record_verdict(task, status, found, differs=differs)

    async def _store(self, task: _Task, result: PlanResult) -> PlanResult:
        """Store the operations in a Secret; returns the result with its seal."""
        job = task.record.job or ""
        seal = await self._plans.store(task.entry, job, result.plan.text)
        return replace(result, seal=seal)

    async def _follows_from_plan(
        self, entry: BundleEntry, status: BundleStatus, baseline: Plan
    ) -> bool:
        """Whether a baseline has no objects beyond the plan whose deploy it was made after.

        A chart that branches on the release's revision, or on ``.Release.IsUpgrade``, may have
        some: a correction would deploy what nobody has seen.
        """
        plan = status.part(PlanStatus)
        if plan.job is None or plan.job != status.deployed.plan_job:
            return False
        made = await self._plans.find(entry, ApprovedPlan(job=plan.job, seal=plan.seal))
        if made is None:
            return False
        return made.render == baseline.render or covers(made.operations, baseline.operations)

    def _record_verdict(
        self, task: _Task, status: BundleStatus, found: DriftFindings, *, differs: bool
    ) -> BundleStatus:
        record, now = record_of(status, task.purpose), self.context.clock()
        is_regular = is_regular_check(status, task.spec, task.entry.uid, record.started_at)
        job = record.job or ""
        return record_verdict(status, found, job, now, is_regular=is_regular, differs=differs)


def _differs(status: BundleStatus, baseline: Plan, plan: Plan) -> bool:
    """Whether a correction may write something else than was deployed, also by another werf."""
    if not status.part(Baseline).bound or plan.image is None:
        return True
    return plan.render != baseline.render
