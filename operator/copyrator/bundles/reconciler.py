"""Reconciles a Bundle: rejects it, observes its Job, updates it, or deletes its release."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.conditions import ReadyCondition
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy import ready_conditions
from copyrator.bundles.deploy.jobs import JobClient
from copyrator.bundles.deploy.runs import Runs
from copyrator.bundles.deploy.uninstall import Deletions
from copyrator.bundles.deploys import Deploys
from copyrator.bundles.health.monitor import HealthMonitor
from copyrator.bundles.inputs import relations
from copyrator.bundles.inputs.consents import ConsentReviewer
from copyrator.bundles.inputs.freezes import FreezeWatcher
from copyrator.bundles.inputs.reader import ReferenceReader
from copyrator.bundles.plan.permissions import PlanPermissions
from copyrator.bundles.plan.queue import PlanQueue
from copyrator.bundles.status import StaleError, StatusWriter
from copyrator.bundles.trust.store import TrustStore
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.workqueue.outcome import Done, Outcome, Priority, RequeueAfter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReconciler:
    """Takes the next step of one Bundle at a time."""

    context: Context
    jobs: JobClient
    references: ReferenceReader
    trust: TrustStore
    freezes: FreezeWatcher
    consents: ConsentReviewer
    health: HealthMonitor
    writer: StatusWriter
    permissions: PlanPermissions
    plan_queue: PlanQueue
    runs: Runs
    deploys: Deploys
    deletions: Deletions

    async def reconcile(self, key: BundleKey) -> Outcome:
        """Take a Bundle's next step; the workers' handler for Bundle keys.

        Raises:
            ApiError: the request failed; the queue retries with back-off.
            Exception: an internal error; the Bundle's status reports it; retried likewise.
        """
        try:
            with self.plan_queue.reconciling(key):
                return await self._reconcile(key)
        except ApiError:
            raise
        except Exception as error:
            await self._report_failed(key, error)
            raise

    async def _reconcile(self, key: BundleKey) -> Outcome:
        entry = self.context.bundles.get(key)
        if entry is None:
            self.context.memories.drop(key)
            return Done()
        if not self.jobs.synced:
            if forbidden := self.jobs.forbidden:
                await self._report_forbidden(key, forbidden)
                # So that the former condition is written again when the watch works.
                self.context.memory(key).poll.desired = None
            return RequeueAfter(1.0, Priority.RESYNC)
        if not self.trust.ready or not (self.freezes.ready or entry.deleting):
            return RequeueAfter(1.0, Priority.RESYNC)
        try:
            if entry.deleting:
                await self._visit_deleted(entry)
            else:
                await self._visit(entry)
        except StaleError:
            return RequeueAfter(0.0)
        except Forbidden as error:
            await self._report_forbidden(key, error)
            raise
        except NotFound as error:
            if self.context.bundles.get(key) is not None:
                raise
            log.debug("%s was deleted while it was reconciled: %s", key, error)
        return Done()

    async def _report_failed(self, key: BundleKey, error: Exception) -> None:
        """Report an internal error in the status and an Event; other Bundles aren't affected.

        The queue retries with back-off; the workers log the traceback.
        """
        entry = self.context.bundles.get(key)
        if entry is None:
            return
        verdict = ready_conditions.failing(
            type(error).__name__, entry.status, deleting=entry.deleting
        )
        try:
            await self.writer.write(entry, entry.status, verdict, decided=False)
        except Exception as second:
            log.debug(
                "%s: the error can't be written to the status either: %s",
                key,
                type(second).__name__,
            )

    async def _report_forbidden(self, key: BundleKey, error: Forbidden) -> None:
        """Report a missing permission in the status, unless it is the one to write the status."""
        entry = self.context.bundles.get(key)
        if entry is not None:
            verdict = ready_conditions.forbidden(error.message, entry.status)
            with suppress(ApiError, StaleError):
                await self.writer.write(entry, entry.status, verdict)

    async def _visit(self, entry: BundleEntry) -> None:
        """Reconcile a Bundle that isn't being deleted: reject it, observe its Job, or update it."""
        if not entry.is_running:
            self.context.memory(entry.key).recheck_at = None
        entry, not_accepted = await self.consents.visit(entry)
        self.health.follow(entry)
        entry = await self.writer.keep_soak(entry)
        spec = entry.spec
        if isinstance(spec, BundleSpec):
            spec = self.context.refusal(spec) or spec
        if isinstance(spec, InvalidSpec):
            await self._refuse(entry, BundleReason.INVALID_SPEC, str(spec))
            return
        spec = self.context.effective(spec)
        if fault := relations.find_cycle_fault(self.context.bundles, entry):
            await self._refuse(entry, BundleReason.INVALID_SPEC, fault)
            return
        problem = self.runs.ownership.conflict(entry, spec)
        is_moved = problem is not None and problem[0] is BundleReason.NAMESPACE_CHANGED
        if not_accepted is not None and not (is_moved or entry.is_running):
            entry = await self.writer.note_health(entry)
            await self._report_refused(entry, not_accepted, ready=entry.status.ready)
            return
        if problem is not None:
            await self._refuse(entry, *problem)
            return
        entry = await self.writer.ensure_finalizer(entry)
        entry = await self.writer.note_health(entry)
        self.references.follow(entry, spec)
        entry = await self.permissions.visit(entry, spec)
        if entry.is_running:
            await self._observe(entry)
            return
        await self.jobs.limit(entry, spec)
        await self.deploys.visit(entry, spec)

    async def _visit_deleted(self, entry: BundleEntry) -> None:
        """Reconcile a Bundle that is being deleted, after the end of a running deploy.

        Its outcome decides whether there is a release to uninstall. Consent decides whose it is.
        """
        self.health.follow(entry)
        if len(self.context.bundles.bundles_of(entry.installed_release)) > 1:
            entry, _ = await self.consents.visit(entry)
        if entry.is_running and not await self._observe(entry):
            return
        await self.deletions.visit(entry, deploy_runs=entry.is_running)

    async def _observe(self, entry: BundleEntry) -> bool:
        """Observe the recorded attempt; returns whether it still runs.

        When it has ended, another reconcile follows.
        """
        spec = entry.spec
        if isinstance(spec, InvalidSpec):
            spec = self.context.default_spec(entry.key)
        runs = await self.runs.observe(entry, self.context.effective(spec))
        if not runs:
            self.context.schedule.repeat(entry.key)
        return runs

    async def _refuse(self, entry: BundleEntry, reason: BundleReason, message: str) -> None:
        """Report why the spec is rejected; a Job of an older spec is observed to its end."""
        if entry.is_running and await self.runs.has_ended(entry):
            await self._observe(entry)
            return
        ready = 0 if reason is BundleReason.INVALID_SPEC else entry.status.ready
        await self._report_refused(entry, ready_conditions.refused(reason, message), ready=ready)

    async def _report_refused(
        self, entry: BundleEntry, verdict: ReadyCondition, *, ready: int | None
    ) -> None:
        """Report why nothing is polled, planned or deployed."""
        status = replace(entry.status, ready=ready, next_poll_at=None)
        await self.writer.write(entry, status, verdict)
        memory = self.context.memory(entry.key)
        memory.poll.desired = None
        self.context.schedule.requeue_at(entry.key)
        if memory.recheck_at is not None and memory.recheck_at <= self.context.clock():
            self.context.schedule.repeat(entry.key)  # that time has passed during this reconcile
