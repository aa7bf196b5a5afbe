"""Previews: plans of a version that a user names; they are only shown.

They have their own record, number and Jobs; no decision about deploys depends on them.
As with other plans the record is written before its Job is created.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus
from copyrator.api.names import ANN_PLAN_VERSION
from copyrator.api.plan_status import PlanOutcome
from copyrator.api.times import parse_time
from copyrator.api.version_range import VersionError, parse_version
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy.blocked import missing_account
from copyrator.bundles.deploy.identity import job_name
from copyrator.bundles.deploy.pod import JobKind
from copyrator.bundles.deploy.restrictions import describe_left_out
from copyrator.bundles.gates import gate as gates
from copyrator.bundles.gates import signature, vendored
from copyrator.bundles.gates.gate import Candidate, Gates
from copyrator.bundles.inputs.reader import MissingReferenceError, ReferenceReader
from copyrator.bundles.plan import record as plan_record
from copyrator.bundles.plan.jobs import PAUSED, PlanDelay, PlanFault, PlanJobs, RefusedError
from copyrator.bundles.plan.operations import Plan
from copyrator.bundles.plan.queue import PlanQueue, Ticket
from copyrator.bundles.plan.record import PlanResult, PreviewRequest
from copyrator.bundles.plan.sealed import Seals
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.trust.store import TrustStore
from copyrator.bundles.version.polls import RegistryPoller
from copyrator.bundles.version.resolve import (
    Judge,
    PendingError,
    RegistryReader,
    Resolution,
    Resolver,
)
from copyrator.kube.errors import Forbidden


@dataclass(frozen=True, slots=True)
class _PreviewTarget:
    """The version and values that a request for a preview resolves to."""

    candidate: Candidate
    values_hash: str | None


@dataclass(frozen=True, slots=True)
class _Unfit:
    """Why the requested version can't be planned."""

    reason: str
    message: str


class Previews:
    """The previews of all Bundles."""

    def __init__(
        self,
        context: Context,
        plan_jobs: PlanJobs,
        queue: PlanQueue,
        writer: StatusWriter,
        *,
        seals: Seals,
        references: ReferenceReader,
        trust: TrustStore,
        polls: RegistryPoller,
    ) -> None:
        self._context = context
        self._plan_jobs = plan_jobs
        self._queue = queue
        self._writer = writer
        self._seals = seals
        self._references = references
        self._trust = trust
        self._polls = polls

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Take the next step of a preview; returns the Bundle with its new status.

        Raises:
            ApiError, StaleError: nothing is marked as handled; the next reconcile repeats the step.
        """
        if entry.has_preview:
            entry = await self._observe(entry, spec)
        if entry.preview_request is None:
            self._queue.forget(Ticket(entry.key, is_preview=True))
        elif not entry.is_paused:
            entry = await self._begin(entry, spec, entry.preview_request)
        if entry.has_preview and (end := parse_time(entry.status.preview.expires_at)):
            self._context.schedule.reconcile_at(entry.key, end)
        return entry

    async def _observe(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Record the progress of the preview."""
        before = entry.status
        if before.preview.outcome != PlanOutcome.RUNNING:
            return await self._writer.record(
                entry, plan_record.remove_expired_preview(before, self._context.clock())
            )
        status = await self._observed(entry, spec, before)
        entry = await self._writer.record(entry, status)
        if status.preview.outcome != PlanOutcome.RUNNING:
            await self._seals.remove_values(entry, status.preview.job)
        return entry

    async def _observed(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        record, memory = status.preview, self._context.memory(entry.key)
        job = await self._plan_jobs.find(entry, record)
        if job is None:
            self._queue.end(Ticket(entry.key, is_preview=True))
            if entry.is_paused and memory.preview.preview_begun != record.number:
                return plan_record.set_preview_message(status, PAUSED.format(record.job))
            if memory.preview.preview_begun == record.number:
                return self._failed(
                    status, f"Job {record.job} was deleted before its plan was read"
                )
            return await self._made_job(entry, spec, status)
        memory.preview.preview_begun = record.number
        found = await self._plan_jobs.progress(entry, spec, job, record)
        if isinstance(found, PlanDelay):
            return plan_record.set_preview_message(status, found.message)
        self._plan_jobs.count(job, succeeded=isinstance(found, Plan))
        if isinstance(found, PlanFault):
            return self._failed(status, found.message, found.reason)
        made = PlanResult(
            found,
            await self._plan_jobs.missing_namespace(spec),
            baseline=await self._seals.operations(entry, status.baseline),
        )
        status = plan_record.record_preview_result(status, made, self._context.clock())
        return plan_record.set_preview_message(status, describe_left_out(spec))

    def _failed(
        self, status: BundleStatus, message: str, reason: str = BundleReason.PLAN_FAILED
    ) -> BundleStatus:
        return plan_record.record_preview_failure(status, reason, message, self._context.clock())

    async def _begin(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> BundleEntry:
        """Record a preview, then create its Job; or record why that isn't possible."""
        found = await self._resolve(entry, spec, request)
        if found is None:
            return entry
        now, status = self._context.clock(), entry.status
        if isinstance(found, _Unfit):
            status = plan_record.refuse_preview(status, request, found.reason, found.message, now)
            entry = await self._writer.record(entry, status)
            await self._plan_jobs.discard(entry)
            return entry
        ticket = Ticket(entry.key, is_preview=True)
        number = plan_record.next_preview(status)
        job = job_name(spec.name, JobKind.PLAN, entry.uid, "preview", number)
        if not self._queue.begin(ticket, job):
            return entry
        status = plan_record.record_preview(
            status, request, found.candidate, values_hash=found.values_hash, job=job, now=now
        )
        try:
            entry = await self._writer.record(entry, status)
            await self._plan_jobs.discard(entry)
            status = await self._made_job(entry, spec, entry.status)
        finally:
            if self._context.memory(entry.key).preview.preview_begun != number:
                self._queue.end(ticket)
        return await self._writer.record(entry, status)

    async def _made_job(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status once the recorded preview's Job is created, or with the reason why not."""
        try:
            if await self._plan_jobs.create(entry, spec, status.preview, renders=1):
                self._context.memory(entry.key).preview.preview_begun = status.preview.number
                return status
        except RefusedError as error:
            return self._failed(status, str(error))
        text = "the values were edited before its Job was created; request it again"
        return self._failed(status, text, BundleReason.PLAN_CHANGED)

    async def _resolve(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> _PreviewTarget | _Unfit | None:
        """The version to plan, or why there is none; None while the registry hasn't answered."""
        try:
            parse_version(request.version)
        except VersionError as error:
            return _Unfit(BundleReason.INVALID_SPEC, f"{ANN_PLAN_VERSION}: {error}")
        try:
            values_hash = await self._references.values_hash(entry, spec)
            resolution = await self._resolution(entry, spec, request)
        except MissingReferenceError as error:
            return _Unfit(error.reason, str(error))
        if resolution is None:
            return None
        if (unfit := _unfit(resolution)) is not None:
            return unfit
        if (missing := await self._missing_account(spec)) is not None:
            return _Unfit(BundleReason.SERVICE_ACCOUNT_MISSING, missing)
        return _PreviewTarget(Candidate(resolution.tag, resolution.digest), values_hash)

    async def _resolution(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> Resolution | None:
        """Resolve the version as for a Bundle without a deploy, so that none counts as a downgrade.

        Of the gates only those of signatures and vendored dependencies are evaluated, as nothing is
        deployed. The latter is asked of Bundles without gates, too, of the version that they'd get.
        """
        memory, context = self._context.memory(entry.key).preview, self._context
        if memory.preview_asked != request.token:
            memory.preview_asked, memory.preview_since = request.token, context.monotonic()
        asked_of = (signature.NAME, vendored.NAME)
        version = tuple(gate for gate in context.gates.version if gate.name in asked_of)
        queries = RegistryReader(
            entry.without_status(),
            replace(spec, version=request.version),
            await self._references.access(entry, spec),
            self._polls,
            memory.preview_since,
        )
        asked = await self._trust.of(entry, spec)
        judge = Judge(queries, Gates(version=version), context.clock(), asked)
        found = Resolver(queries, judge).resolve()
        if found is None or not found.digest or found.error is not None:
            return found
        try:
            verdict = judge.vendored(found.digest)
        except PendingError:
            return None
        candidate = Candidate(found.tag, found.digest)
        held = gates.hold_back(candidate, (gates.GateResult(vendored.NAME, verdict),))
        return Resolution(held=held) if held else found

    async def _missing_account(self, spec: BundleSpec) -> str | None:
        try:
            return await missing_account(self._context.client, spec)
        except Forbidden:
            return None


def _unfit(resolution: Resolution) -> _Unfit | None:
    if resolution.error is not None:
        return _Unfit(resolution.error.reason, resolution.error.message)
    if resolution.unresolved is not None:
        return _Unfit(resolution.unresolved.reason, resolution.unresolved.message)
    if not resolution.tag and resolution.held is not None:
        held = resolution.held
        text = f"{held.candidate.version}: {held.objection.message}"
        return _Unfit(held.objection.reason, text)
    return None
