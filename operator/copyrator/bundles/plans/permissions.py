"""Which permissions plans need is asked once for each, and what is missing stands in the status.

It informs the people who decide about a plan: nothing waits for it, and nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey
from copyrator.api.plan_status import ApprovedPlan, PlanOutcome
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.plans.permission_reviews import PermissionReviews, Question
from copyrator.bundles.plans.seals import Seals
from copyrator.bundles.policy.permissions import Need, ServiceAccount, with_findings
from copyrator.bundles.policy.plans.operations import Operation
from copyrator.bundles.releases import is_namespace_missing
from copyrator.bundles.status import StatusWriter


class PlanPermissions:
    """The permissions that the plans of all Bundles need."""

    def __init__(
        self, context: Context, reviews: PermissionReviews, seals: Seals, writer: StatusWriter
    ) -> None:
        self._context = context
        self._reviews = reviews
        self._seals = seals
        self._writer = writer
        self._done: dict[BundleKey, str] = {}
        """The Job of the last plan that isn't asked about again: what was found is written, also
        where an older CRD drops it, or its operations can't be read back.
        """

    def ask(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        operations: Collection[Operation],
        *,
        is_namespace_missing: bool,
    ) -> None:
        """A plan was made: have the permissions reviewed that its deploy needs."""
        question = _question(spec, is_namespace_missing=is_namespace_missing)
        self._begin(entry, question.of(operations))

    def ask_without_plan(
        self, entry: BundleEntry, spec: BundleSpec, denied: tuple[Need, ...]
    ) -> None:
        """A plan failed because of a missing permission: what every deploy needs is reviewed."""
        self._begin(entry, replace(_question(spec), denied=denied))

    def _begin(self, entry: BundleEntry, question: Question) -> None:
        async def ask() -> Question:
            return question

        self._reviews.begin(entry.key, entry.status.plan.job or "", ask)

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> BundleEntry:
        """Write what was found; ask again about a plan that waits, and of which nothing is known.

        That is so after a restart, and where reviews failed or weren't allowed.

        Raises:
            ApiError, StaleError: the status can't be written; the next reconcile tries again.
        """
        entry = await self._recorded(entry)
        if entry.is_unreviewed:
            self._ask_again(entry, spec)
        return entry

    def forget(self, key: BundleKey) -> None:
        """The Bundle was deleted."""
        self._reviews.forget(key)
        self._done.pop(key, None)

    async def close(self) -> None:
        """End all reviews."""
        await self._reviews.close()

    async def _recorded(self, entry: BundleEntry) -> BundleEntry:
        found = self._reviews.found(entry.key)
        if found is None:
            return entry
        plan = entry.status.plan
        job, findings = found
        if plan.job == job and plan.outcome == PlanOutcome.RUNNING:
            return entry  # that it was made isn't written yet
        if plan.job == job:
            status = replace(entry.status, plan=with_findings(plan, findings))
            entry = await self._writer.record(entry, status)
            self._done[entry.key] = job
        self._reviews.forget(entry.key)
        return entry

    def _ask_again(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Review the permissions of a plan whose operations are in its Secret."""
        plan = entry.status.plan
        job = plan.job or ""
        if self._done.get(entry.key) == job or not self._reviews.begins(entry.key, job):
            return

        async def ask() -> Question | None:
            kept = await self._seals.operations(entry, ApprovedPlan(job=job, seal=plan.seal))
            if kept is None:
                self._done[entry.key] = job
                return None
            missing = await is_namespace_missing(self._context.client, spec.project_namespace)
            return _question(spec, is_namespace_missing=missing).of(kept.operations)

        self._reviews.begin(entry.key, job, ask)


def _question(spec: BundleSpec, *, is_namespace_missing: bool = False) -> Question:
    return Question(
        account=ServiceAccount.of(spec),
        namespace=spec.project_namespace,
        is_namespace_missing=is_namespace_missing,
    )
