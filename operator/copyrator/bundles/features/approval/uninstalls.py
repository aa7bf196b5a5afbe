"""Holds uninstalls to what the approved plans of the release had (``secrets.ReleaseInventory``).

Of a release that was deployed without them, a plan's Job renders the deployed digest once more. The
stored release isn't asked, as a chart may have drawn it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ReadyCondition
from copyrator.api.reasons.bundles import BundleEvent
from copyrator.api.text import format_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.engine.step import Step
from copyrator.bundles.jobs.identity import job_name
from copyrator.bundles.jobs.job import UninstallOrder
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.fields import ApprovalSpec, PlanRecord
from copyrator.bundles.plans.guard.listing import (
    GUARDED_NAME_LENGTH,
    GuardedUninstall,
    ListTooLargeError,
)
from copyrator.bundles.plans.jobs import EDITED, PlanDelay, PlanJobClient
from copyrator.bundles.plans.operations import RenderedObjects
from copyrator.bundles.plans.planning import Planning
from copyrator.bundles.plans.record import PlanFault
from copyrator.bundles.plans.script import require_guard
from copyrator.bundles.plans.secrets import ReleaseInventory

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


class ReleaseRenderer:
    """Renders what is deployed of Bundles that are being deleted."""

    def __init__(self, jobs: PlanJobClient) -> None:
        self._jobs, self._context = jobs, jobs.context

    def job_of(self, entry: BundleEntry) -> str:
        """The name of the newest Job."""
        number = self._memory(entry).number
        return job_name(entry.key.name, JobKind.PLAN, entry.uid, "uninstall", number)

    def _memory(self, entry: BundleEntry) -> ReleaseRender:
        memories = self._context.memories
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
        render, now = self._memory(entry), self._context.clock()
        if render.objects is None and not render.fault:
            found = await self._render(entry, spec)
            if isinstance(found, PlanDelay):
                return self._wait(entry, found)
            await self._jobs.seals.remove_values(entry, self.job_of(entry))
            if isinstance(found, PlanFault):
                render.fault, render.ended = found.message, now
            else:
                render.objects = found
        if render.objects is not None:
            return render.objects
        delay = retry_delay(self._context.timing.uninstall_retry, render.number)
        due = (render.ended or now) + timedelta(seconds=delay)
        if now >= due:
            render.number, render.fault, render.ended = render.number + 1, "", None
            return await self.find(entry, spec)
        text = f"it can't be rendered: {render.fault}. Next attempt at {format_time(due)}"
        return Step(entry, entry.status, _failed(entry, text), due=(due,))

    def _wait(self, entry: BundleEntry, delay: PlanDelay) -> Step:
        """The step while the Job hasn't printed its plan."""
        again = self._context.clock() + timedelta(seconds=self._context.timing.uninstall_recheck)
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
        version, digest = _version_of(entry)
        try:
            values_hash = await self._jobs.references.values_hash(entry, spec)
        except MissingReferenceError as error:
            return PlanFault(str(error))
        record = PlanRecord(
            job=self.job_of(entry),
            version=version,
            digest=digest,
            values_hash=values_hash,
        )
        job = await self._jobs.find(entry, record)
        if job is None:
            fault = await self._jobs.create(entry, spec, record, JobKind.PLAN, renders=1)
            return PlanDelay() if fault is None or fault is EDITED else fault
        found = await self._jobs.progress(entry, spec, job, record)
        if isinstance(found, PlanDelay | PlanFault):
            return found
        return found.objects


def _version_of(entry: BundleEntry) -> tuple[str | None, str | None]:
    """What runs, or may: version and digest."""
    status = entry.status
    there = status.deployed if status.has_deployed else status.attempted
    return there.version or status.deploy.version, there.digest or status.deploy.digest


def _unknown(entry: BundleEntry) -> str:
    return f"no plan tells all that version {_version_of(entry)[0]} has"


def _failed(entry: BundleEntry, text: str) -> ReadyCondition:
    return ready_conditions.uninstall_failed(
        f"Uninstalling is blocked: {_unknown(entry)}, and {text}. {_REMEDY}"
    )


class UninstallHolder:
    """Holds the uninstalls of all Bundles to their approved plans."""

    def __init__(self, planning: Planning) -> None:
        self._context, self._jobs, self._seals = planning.context, planning.all_jobs, planning.seals
        self._lists, self._inventories = planning.lists, planning.inventories
        self._enforcement, self._policy = planning.enforcement, planning.guard.policy
        self.renderer = ReleaseRenderer(planning.jobs)

    async def clean_up(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """End all its plans, and delete the Secrets that no Bundle owns."""
        if not spec.uses(ApprovalSpec):
            return
        rendered = self.renderer.job_of(entry)
        for job in self._jobs.of(entry.key, entry.uid):
            if job.name == rendered:
                await self._jobs.set_ttl(job, self._context.settings.jobs_ttl)
        await self._jobs.end_further(entry.key, entry.uid)
        await self._seals.remove_others(entry, ())

    async def hold(
        self, entry: BundleEntry, spec: BundleSpec, order: UninstallOrder
    ) -> UninstallOrder | Step:
        """The order of a Job that may delete what the plans had; the step until that is known.

        Raises:
            ApiError: the next reconcile tries again.
        """
        guarded = await self._find_list(entry, spec)
        if isinstance(guarded, Step):
            return guarded
        if isinstance(guarded, str):
            if guarded:
                text = f"The uninstall isn't held to what plans had: {guarded}"
                self._context.record(entry, BundleEvent.UNINSTALL_NOT_ENFORCED, text)
            return order
        policy = self._policy or ""
        order = replace(order, name_length=GUARDED_NAME_LENGTH, before=require_guard(policy))
        try:
            await self._lists.write(order.job, guarded)
        except ListTooLargeError as error:
            verdict = ready_conditions.uninstall_failed(f"Uninstalling is blocked: {error}")
            again = timedelta(seconds=self._context.timing.uninstall_recheck)
            return Step(entry, entry.status, verdict, due=(self._context.clock() + again,))
        return order

    async def _find_list(
        self, entry: BundleEntry, spec: BundleSpec
    ) -> GuardedUninstall | Step | str:
        """What the Job may delete, and which hooks it may make, by the approved plans.

        Where not all of them are known, also by a render of what is deployed; the step until that
        is known. A text: why the Job isn't held to it, empty for Bundles without an approval.

        Raises:
            ApiError: the next reconcile tries again.
        """
        known, needs_approval = ReleaseInventory(), spec.uses(ApprovalSpec)
        if self._policy is not None and not spec.is_remote:
            known = await self._inventories.find(entry)
        is_complete = known.is_complete(entry.status)
        if not is_complete and not needs_approval:
            return ""
        unenforced = await self._enforcement.find_reason(spec, known.deletions)
        if not unenforced and not is_complete:
            found = await self.renderer.find(entry, spec)
            if isinstance(found, Step):
                return found
            known = known.complete_with(found)
            unenforced = await self._enforcement.find_reason(spec, known.deletions)
        if unenforced:
            return unenforced if needs_approval else ""
        return GuardedUninstall(
            account=ServiceAccount.of(spec),
            release=spec.release,
            namespace=spec.project_namespace,
            inventory=known.deletions,
            hooks=known.objects.uninstall_hooks,
            as_account=known.hooks_as_account,
        )
