"""Reconciles a Bundle without a running attempt: polls, decides, begins a plan or a deploy.

Each reconcile takes the steps that are due and returns; none waits for a registry or a Job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Verification
from copyrator.api.conditions import ReadyCondition
from copyrator.api.drift_status import DriftReason
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
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
from copyrator.bundles.deploy.runs import Runs
from copyrator.bundles.gates import approval
from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.inputs.freezes import FreezeWatcher
from copyrator.bundles.inputs.reader import Access, MissingReferenceError, ReferenceReader
from copyrator.bundles.inputs.relations import find_unready
from copyrator.bundles.plan import correction as drift_correction
from copyrator.bundles.plan import decision as plan_decision
from copyrator.bundles.plan import drift as drift_record
from copyrator.bundles.plan import record as plan_record
from copyrator.bundles.plan.machine import PlanMachine
from copyrator.bundles.schedule import Change
from copyrator.bundles.status import StatusWriter
from copyrator.bundles.trust.store import TrustStore
from copyrator.bundles.version.answer import (
    DesiredVersion,
    TakeoverBaseline,
    kept_ready,
    record_error,
    take_over,
)
from copyrator.bundles.version.polling import VersionPoller
from copyrator.bundles.version.polls import RegistryPoller
from copyrator.bundles.version.resolve import Resolution
from copyrator.bundles.version.rhythm import poll_retry
from copyrator.oci.errors import AuthenticationFailed, RegistryError


class Deploys:
    """Reconciles a Bundle that isn't being deleted and has no running Job."""

    def __init__(
        self,
        context: Context,
        references: ReferenceReader,
        writer: StatusWriter,
        polls: RegistryPoller,
        runs: Runs,
        *,
        plans: PlanMachine,
        trust: TrustStore,
        freezes: FreezeWatcher,
    ) -> None:
        self._context = context
        self._references = references
        self._writer = writer
        self._resolutions = VersionPoller(context, writer, polls)
        self._accounts = ServiceAccountChecker(context)
        self._runs = runs
        self._plans = plans
        self._trust = trust
        self._freezes = freezes

    async def visit(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Take the steps that are due: previews, plans, checks for drift, polls, deploys.

        Raises:
            ApiError, StaleError: nothing is marked as handled; the next reconcile repeats the step.
        """
        memory, freezes = self._context.memory(entry.key), self._freezes.of(spec)
        await self._visit(entry, spec)
        if self._freezes.of(spec) != freezes:
            self._context.schedule.changed(entry.key, Change.FREEZE)
        if memory.poll.asked_since is not None:
            return  # the registry's answer requeues it; sooner there is nothing to do
        if memory.recheck_at is not None and memory.recheck_at <= self._context.clock():
            self._context.schedule.repeat(entry.key)  # that time has passed during this reconcile

    async def _visit(self, entry: BundleEntry, spec: BundleSpec) -> None:
        entry = await self._plans.visit_preview(entry, spec)
        observed = await self._plans.observe_plan(entry, spec)
        if entry.is_paused:
            await self._pause(entry, spec, observed or entry.status)
            return
        try:
            access = await self._references.access(entry, spec)
            values_hash = await self._references.values_hash(entry, spec)
            asked = await self._trust.of(entry, spec)
        except MissingReferenceError as error:
            await self._report_missing(entry, spec, error, observed or entry.status)
            return
        is_drift_due = False
        if observed is None or observed == entry.status:
            entry = await self._plans.visit_check(entry, spec, values_hash)
            observed = entry.status if observed else None
        else:
            due = drift_record.due_at(entry.status, spec, entry.spec_hash, entry.uid)
            is_drift_due = entry.status.drift.check.is_running or due is not None
        if self._context.memory(entry.key).account.settled is not None:
            await self._check_account(entry, spec)
        desired = _desired_version(entry, spec, access, values_hash, asked)
        resolution = await self._resolutions.ask(entry, spec, access, desired, asked)
        if resolution is None:
            return
        if resolution.inherited:
            await self._take_over(entry, spec, resolution, values_hash)
            return
        await self._handle(entry, spec, resolution, desired, observed)
        if is_drift_due:
            self._context.schedule.repeat(entry.key)  # for the check: the status is written now

    async def _pause(self, entry: BundleEntry, spec: BundleSpec, status: BundleStatus) -> None:
        """Record that updates are disabled: nothing is polled, planned or deployed."""
        memory = self._context.memory(entry.key)
        memory.poll.desired = memory.poll.asked_since = memory.poll.again = None
        self._context.schedule.requeue_at(entry.key)
        if not self._plans.is_made(entry, status):
            status = approval.record_pause(status)
        status = replace(status, ready=kept_ready(status), next_poll_at=None)
        status = _not_compared(status, spec, BundleReason.AUTOUPDATE_DISABLED, _PAUSED)
        await self._writer.write(entry, status, ready_conditions.autoupdate_disabled(status))

    async def _handle(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        resolution: Resolution,
        desired: DesiredVersion,
        observed: BundleStatus | None,
    ) -> None:
        """Act on the registry's answer."""
        memory, values_hash = self._context.memory(entry.key), desired.values_hash
        asked_since = memory.poll.asked_since
        known = (entry.resource_version, resolution, values_hash)
        settled = known in (memory.poll.settled, memory.account.settled)
        if settled and observed is None:
            self._resolutions.set_next_poll(entry, spec, resolution, self._context.clock())
            self._context.schedule.requeue_at(entry.key, memory.poll.next_poll)
        elif resolution.error is not None:
            await self._poll_failed(entry, spec, resolution.error, observed or entry.status)
        elif await self._decide(entry, spec, resolution, values_hash, observed):
            desired = replace(desired, request="")
        memory.poll.desired = desired
        if not memory.poll.failures:
            memory.poll.answered_at = self._context.monotonic()
        self._resolutions.mark_handled(entry, asked_since)

    async def _take_over(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, values_hash: str | None
    ) -> None:
        """Record what the original operator deployed, then requeue the Bundle."""
        baseline = TakeoverBaseline(
            resolution.digest or None, values_hash, entry.spec_hash, entry.generation
        )
        status = take_over(entry.status, baseline, spec, self._context.clock())
        await self._writer.write(entry, status, ready_conditions.taken_over(status), decided=False)
        self._context.schedule.repeat(entry.key)

    async def _poll_failed(
        self, entry: BundleEntry, spec: BundleSpec, error: RegistryError, status: BundleStatus
    ) -> None:
        now = self._context.clock()
        memory = self._context.memory(entry.key)
        failures = memory.poll.failures + 1
        rhythm = self._context.poll_rhythm(entry, spec)
        first = self._context.timing.poll_retry
        next_poll = poll_retry(rhythm, failures, now, error.retry_after, first=first)
        refused = isinstance(error, AuthenticationFailed)
        status = replace(
            record_error(status, error.reason, error.message, now),
            ready=0 if refused else kept_ready(status),
            next_poll_at=format_time(next_poll),
        )
        verdict = ready_conditions.unusable(error.reason, error.message, status)
        await self._writer.write(entry, status, verdict)
        memory.poll.failures, memory.poll.next_poll = failures, next_poll
        self._context.schedule.requeue_at(entry.key, next_poll)

    async def _report_missing(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        error: MissingReferenceError,
        status: BundleStatus,
    ) -> None:
        """Report a missing ConfigMap or Secret that the spec names.

        A watch requeues the Bundle when the object exists; the next poll is for references without
        a watch.
        """
        now = self._context.clock()
        is_values = error.reason is BundleReason.VALUES_MISSING
        status = replace(
            record_error(status, error.reason, str(error), now),
            ready=kept_ready(status) if is_values else 0,
        )
        status = _not_compared(status, spec, DriftReason.NOT_AS_DEPLOYED, str(error))
        await self._writer.write(
            entry, status, ready_conditions.unusable(error.reason, str(error), status)
        )
        memory = self._context.memory(entry.key)
        memory.poll.desired = memory.poll.asked_since = None
        self._context.schedule.requeue_at(
            entry.key, self._context.poll_rhythm(entry, spec).after(now)
        )

    async def _decide(
        self,
        entry: BundleEntry,
        spec: BundleSpec,
        resolution: Resolution,
        values_hash: str | None,
        observed: BundleStatus | None,
    ) -> bool:
        """Act on the resolution; returns whether a user's request was handled by that."""
        now, status = self._context.clock(), observed or entry.status
        awaited, freezes = find_unready(self._context.bundles, spec), self._freezes.of(spec)
        moment = MomentGates(self._context.gates.moment, awaited, freezes)
        case = decide_deploy(entry, spec, resolution, values_hash, status, moment=moment, now=now)
        self._context.memory(entry.key).poll.judged_at = now
        self._resolutions.set_next_poll(entry, spec, resolution, case.now)
        next_poll = self._context.memory(entry.key).poll.next_poll or case.now
        status = record_resolution(case, next_poll)
        if case.deploys:
            assert case.decision.need is not None
            if await self._is_account_missing(case, status):
                return False
            if not case.is_correction:
                status = replace(status, verification=resolution.chosen or Verification())
            await self._begin(case, status, case.decision.need)
            return not case.is_correction or entry.request is None
        status, verdict = report_idle(case, status)
        if await self._planned(case, status, verdict):
            return entry.request is None
        request = entry.request
        is_unplannable = entry.plan_request is not None and not resolution.tag
        if is_unplannable:  # what refuses or lacks a version is in the conditions
            status = replace(status, last_handled_plan=entry.plan_request)
        if spec.suspend or case.is_delayed:
            await self._rest(case, status, verdict)
            return is_unplannable and request is None
        if request is not None:
            status = acknowledge(status, request)
        written = await self._rest(case, status, verdict)
        if request is not None and request.force_update:
            await self._writer.reset_force(written)
        return request is not None or is_unplannable

    async def _planned(self, case: Case, status: BundleStatus, verdict: ReadyCondition) -> bool:
        """Begin a plan where the approval gate or a user requires one; True where it has begun."""
        entry, spec = case.entry, case.spec
        if case.target is None or not (case.must_plan or entry.plan_request is not None):
            self._plans.skip_plan(entry.key)
            return False
        if await self._is_account_missing(case, status):
            return True
        if not await self._plans.begin_plan(entry, spec, status, case.target, verdict):
            return False
        self._context.schedule.requeue_at(entry.key, self._context.memory(entry.key).poll.next_poll)
        return True

    async def _rest(self, case: Case, status: BundleStatus, verdict: ReadyCondition) -> BundleEntry:
        """Write the status, and requeue the Bundle for the next time that may change something."""
        memory = self._context.memory(case.entry.key)
        until = None if case.spec.suspend else case.decision.until
        written = await self._writer.write(case.entry, status, verdict)
        if case.is_plan_dropped or case.is_drift_dropped:
            await self._plans.discard(written)
        judge_at = plan_record.next_check(status)
        if judge_at is not None and judge_at <= case.now:
            judge_at = None  # it was just judged, and waits for something else
        changes_at = self._resolutions.next_change(case.spec, status, case.now)
        awaited = until or judge_at or changes_at
        # A plan that waits for its turn: the reconcile that had it may have waited for a registry.
        waits_for_turn = case.must_plan or case.entry.plan_request is not None
        is_final = case.resolution.unresolved is None and awaited is None and not waits_for_turn
        if written is case.entry and is_final:
            memory.poll.settled = case.known(written)
        self._context.schedule.requeue_at(
            case.entry.key, memory.poll.next_poll, until, judge_at, changes_at
        )
        return written

    async def _is_account_missing(self, case: Case, status: BundleStatus) -> bool:
        """Report a missing service account; the time of the next poll isn't changed."""
        entry, spec = case.entry, case.spec
        memory = self._context.memory(entry.key)
        memory.account.settled = None
        text = await self._accounts.missing(entry, spec, recheck=True)
        if text is None:
            memory.account.check_at = None
            return False
        reason = BundleReason.SERVICE_ACCOUNT_MISSING
        status = record_error(status, reason, text, self._context.clock())
        verdict = ready_conditions.unusable(reason, text, status)
        written = await self._writer.write(entry, status, verdict)
        memory.account.settled = case.known(written)
        self._context.schedule.requeue_at(entry.key, memory.poll.next_poll)
        return True

    async def _check_account(self, entry: BundleEntry, spec: BundleSpec) -> None:
        """Check whether the account exists now; if so, decide again by the last resolution."""
        memory = self._context.memory(entry.key)
        if not self._accounts.is_cleared(spec) and await self._accounts.missing(entry, spec):
            return
        memory.account.settled = memory.account.check_at = None
        self._context.schedule.decide_again(entry.key, spec)

    async def _begin(self, case: Case, status: BundleStatus, need: state.DeployReason) -> None:
        """Record the attempt, then create its Job."""
        entry, spec, now = case.entry, case.spec, self._context.clock()
        status = state.begin(status, case.wanted, now, case.passed_over)
        is_planned = spec.approval.is_enabled
        if need is state.DeployReason.DRIFT:
            status = drift_correction.record_correction(status, spec)
        else:
            status = (
                plan_decision.use_plan(status)
                if is_planned
                else plan_decision.drop_unused_plan(status)
            )
        status = drift_record.break_off_check(status)
        status = self._runs.named(entry, spec, status)
        verdict = ready_conditions.deploying(status, need)
        await self._runs.begin(entry, spec, status, verdict)
        if entry.status.drift.check.is_running or (
            not is_planned and entry.status.plan.job is not None
        ):
            await self._plans.discard(self._context.bundles.get(entry.key) or entry)


_PAUSED: Final = f"nothing is compared while {ANN_DISABLE_AUTOUPDATE} is set"


def _not_compared(
    status: BundleStatus, spec: BundleSpec, reason: str, message: str
) -> BundleStatus:
    """The status with the reason why no check for drift is made now."""
    if not spec.drift.is_enabled:
        return status
    return drift_record.set_hindrance(status, drift_record.Hindrance(reason, message))


def _requests(entry: BundleEntry) -> str:
    """The tokens of users' requests that haven't been handled yet."""
    parts = (entry.request.token if entry.request else "", entry.plan_request or "")
    return " ".join(part for part in parts if part)


def _desired_version(
    entry: BundleEntry, spec: BundleSpec, access: Access, values_hash: str | None, asked: Asked
) -> DesiredVersion:
    return DesiredVersion(
        generation=entry.generation,
        spec_hash=entry.spec_hash,
        values_hash=values_hash,
        request=_requests(entry),
        login=access.credential.fingerprint if access.credential else "",
        signers=asked.key,
        skipped=spec.skip_digests,
    )
