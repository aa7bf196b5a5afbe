"""Compares plans of what is deployed with the baseline: the difference is drift."""

from __future__ import annotations

from dataclasses import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.drift_status import DriftCheck, DriftReason
from copyrator.api.plan_status import ApprovedPlan, PlanStatus
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.plan import drift as drift_record
from copyrator.bundles.plan.drift import CheckedPlan, DriftFindings, compare_with_baseline
from copyrator.bundles.plan.operations import Plan, covers
from copyrator.bundles.plan.sealed import Seals
from copyrator.kube.errors import Forbidden


class DriftJudge:
    """Compares plans of all Bundles with their baselines."""

    def __init__(self, context: Context, seals: Seals) -> None:
        self._context = context
        self._seals = seals

    async def check(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, found: CheckedPlan
    ) -> BundleStatus:
        """The status with the result of a check's Job: the baseline, or a verdict.

        Raises:
            ApiError: the baseline can't be read, or the operations can't be stored now.
        """
        check, now = status.drift.check, self._context.clock()
        job = check.job or ""
        baseline = None
        if drift_record.has_baseline(status):
            try:
                baseline = await self._seals.read_operations(entry, status.baseline)
            except Forbidden as error:
                status = drift_record.record_check_result(status, found, None, now)
                text = f"the Secret with the baseline can't be read: {error.message}"
                return drift_record.set_unknown(status, DriftReason.BASELINE_UNREADABLE, text)
        if baseline is None:
            # Where its Secret was deleted, this plan, of one render, becomes the baseline.
            is_bound = found.bound and not drift_record.has_baseline(status)
            if is_bound and spec.approval.is_enabled:
                is_bound = await self._follows_from_plan(entry, status, found.plan)
            found = replace(found, bound=is_bound)
            seal = await self._seals.store_operations(entry, job, found.plan.text)
            status = drift_record.set_baseline(
                drift_record.record_check_result(status, found, seal, now), now
            )
            return drift_record.switch_off_drift(status, spec)
        beyond = compare_with_baseline(found.operations, baseline.operations, spec.drift)
        kept = None
        if beyond.drifted:
            kept = await self._seals.store_operations(entry, job, found.plan.text)
        status = drift_record.record_check_result(status, found, kept, now)
        differs = _differs(status, baseline, found)
        return self._judged(entry, spec, status, beyond, plan=check, differs=differs)

    async def _follows_from_plan(
        self, entry: BundleEntry, status: BundleStatus, baseline: Plan
    ) -> bool:
        """Whether a baseline has no objects beyond the plan whose deploy it was made after.

        A chart that branches on the release's revision, or on ``.Release.IsUpgrade``, may have
        some: a correction would deploy what nobody has seen.
        """
        plan = status.plan
        if plan.job is None or plan.job != status.deployed.plan_job:
            return False
        made = await self._seals.operations(entry, ApprovedPlan(job=plan.job, seal=plan.seal))
        if made is None:
            return False
        return made.render == baseline.render or covers(made.operations, baseline.operations)

    async def plan(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, found: CheckedPlan
    ) -> BundleStatus:
        """The status with the verdict of a plan of what is deployed that a user requested."""
        plan = status.plan
        if not spec.drift.is_enabled or not drift_record.is_judged_by(status, plan.attempt):
            return status
        if drift_record.find_hindrance(status, spec, entry.spec_hash, plan.values_hash) is not None:
            return status
        baseline = await self._seals.operations(entry, status.baseline)
        if baseline is None:
            return status
        beyond = compare_with_baseline(found.operations, baseline.operations, spec.drift)
        differs = _differs(status, baseline, found)
        return self._judged(entry, spec, status, beyond, plan=plan, differs=differs)

    def _judged(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        beyond: DriftFindings,
        *,
        plan: PlanStatus | DriftCheck,
        differs: bool,
    ) -> BundleStatus:
        is_regular = drift_record.is_regular_check(status, spec, entry.uid, plan.started_at)
        now = self._context.clock()
        return drift_record.record_verdict(
            status, beyond, plan.job or "", now, is_regular=is_regular, differs=differs
        )


def _differs(status: BundleStatus, baseline: Plan, found: CheckedPlan) -> bool:
    """Whether a correction may write something else than was deployed, also by another werf."""
    if not status.baseline.bound or found.plan.image is None:
        return True
    return found.plan.render != baseline.render
