"""Checks for drift: plans of what is deployed, each the baseline or compared with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.text import parse_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.conditions import with_conditions
from copyrator.bundles.engine.deciding import DesiredDeploy
from copyrator.bundles.engine.step import AT_ONCE, Step
from copyrator.bundles.features.drift.fields import DRIFTED, DriftSpec, DriftStatus
from copyrator.bundles.features.drift.metrics import DriftMetrics
from copyrator.bundles.features.drift.reasons import DriftReason
from copyrator.bundles.features.drift.record import (
    CHECK,
    DriftFindings,
    break_off_check,
    check_rhythm,
    compare_with_baseline,
    correctable_job,
    drifted_condition,
    due_at,
    find_hindrance,
    has_baseline,
    is_judged_by,
    is_regular_check,
    record_check_result,
    record_verdict,
    set_baseline,
    set_unknown,
    switch_off_drift,
)
from copyrator.bundles.plans.fields import (
    ApprovalSpec,
    ApprovedPlan,
    Baseline,
    PlanOutcome,
    PlanRecord,
    PlanStatus,
)
from copyrator.bundles.plans.jobs import EDITED
from copyrator.bundles.plans.machine import PlanMachine, PlanMemory, PlanTask, target_of
from copyrator.bundles.plans.operations import Plan, covers
from copyrator.bundles.plans.orders import is_made_of
from copyrator.bundles.plans.record import (
    PlanFault,
    PlanResult,
    unbound_reasons,
    without_unstable_file,
)
from copyrator.kube.errors import Forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftTiming:
    """Durations; only tests use others than the default."""

    tidied: timedelta = timedelta(minutes=1)
    """After a check's end a new process removes for so long what an earlier one left; later the
    Bundle's next check removes it."""


@dataclass(slots=True)
class CheckMemory(PlanMemory):
    """The checks for drift."""

    is_tidied: bool = False
    """Whether this process has ended Jobs that a former one may have left."""
    correctable: str | None = None
    """The Job that found the drift whose correction was decided on."""
    missed_until: datetime | None = None
    """While a check waits in the queue: the time up to which missed checks are counted."""


class DriftChecks(PlanMachine[CheckMemory]):
    """Makes the checks for drift of all Bundles."""

    purpose = CHECK
    memory = CheckMemory

    async def visit(self, entry: BundleEntry, spec: BundleSpec, values_hash: str | None) -> Step:
        """Take the next steps of a check.

        Raises:
            ApiError: the next reconcile repeats the step.
        """
        task = self.task(entry, spec)
        if not task.record.is_running:
            return await self._begin_due(task, values_hash)
        step = await self._observe(task)
        return step.then(lambda written: self._begin_due(replace(task, entry=written), values_hash))

    async def _observe(self, task: PlanTask) -> Step:
        before, memory = task.status, self.remembered(task.entry.key)
        status, due = await self.observe(task)
        check = CHECK.record(status)
        if check.is_running:
            return self._step(task, status, due)

        async def tidy(written: BundleEntry) -> Step:
            needed = self.jobs.features.needed_jobs
            left = {*needed(before)} - {*needed(status)}
            left -= {check.job} if check.outcome == PlanOutcome.PLANNED else set()
            if left or not memory.is_tidied:
                await self.jobs.discard(written)
                memory.is_tidied = True
            return Step(written, due=(AT_ONCE,))  # its Job isn't needed any more

        return replace(self._step(task, status), effect=tidy)

    def _step(self, task: PlanTask, status: BundleStatus, due: datetime | None = None) -> Step:
        """The step that writes a check's progress, with the condition that follows from it."""
        return Step(task.entry, self.with_condition(task.entry, status), due=(due,))

    def with_condition(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with the condition, where what it follows from has changed."""
        if status.part(DriftStatus) == entry.status.part(DriftStatus):
            return status
        assert isinstance(entry.spec, BundleSpec), "a check is of a valid spec"
        changed = {DRIFTED: drifted_condition(status, entry.spec)}
        return with_conditions(status, changed, self.context.clock())

    async def _begin_due(self, task: PlanTask, values_hash: str | None) -> Step:
        """Begin a check that is due."""
        entry, status, now = task.entry, task.status, self.context.clock()
        due = due_at(status, task.spec, entry.spec_hash, entry.uid)
        if due is None and not task.record.is_running:
            self.skip(entry.key)
            return Step(entry)
        memory = self.remembered(task.entry.key)
        within = self.context.timing.of(DriftTiming).tidied
        checked_at = parse_time(status.part(DriftStatus).checked_at)
        if not memory.is_tidied and checked_at and now < checked_at + within:
            await self.jobs.discard(entry)  # what a former process may have left
            memory.is_tidied = True
        found = correctable_job(status, task.spec)
        if found is not None and memory.correctable != found:
            memory.correctable = found
            self.poll_states.decide_again(entry.key, task.spec.interval)
        is_due = due is not None and due <= self.context.clock()
        if is_due and not find_hindrance(status, task.spec, entry.spec_hash, values_hash):
            await self.jobs.prepare(entry, task.spec)
            return self._begin_check(task)
        self.skip(entry.key)
        memory.missed_until = None
        return Step(entry, due=(None if is_due else due,))

    def _begin_check(self, task: PlanTask) -> Step:
        """Record a check; while it waits in the queue, the scheduled ones it misses are counted."""
        entry, memory, there = task.entry, self.remembered(task.entry.key), task.status.deployed
        wanted = DesiredDeploy(
            version=there.version or "",
            digest=there.digest or "",
            values_hash=there.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
        )
        step = self.begin(task, task.status, target_of(entry, task.spec, wanted))
        if step is None:
            now = self.context.clock()
            since, memory.missed_until = memory.missed_until or now, now
            count = check_rhythm(entry.uid, task.spec.part(DriftSpec).interval).count(since, now)
            self.context.metrics.of(DriftMetrics).drift_checks_skipped.inc(count)
            return Step(entry)
        return step

    def report_begun(self, task: PlanTask, fault: PlanFault | None) -> Step:
        """Record why there is none."""
        self.remembered(task.entry.key).missed_until = None
        # The watch may not report the change that was just read.
        if fault is None:
            return Step(task.entry, task.status, due=(AT_ONCE,))
        return self._step(task, self.refuse_job(task, fault), AT_ONCE).then(self.discard)

    async def create_job(self, task: PlanTask) -> PlanFault | None:
        """Not of another spec, and not without the service account."""
        if not is_made_of(CHECK.record(task.status), task.entry, task.spec):
            return EDITED
        if (missing := await self.jobs.missing_account(task.spec)) is not None:
            return missing
        return await super().create_job(task)

    def renders_of(self, task: PlanTask) -> int:
        """A chart that draws gets no hash, with which its correction would never be equal."""
        is_bound = has_baseline(task.status) and task.status.part(Baseline).bound
        return 1 if is_bound else 2

    def refuse_job(self, task: PlanTask, fault: PlanFault) -> BundleStatus:
        """Where the values were edited, it is broken off."""
        return break_off_check(task.status) if fault is EDITED else self.fail(task, fault)

    def fail(self, task: PlanTask, why: PlanFault) -> BundleStatus:
        """The status where the check has no result."""
        return set_unknown(super().fail(task, why), why.reason, why.message)

    async def record_result(self, task: PlanTask, plan: Plan) -> BundleStatus:
        """The status with the result of a check: the baseline, or a verdict."""
        plan = without_unstable_file(task.status, CHECK.record(task.status), plan)
        missing = await self.jobs.missing_namespace(task.spec)
        status = await self._judge(task, PlanResult(plan, missing))
        await self.seals.remove_values(task.entry, task.record.job)
        return status

    async def judge_plan(
        self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus, result: PlanResult
    ) -> BundleStatus:
        """The status with the verdict by a plan of what is deployed, as a user requested.

        As by a check; of another plan none.
        """
        plan = status.part(PlanStatus)
        if not spec.uses(DriftSpec) or not is_judged_by(status, plan.attempt):
            return status
        if find_hindrance(status, spec, entry.spec_hash, plan.values_hash) is not None:
            return status
        baseline = await self.stored.find(entry, status.part(Baseline))
        if baseline is None:
            return status
        found = compare_with_baseline(result.operations, baseline.operations, spec.part(DriftSpec))
        differs = _differs(status, baseline, result.plan)
        status = self._record_verdict(entry, spec, status, plan, found, differs=differs)
        return self.with_condition(entry, status)

    async def _judge(self, task: PlanTask, result: PlanResult) -> BundleStatus:
        entry, spec, status, now = task.entry, task.spec, task.status, self.context.clock()
        bound = not unbound_reasons(result.plan)
        baseline = None
        if has_baseline(status):
            try:
                baseline = await self.stored.read(entry, status.part(Baseline))
            except Forbidden as error:
                status = record_check_result(status, result, now, bound=bound)
                text = f"the Secret with the baseline can't be read: {error.message}"
                return set_unknown(status, DriftReason.BASELINE_UNREADABLE, text)
        if baseline is None:
            # Where its Secret was deleted, this plan, of one render, becomes the baseline.
            bound = bound and not has_baseline(status)
            if bound and spec.uses(ApprovalSpec):
                bound = await self._follows_from_plan(entry, status, result.plan)
            result = await self._store(task, result)
            status = set_baseline(record_check_result(status, result, now, bound=bound), now)
            return switch_off_drift(status, spec)
        found = compare_with_baseline(result.operations, baseline.operations, spec.part(DriftSpec))
        if found.drifted:
            result = await self._store(task, result)
        status = record_check_result(status, result, now, bound=bound)
        differs = _differs(status, baseline, result.plan)
        check = CHECK.record(status)
        return self._record_verdict(entry, spec, status, check, found, differs=differs)

    async def _store(self, task: PlanTask, result: PlanResult) -> PlanResult:
        """Store the operations in a Secret; returns the result with its seal."""
        job = task.record.job or ""
        return replace(result, seal=await self.stored.store(task.entry, job, result.plan.text))

    async def _follows_from_plan(
        self, entry: BundleEntry, status: BundleStatus, baseline: Plan
    ) -> bool:
        """Whether a baseline has no objects beyond the plan whose deploy it was made after.

        A chart that branches on the release's revision, or on ``.Release.IsUpgrade``, may have
        some: a correction would deploy what nobody has seen.
        """
        plan = status.part(PlanStatus)
        if plan.job is None or plan.job != status.deployed.plan_job:
            return False
        made = await self.stored.find(entry, ApprovedPlan(job=plan.job, seal=plan.seal))
        if made is None:
            return False
        return made.render == baseline.render or covers(made.operations, baseline.operations)

    def _record_verdict(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        status: BundleStatus,
        plan: PlanRecord,
        found: DriftFindings,
        *,
        differs: bool,
    ) -> BundleStatus:
        is_regular = is_regular_check(status, spec, entry.uid, plan.started_at)
        job, now = plan.job or "", self.context.clock()
        return record_verdict(status, found, job, now, is_regular=is_regular, differs=differs)


def _differs(status: BundleStatus, baseline: Plan, plan: Plan) -> bool:
    """Whether a correction may write something else than was deployed, also by another werf."""
    if not status.part(Baseline).bound or plan.image is None:
        return True
    return plan.render != baseline.render
