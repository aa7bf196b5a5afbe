"""Holds uninstalls to what the approved plans of the release had."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleEvent
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.step import Step
from copyrator.bundles.features.approval.deploys import HeldJobs
from copyrator.bundles.features.approval.fields import ApprovalSpec
from copyrator.bundles.features.approval.guard.listing import (
    GUARDED_NAME_LENGTH,
    GuardedUninstall,
    ListTooLargeError,
)
from copyrator.bundles.features.approval.inventory import ReleaseInventory
from copyrator.bundles.features.approval.jobs import end_plans
from copyrator.bundles.features.approval.rendered import ReleaseRenderer
from copyrator.bundles.features.approval.script import require_guard
from copyrator.bundles.jobs.job import UninstallOrder
from copyrator.bundles.jobs.rights import ServiceAccount


class UninstallHolder:
    """Holds the uninstalls of all Bundles to their approved plans."""

    def __init__(self, held: HeldJobs, renderer: ReleaseRenderer) -> None:
        self._context, self._jobs, self._seals = held.context, held.jobs, held.seals
        self._lists, self._enforcement = held.lists, held.enforcement
        self._inventories, self._renderer = held.inventories, renderer

    async def end_jobs(self, entry: BundleEntry) -> None:
        """End a deleted Bundle's plans, but for the render of what is deployed."""
        await end_plans(self._jobs, entry, but={self._renderer.job_of(entry)})

    async def clean_up(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """End all its plans, and delete the Secrets that no Bundle owns."""
        if not spec.uses(ApprovalSpec):
            return
        rendered = self._renderer.job_of(entry)
        for job in self._jobs.of(entry.key, entry.uid):
            if job.name == rendered:
                await self._jobs.set_ttl(job, self._context.settings.jobs_ttl)
        await end_plans(self._jobs, entry)
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
        policy = self._context.settings.guard_policy or ""
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
        if self._context.settings.guard_policy is not None and not spec.is_remote:
            known = await self._inventories.find(entry)
        is_complete = known.is_complete(entry.status)
        if not is_complete and not needs_approval:
            return ""
        enforcement = await self._enforcement.of(spec, known.deletions)
        if enforcement.is_enforced and not is_complete:
            found = await self._renderer.find(entry, spec)
            if isinstance(found, Step):
                return found
            known = known.complete_with(found)
            enforcement = await self._enforcement.of(spec, known.deletions)
        if not enforcement.is_enforced:
            return enforcement.reason if needs_approval else ""
        return GuardedUninstall(
            account=ServiceAccount.of(spec),
            release=spec.release,
            namespace=spec.project_namespace,
            inventory=known.deletions,
            hooks=known.objects.uninstall_hooks,
            as_account=known.hooks_as_account,
        )
