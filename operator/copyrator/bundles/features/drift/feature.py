"""What is deployed is compared with the cluster, and corrected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from copyrator.api import structs
from copyrator.api.approval import PlanStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.drift import DriftCheck, DriftSpec, DriftStatus
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.engine.feature import Conclusion, Feature, Parts
from copyrator.bundles.features.approval.endings import planned_ending
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.features.drift.record import find_plan, record_corrected
from copyrator.bundles.gates.gate import Findings
from copyrator.bundles.inputs.reader import MissingReferenceError
from copyrator.bundles.jobs.job import DeployOrder
from copyrator.bundles.jobs.outcome import Ending, JobRecord
from copyrator.bundles.jobs.sealed import SealStore


class DriftFeature(Feature):
    """Checks for drift, and corrections."""

    spec = DriftSpec
    status = DriftStatus

    def connect(self, parts: Parts) -> None:
        """Take what holds corrections to what was found."""
        self._deploys, self._seals = parts.of(ApprovalFeature).deploys, parts.of(SealStore)

    # --- the Job of a deploy, or of a correction --------------------------------------------------

    async def attempt(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus
    ) -> BundleStatus:
        """The status of a new correction with whether its Job is held to what was found."""
        if not status.attempted.correction:
            return status
        plan = _plan_of(status)
        is_enforced = bool(plan.enforced) if isinstance(plan, PlanStatus) else None
        return await self._deploys.guard(entry, spec, status, plan, is_enforced=is_enforced)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a correction's Job, held to what was found; another's has copies of values.

        The baseline of a deploy is made of the same.
        """
        attempted = entry.status.attempted
        if job != attempted.job:
            return order
        if attempted.correction and (plan := _plan_of(entry.status)) is not None:
            return await self._deploys.hold(entry, spec, order, plan)
        if attempted.plan_job is not None or not spec.uses(DriftSpec):
            return order
        found, sealed = await self._seals.write_values(entry, spec, job, compares_renders=False)
        if found != attempted.values_hash:
            text = "the values were edited after the deploy was recorded"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        return replace(order, sealed=sealed)

    async def conclude(
        self,
        entry: BundleEntry,  # noqa: ARG002
        spec: BundleSpec,  # noqa: ARG002
        job: JobRecord,  # noqa: ARG002
        pods: list[dict[str, Any]],  # noqa: ARG002
        ending: Ending,
    ) -> Conclusion:
        """How a correction has ended, by what only its script tells."""
        return Conclusion(planned_ending(ending))

    async def blame(
        self, entry: BundleEntry, spec: BundleSpec, ending: Ending, error: str
    ) -> Ending | None:
        """The ending of a correction that the API server held to its list."""
        if not entry.status.attempted.correction:
            return None
        return await self._deploys.blame(entry, spec, ending, error, _plan_of(entry.status))

    def finish(
        self,
        entry: BundleEntry,
        status: BundleStatus,
        ending: Ending,  # noqa: ARG002
        found: Findings,  # noqa: ARG002
    ) -> BundleStatus:
        """The status where a correction has ended: the deployed plan is the former one."""
        if not status.attempted.correction or status.attempted.outcome != Outcome.SUCCEEDED:
            return status
        there = entry.status.deployed
        deployed = structs.replace(
            status.deployed, plan_job=there.plan_job, plan_seal=there.plan_seal
        )
        return record_corrected(structs.replace(status, deployed=deployed))

    def has_copies(self, spec: BundleSpec, attempted: Attempted) -> bool:
        """Whether the Job had copies of values, which the baseline is made of, too."""
        return spec.uses(DriftSpec) or attempted.plan_job is not None


def _plan_of(status: BundleStatus) -> PlanStatus | DriftCheck | None:
    """The plan that the recorded correction deploys."""
    return find_plan(status, status.attempted.plan_job)


FEATURE = DriftFeature
