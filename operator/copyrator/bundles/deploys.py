"""Acts on the registry's answer: decides, then begins a deploy or a plan, or reports what waits."""

from __future__ import annotations

from dataclasses import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Verification
from copyrator.api.conditions import ReadyCondition
from copyrator.api.times import format_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.deploy import ready_conditions, state
from copyrator.bundles.deploy.blocked import ServiceAccountChecker
from copyrator.bundles.deploy.decisions import (
    Case,
    MomentGates,
    decide_deploy,
    record_resolution,
    report_idle,
)
from copyrator.bundles.deploy.requests import acknowledge
from copyrator.bundles.deploy.runs import AttemptRunner
from copyrator.bundles.inputs.freezes import FreezeWatcher
from copyrator.bundles.inputs.relations import find_unready
from copyrator.bundles.plan import correction as drift_correction
from copyrator.bundles.plan import decision as plan_decision
from copyrator.bundles.plan import drift as drift_record
from copyrator.bundles.plan import record as plan_record
from copyrator.bundles.plan.machine import PlanMachine
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.step import AT_ONCE, Step
from copyrator.bundles.version.answer import TakeoverBaseline, kept_ready, record_error, take_over
from copyrator.bundles.version.polling import DeployInputs, VersionResolver
from copyrator.bundles.version.resolve import Resolution
from copyrator.bundles.version.rhythm import poll_retry
from copyrator.oci.errors import AuthenticationFailed, RegistryError


class Deployer:
    """Decides on resolutions of Bundles that aren't being deleted and have no running Job."""

    def __init__(
        self,
        context: Context,
        writer: StatusWriter,
        *,
        resolver: VersionResolver,
        accounts: ServiceAccountChecker,
        attempts: AttemptRunner,
        plans: PlanMachine,
        freezes: FreezeWatcher,
    ) -> None:
        self._context = context
        self._writer = writer
        self._resolver = resolver
        self._accounts = accounts
        self._attempts = attempts
        self._plans = plans
        self._freezes = freezes

    async def deploy(self, inputs: DeployInputs, resolution: Resolution) -> Step:
        """Decide on a resolution; once all of that is done, the poll counts as handled."""
        entry, spec, desired = inputs.entry, inputs.spec, inputs.desired
        if resolution.inherited:
            return self._take_over(entry, spec, resolution, desired.values_hash)
        memory = self._context.memories[entry.key]
        poll, asked_since = memory.poll, memory.poll.asked_since
        known = (entry.resource_version, resolution, desired.values_hash)
        if known in (poll.settled, memory.account.settled) and inputs.observed is None:
            self._resolver.set_next_poll(entry, spec, resolution, self._context.clock())
            step = Step(entry, due=(poll.next_poll,))
        elif resolution.error is not None:
            step = self._report_poll_failed(entry, spec, resolution.error, inputs.observed)
        else:
            step, is_request_handled = await self._decide(inputs, resolution)
            desired = replace(desired, request="" if is_request_handled else desired.request)

        async def mark_handled(written: BundleEntry) -> Step:
            poll.desired = desired
            if not poll.failures:
                poll.answered_at = self._context.monotonic()
            return self._resolver.mark_handled(written, asked_since)

        return step.then(mark_handled)

    def _take_over(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, values_hash: str | None
    ) -> Step:
        """Record what the original operator deployed; another reconcile follows."""
        baseline = TakeoverBaseline(
            resolution.digest or None, values_hash, entry.spec_hash, entry.generation
        )
        status = take_over(entry.status, baseline, spec, self._context.clock())
        verdict = ready_conditions.taken_over(status)
        return Step(entry, status, verdict, decided=False, due=(AT_ONCE,))

    def _report_poll_failed(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        error: RegistryError,
        observed: BundleStatus | None,
    ) -> Step:
        now, status = self._context.clock(), observed or entry.status
        memory = self._context.memories[entry.key].poll
        failures = memory.failures + 1
        first, rhythm = self._context.timing.poll_retry, self._context.poll_rhythm(entry, spec)
        next_poll = poll_retry(rhythm, failures, now, error.retry_after, first=first)
        refused = isinstance(error, AuthenticationFailed)
        status = replace(
            record_error(status, error.reason, error.message, now),
            ready=0 if refused else kept_ready(status),
            next_poll_at=format_time(next_poll),
        )

        async def set_next_poll(written: BundleEntry) -> Step:
            memory.failures, memory.next_poll = failures, next_poll
            return Step(written, due=(next_poll,))

        verdict = ready_conditions.unusable(error.reason, error.message, status)
        return Step(entry, status, verdict, effect=set_next_poll)

    async def _decide(self, inputs: DeployInputs, resolution: Resolution) -> tuple[Step, bool]:
        """Act on the resolution; returns whether a user's request is handled by that."""
        entry, spec, now = inputs.entry, inputs.spec, self._context.clock()
        status, values_hash = inputs.observed or entry.status, inputs.desired.values_hash
        awaited, freezes = find_unready(self._context.bundles, spec), self._freezes.of(spec)
        moment = MomentGates(self._context.gates.moment, awaited, freezes)
        case = decide_deploy(entry, spec, resolution, values_hash, status, moment=moment, now=now)
        memory = self._context.memories[entry.key].poll
        memory.judged_at = now
        self._resolver.set_next_poll(entry, spec, resolution, case.now)
        status = record_resolution(case, memory.next_poll or case.now)
        if case.deploys:
            assert case.decision.need is not None
            if (missing := await self._find_account(case, status)) is not None:
                return missing, False
            if not case.is_correction:
                status = replace(status, verification=resolution.chosen or Verification())
            begun = self._begin_attempt(case, status, case.decision.need)
            return begun, not case.is_correction or entry.request is None
        status, verdict = report_idle(case, status)
        if (planned := await self._begin_plan(case, status, verdict)) is not None:
            return planned, entry.request is None
        request = entry.request
        is_unplannable = entry.plan_request is not None and not resolution.tag
        if is_unplannable:  # what refuses or lacks a version is in the conditions
            status = replace(status, last_handled_plan=entry.plan_request)
        if spec.suspend or case.is_delayed:
            return self._rest(case, status, verdict), is_unplannable and request is None
        if request is not None:
            status = acknowledge(status, request)
        step = self._rest(case, status, verdict)
        if request is not None and request.force_update:
            step = step.then(self._reset_force)
        return step, request is not None or is_unplannable

    async def _reset_force(self, entry: BundleEntry) -> Step:
        return Step(await self._writer.reset_force(entry))

    async def _begin_plan(
        self, case: Case, status: BundleStatus, verdict: ReadyCondition
    ) -> Step | None:
        """Begin a plan where the approval gate or a user requires one; None where it can't yet."""
        entry, spec = case.entry, case.spec
        if case.target is None or not (case.must_plan or entry.plan_request is not None):
            self._plans.skip_plan(entry.key)
            return None
        if (missing := await self._find_account(case, status)) is not None:
            return missing
        step = self._plans.begin_plan(entry, spec, status, case.target, verdict)
        if step is None:
            return None
        next_poll = self._context.memories[entry.key].poll.next_poll
        return replace(step, due=(*step.due, next_poll))

    def _rest(self, case: Case, status: BundleStatus, verdict: ReadyCondition) -> Step:
        """Report that nothing is deployed now; due is the next time that may change something."""
        memory = self._context.memories[case.entry.key].poll
        until = None if case.spec.suspend else case.decision.until
        judge_at = plan_record.next_check(status)
        if judge_at is not None and judge_at <= case.now:
            judge_at = None  # it was just judged, and waits for something else
        changes_at = self._resolver.next_change(case.spec, status, case.now)
        awaited = until or judge_at or changes_at
        # A plan that waits for its turn: the reconcile that had it may have waited for a registry.
        waits_for_turn = case.must_plan or case.entry.plan_request is not None
        is_final = case.resolution.unresolved is None and awaited is None and not waits_for_turn

        async def settle(written: BundleEntry) -> Step:
            if case.is_plan_dropped or case.is_drift_dropped:
                await self._plans.discard(written)
            if written is case.entry and is_final:
                memory.settled = case.known(written)
            return Step(written, due=(memory.next_poll, until, judge_at, changes_at))

        return Step(case.entry, status, verdict, effect=settle)

    async def _find_account(self, case: Case, status: BundleStatus) -> Step | None:
        """Report a missing service account; the time of the next poll isn't changed."""
        entry, memory = case.entry, self._context.memories[case.entry.key]
        memory.account.settled = None
        text = await self._accounts.missing(entry, case.spec, recheck=True)
        if text is None:
            memory.account.check_at = None
            return None
        reason = BundleReason.SERVICE_ACCOUNT_MISSING
        status = record_error(status, reason, text, self._context.clock())

        async def settle(written: BundleEntry) -> Step:
            memory.account.settled = case.known(written)
            return Step(written, due=(memory.poll.next_poll, memory.account.check_at))

        return Step(entry, status, ready_conditions.unusable(reason, text, status), effect=settle)

    def _begin_attempt(self, case: Case, status: BundleStatus, need: state.DeployReason) -> Step:
        """Record the attempt; once it is on record, its Job is created."""
        entry, spec, now = case.entry, case.spec, self._context.clock()
        status = state.begin(status, case.wanted, now, case.passed_over)
        is_planned = spec.approval.is_enabled
        if need is state.DeployReason.DRIFT:
            status = drift_correction.record_correction(status, spec)
        elif is_planned:
            status = plan_decision.use_plan(status)
        else:
            status = plan_decision.drop_unused_plan(status)
        status = drift_record.break_off_check(status)
        step = self._attempts.begin(entry, spec, status, need)
        before = entry.status
        if before.drift.check.is_running or (not is_planned and before.plan.job is not None):
            step = step.then(self._discard_plans)
        return step

    async def _discard_plans(self, entry: BundleEntry) -> Step:
        await self._plans.discard(self._context.bundles.get(entry.key) or entry)
        return Step(entry)
