"""The permissions that plans lack: reviewed once for each plan, and recorded in the status.

They inform the people who decide about a plan; no decision of the operator depends on them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.plan_status import ApprovedPlan, PlanOutcome
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.plans.permission_reviews import PermissionReviews, ReviewRequest
from copyrator.bundles.plans.seals import Seals
from copyrator.bundles.policy.permissions import Need, ServiceAccount, with_findings
from copyrator.bundles.policy.plans.operations import Operation
from copyrator.bundles.releases import is_namespace_missing
from copyrator.bundles.status import StatusWriter


class PlanPermissions:
    """Records the permissions that the plans of all Bundles lack."""

    def __init__(
        self, context: Context, reviews: PermissionReviews, seals: Seals, writer: StatusWriter
    ) -> None:
        self._context = context
        self._reviews = reviews
        self._seals = seals
        self._writer = writer

    def ask(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        operations: Collection[Operation],
        *,
        is_namespace_missing: bool,
    ) -> None:
        """Begin the reviews of a plan that was made."""
        request = _review_request(spec, is_namespace_missing=is_namespace_missing)
        self._begin(entry, request.of(operations))

    def ask_without_plan(
        self, entry: BundleEntry, spec: BundleSpec, denied: tuple[Need, ...]
    ) -> None:
        """Begin reviews of what every deploy needs, as a plan failed by a missing permission."""
        self._begin(entry, replace(_review_request(spec), denied=denied))

    def _begin(self, entry: BundleEntry, request: ReviewRequest) -> None:
        async def ask() -> ReviewRequest:
            return request

        self._reviews.begin(entry.key, entry.status.plan.job or "", ask)

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Write findings to the status; begin reviews of a waiting plan that has none.

        It has none after a restart, and where reviews failed or were forbidden.

        Raises:
            ApiError, StaleError: the status can't be written; the next reconcile tries again.
        """
        entry = await self._recorded(entry)
        if entry.is_unreviewed:
            self._ask_again(entry, spec)
        return entry

    async def close(self) -> None:
        """End all reviews."""
        await self._reviews.close()

    async def _recorded(self, entry: BundleEntry) -> BundleEntry:
        """Write the findings about the present plan; returns the Bundle with its new status."""
        found = self._reviews.found(entry.key)
        if found is None:
            return entry
        plan = entry.status.plan
        job, findings = found
        if plan.job == job and plan.outcome == PlanOutcome.RUNNING:
            return entry  # the plan's outcome isn't written yet
        if plan.job == job:
            status = replace(entry.status, plan=with_findings(plan, findings))
            entry = await self._writer.record(entry, status)
            self._context.memory(entry.key).plan.reviewed = job
        self._reviews.forget(entry.key)
        return entry

    def _ask_again(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Review the permissions of a plan whose operations are in its Secret."""
        plan = entry.status.plan
        job = plan.job or ""
        reviewed = self._context.memory(entry.key).plan.reviewed
        if reviewed == job or not self._reviews.begins(entry.key, job):
            return

        async def ask() -> ReviewRequest | None:
            kept = await self._seals.operations(entry, ApprovedPlan(job=job, seal=plan.seal))
            if kept is None:
                self._context.memory(entry.key).plan.reviewed = job
                return None
            missing = await is_namespace_missing(self._context.client, spec.project_namespace)
            return _review_request(spec, is_namespace_missing=missing).of(kept.operations)

        self._reviews.begin(entry.key, job, ask)


def _review_request(spec: BundleSpec, *, is_namespace_missing: bool = False) -> ReviewRequest:
    return ReviewRequest(
        account=ServiceAccount.of(spec),
        namespace=spec.project_namespace,
        is_namespace_missing=is_namespace_missing,
    )
