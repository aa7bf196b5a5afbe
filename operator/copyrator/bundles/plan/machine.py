"""Plans: each is recorded, its Job is created, observed and read, and its result is recorded.

A record is written before its Job is created, and the Job is read before it may be deleted. A plan
changes nothing, so a Job that doesn't exist after a restart is created again. Each purpose
(``PlanPurpose``) has a record, a number and Jobs of its own, as the plan of the next deploy may
wait for approval for days. docs/architecture.md has a table of what differs.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.api.drift_status import DriftReason
from copyrator.api.keys import BundleKey
from copyrator.api.plan_status import ApprovedPlan, PlanOutcome
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy.orders import is_made_of, target_of
from copyrator.bundles.deploy.restrictions import describe_left_out
from copyrator.bundles.deploy.state import DesiredDeploy
from copyrator.bundles.gates import approval
from copyrator.bundles.gates.gate import PlanTarget
from copyrator.bundles.plan.correction import correctable_job
from copyrator.bundles.plan.decision import has_new_decision, record_decision
from copyrator.bundles.plan.drift import (
    DriftFindings,
    break_off_check,
    compare_with_baseline,
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
from copyrator.bundles.plan.jobs import EDITED, PAUSED, PlanDelay, PlanJobs
from copyrator.bundles.plan.operations import Plan, covers
from copyrator.bundles.plan.permissions import PlanPermissions
from copyrator.bundles.plan.previews import PreviewResolver
from copyrator.bundles.plan.queue import PlanQueue, Ticket
from copyrator.bundles.plan.record import (
    PlanFault,
    PlanPurpose,
    PlanRecord,
    PlanResult,
    PreviewRequest,
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
)
from copyrator.bundles.plan.rights import list_missing
from copyrator.bundles.plan.sealed import PlanInputs, Seals
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.version.rhythm import check_rhythm
from copyrator.kube.errors import Forbidden

LEFT_WITHIN: Final = timedelta(hours=1)
"""Time after an outcome in which a new process removes what an earlier one left."""


class PlanMachine:
    """Makes the plans of all Bundles."""

    def __init__(
        self,
        context: Context,
        plan_jobs: PlanJobs,
        queue: PlanQueue,
        writer: StatusWriter,
        *,
        seals: Seals,
        permissions: PlanPermissions,
        inputs: PlanInputs,
        previews: PreviewResolver,
    ) -> None:
        self._context = context
        self._plan_jobs = plan_jobs
        self._queue = queue
        self._writer = writer
        self._seals = seals
        self._permissions = permissions
        self._inputs = inputs
        self._previews = previews

    # --- the plan of the next deploy ---

    async def observe_plan(self, entry: BundleEntry, spec: BundleSpec) -> BundleStatus | None:
        """The status with the progress of the plan and a user's decision; the caller writes it.

        None where neither changed: most reconciles don't even parse the status.

        Raises:
            ApiError: the plan's Job, pods or log can't be read now.
        """
        await self._tidy_plan(entry, spec)
        has_turn = self._queue.turn(Ticket(entry.key, PlanPurpose.DEPLOY))
        status = before = entry.status
        is_decided = has_new_decision(status, entry.annotations)
        if not (status.plan.is_running or is_decided or has_turn):
            return None
        if status.plan.is_running:
            status = await self._observe(entry, spec, PlanPurpose.DEPLOY)
        status = record_decision(status, entry.annotations, self._context.clock())
        if status is before and not has_turn:
            return None
        self._context.schedule.decide_again(entry.key, spec)
        return status

    async def begin_plan(
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
        job = self._take_turn(entry, spec, PlanPurpose.DEPLOY)
        if job is None:
            return False
        is_requested, now = entry.request is not None, self._context.clock()
        status = record_plan(
            status, PlanPurpose.DEPLOY, target, job, now, is_requested=is_requested
        )
        status = approval.record_planning(status)
        if entry.plan_request is not None:
            status = replace(status, last_handled_plan=entry.plan_request)
        await self._begin(entry, spec, PlanPurpose.DEPLOY, status, verdict)
        return True

    def skip_plan(self, key: BundleKey) -> None:
        """Remove a Bundle from the queue of plans: none has to be begun."""
        self._queue.forget(Ticket(key, PlanPurpose.DEPLOY))

    def is_made(self, entry: BundleEntry, status: BundleStatus) -> bool:
        """Whether the plan in the status is being made: its Job was created."""
        begun = self._context.memory(entry.key).plan.begun
        return status.plan.outcome == PlanOutcome.RUNNING and begun == status.plan.number

    async def discard(self, entry: BundleEntry) -> None:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        await self._plan_jobs.discard(entry)

    async def _tidy_plan(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Delete Secrets of plans that aren't needed any more.

        Those of a failed plan are deleted once its message is in the status: until then the message
        may have to be determined again, without their contents. After a start also what a former
        process left.
        """
        memory = self._context.memory(entry.key).plan
        if memory.values_of is not None and not entry.status.plan.is_running:
            await self._seals.remove_job(entry, memory.values_of)
            memory.values_of = None
        status = entry.status
        may_be = spec.approval.is_enabled or status.preview.outcome is not None
        since = self._context.clock() - LEFT_WITHIN
        if not memory.is_tidied and may_be and has_ended_since(status, since):
            await self._seals.remove_others(entry, needed_jobs(status))
        memory.is_tidied = True

    # --- checks for drift ---

    async def visit_check(
        self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None
    ) -> BundleEntry:
        """Take the next step of a check for drift; returns the Bundle with its new status.

        No registry is polled, as what is checked is deployed already.

        Raises:
            ApiError, StaleError: the next reconcile repeats the step.
        """
        if entry.status.drift.check.is_running:
            entry = await self._observe_check(entry, spec)
        ticket = Ticket(entry.key, PlanPurpose.CHECK)
        due = due_at(entry.status, spec, entry.spec_hash, entry.uid)
        if due is None and not entry.status.drift.check.is_running:
            self._queue.forget(ticket)
            return entry
        memory, now = self._context.memory(entry.key).check, self._context.clock()
        within = self._context.timing.drift_tidied
        checked_at = parse_time(entry.status.drift.checked_at)
        if not memory.is_tidied and checked_at and now < checked_at + within:
            await self.discard(entry)  # what a former process may have left
            memory.is_tidied = True
        found = correctable_job(entry.status, spec)
        if found is not None and memory.correctable != found:
            memory.correctable = found
            self._context.schedule.decide_again(entry.key, spec)
        is_due = due is not None and due <= self._context.clock()
        if is_due and not find_hindrance(entry.status, spec, entry.spec_hash, values_hash):
            return await self._begin_check(entry, spec)
        self._queue.forget(ticket)
        memory.missed_until = None
        if due is not None and not is_due:
            self._context.schedule.reconcile_at(entry.key, due)
        return entry

    async def _observe_check(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        before = entry.status
        status = await self._observe(entry, spec, PlanPurpose.CHECK)
        entry = await self._writer.conclude(entry, status)
        check = status.drift.check
        if check.outcome != PlanOutcome.RUNNING:
            left = set(needed_jobs(before)) - set(needed_jobs(status))
            left -= {check.job} if check.outcome == PlanOutcome.PLANNED else set()
            memory = self._context.memory(entry.key).check
            if left or not memory.is_tidied:
                await self.discard(entry)
                memory.is_tidied = True
            self._context.schedule.repeat(entry.key)  # its Job isn't needed any more
        return entry

    async def _begin_check(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Record a check, then create its Job; where too many are being made, it is queued."""
        memory, now = self._context.memory(entry.key).check, self._context.clock()
        job = self._take_turn(entry, spec, PlanPurpose.CHECK)
        if job is None:  # count the scheduled checks that are skipped meanwhile
            since, memory.missed_until = memory.missed_until or now, now
            count = check_rhythm(entry.uid, spec.drift.interval).count(since, now)
            self._context.metrics.drift_checks_skipped.inc(count)
            return entry
        there = entry.status.deployed
        wanted = DesiredDeploy(
            version=there.version or "",
            digest=there.digest or "",
            values_hash=there.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
        )
        target = target_of(entry, spec, wanted)
        status = record_plan(entry.status, PlanPurpose.CHECK, target, job, now)
        entry, status = await self._begin(entry, spec, PlanPurpose.CHECK, status)
        memory.missed_until = None
        self._context.schedule.repeat(entry.key)  # the watch may not report what was just read
        entry = await self._writer.conclude(entry, status)
        if status.drift.check.outcome != PlanOutcome.RUNNING:
            await self.discard(entry)
        return entry

    # --- previews ---

    async def visit_preview(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Take the next step of a preview; returns the Bundle with its new status.

        Raises:
            ApiError, StaleError: nothing is marked as handled; the next reconcile repeats the step.
        """
        if entry.status.preview.outcome is not None:
            entry = await self._observe_preview(entry, spec)
        request = requested_preview(entry.annotations, entry.status)
        if request is None:
            self._queue.forget(Ticket(entry.key, PlanPurpose.PREVIEW))
        elif not entry.is_paused:
            entry = await self._begin_preview(entry, spec, request)
        preview = entry.status.preview
        if preview.outcome is not None and (end := parse_time(preview.expires_at)):
            self._context.schedule.reconcile_at(entry.key, end)
        return entry

    async def _observe_preview(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        if entry.status.preview.outcome != PlanOutcome.RUNNING:
            status = remove_expired_preview(entry.status, self._context.clock())
            return await self._writer.record(entry, status)
        status = await self._observe(entry, spec, PlanPurpose.PREVIEW)
        entry = await self._writer.record(entry, status)
        if status.preview.outcome != PlanOutcome.RUNNING:
            await self._seals.remove_values(entry, status.preview.job)
        return entry

    async def _begin_preview(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> BundleEntry:
        """Record a preview, then create its Job; or record why that isn't possible."""
        target = await self._previews.resolve(entry, spec, request)
        if isinstance(target, PlanTarget):
            target = await self._plan_jobs.missing_account(spec) or target
        if target is None:
            return entry
        now, status = self._context.clock(), request_preview(entry.status, request)
        if isinstance(target, PlanFault):
            status = refuse_preview(status, target, spec.retry, now)
            entry = await self._writer.record(entry, status)
            await self.discard(entry)
            return entry
        job = self._take_turn(entry, spec, PlanPurpose.PREVIEW)
        if job is None:
            return entry
        status = record_plan(status, PlanPurpose.PREVIEW, target, job, now)
        entry, status = await self._begin(entry, spec, PlanPurpose.PREVIEW, status)
        return await self._writer.record(entry, status)

    # --- of any purpose ---

    def _take_turn(self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose) -> str | None:
        """The name of the Job that may be created now; None: the plan is queued."""
        job = purpose.job_of(spec.name, entry.uid, next_number(entry.status, purpose))
        return job if self._queue.begin(Ticket(entry.key, purpose), job) else None

    async def _begin(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        purpose: PlanPurpose,
        status: BundleStatus,
        verdict: ReadyCondition | None = None,
    ) -> tuple[BundleEntry, BundleStatus]:
        """Record a plan, then create its Job.

        Returns:
            The Bundle as it was written, and the status if no Job could be created; that of a
            deploy is left to the next reconcile, which tries again.
        """
        slot, number = (
            self._context.memory(entry.key).plan_of(purpose),
            record_of(status, purpose).number,
        )
        try:
            if verdict is None:
                entry = await self._writer.record(entry, status)
            else:
                entry = await self._writer.write(entry, status, verdict)
            if purpose is not PlanPurpose.CHECK:
                await self.discard(entry)
            fault = await self._create_job(entry, spec, purpose)
        finally:
            if slot.begun != number:
                self._queue.end(Ticket(entry.key, purpose))
        if fault is None:
            return entry, entry.status
        if purpose is PlanPurpose.DEPLOY:
            # The watch may not report the change that was just read.
            self._context.schedule.repeat(entry.key)
            return entry, entry.status
        return entry, self._refuse_job(entry, spec, purpose, fault)

    async def _create_job(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose
    ) -> PlanFault | None:
        """Create the Job of the recorded plan; the result says why it can't be."""
        record, renders = record_of(entry.status, purpose), 2
        if purpose is PlanPurpose.PREVIEW:
            renders = 1
        elif purpose is PlanPurpose.CHECK:
            if not is_made_of(entry.status.drift.check, entry, spec):
                return EDITED
            if (missing := await self._plan_jobs.missing_account(spec)) is not None:
                return missing
            # A chart that draws gets no hash, with which its correction would never be equal.
            is_bound = has_baseline(entry.status) and entry.status.baseline.bound
            renders = 1 if is_bound else 2
        fault = await self._plan_jobs.create(entry, spec, purpose, renders=renders)
        if fault is None:
            self._context.memory(entry.key).plan_of(purpose).begun = record.number
        return fault

    def _refuse_job(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose, fault: PlanFault
    ) -> BundleStatus:
        """The status without the Job of the recorded plan."""
        status = entry.status
        if fault is not EDITED or purpose is PlanPurpose.PREVIEW:
            return self._fail(entry, spec, purpose, fault)
        if purpose is PlanPurpose.CHECK:
            return break_off_check(status)
        return set_message(status, purpose, None)  # another plan replaces it

    async def _observe(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose
    ) -> BundleStatus:
        """The status with the progress of a recorded plan."""
        status, record = entry.status, record_of(entry.status, purpose)
        slot = self._context.memory(entry.key).plan_of(purpose)
        if purpose is PlanPurpose.CHECK and status.drift.check.attempt != status.attempted.attempt:
            return break_off_check(status)
        if purpose is PlanPurpose.DEPLOY and not is_made_of(status.plan, entry, spec):
            return status  # another plan replaces it
        job = await self._plan_jobs.find(entry, record)
        if job is None:
            return await self._replace_job(entry, spec, purpose)
        slot.begun = record.number
        found = await self._plan_jobs.progress(entry, spec, job, record)
        if isinstance(found, PlanDelay):
            return set_message(status, purpose, found.message)
        if isinstance(found, PlanFault):
            status = self._fail(entry, spec, purpose, found)
        else:
            status = await self._take(entry, spec, purpose, found)
        if slot.counted != record.number:
            slot.counted = record.number
            self._plan_jobs.count(job, succeeded=isinstance(found, Plan))
        return status

    async def _replace_job(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose
    ) -> BundleStatus:
        """The status with the recorded plan whose Job doesn't exist: it was lost, or is created."""
        status, record = entry.status, record_of(entry.status, purpose)
        self._queue.end(Ticket(entry.key, purpose))
        if self._context.memory(entry.key).plan_of(purpose).begun == record.number:
            text = f"Job {record.job} was deleted before its plan was read"
            return self._fail(entry, spec, purpose, PlanFault(text))
        if entry.is_paused:
            return set_message(status, purpose, PAUSED.format(record.job))
        fault = await self._create_job(entry, spec, purpose)
        if fault is not None:
            return self._refuse_job(entry, spec, purpose, fault)
        return set_message(status, purpose, None) if purpose is PlanPurpose.DEPLOY else status

    def _fail(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose, why: PlanFault
    ) -> BundleStatus:
        """The status where no plan could be made."""
        now = self._context.clock()
        status = record_failure(entry.status, purpose, why, spec.retry, now)
        if purpose is PlanPurpose.CHECK:
            return set_unknown(status, why.reason, why.message)
        if purpose is PlanPurpose.DEPLOY:
            memory = self._context.memory(entry.key).plan
            memory.values_of = status.plan.job  # deleted once this is written
            if why.denied:
                self._permissions.ask_without_plan(entry, spec, why.denied)
                status = replace(
                    status, plan=replace(status.plan, missing=list_missing(why.denied))
                )
        return status

    # --- results ---

    async def _take(
        self, entry: BundleEntry, spec: BundleSpec, purpose: PlanPurpose, plan: Plan
    ) -> BundleStatus:
        """The status with the plan of a Job that has ended."""
        if purpose is PlanPurpose.DEPLOY:
            return await self._take_plan(entry, spec, plan)
        missing = await self._plan_jobs.missing_namespace(spec)
        if purpose is PlanPurpose.CHECK:
            status = await self._judge_check(entry, spec, PlanResult(plan, missing))
            await self._seals.remove_values(entry, status.drift.check.job)
            return status
        baseline = await self._seals.operations(entry, entry.status.baseline)
        result = PlanResult(plan, missing, baseline=baseline)
        status = record_preview_result(entry.status, result, self._context.clock())
        return set_message(status, purpose, describe_left_out(spec))

    async def _take_plan(self, entry: BundleEntry, spec: BundleSpec, plan: Plan) -> BundleStatus:
        status, job = entry.status, entry.status.plan.job or ""
        seal = await self._seals.store_operations(entry, job, plan.text)
        missing = await self._plan_jobs.missing_namespace(spec)
        self._permissions.ask(
            entry, spec, plan.operations, is_namespace_missing=missing is not None
        )
        result = PlanResult(
            plan,
            missing,
            seal,
            approved=await self._seals.operations(entry, status.plan.approved),
            baseline=await self._seals.operations(entry, status.baseline),
        )
        status = record_result(status, result, spec, self._context.clock())
        changed, unknown = await self._inputs.changed(entry, status)
        status = replace(
            status, plan=replace(status.plan, changed=changed, change_unknown=unknown or None)
        )
        await self._seals.remove_values(entry, job)
        self._context.memory(entry.key).plan.values_of = None
        return await self._judge_plan(entry, spec, status, result)

    async def _judge_plan(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, result: PlanResult
    ) -> BundleStatus:
        """The status with the verdict on drift by a plan of what is deployed, as a user requested.

        As by a check for drift; of another plan none.
        """
        plan = status.plan
        if not spec.drift.is_enabled or not is_judged_by(status, plan.attempt):
            return status
        if find_hindrance(status, spec, entry.spec_hash, plan.values_hash) is not None:
            return status
        baseline = await self._seals.operations(entry, status.baseline)
        if baseline is None:
            return status
        found = compare_with_baseline(result.operations, baseline.operations, spec.drift)
        differs = _differs(status, baseline, result.plan)
        return self._record_verdict(entry, spec, status, plan, found, differs=differs)

    async def _judge_check(
        self, entry: BundleEntry, spec: BundleSpec, result: PlanResult
    ) -> BundleStatus:
        """The status with the result of a check: the baseline, or a verdict.

        Raises:
            ApiError: the baseline can't be read, or the operations can't be stored now.
        """
        status, now, check = entry.status, self._context.clock(), entry.status.drift.check
        bound = not unbound_reasons(result.plan)
        baseline = None
        if has_baseline(status):
            try:
                baseline = await self._seals.read_operations(entry, status.baseline)
            except Forbidden as error:
                status = record_check_result(status, result, now, bound=bound)
                text = f"the Secret with the baseline can't be read: {error.message}"
                return set_unknown(status, DriftReason.BASELINE_UNREADABLE, text)
        if baseline is None:
            # Where its Secret was deleted, this plan, of one render, becomes the baseline.
            bound = bound and not has_baseline(status)
            if bound and spec.approval.is_enabled:
                bound = await self._follows_from_plan(entry, status, result.plan)
            result = await self._store(entry, check, result)
            status = set_baseline(record_check_result(status, result, now, bound=bound), now)
            return switch_off_drift(status, spec)
        found = compare_with_baseline(result.operations, baseline.operations, spec.drift)
        if found.drifted:
            result = await self._store(entry, check, result)
        status = record_check_result(status, result, now, bound=bound)
        differs = _differs(status, baseline, result.plan)
        return self._record_verdict(entry, spec, status, check, found, differs=differs)

    async def _store(
        self, entry: BundleEntry, record: PlanRecord, result: PlanResult
    ) -> PlanResult:
        """Store the operations in a Secret; returns the result with its seal."""
        seal = await self._seals.store_operations(entry, record.job or "", result.plan.text)
        return replace(result, seal=seal)

    async def _follows_from_plan(
        self, entry: BundleEntry, status: BundleStatus, baseline: Plan
    ) -> bool:
        """Whether a baseline has no objects beyond the plan whose deploy it was made after.

        A chart that branches on the release's revision, or on ``.Release.IsUpgrade``, may have
        some: a correction would deploy what nobody has seen.
        """
        plan = status.plan
        if plan.job is None or plan.job != status.deployed.plan_job:
            return False
        made = await self._seals.operations(entry, ApprovedPlan(job=plan.job, seal=plan.seal))
        if made is None:
            return False
        return made.render == baseline.render or covers(made.operations, baseline.operations)

    def _record_verdict(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        record: PlanRecord,
        found: DriftFindings,
        *,
        differs: bool,
    ) -> BundleStatus:
        is_regular = is_regular_check(status, spec, entry.uid, record.started_at)
        now = self._context.clock()
        return record_verdict(
            status, found, record.job or "", now, is_regular=is_regular, differs=differs
        )


def _differs(status: BundleStatus, baseline: Plan, plan: Plan) -> bool:
    """Whether a correction may write something else than was deployed, also by another werf."""
    if not status.baseline.bound or plan.image is None:
        return True
    return plan.render != baseline.render
