"""Plans: their Jobs, from the record in the status to the operations that these found.

As with attempts, a plan is recorded before its Job is created and read before its Job may be
deleted. A plan changes nothing, so a Job that doesn't exist after a restart is created again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, PlanOutcome
from copyrator.api.conditions import ReadyCondition
from copyrator.api.keys import BundleKey
from copyrator.bundles.blocked import BLOCKED_AFTER, LOOK_AGAIN, obstacle
from copyrator.bundles.cache import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.orders import is_made_of, plan_order
from copyrator.bundles.plan_queue import PlanQueue
from copyrator.bundles.plan_reader import PlanFault, PlanReader
from copyrator.bundles.policy import plan_decision, plan_record
from copyrator.bundles.policy.deploy_job import build_plan_job
from copyrator.bundles.policy.gates import Target
from copyrator.bundles.policy.identity import job_name
from copyrator.bundles.policy.job import JobKind
from copyrator.bundles.policy.observation import JobRecord
from copyrator.bundles.policy.plan_record import Made
from copyrator.bundles.redaction import Redaction
from copyrator.bundles.references import MissingReferenceError, References
from copyrator.bundles.seals import Seals
from copyrator.bundles.status import StatusWriter
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import NAMESPACES

log = logging.getLogger(__name__)

LEFT_WITHIN: Final = timedelta(hours=1)
"""For so long after an outcome a new process looks for what a former one may have left."""


class _RefusedError(Exception):
    """A plan's Job can't be created; the message says why."""


class Plans:
    """The plans of all Bundles."""

    def __init__(
        self,
        context: Context,
        jobs: Jobs,
        references: References,
        writer: StatusWriter,
        redaction: Redaction,
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._references = references
        self._writer = writer
        self.seals = Seals(context, references)
        self._reader = PlanReader(context, jobs, redaction)
        self._queue = PlanQueue(context, jobs)

    def unneeded(self, key: BundleKey) -> None:
        """No plan has to be begun."""
        self._queue.forget(key)

    @contextmanager
    def reconciling(self, key: BundleKey) -> Iterator[None]:
        """Around each reconcile of a Bundle: a turn that it doesn't use is the next one's."""
        self._queue.reconciling(key)
        try:
            yield
        finally:
            self._queue.reconciled(key)

    def forget(self, key: BundleKey) -> None:
        """The Bundle was deleted."""
        self._queue.forget(key)
        self._queue.end(key)

    async def observe(self, entry: BundleEntry, spec: BundleSpec) -> BundleStatus | None:
        """The status with what became of the plan and of a decision, which the caller writes.

        None where nothing did: most reconciles don't even read the status.

        Raises:
            ApiError: the plan's Job, pods or log can't be read now.
        """
        memory = self._context.memory(entry.key)
        memory.look_at = None
        await self._tidy(entry, spec)
        has_turn = self._queue.turn(entry.key)
        if not (entry.is_planning or entry.is_decided or has_turn):
            return None
        status = before = entry.status
        if entry.is_planning:
            status = await self._observed(entry, spec, status)
        status = plan_decision.decided(status, entry.annotations, self._context.clock())
        if status is before and not has_turn:
            return None
        self._context.judge_again(entry.key, spec)
        return status

    async def _tidy(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Delete the Secrets that nobody needs any more, and that are still there.

        Those of a plan that failed, once its message is in the status: until then it may have to be
        made again, without their contents. At a process's start also what a former one left.
        """
        memory = self._context.memory(entry.key)
        if memory.values_of is not None and not entry.is_planning:
            await self.seals.remove_values(entry, memory.values_of)
            memory.values_of = None
        if not memory.is_tidied and spec.approval.is_asked:
            status = entry.status
            if plan_record.ended_since(status, self._context.clock() - LEFT_WITHIN):
                await self.seals.remove_others(entry, plan_record.needed(status))
        memory.is_tidied = True

    async def begin(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        target: Target,
        verdict: ReadyCondition,
    ) -> bool:
        """Record a plan, then create its Job. False: too many are being made; it is queued."""
        number = (entry.status.plan.number or 0) + 1
        job = job_name(spec.name, JobKind.PLAN, entry.uid, number)
        if not self._queue.begin(entry.key, job):
            return False
        is_requested = entry.request is not None
        now = self._context.clock()
        status = plan_record.begun(status, target, job, now, is_requested=is_requested)
        if entry.plan_request is not None:
            status = replace(status, last_handled_plan=entry.plan_request)
        is_made = False
        try:
            is_made = await self._begin(entry, spec, status, verdict)
        finally:
            if not is_made:
                self._queue.end(entry.key)
        return True

    async def _begin(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, verdict: ReadyCondition
    ) -> bool:
        """Record a plan, then create its Job; False where there is none."""
        entry = await self._writer.write(entry, status, verdict)
        await self.discard(entry)
        with suppress(_RefusedError):  # the next reconcile tries once more, and records why not
            if await self._make_job(entry, spec):
                return True
        self._context.queue.add(entry.key)  # a watch may not report what was just read
        return False

    async def discard(self, entry: BundleEntry) -> None:
        """End the Jobs of plans that aren't the Bundle's any more; delete what was kept of them."""
        await self._jobs.end_plans(entry.key, entry.uid, but=entry.status.plan.job)
        await self.seals.remove_others(entry, plan_record.needed(entry.status))

    async def _make_job(self, entry: BundleEntry, spec: BundleSpec) -> bool:
        """Create the Job of the recorded plan; False where the values aren't its own any more.

        Raises:
            ApiError: it may have been created; the next reconcile tries the same name again.
        """
        plan = entry.status.plan
        order = plan_order(entry, spec, plan.version or "", plan.digest or "")
        job = plan.job or ""
        try:
            access = await self._references.access(entry, spec)
            values_hash, sealed = await self.seals.values(entry, spec, job)
        except MissingReferenceError as error:
            log.debug("%s: not planned: %s", entry.key, error)
            return False  # the next reconcile reports it
        except ApiError as error:
            if error.transient or isinstance(error, Forbidden):
                raise
            text = f"Job {job} isn't created: copies of its values can't be: {error.message}"
            raise _RefusedError(text) from None
        if values_hash != plan.values_hash:
            return False  # and plans with the new ones
        order = replace(order, login=access.login, sealed=sealed)
        try:
            made = await self._jobs.create(build_plan_job(order, job, self._nonce(entry, job)))
        except ApiError as error:
            if error.transient:
                raise
            text = f"the API server rejected Job {job}: {error.message}"
            raise _RefusedError(text) from None
        if made is None:
            text = f"a Job {job} already exists and wasn't created for this Bundle; delete it"
            raise _RefusedError(text)
        self._context.memory(entry.key).plan_begun = plan.number
        return True

    def _nonce(self, entry: BundleEntry, job: str) -> str:
        return self.seals.derived(entry, job, "nonce")

    async def _observed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        plan, memory = status.plan, self._context.memory(entry.key)
        if not is_made_of(plan, entry, spec):
            return status  # another one replaces it
        job = await self._jobs.find(entry.key, entry.uid, plan.job or "")
        if job is None:
            self._queue.end(entry.key)
            text = f"Job {plan.job} was deleted before its plan was read"
            if memory.plan_begun != plan.number:
                try:
                    await self._make_job(entry, spec)
                    return status
                except _RefusedError as error:
                    text = str(error)
            return self._failed(entry, spec, status, PlanFault(text))
        memory.plan_begun = plan.number
        if not job.done:
            return await self._blocked(entry, spec, status, job)
        status = await self._taken(entry, spec, status, job)
        if memory.plan_counted != plan.number:
            memory.plan_counted = plan.number
            self._count(job, status)
        return status

    async def _taken(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, job: JobRecord
    ) -> BundleStatus:
        """The status with the plan of a Job that has ended, or with why it has none."""
        plan = await self._reader.read(job, self._nonce(entry, job.name))
        if isinstance(plan, PlanFault):
            return self._failed(entry, spec, status, plan)
        seal = await self.seals.store_operations(entry, job.name, plan.text)
        made = Made(
            plan,
            await self._missing_namespace(spec),
            seal,
            approved=await self.seals.operations(entry, status.plan.approved),
            baseline=await self.seals.operations(entry, status.baseline),
        )
        before = status.baseline
        status = plan_record.planned(status, made, spec, self._context.clock())
        await self.seals.remove_values(entry, job.name)
        self._context.memory(entry.key).values_of = None
        if status.baseline != before:
            await self.seals.remove_others(entry, plan_record.needed(status))
        return status

    async def _blocked(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, job: JobRecord
    ) -> BundleStatus:
        """The status with what keeps the Job from its end, or without it."""
        now = self._context.clock()
        patience = (job.created or now) + timedelta(seconds=BLOCKED_AFTER)
        is_early = now < patience
        look_at = patience if is_early else now + timedelta(seconds=LOOK_AGAIN)
        self._context.memory(entry.key).look_at = look_at  # whatever else it waits for
        self._context.wake_at(entry.key, look_at)
        if is_early:
            return status
        blocked = await obstacle(self._context.client, self._jobs, job, spec)
        if blocked is not None and blocked.reason is BundleReason.PLAN_CHANGED:
            await self._jobs.give_up(job, blocked.reason)
        text = f"Job {job.name} is blocked: {blocked.message}" if blocked else None
        if text == status.plan.message:
            return status
        return replace(status, plan=replace(status.plan, message=text))

    async def _missing_namespace(self, spec: BundleSpec) -> str | None:
        try:
            await self._context.client.get(NAMESPACES, None, spec.project_namespace)
        except NotFound:
            return spec.project_namespace
        except Forbidden:
            log.debug("namespace %s can't be read", spec.project_namespace)
        return None

    def _failed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, why: PlanFault
    ) -> BundleStatus:
        self._context.memory(entry.key).values_of = status.plan.job
        self._context.queue.add(entry.key)  # they are deleted once this is written
        now = self._context.clock()
        return plan_record.failed(status, why.reason, why.message, spec.retry, now)

    def _count(self, job: JobRecord, status: BundleStatus) -> None:
        metrics = self._context.metrics
        outcome = "succeeded" if status.plan.outcome == PlanOutcome.PLANNED else "failed"
        metrics.deploys.labels("plan", outcome).inc()
        if job.created is not None:
            seconds = ((job.finished or self._context.clock()) - job.created).total_seconds()
            metrics.deploy_seconds.labels("plan").observe(max(seconds, 0.0))
