"""The Jobs of plans, of the next deploy's and of previews: created, observed, counted."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.drift_status import DriftCheck
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.plan_status import PlanStatus, PlanSummary
from copyrator.bundles.blocked import find_blocked
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.jobs import Jobs
from copyrator.bundles.orders import plan_order
from copyrator.bundles.plans.inputs import PlanInputs
from copyrator.bundles.plans.reader import MadeOf, PlanDelay, PlanFault, PlanReader
from copyrator.bundles.plans.seals import Seals
from copyrator.bundles.policy.jobs.deploy import build_plan_job
from copyrator.bundles.policy.jobs.manifest import JobKind
from copyrator.bundles.policy.observation import JobRecord
from copyrator.bundles.policy.permissions import ServiceAccount
from copyrator.bundles.policy.plans import record as plan_record
from copyrator.bundles.policy.plans.operations import Plan
from copyrator.bundles.redaction import Redaction
from copyrator.bundles.references.reader import MissingReferenceError, References
from copyrator.bundles.releases import is_namespace_missing
from copyrator.bundles.resolution.charts import ERROR_SECONDS, Charts
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.oci.errors import RegistryError

log = logging.getLogger(__name__)


RecordedPlan = PlanSummary | DriftCheck

PAUSED: Final = f"Job {{}} isn't created until the annotation {ANN_DISABLE_AUTOUPDATE} is removed"
"""The message for a plan without a Job, where updates of the Bundle are disabled."""


class RefusedError(Exception):
    """A plan's Job can't be created; the message says why."""


class PlanJobs:
    """The plan Jobs of all Bundles."""

    def __init__(
        self,
        context: Context,
        jobs: Jobs,
        references: References,
        redaction: Redaction,
        *,
        seals: Seals,
        inputs: PlanInputs,
        charts: Charts,
    ) -> None:
        self._context = context
        self._jobs = jobs
        self._references = references
        self._seals = seals
        self._inputs = inputs
        self._charts = charts
        self._reader = PlanReader(context, jobs, redaction)

    async def create(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        plan: RecordedPlan,
        kind: JobKind = JobKind.PLAN,
        *,
        renders: int = 2,
    ) -> bool:
        """Create the Job of a recorded plan; False where the values have changed since.

        ``renders``: how often it renders the chart; a plan that is to be bound needs two.

        Raises:
            RefusedError: the Job can't be created without a change of the spec or the cluster.
            ApiError: it may have been created; the next reconcile tries the same name again.
        """
        order = plan_order(entry, spec, plan.version or "", plan.digest or "")
        job = plan.job or ""
        try:
            access = await self._references.access(entry, spec)
            inputs = self._inputs.begin(entry, order.spec) if isinstance(plan, PlanStatus) else None
            also = inputs.add if inputs is not None else None
            values_hash, sealed = await self._seals.values(entry, spec, job, also)
            if inputs is not None and values_hash == plan.values_hash:
                await self._inputs.store(entry, job, inputs)
        except MissingReferenceError as error:
            log.debug("%s: not planned: %s", entry.key, error)
            return False  # the next reconcile reports it
        except ApiError as error:
            if error.transient or isinstance(error, Forbidden):
                raise
            text = f"Job {job} isn't created: copies of its values can't be: {error.message}"
            raise RefusedError(text) from None
        if values_hash != plan.values_hash:
            return False
        order = replace(order, login=access.login, sealed=sealed)
        try:
            nonce = self._nonce(entry, job)
            made = await self._jobs.create(build_plan_job(order, job, nonce, kind, renders=renders))
        except ApiError as error:
            if error.transient:
                raise
            text = f"the API server rejected Job {job}: {error.message}"
            raise RefusedError(text) from None
        if made is None:
            text = f"a Job {job} already exists and wasn't created for this Bundle; delete it"
            raise RefusedError(text)
        return True

    def _nonce(self, entry: BundleEntry, job: str) -> str:
        return self._seals.derived(entry, job, "nonce")

    async def find(self, entry: BundleEntry, plan: RecordedPlan) -> JobRecord | None:
        """The Job of a recorded plan; None where it doesn't exist."""
        return await self._jobs.find(entry.key, entry.uid, plan.job or "")

    async def progress(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord, plan: RecordedPlan
    ) -> Plan | PlanFault | PlanDelay:
        """The result of a plan's Job, or why there is none yet.

        Args:
            entry: the Bundle, which is requeued when the result may have changed.
            spec: its spec.
            job: the Job as it is now.
            plan: its record in the status, with the message about a delay.

        Raises:
            ApiError: its pods, or the registry's credentials, can't be read now.
        """
        if not job.done:
            return PlanDelay(await self._blocked_message(entry, spec, job, plan.message))
        chart = await self._charts.of(entry, spec, plan.digest or "")
        if chart is None:
            return PlanDelay(plan.message)
        if isinstance(chart, RegistryError):
            again = self._context.clock() + timedelta(seconds=ERROR_SECONDS)
            self._context.schedule.reconcile_at(entry.key, again)
            text = f"Job {job.name}: the chart can't be read: {chart.message}; it is tried again"
            return PlanDelay(text)
        made_of = MadeOf(ServiceAccount.of(spec), spec.werf_image, chart)
        found = self._reader.read(entry.key, job, self._nonce(entry, job.name), made_of)
        return found or PlanDelay(plan.message)

    async def close(self) -> None:
        """End all reads of logs."""
        await self._reader.close()

    async def _blocked_message(
        self, entry: BundleEntry, spec: BundleSpec, job: JobRecord, known: str | None
    ) -> str | None:
        """Why an unfinished Job makes no progress; ``known`` where its pods aren't read yet.

        A Job whose Secrets were deleted is ended.
        """
        now, timing = self._context.clock(), self._context.timing
        patience = (job.created or now) + timedelta(seconds=timing.job_blocked)
        is_early = now < patience
        check_at = patience if is_early else now + timedelta(seconds=timing.job_recheck)
        self._context.schedule.reconcile_at(entry.key, check_at)
        if is_early:
            return known
        blocked = await find_blocked(self._context.client, self._jobs, job, spec)
        if blocked is not None and blocked.reason is BundleReason.PLAN_CHANGED:
            await self._jobs.give_up(job, blocked.reason)
        return f"Job {job.name} is blocked: {blocked.message}" if blocked else None

    async def missing_namespace(self, spec: BundleSpec) -> str | None:
        """The name of the release's namespace where it doesn't exist, else None."""
        namespace = spec.project_namespace
        return namespace if await is_namespace_missing(self._context.client, namespace) else None

    async def discard(self, entry: BundleEntry) -> None:
        """End the Jobs of plans that the status no longer has, and delete their Secrets."""
        status = entry.status
        needed = {status.plan.job, status.preview.job, status.drift.check.job}
        await self._jobs.end_plans(entry.key, entry.uid, but=needed)
        await self._seals.remove_others(entry, plan_record.needed(status))

    def count(self, job: JobRecord, *, succeeded: bool) -> None:
        """Count a plan's outcome in the metrics."""
        metrics = self._context.metrics
        purpose = job.kind.value
        metrics.deploys.labels(purpose, "succeeded" if succeeded else "failed").inc()
        if job.created is not None:
            seconds = ((job.finished or self._context.clock()) - job.created).total_seconds()
            metrics.deploy_seconds.labels(purpose).observe(max(seconds, 0.0))
