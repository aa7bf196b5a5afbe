"""Deploys are planned first, and wait for somebody's approval."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from copyrator.api.approval import ApprovalSpec, PlanStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.engine.feature import Conclusion, Feature, Parts
from copyrator.bundles.features.approval.deploys import DeployHolder, find_plan, record_end
from copyrator.bundles.features.approval.gates import GATES
from copyrator.bundles.features.approval.guard.enforcement import EnforcementReviewer
from copyrator.bundles.features.approval.guard.lists import GuardLists
from copyrator.bundles.features.approval.jobs import PlanJobClient
from copyrator.bundles.features.approval.record import needed_jobs
from copyrator.bundles.features.approval.rendered import ReleaseRenderer
from copyrator.bundles.features.approval.retention import keep_plan
from copyrator.bundles.features.approval.uninstalls import UninstallHolder
from copyrator.bundles.gates.gate import Findings
from copyrator.bundles.inputs.reader import ReferenceReader
from copyrator.bundles.jobs.client import JobClient, Kept
from copyrator.bundles.jobs.job import DeployOrder, UninstallOrder
from copyrator.bundles.jobs.outcome import Ending, JobRecord
from copyrator.bundles.jobs.sealed import SealStore
from copyrator.bundles.step import Step


class ApprovalFeature(Feature):
    """Plans, their approval, and what holds a deploy to its plan."""

    spec = ApprovalSpec
    status = PlanStatus
    gates = GATES

    def connect(self, parts: Parts) -> None:
        """Make what holds Jobs to plans."""
        context, jobs, seals = self.context, parts.of(JobClient), parts.of(SealStore)
        enforcement, kept = parts.of(EnforcementReviewer), context.timing.guard_list_kept
        self._lists = GuardLists(
            context.client, context.settings, context.informers, jobs, kept=kept
        )
        self.deploys = DeployHolder(
            context, jobs, seals, lists=self._lists, enforcement=enforcement
        )
        self._uninstalls = UninstallHolder(
            context,
            jobs,
            seals,
            lists=self._lists,
            enforcement=enforcement,
            renderer=ReleaseRenderer(
                context,
                parts.of(ReferenceReader),
                seals=seals,
                plan_jobs=parts.of(PlanJobClient),
            ),
        )

    def start(self) -> None:
        """Watch the lists of guarded Jobs."""
        self._lists.start()

    async def stop(self) -> None:
        """End that."""
        await self._lists.close()

    # --- a deploy's Job; a correction's plan is that of drift ------------------------------------

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status of a new attempt with whether its Job is held to its plan."""
        if status.attempted.correction:
            return status
        plan = find_plan(status)
        is_enforced = plan is not None and bool(plan.enforced)
        return await self.deploys.guard(entry, spec, status, plan, is_enforced=is_enforced)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a planned attempt's Job, which goes on only if it does what was planned."""
        attempted = entry.status.attempted
        plan = find_plan(entry.status)
        if job != attempted.job or attempted.correction or plan is None:
            return order
        return await self.deploys.hold(entry, spec, order, plan)

    async def conclude(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """How a deploy has ended, and whether what it stored was approved."""
        return await self.deploys.compare(entry, spec, job, pods, ending)

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """The ending of a deploy that the API server held to its list."""
        if entry.status.attempted.correction:
            return None
        return await self.deploys.blame(entry, spec, ending, error, find_plan(entry.status))

    def finish(
        self,
        entry: BundleEntry,  # noqa: ARG002
        status: BundleStatus,
        ending: Ending,
        found: Findings,
    ) -> BundleStatus:
        """The status with whether what was stored was approved, and with the deployed plan."""
        return record_end(status, ending, found)

    def has_copies(self, spec: BundleSpec, attempted: Attempted) -> bool:  # noqa: ARG002
        """Whether the attempt was planned."""
        return attempted.plan_job is not None

    # --- the Jobs of plans ------------------------------------------------------------------------

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """Those whose plans may still be compared with others."""
        return needed_jobs(status)

    def keeps(self, entry: BundleEntry, job: JobRecord, seconds: int) -> Kept | None:
        """How long a plan's Job is kept."""
        return keep_plan(job.name, entry.status, seconds, self.context.clock())

    async def retire(self, entry: BundleEntry) -> None:
        """End the plans of a Bundle that is being deleted."""
        await self._uninstalls.end_jobs(entry)

    # --- an uninstall -----------------------------------------------------------------------------

    async def uninstall(
        self, entry: BundleEntry, spec: BundleSpec, order: UninstallOrder
    ) -> UninstallOrder | Step:
        """The order of a Job that may delete what approved plans had."""
        return await self._uninstalls.hold(entry, spec, order)

    async def release(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """End all plans, and delete the Secrets that no Bundle owns."""
        await self._uninstalls.clean_up(entry, spec)


FEATURE = ApprovalFeature
