"""Checks for drift: regular plans of what is deployed, and the baseline.

They have a record, a number and Jobs of their own, since the plan of the next deploy may wait for
approval for days. As with other plans the record is written before its Job is created.
"""

from __future__ import annotations

import logging
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus
from copyrator.api.plan_status import PlanOutcome
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy.blocked import missing_account
from copyrator.bundles.deploy.identity import job_name
from copyrator.bundles.deploy.orders import is_made_of, target_of
from copyrator.bundles.deploy.outcome import JobRecord
from copyrator.bundles.deploy.pod import JobKind
from copyrator.bundles.deploy.state import DesiredDeploy
from copyrator.bundles.memory import CheckMemory
from copyrator.bundles.plan import drift as drift_record
from copyrator.bundles.plan import record as plan_record
from copyrator.bundles.plan.drift import CheckedPlan
from copyrator.bundles.plan.drift_judge import DriftJudge
from copyrator.bundles.plan.jobs import PlanDelay, PlanFault, PlanJobs, RefusedError
from copyrator.bundles.plan.operations import Plan
from copyrator.bundles.plan.queue import PlanQueue, Ticket
from copyrator.bundles.plan.sealed import Seals
from copyrator.bundles.status import StatusWriter
from copyrator.kube.errors import Forbidden

log = logging.getLogger(__name__)


class Drifts:
    """The checks of all Bundles."""

    def __init__(
        self,
        context: Context,
        plan_jobs: PlanJobs,
        queue: PlanQueue,
        writer: StatusWriter,
        *,
        seals: Seals,
        judge: DriftJudge,
    ) -> None:
        self._context = context
        self._plan_jobs = plan_jobs
        self._queue = queue
        self._writer = writer
        self._seals = seals
        self._judge = judge

    def _memory(self, entry: BundleEntry) -> CheckMemory:
        return self._context.memory(entry.key).check

    async def visit(
        self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None
    ) -> BundleEntry:
        """Take the next step of a check for drift; returns the Bundle with its new status.

        No registry is polled, as what is checked is deployed already.

        Raises:
            ApiError, StaleError: the next reconcile repeats the step.
        """
        if entry.is_checking:
            entry = await self._observe(entry, spec)
        if entry.drift_at is None and not entry.is_checking:
            self._queue.forget(Ticket(entry.key, is_check=True))
            return entry
        memory = self._memory(entry)
        if not memory.is_tidied:
            await self._tidy(entry)
        if entry.correctable is not None and memory.correctable != entry.correctable:
            memory.correctable = entry.correctable
            self._context.schedule.decide_again(entry.key, spec)
        due, ticket = entry.drift_at, Ticket(entry.key, is_check=True)
        is_due = due is not None and due <= self._context.clock()
        if is_due and not drift_record.find_hindrance(
            entry.status, spec, entry.spec_hash, values_hash
        ):
            return await self._begin(entry, spec, ticket)
        self._queue.forget(ticket)
        self._memory(entry).missed_until = None
        if due is not None and not is_due:
            self._context.schedule.reconcile_at(entry.key, due)
        return entry

    async def _tidy(self, entry: BundleEntry) -> None:
        """Delete what a former process may have left, if it ended right after a check."""
        within = self._context.timing.drift_tidied
        if entry.checked_at and self._context.clock() < entry.checked_at + within:
            await self._plan_jobs.discard(entry)
            self._memory(entry).is_tidied = True

    async def _observe(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Record the progress of the check."""
        status = await self._observed(entry, spec, entry.status)
        before, check = entry.status, status.drift.check
        entry = await self._writer.conclude(entry, status)
        if check.outcome != PlanOutcome.RUNNING:
            left = set(plan_record.needed_jobs(before)) - set(plan_record.needed_jobs(status))
            left -= {check.job} if check.outcome == PlanOutcome.PLANNED else set()
            memory = self._memory(entry)
            if left or not memory.is_tidied:
                await self._plan_jobs.discard(entry)
                memory.is_tidied = True
            self._context.schedule.repeat(entry.key)  # its Job isn't needed any more
        return entry

    async def _observed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        check, memory = status.drift.check, self._memory(entry)
        if check.attempt != status.attempted.attempt:
            return drift_record.break_off_check(status)
        job = await self._plan_jobs.find(entry, check)
        if job is None:
            self._queue.end(Ticket(entry.key, is_check=True))
            if memory.begun == check.number:
                text = f"Job {check.job} was deleted before its plan was read"
                return drift_record.record_check_failure(status, BundleReason.PLAN_FAILED, text)
            return await self._made_job(entry, spec, status)
        memory.begun = check.number
        found = await self._plan_jobs.progress(entry, spec, job, check)
        if isinstance(found, PlanDelay):
            return drift_record.set_check_message(status, found.message)
        return await self._taken(entry, spec, status, job, found)

    async def _taken(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        job: JobRecord,
        plan: Plan | PlanFault,
    ) -> BundleStatus:
        """The status with what the Job that has ended found, or the reason why it has no result."""
        if isinstance(plan, PlanFault):
            status = drift_record.record_check_failure(status, plan.reason, plan.message)
        else:
            missing = await self._plan_jobs.missing_namespace(spec)
            found = CheckedPlan(plan, missing, bound=not plan_record.unbound_reasons(plan))
            status = await self._judge.check(entry, spec, status, found)
            await self._seals.remove_values(entry, job.name)
        self._plan_jobs.count(job, succeeded=not isinstance(plan, PlanFault))
        return status

    async def _begin(self, entry: BundleEntry, spec: BundleSpec, ticket: Ticket) -> BundleEntry:
        """Record a check, then create its Job; where too many are being made, it is queued."""
        status, now = entry.status, self._context.clock()
        number = drift_record.next_check_number(status)
        job = job_name(spec.name, JobKind.DRIFT, entry.uid, number)
        if not self._queue.begin(ticket, job):
            self._count_missed(entry, spec, now)
            return entry
        there = status.deployed
        wanted = DesiredDeploy(
            version=there.version or "",
            digest=there.digest or "",
            values_hash=there.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
        )
        status = drift_record.record_check(status, target_of(entry, spec, wanted), job, now)
        try:
            entry = await self._writer.record(entry, status)
            status = await self._made_job(entry, spec, entry.status)
        finally:
            if self._memory(entry).begun != number:
                self._queue.end(ticket)
        self._memory(entry).missed_until = None
        self._context.schedule.repeat(
            entry.key
        )  # the watch may not report the change that was just read
        entry = await self._writer.conclude(entry, status)
        if status.drift.check.outcome != PlanOutcome.RUNNING:
            await self._plan_jobs.discard(entry)
        return entry

    def _count_missed(self, entry: BundleEntry, spec: BundleSpec, now: datetime) -> None:
        """Count the scheduled checks that are skipped while the Bundle waits in the queue."""
        memory = self._memory(entry)
        since = memory.missed_until or now
        count = drift_record.slots_between(entry.uid, spec.drift.interval, since, now)
        self._context.metrics.drift_checks_skipped.inc(count)
        memory.missed_until = now

    async def _made_job(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status once the recorded check's Job is created, or with the reason why it isn't."""
        check = status.drift.check
        if not is_made_of(check, entry, spec):
            return drift_record.break_off_check(status)
        if (missing := await self._missing_account(spec)) is not None:
            reason = BundleReason.SERVICE_ACCOUNT_MISSING
            return drift_record.record_check_failure(status, reason, missing)
        try:
            # A chart that draws gets no hash, with which its correction would never be equal.
            is_bound = drift_record.has_baseline(status) and status.baseline.bound
            renders = 1 if is_bound else 2
            if await self._plan_jobs.create(entry, spec, check, JobKind.DRIFT, renders=renders):
                self._memory(entry).begun = check.number
                return status
        except RefusedError as error:
            return drift_record.record_check_failure(status, BundleReason.PLAN_FAILED, str(error))
        return drift_record.break_off_check(status)  # the values were edited

    async def _missing_account(self, spec: BundleSpec) -> str | None:
        try:
            return await missing_account(self._context.client, spec)
        except Forbidden:
            return None
