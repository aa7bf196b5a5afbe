"""Features that make plans, and those whose Jobs are held to them.

A planned deploy's Job gets copies of the values, which it compares with those of the plan, the
operations that it may do, and where that can be enforced a list of what it may write.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import ClassVar

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_APPROVED_PLAN
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.feature import Feature, Parts
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.engine.step import Change
from copyrator.bundles.jobs.job import DeployOrder, order_of
from copyrator.bundles.jobs.outcome import Ending, exit_code
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.endings import refused_ending
from copyrator.bundles.plans.fields import ApprovalSpec, ApprovedPlan, PlanStatus
from copyrator.bundles.plans.guard.listing import (
    GUARDED_NAME_LENGTH,
    GuardedDeploy,
    ListTooLargeError,
    find_refusals,
    judge_refusals,
)
from copyrator.bundles.plans.jobs import read_printed_plan
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.orders import Proof, is_made_of, planned_order
from copyrator.bundles.plans.planning import Planning
from copyrator.bundles.plans.queue import PlanTiming
from copyrator.bundles.plans.record import HeldPlan, PlanPurpose, PlanResult
from copyrator.bundles.plans.secrets import RollbackHooks, operations_secret
from copyrator.bundles.plans.settings import PlanSettings
from copyrator.kube.errors import ApiError, Forbidden

log = logging.getLogger(__name__)


class PlanFeature(Feature):
    """A feature that makes plans."""

    purposes: ClassVar[tuple[PlanPurpose, ...]]

    def connect(self, parts: Parts) -> None:
        """Its plans wait in the queue of all."""
        self.planning = parts.of(Planning)
        self.queue = self.planning.queue
        for purpose in self.purposes:
            self.queue.add(purpose)

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> tuple[tuple[BundleKey, Change], ...]:
        """None; the queue knows from here whose plans are being made."""
        self.queue.watch(before, after)
        return ()

    def reconciling(self, key: BundleKey) -> AbstractContextManager[None]:
        """A slot that it doesn't use is given to the next plan."""
        return self.queue.reconciling(key)

    def due(self, key: BundleKey) -> datetime | None:
        """While a plan waits in the queue."""
        return self.queue.due(key)

    def leave(self, key: BundleKey) -> None:
        """Its plans wait no more."""
        self.queue.leave(key, *self.purposes)


class HoldingFeature(PlanFeature):
    """A feature whose plans are deployed: it holds their Jobs to them."""

    corrects_drift: ClassVar[bool]
    """Whether its attempts are the corrections, else all others."""
    _proves_approver = False

    def connect(self, parts: Parts) -> None:
        """Whether the chart's policy compares the name of who approves is a setting."""
        super().connect(parts)
        self._proves_approver = self.context.settings.of(PlanSettings).approval_policy

    @abstractmethod
    def find_plan(self, status: BundleStatus) -> HeldPlan | None:
        """The plan that the recorded attempt deploys; None where it isn't there any more."""

    def with_approver(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status whose new attempt has who approved its plan, as far as that is proved."""
        attempted = status.attempted
        if not attempted.approved_by:
            return status
        by: str | None = attempted.approved_by
        if not self._proves_approver:
            by = entry.managers.writer(ANN_APPROVED_PLAN) or attempted.by
        return structs.replace(status, attempted=structs.replace(attempted, by=by))

    def _is_ours(self, status: BundleStatus) -> bool:
        return bool(status.attempted.correction) is self.corrects_drift

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status of a new attempt with whether the API server holds its Job to its plan.

        Where the plan is enforced and that isn't possible now, no Job is created, so that nobody
        evades the list by hiding the plan's Secret for a moment. Of a check for drift that isn't
        recorded: it counts as enforced while its Secret can't be read.

        Raises:
            ApiError: what was planned can't be read.
        """
        plan = self.find_plan(status) if self._is_ours(status) else None
        if plan is None or self.planning.guard.policy is None:
            return status
        is_deploy = isinstance(plan, PlanStatus)
        if not (isinstance(plan, PlanStatus) and plan.enforced):
            found = await self._read_plan(entry, status, plan)
            if found is None and is_deploy:
                return status
            if found and await self.planning.enforcement.find_reason(spec, found.operations):
                return status
        attempted = structs.replace(status.attempted, guarded=True)
        order = replace(
            order_of(spec, attempted, entry.uid, entry.labels, entry.annotations),
            name_length=GUARDED_NAME_LENGTH,
        )
        return structs.replace(status, attempted=structs.replace(attempted, job=order.job))

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a planned attempt's Job, which goes on only if it does what was planned.

        With an approval what was stored is compared afterwards, and what the chart has is kept for
        the uninstall, which may delete that.

        Raises:
            MissingReferenceError: spec or values were edited since; or it can't be guarded as it
                was recorded.
            ApiError: a Secret, or the list, can't be read or written.
        """
        attempted = entry.status.attempted
        is_ours = job == attempted.job and self._is_ours(entry.status)
        if not is_ours or (plan := self.find_plan(entry.status)) is None:
            return order
        if not is_made_of(plan, entry, spec):
            text = "the spec was edited after the plan was made"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        found, sealed = await self.planning.values.write(entry, spec, order.job)
        if found != attempted.values_hash:
            text = "the values were edited after the plan was made"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        order, made_by = replace(order, image=plan.image), plan.job or ""
        proof = Proof(secret=operations_secret(made_by), seal=plan.seal or "")
        if spec.uses(ApprovalSpec):
            if (made := await self._read_plan(entry, entry.status, plan)) is not None:
                await self.planning.inventories.add(entry, made_by, made.plan)
            nonce = self.planning.seals.derive(entry, order.job, "nonce")
            revision = entry.status.deployed.revision
            proof = replace(proof, nonce=nonce, deployed_revision=revision)
        if attempted.guarded:
            rolls_back = await self._write_list(entry, spec, order.job, plan)
            order = replace(order, rolls_back=rolls_back)
            proof = replace(proof, guard=self.planning.guard.policy)
        return planned_order(order, sealed, proof)

    async def _write_list(
        self, entry: BundleEntry, spec: BundleSpec, job: str, plan: HeldPlan
    ) -> bool:
        """Write what a guarded attempt's Job may write; returns whether werf may roll back.

        That is where what a rollback makes was approved with the deployed version.

        Raises:
            MissingReferenceError: it can't be written, or what was planned can't be enforced now.
            ApiError: it may have been written; the next reconcile tries again.
        """
        status = entry.status
        found = await self._read_plan(entry, status, plan)
        if found is None:
            text = "what was planned was deleted or changed, or can't be read"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        if unenforced := await self.planning.enforcement.find_reason(spec, found.operations):
            text = f"the API server can't hold the deploy to its plan now: {unenforced}"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        rollback = RollbackHooks(unknown="not asked for")
        if spec.auto_rollback:
            rollback = await self.planning.stored.find_rollback_hooks(entry)
        guarded = GuardedDeploy(
            account=ServiceAccount.of(spec),
            release=spec.release,
            namespace=spec.project_namespace,
            operations=found.operations,
            revision=found.plan.revision,
            deployed_revision=status.deployed.revision,
            hooks=found.plan.hooks,
            as_account=found.plan.as_account,
            auto_rollback=not rollback.unknown,
            rollback_hooks=rollback.operations,
        )
        try:
            await self.planning.lists.write(job, guarded)
        except ListTooLargeError as error:
            raise MissingReferenceError(str(error), BundleReason.GUARD_NOT_ACTIVE) from None
        except ApiError as error:
            if error.transient:
                raise
            text = f"the list of what the Job may write can't be written: {error.message}"
            raise MissingReferenceError(text, BundleReason.GUARD_NOT_ACTIVE) from None
        return not rollback.unknown

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """The ending of a guarded deploy that tried to write what isn't on its list, if it did.

        Raises:
            ApiError: what was planned can't be read now.
        """
        status, policy = entry.status, self.planning.guard.policy
        if not self._is_ours(status) or not status.attempted.guarded or policy is None:
            return None
        if not (refusals := find_refusals(error, policy)):
            return None
        plan = self.find_plan(status)
        found = await self._read_plan(entry, status, plan) if plan is not None else None
        approved = found.operations if found is not None else ()
        untouched = found.plan.objects.untouched() if found is not None else ()
        release = spec.release_key._replace(
            namespace=status.attempted.namespace or spec.project_namespace
        )
        return refused_ending(ending, *judge_refusals(refusals, approved, release, untouched))

    async def _read_plan(
        self, entry: BundleEntry, status: BundleStatus, plan: HeldPlan
    ) -> PlanResult | None:
        """What was planned for the recorded attempt; None where it was changed.

        Where the Secret may not be read (bundles.allowedSecrets of the chart), what the plan's Job
        printed; None where that is gone.

        Raises:
            ApiError: it can't be read now.
        """
        kept = ApprovedPlan(job=plan.job, seal=plan.seal)
        try:
            stored = await self.planning.stored.recall(entry, kept)
        except Forbidden:
            stored = await self._read_printed(entry, kept)
        if stored is None:
            return None
        is_missing = plan.operations != len(stored.operations)  # it is the only one not stored
        return PlanResult(stored, status.attempted.namespace if is_missing else None)

    async def _read_printed(self, entry: BundleEntry, kept: ApprovedPlan) -> Plan | None:
        """A plan as its Job printed it; None where its pod's log can't be read, or has another.

        Raises:
            ApiError: the pods can't be listed now.
        """
        job = await self.planning.all_jobs.find(entry.key, entry.uid, kept.job or "")
        pods = await self.planning.all_jobs.output.pods(job) if job is not None else []
        if job is None or exit_code(pods) != 0:
            return None
        nonce = self.planning.seals.derive(entry, job.name, "nonce")
        try:
            async with asyncio.timeout(self.context.timing.of(PlanTiming).log_timeout):
                found = await read_printed_plan(self.planning.all_jobs.output, pods[-1], nonce)
        except (ApiError, TimeoutError) as error:
            log.debug("%s: the plan of Job %s can't be read: %s", entry.key, job.name, error)
            return None
        if not isinstance(found, Plan):
            return None
        for one in (found, replace(found, exact=None)):  # a file that keeps differing isn't stored
            if self.planning.stored.is_sealed(entry, kept, one.text.encode()):
                return one
        return None
