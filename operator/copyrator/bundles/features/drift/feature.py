"""What is deployed is compared with the cluster, and corrected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.conditions import NewConditions
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.deciding import Correction, Proposal
from copyrator.bundles.engine.feature import Conclusion, P, Parts
from copyrator.bundles.engine.gate import Findings, Occasion
from copyrator.bundles.engine.references import MissingReferenceError
from copyrator.bundles.engine.step import Step
from copyrator.bundles.features.drift.checks import DriftChecks
from copyrator.bundles.features.drift.fields import (
    DRIFTED,
    DriftCheck,
    DriftMode,
    DriftSpec,
    DriftStatus,
)
from copyrator.bundles.features.drift.metrics import DriftMetrics
from copyrator.bundles.features.drift.reasons import DriftReason
from copyrator.bundles.features.drift.record import (
    CHECK,
    Hindrance,
    break_off_check,
    drifted_condition,
    drifted_objects,
    find_plan,
    has_or_have,
    is_correction_due,
    keep_check,
    needs_approval,
    record_corrected,
    record_correction,
    record_mode,
    set_hindrance,
)
from copyrator.bundles.jobs.job import DeployOrder
from copyrator.bundles.jobs.outcome import Ending, JobRecord
from copyrator.bundles.jobs.pod import Kept
from copyrator.bundles.plans.endings import planned_ending
from copyrator.bundles.plans.feature import HoldingFeature
from copyrator.bundles.plans.fields import ApprovalSpec, Baseline, PlanStatus
from copyrator.bundles.plans.machine import target_of
from copyrator.bundles.plans.record import is_free_for
from copyrator.kube.events import WARNING

_DRIFTED: Final = (DriftReason.DRIFTED, DriftReason.DRIFT_RECURRING)


class DriftFeature(HoldingFeature):
    """Checks for drift, and corrections."""

    spec = (DriftSpec, ApprovalSpec)  # an approval needs the baseline, too
    status = (DriftStatus, Baseline)
    outlasts = True
    purposes = (CHECK,)
    corrects_drift = True

    def connect(self, parts: Parts) -> None:
        """Checks are plans; one of what is deployed is a check, too."""
        super().connect(parts)
        self._checks = DriftChecks(self.planning)
        self.planning.judges.append(self._checks.judge_plan)

    def publish(self) -> None:
        """Count the Bundles whose objects have drifted."""
        conditions = (one.status.condition(DRIFTED) for one in self.context.bundles)
        found = Counter(one.reason for one in conditions if one.is_true)
        gauge = self.context.metrics.of(DriftMetrics).bundles_drifted
        for reason in _DRIFTED:
            gauge.labels(reason).set(found[reason])

    # --- a reconcile ------------------------------------------------------------------------------

    def undecided(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, missing: str | None
    ) -> BundleStatus:
        """Nothing is compared; the condition says why."""
        del entry
        if not spec.uses(DriftSpec):
            return status
        if missing is not None:
            return set_hindrance(status, Hindrance(DriftReason.NOT_AS_DEPLOYED, missing))
        text = f"nothing is compared while {ANN_DISABLE_AUTOUPDATE} is set"
        return set_hindrance(status, Hindrance(BundleReason.AUTOUPDATE_DISABLED, text))

    async def check(self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None) -> Step:
        """Go on with a check, or begin one."""
        return await self._checks.visit(entry, spec, values_hash)

    def awaits_answer(self, entry: BundleEntry) -> bool:
        """A check's chart."""
        return CHECK.record(entry.status).is_running

    def corrects(self, spec: BundleSpec) -> bool:
        """By a mode."""
        return spec.part(DriftSpec).mode is DriftMode.CORRECT

    # --- a decision -------------------------------------------------------------------------------

    def propose(self, proposal: P) -> P:
        """Whether checks are made, and what prevents them now."""
        wanted = proposal.wanted
        status = record_mode(proposal.status, proposal.spec, wanted.spec_hash, wanted.values_hash)
        return replace(proposal, status=status)

    def correct(self, proposal: Proposal, *, is_held: bool) -> Correction | None:
        """Where the last check found drift; it is planned as a deploy is where it needs that."""
        status, spec = proposal.status, proposal.spec
        if not is_correction_due(status, spec):
            return None
        if not needs_approval(status, spec):
            return Correction(proposal.findings)
        target = target_of(proposal.entry, spec, proposal.again)
        if is_held or not is_free_for(status, target):
            return None  # another deploy is planned first, or its plan waits
        return Correction(proposal.findings.replacing(target), Occasion.EDIT)

    def awaits_moment(self, entry: BundleEntry) -> bool:
        """Drift that is to be corrected."""
        spec = entry.spec
        return isinstance(spec, BundleSpec) and is_correction_due(entry.status, spec)

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """The plan of a correction is what the check found; a running check is broken off."""
        status = proposal.status
        if is_correction:
            status = record_correction(status, proposal.spec)
            status = self.with_approver(proposal.entry, status)
        return break_off_check(status)

    async def tidy(self, before: BundleEntry, written: BundleEntry) -> None:
        """End the Job of a check that was broken off, and delete the baseline that was dropped."""
        if before.status.part(PlanStatus).job != written.status.part(PlanStatus).job:
            return  # where a plan is dropped or begun, all that isn't needed is removed
        old, new = (CHECK.record(one.status) for one in (before, written))
        had, has = (one.status.part(Baseline).job for one in (before, written))
        is_dropped = bool(old.job or had) and not (new.job or has)
        if is_dropped or (old.is_running and new.job != old.job):
            await self._checks.discard(written)

    def needed_jobs(self, status: BundleStatus) -> Iterable[str | None]:
        """Of a running check, of the baseline, and of the drift that was found."""
        check = CHECK.record(status)
        running = check.job if check.is_running else None
        return running, status.part(Baseline).job, status.part(DriftStatus).found_job

    # --- the Job of a deploy, or of a correction --------------------------------------------------

    def find_plan(self, status: BundleStatus) -> PlanStatus | DriftCheck | None:
        """What was found, or the plan of the correction."""
        return find_plan(status, status.attempted.plan_job)

    async def shape(
        self, entry: BundleEntry, spec: BundleSpec, order: DeployOrder, job: str
    ) -> DeployOrder:
        """The order of a correction's Job, held to what was found; another's has copies of values.

        The baseline of a deploy is made of the same.
        """
        order, attempted = await super().shape(entry, spec, order, job), entry.status.attempted
        if job != attempted.job or attempted.plan_job is not None or not spec.uses(DriftSpec):
            return order
        found, sealed = await self.planning.values.write(entry, spec, job, compares_renders=False)
        if found != attempted.values_hash:
            text = "the values were edited after the deploy was recorded"
            raise MissingReferenceError(text, BundleReason.PLAN_CHANGED)
        return sealed.add_to(order)

    async def conclude(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        job: JobRecord,
        pods: list[dict[str, Any]],
        ending: Ending,
    ) -> Conclusion:
        """How a correction has ended, by what only its script tells."""
        return Conclusion(planned_ending(ending))

    def finish(
        self, entry: BundleEntry, status: BundleStatus, ending: Ending, found: Findings
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

    def keeps(self, entry: BundleEntry, job: JobRecord) -> Kept | None:
        """How long a check's Job is kept."""
        return keep_check(job.name, entry.status)

    # --- a write of the status --------------------------------------------------------------------

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Whether something has drifted."""
        if not isinstance(entry.spec, BundleSpec):
            return {}
        return {DRIFTED: drifted_condition(status, entry.spec)}

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where objects have drifted, have drifted again, or were corrected."""
        attempted, is_running = before.status.attempted, written.status.attempted.is_running
        if attempted.correction and attempted.is_running and not is_running:
            self._record_correction(written)
        old, new = (one.status.condition(DRIFTED) for one in (before, written))
        if new.is_true and new.reason != old.reason:
            reason = DriftReason.read(new.reason or "")
            self.context.emit(written, reason, new.message or "", WARNING)

    def _record_correction(self, entry: BundleEntry) -> None:
        status = entry.status
        outcome = status.attempted.outcome or ""
        self.context.metrics.of(DriftMetrics).drift_corrections.labels(outcome.lower()).inc()
        if outcome == Outcome.SUCCEEDED:
            text = f"{drifted_objects(status)} {has_or_have(status)} been corrected"
            self.context.emit(entry, BundleEvent.DRIFT_CORRECTED, text)


FEATURE = DriftFeature
