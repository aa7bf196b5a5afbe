"""What the deployed version of a release has, where not all of its plans are known.

An uninstall is held to a list of what approved plans had (``inventory.py``). Of a release that was
deployed without them, a plan's Job renders the deployed digest once more. The stored release isn't
asked, as a chart may have drawn it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ReadyCondition
from copyrator.api.text import format_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.engine.step import Step
from copyrator.bundles.features.approval.jobs import EDITED, PlanDelay, PlanJobClient
from copyrator.bundles.features.approval.operations import RenderedObjects
from copyrator.bundles.features.approval.plans import PlanRecord
from copyrator.bundles.features.approval.record import PREVIEW, PlanFault
from copyrator.bundles.jobs.identity import job_name
from copyrator.bundles.jobs.pod import JobKind

_REMEDY: Final = "Correct that, or keep the objects by spec.deletionPolicy: Orphan"


@dataclass(slots=True)
class ReleaseRender:
    """The render of what is deployed, for an uninstall."""

    uid: str = ""
    """The Bundle's."""
    number: int = 1
    """Of its Job."""
    objects: RenderedObjects | None = None
    fault: str = ""
    """Why there are none; empty: that isn't known yet."""
    ended: datetime | None = None
    """When the fault was found."""


@dataclass(eq=False)
class ReleaseRenderer:
    """Renders what is deployed of Bundles that are being deleted."""

    context: Context
    references: ReferenceReader
    _: KW_ONLY
    seals: SealStore
    plan_jobs: PlanJobClient

    def job_of(self, entry: BundleEntry) -> str:
        """The name of the newest Job."""
        number = self._memory(entry).number
        return job_name(entry.key.name, JobKind.PLAN, entry.uid, "uninstall", number)

    def _memory(self, entry: BundleEntry) -> ReleaseRender:
        memories = self.context.memories
        if memories.of(entry.key, ReleaseRender).uid != entry.uid:  # of an earlier Bundle
            memories.forget(entry.key, ReleaseRender)
        render = memories.of(entry.key, ReleaseRender)
        render.uid = entry.uid
        return render

    async def find(self, entry: BundleEntry, spec: BundleSpec) -> RenderedObjects | Step:
        """The objects of the deployed version; the step while they aren't known.

        Raises:
            ApiError: the next reconcile repeats it.
        """
        render, now = self._memory(entry), self.context.clock()
        if render.objects is None and not render.fault:
            found = await self._render(entry, spec)
            if isinstance(found, PlanDelay):
                return self._wait(entry, found)
            await self.seals.remove_values(entry, self.job_of(entry))
            if isinstance(found, PlanFault):
                render.fault, render.ended = found.message, now
            else:
                render.objects = found
        if render.objects is not None:
            return render.objects
        delay = retry_delay(self.context.timing.uninstall_retry, render.number)
        due = (render.ended or now) + timedelta(seconds=delay)
        if now >= due:
            render.number, render.fault, render.ended = render.number + 1, "", None
            return await self.find(entry, spec)
        text = f"it can't be rendered: {render.fault}. Next attempt at {format_time(due)}"
        return Step(entry, entry.status, _failed(entry, text), due=(due,))

    def _wait(self, entry: BundleEntry, delay: PlanDelay) -> Step:
        """The step while the Job hasn't printed its plan."""
        again = self.context.clock() + timedelta(seconds=self.context.timing.uninstall_recheck)
        verdict = ready_conditions.uninstalling(
            f"{_unknown(entry)}: Job {self.job_of(entry)} renders it"
        )
        if delay.message:
            verdict = _failed(entry, f"it isn't rendered yet: {delay.message}")
        return Step(entry, entry.status, verdict, due=(delay.due, again))

    async def _render(
        self, entry: BundleEntry, spec: BundleSpec
    ) -> RenderedObjects | PlanFault | PlanDelay:
        """Create the Job, or read its result."""
        there = entry.status.deployed if entry.status.has_deployed else entry.status.attempted
        try:
            values_hash = await self.references.values_hash(entry, spec)
        except MissingReferenceError as error:
            return PlanFault(str(error))
        record = PlanRecord(
            job=self.job_of(entry),
            version=there.version or entry.status.deploy.version,
            digest=there.digest or entry.status.deploy.digest,
            values_hash=values_hash,
        )
        job = await self.plan_jobs.find(entry, record)
        if job is None:
            fault = await self.plan_jobs.create(entry, spec, PREVIEW, record, renders=1)
            return PlanDelay() if fault is None or fault is EDITED else fault
        found = await self.plan_jobs.progress(entry, spec, job, record)
        if isinstance(found, PlanDelay | PlanFault):
            return found
        return found.objects


def _unknown(entry: BundleEntry) -> str:
    status = entry.status
    there = status.deployed if status.has_deployed else status.attempted
    version = there.version or status.deploy.version
    return f"no plan tells all that version {version} has"


def _failed(entry: BundleEntry, text: str) -> ReadyCondition:
    return ready_conditions.uninstall_failed(
        f"Uninstalling is blocked: {_unknown(entry)}, and {text}. {_REMEDY}"
    )
