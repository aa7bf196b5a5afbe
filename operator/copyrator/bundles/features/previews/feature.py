"""The version that a user names is resolved, planned and shown.

No decision about deploys depends on it, nor on the gates that a deploy must pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.names import ANN_PLAN_AT, ANN_PLAN_VERSION
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import parse_time
from copyrator.api.version_range import VersionError, parse_version
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.choose import (
    PendingError,
    RegistryReader,
    Resolution,
    Resolver,
)
from copyrator.bundles.engine.feature import Parts
from copyrator.bundles.engine.gate import Candidate, Gates
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.engine.registry import RegistryPoller
from copyrator.bundles.engine.step import Step, record_part
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.features.previews.record import (
    PREVIEW,
    PreviewRequest,
    describe_left_out,
    keep_preview,
    record_preview_result,
    refuse_preview,
    remove_expired_preview,
    request_preview,
    requested_preview,
)
from copyrator.bundles.jobs.outcome import JobRecord
from copyrator.bundles.jobs.pod import Kept
from copyrator.bundles.plans.feature import PlanFeature
from copyrator.bundles.plans.fields import Baseline, PlanStatus
from copyrator.bundles.plans.machine import PlanMachine, PlanMemory, PlanTask
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.planning import Planning
from copyrator.bundles.plans.record import PlanFault, PlanResult, PlanTarget, set_message


def _find_fault(resolution: Resolution) -> PlanFault | None:
    if (why := resolution.error or resolution.unresolved) is not None:
        return PlanFault(why.message, why.reason)
    if not resolution.tag and resolution.held is not None:
        held = resolution.held
        text = f"{held.candidate.version}: {held.objection.message}"
        return PlanFault(text, held.objection.reason)
    return None


@dataclass(slots=True)
class PreviewMemory(PlanMemory):
    """The plan of a version that a user names."""

    asked: str = ""
    """The token of the request for which the registry is polled."""
    since: float = 0.0
    """Monotonic seconds of the oldest answer that is accepted for it."""


class Previews(PlanMachine[PreviewMemory]):
    """Makes the previews of all Bundles."""

    purpose = PREVIEW
    memory = PreviewMemory
    renders = 1

    def __init__(self, planning: Planning, polls: RegistryPoller) -> None:
        super().__init__(planning)
        self._polls = polls

    async def advance(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Take the next steps of a preview.

        Raises:
            ApiError: nothing is marked as handled; the next reconcile repeats the step.
        """
        task = self.task(entry, spec)
        if task.record.outcome is None:
            return await self._begin_requested(task)
        ends = (
            one.made_at or one.started_at for one in (entry.status.part(PlanStatus), task.record)
        )
        again = await self.seals.tidy(entry, spec, *ends, may_have=True)
        step = await self._observe(task)
        step = replace(step, due=(*step.due, again))
        return step.then(lambda written: self._begin_requested(replace(task, entry=written)))

    async def _observe(self, task: PlanTask) -> Step:
        entry = task.entry
        if not task.record.is_running:
            return record_part(entry, remove_expired_preview(task.status, self.context.clock()))
        status, due = await self.observe(task)
        if PREVIEW.record(status).is_running:
            return record_part(entry, status, due)

        async def remove_values(written: BundleEntry) -> Step:
            await self.seals.remove_values(written, PREVIEW.record(status).job)
            return Step(written)

        return record_part(entry, status, due).then(remove_values)

    async def _begin_requested(self, task: PlanTask) -> Step:
        """Record a preview that is requested, or why it isn't possible."""
        entry, spec, preview = task.entry, task.spec, task.status.part(PreviewPlan)
        request = requested_preview(entry.annotations, task.status)
        if request is None:
            self.skip(entry.key)
        end = parse_time(preview.expires_at) if preview.outcome is not None else None
        unchanged = Step(entry, due=(end,))
        if request is None or entry.is_paused:
            return unchanged
        target = await self._resolve(entry, spec, request)
        if isinstance(target, PlanTarget):
            await self.jobs.prepare(entry, spec)
            target = await self.jobs.missing_account(spec) or target
        if target is None:
            return unchanged
        status = request_preview(task.status, request)
        if isinstance(target, PlanFault):
            status = refuse_preview(status, target, spec.retry, self.context.clock())
            return record_part(entry, status).then(self.discard)
        return self.begin(task, status, target) or unchanged

    async def _resolve(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> PlanTarget | PlanFault | None:
        """What to plan, or why that can't be planned; None while the registry hasn't answered.

        Raises:
            ApiError: what the spec names can't be read now.
        """
        try:
            parse_version(request.version)
        except VersionError as error:
            return PlanFault(f"{ANN_PLAN_VERSION}: {error}", BundleReason.INVALID_SPEC)
        try:
            values_hash = await self.jobs.references.values_hash(entry, spec)
            found = await self._resolution(entry, spec, request)
        except MissingReferenceError as error:
            return PlanFault(str(error), error.reason)
        if found is None:
            return None
        target = PlanTarget(
            version=found.tag,
            digest=found.digest,
            values_hash=values_hash,
            spec_hash="",
            job_hash="",
        )
        return _find_fault(found) or target

    async def _resolution(
        self, entry: BundleEntry, spec: BundleSpec, request: PreviewRequest
    ) -> Resolution | None:
        """Resolve the version as for a Bundle without a deploy, so that none counts as a downgrade.

        Of the gates only those of signatures and charts are evaluated, as nothing is deployed.
        The charts of Bundles without gates are judged, too: of the version that they'd get.
        """
        context, memory = self.context, self.remembered(entry.key)
        if memory.asked != request.token:
            memory.asked, memory.since = request.token, context.monotonic()
        judged = Gates(
            version=tuple(
                gate for gate in context.gates.version if gate.vouches or gate.judges_chart
            )
        )
        queries = RegistryReader(
            replace(entry, status=BundleStatus(), annotations={}, request=None),
            structs.replace(spec, version=request.version),
            await self.jobs.references.access(entry, spec),
            self._polls,
            memory.since,
        )
        read, _ = await self.jobs.features.read(entry, spec, judged)
        resolver = Resolver(queries, judged, context.clock(), self.jobs.features, read)
        found = resolver.resolve()
        if found is None or not found.digest or found.error is not None:
            return found
        gated = replace(queries, spec=structs.replace(queries.spec, is_gated=True))
        of_chart = Gates(version=tuple(gate for gate in judged.version if gate.judges_chart))
        candidate = Candidate(found.tag, found.digest)
        try:
            _, held = replace(resolver, queries=gated, gates=of_chart).judge(candidate)
        except PendingError:
            return None
        return Resolution(held=held) if held else found

    def report_begun(self, task: PlanTask, fault: PlanFault | None) -> Step:
        """Record why there is none."""
        return record_part(task.entry, task.status if fault is None else self.fail(task, fault))

    async def record_result(self, task: PlanTask, plan: Plan) -> BundleStatus:
        """The status with what is shown."""
        missing = await self.jobs.missing_namespace(task.spec)
        baseline = await self.stored.find(task.entry, task.status.part(Baseline))
        result = PlanResult(plan, missing, baseline=baseline)
        status = record_preview_result(task.status, result, self.context.clock())
        return set_message(status, PREVIEW, describe_left_out(task.spec))


class PreviewFeature(PlanFeature):
    """Previews of all Bundles, also of those without an approval."""

    spec = ()
    status = PreviewPlan
    annotation = ANN_PLAN_AT
    outlasts = True
    purposes = (PREVIEW,)

    def connect(self, parts: Parts) -> None:
        """They are plans."""
        super().connect(parts)
        self._previews = Previews(self.planning, parts.of(RegistryPoller))

    async def advance(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Go on with one, or begin it."""
        return await self._previews.advance(entry, spec)

    def awaits_answer(self, entry: BundleEntry) -> bool:
        """Its version, or its chart."""
        status = entry.status
        is_asked = requested_preview(entry.annotations, status) is not None
        return is_asked or status.part(PreviewPlan).is_running

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """While it runs."""
        preview = status.part(PreviewPlan)
        return (preview.job if preview.is_running else None,)

    def keeps(self, entry: BundleEntry, job: JobRecord) -> Kept | None:
        """How long its Job is kept."""
        return keep_preview(job.name, entry.status)


FEATURE = PreviewFeature
