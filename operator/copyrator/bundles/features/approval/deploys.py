"""Holds deploys to what was planned, and tells how they have ended.

A planned deploy's Job gets copies of the values, which it compares with those of the plan, the
operations that it may do, and where that can be enforced a list of what it may write.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Conclusion
from copyrator.bundles.engine.gate import Findings
from copyrator.bundles.engine.job_client import JobClient, PodReader
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.features.approval.endings import (
    compares_stored,
    different_ending,
    planned_ending,
    read_stored,
    refused_ending,
)
from copyrator.bundles.features.approval.fields import NOT_JUDGED, AsApprovedStatus
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.jobs.job import DeployOrder, order_of
from copyrator.bundles.jobs.outcome import KILLED, Ending, JobRecord, exit_code
from copyrator.bundles.jobs.rights import ServiceAccount
from copyrator.bundles.plans.fields import (
    ApprovalSpec,
    ApprovedPlan,
    PlanStatus,
)
from copyrator.bundles.plans.guard.enforcement import EnforcementReviewer
from copyrator.bundles.plans.guard.listing import (
    GUARDED_NAME_LENGTH,
    GuardedDeploy,
    ListTooLargeError,
    find_refusals,
    judge_refusals,
)
from copyrator.bundles.plans.guard.lists import GuardLists
from copyrator.bundles.plans.jobs import LINE_BYTES, read_printed_plan
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.orders import HeldPlan, Proof, is_made_of, planned_order
from copyrator.bundles.plans.queue import PlanTiming, QueuedFeature
from copyrator.bundles.plans.record import PlanResult
from copyrator.bundles.plans.secrets import (
    InventoryStore,
    PlanStore,
    RollbackHooks,
    ValuesSealer,
    operations_secret,
)
from copyrator.kube.errors import ApiError, Forbidden

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobHolder:
    """What holds Jobs to plans."""

    context: Context
    jobs: JobClient
    values: ValuesSealer
    lists: GuardLists
    enforcement: EnforcementReviewer

    @property
    def plans(self) -> PlanStore:
        """What was planned."""
        return PlanStore(self.context, self.values.seals)

    @property
    def inventories(self) -> InventoryStore:
        """What the approved plans of releases had."""
        return InventoryStore(self.context.client, self.values.seals)


class DeployHolder(JobHolder):
    """Holds the deploys of all Bundles to their plans."""

    async def guard(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        plan: HeldPlan,
    ) -> BundleStatus:
        """The status of a new attempt with whether the API server holds its Job to its plan.

        Where the plan is enforced and that isn't possible now, no Job is created, so that nobody
        evades the list by hiding the plan's Secret for a moment. Of a check for drift that isn't
        recorded: it counts as enforced while its Secret can't be read.

        Raises:
            ApiError: what was planned can't be read.
        """
        if self.enforcement.guard.policy is None:
            return status
        is_deploy = isinstance(plan, PlanStatus)
        if not (isinstance(plan, PlanStatus) and plan.enforced):
            found = await self._find(entry, status, plan)
            if found is None and is_deploy:
                return status
            if found and await self.enforcement.find_reason(spec, found.operations):
                return status
        attempted = structs.replace(status.attempted, guarded=True)
        order = replace(
            order_of(spec, attempted, entry.uid, entry.labels, entry.annotations),
            name_length=GUARDED_NAME_LENGTH,
        )
        return structs.replace(status, attempted=structs.replace(attempted, job=order.job))

    async def _find(
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
            stored = await self.plans.recall(entry, kept)
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
        job = await self.jobs.find(entry.key, entry.uid, kept.job or "")
        pods = await self.jobs.output.pods(job) if job is not None else []
        if job is None or exit_code(pods) != 0:
            return None
        nonce = self.values.seals.derive(entry, job.name, "nonce")
        try:
            async with asyncio.timeout(self.context.timing.of(PlanTiming).log_timeout):
                found = await read_printed_plan(self.jobs.output, pods[-1], nonce)
        except (ApiError, TimeoutError) as error:
            log.debug("%s: the plan of Job %s can't be read: %s", entry.key, job.name, error)
            return None
        if not isinstance(found, Plan):
            return None
        for one in (found, replace(found, exact=None)):  # a file that keeps differing isn't stored
            if self.plans.is_sealed(entry, kept, one.text.encode()):
                return one
        return None

    async def hold(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, plan: HeldPlan
    ) -> DeployOrder:
        """The order of the recorded attempt's Job, which goes on only if it does what was planned.

        With an approval what was stored is compared afterwards, and what the chart has is kept for
        the uninstall, which may delete that.

        Raises:
            MissingReferenceError: spec or values were edited since; or it can't be guarded as it
                was recorded.
            ApiError: a Secret, or the list, can't be read or written.
        """
        attempted = entry.status.attempted
        if not is_made_of(plan, entry, spec):
            text = "the spec was edited after the plan was made"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        found, sealed = await self.values.write(entry, spec, order.job)
        if found != attempted.values_hash:
            text = "the values were edited after the plan was made"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        order, job = replace(order, image=plan.image), plan.job or ""
        proof = Proof(secret=operations_secret(job), seal=plan.seal or "")
        if spec.uses(ApprovalSpec):
            if (made := await self._find(entry, entry.status, plan)) is not None:
                await self.inventories.add(entry, job, made.plan)
            nonce, revision = self._nonce(entry, order.job), entry.status.deployed.revision
            proof = replace(proof, nonce=nonce, deployed_revision=revision)
        if attempted.guarded:
            rolls_back = await self._write_list(entry, spec, order.job, plan)
            order = replace(order, rolls_back=rolls_back)
            proof = replace(proof, guard=self.enforcement.guard.policy)
        return planned_order(order, sealed, proof)

    def _nonce(self, entry: BundleEntry, job: str) -> str:
        return self.values.seals.derive(entry, job, "nonce")

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
        found = await self._find(entry, status, plan)
        if found is None:
            text = "what was planned was deleted or changed, or can't be read"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        if unenforced := await self.enforcement.find_reason(spec, found.operations):
            text = f"the API server can't hold the deploy to its plan now: {unenforced}"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        rollback = RollbackHooks(unknown="not asked for")
        if spec.auto_rollback:
            rollback = await self.plans.find_rollback_hooks(entry)
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
            await self.lists.write(job, guarded)
        except ListTooLargeError as error:
            raise MissingReferenceError(str(error), BundleReason.GUARD_NOT_ACTIVE) from None
        except ApiError as error:
            if error.transient:
                raise
            text = f"the list of what the Job may write can't be written: {error.message}"
            raise MissingReferenceError(text, BundleReason.GUARD_NOT_ACTIVE) from None
        return not rollback.unknown

    async def compare(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """How a deploy has ended, and what its script found of what was stored, if it looked."""
        ending, different = planned_ending(ending), StoredReason.DEPLOYED_DIFFERENTLY
        if ending.reason is BundleReason.DEPLOYED_DIFFERENTLY:
            stored: StoredReason | None = different
        elif ending.outcome is not Outcome.SUCCEEDED:
            stored = None
        elif not pods and entry.status.attempted.plan_job is not None and spec.uses(ApprovalSpec):
            stored = StoredReason.UNREADABLE
        elif not compares_stored(pods):
            stored = None
        elif (ending.exit_code or 0) >= KILLED:  # a hook, which can read the nonce, may be the last
            stored = StoredReason.UNREADABLE
        else:
            nonce = self._nonce(entry, job.name)
            stored = await read_printed_stored(self.jobs.output, pods, nonce)
            ending = different_ending(ending) if stored is different else ending
        # The log of one that was compared has no cause, but what hooks have printed.
        return Conclusion(ending, stored, is_explained=stored is not None)

    async def blame(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        ending: Ending,
        error: str,
        plan: HeldPlan | None,
    ) -> Ending | None:
        """The ending of a guarded deploy that tried to write what isn't on its list, if it did.

        Raises:
            ApiError: what was planned can't be read now.
        """
        policy = self.enforcement.guard.policy
        if not entry.status.attempted.guarded or policy is None:
            return None
        if not (refusals := find_refusals(error, policy)):
            return None
        found = await self._find(entry, entry.status, plan) if plan is not None else None
        approved = found.operations if found is not None else ()
        untouched = found.plan.objects.untouched() if found is not None else ()
        release = spec.release_key._replace(
            namespace=entry.status.attempted.namespace or spec.project_namespace
        )
        return refused_ending(ending, *judge_refusals(refusals, approved, release, untouched))


class HoldingFeature(QueuedFeature):
    """A feature whose plans are deployed: it holds their Jobs to them."""

    corrects_drift: ClassVar[bool]
    """Whether its attempts are the corrections, else all others."""
    deploys: DeployHolder

    @abstractmethod
    def find_plan(self, status: BundleStatus) -> HeldPlan | None:
        """The plan that the recorded attempt deploys; None where it isn't there any more."""

    def _is_ours(self, status: BundleStatus) -> bool:
        return bool(status.attempted.correction) is self.corrects_drift

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status of a new attempt with whether its Job is held to its plan."""
        if not self._is_ours(status) or (plan := self.find_plan(status)) is None:
            return status
        return await self.deploys.guard(entry, spec, status, plan)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a planned attempt's Job, which goes on only if it does what was planned."""
        is_ours = job == entry.status.attempted.job and self._is_ours(entry.status)
        if not is_ours or (plan := self.find_plan(entry.status)) is None:
            return order
        return await self.deploys.hold(entry, spec, order, plan)

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """The ending of an attempt that the API server held to its list."""
        if not self._is_ours(entry.status):
            return None
        return await self.deploys.blame(entry, spec, ending, error, self.find_plan(entry.status))


def record_end(status: BundleStatus, ending: Ending, found: Findings) -> BundleStatus:
    """The status where an attempt has ended, with what is known of what it stored. Pure.

    A failed deploy changes nothing of that. The plan of a correction isn't that of what is
    deployed: it has no record of values.
    """
    attempted, stored = status.attempted, found.of(StoredReason)
    is_deployed = attempted.outcome == Outcome.SUCCEEDED and not attempted.correction
    if stored is not None:
        judged = AsApprovedStatus(
            reason=stored,
            version=attempted.version,
            revision=ending.revision,
            at=attempted.finished_at,
        )
        status = status.with_part(judged)
    elif is_deployed:
        status = status.with_part(NOT_JUDGED)
    if not is_deployed:
        return status
    plan = status.part(PlanStatus)
    is_of_plan = attempted.plan_job is not None and attempted.plan_job == plan.job
    deployed = structs.replace(
        status.deployed,
        plan_job=attempted.plan_job,
        plan_seal=plan.seal if is_of_plan else None,
    )
    return structs.replace(status, deployed=deployed)


async def read_printed_stored(
    output: PodReader, pods: list[dict[str, Any]], nonce: str
) -> StoredReason:
    """What the last line of a deploy's log says of what was stored for the release."""
    last = await output.log(pods, tail_lines=1, limit_bytes=LINE_BYTES)
    return read_stored(last, nonce)
