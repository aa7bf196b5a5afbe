"""Decides what is done about a resolution: a deploy, a plan or nothing, and the status for each.

The decision itself is pure: each input is in the arguments of ``decide_deploy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    AgeStatus,
    Available,
    BundleStatus,
    CandidateStatus,
    LastError,
    PassedOver,
    VersionRef,
)
from copyrator.api.conditions import ReadyCondition
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.accounts import ServiceAccountChecker
from copyrator.bundles.engine.attempt import AttemptRunner
from copyrator.bundles.engine.bundle import (
    BundleEntry,
    acknowledge,
    record_failed_request,
)
from copyrator.bundles.engine.choose import Answer, DeployInputs, Resolution, VersionResolver
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.gate import (
    Candidate,
    Facts,
    Findings,
    Gate,
    Gates,
    Held,
    next_verdict_change,
)
from copyrator.bundles.engine.poll import (
    DesiredVersion,
    Polling,
    count_failure,
    is_lenient,
    kept_ready,
    kept_until,
    poll_retry,
    record_available,
    record_error,
    take_over,
)
from copyrator.bundles.engine.remembered import record_candidates
from copyrator.bundles.engine.status import BundlePatcher
from copyrator.bundles.engine.step import AT_ONCE, Step
from copyrator.oci.errors import AuthenticationFailed, RegistryError, TagNotFound

_NOTHING: Final = deciding.Decision(deciding.DeployAction.NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(deciding.Proposal):
    """One decision, with its input and its result."""

    resolution: Resolution
    decision: deciding.Decision = _NOTHING
    held: Held | None = None
    """The version that a gate keeps from being deployed now."""
    passed_over: tuple[PassedOver, ...] = ()
    """The gates that a forced deploy ignores."""

    @property
    def deploys(self) -> bool:
        """Whether something is deployed now."""
        asked = self.decision.action is deciding.DeployAction.DEPLOY
        return asked and self.held is None and not self.spec.suspend

    @property
    def is_waiting(self) -> bool:
        """Whether something is to be deployed that a gate delays."""
        return self.decision.action is deciding.DeployAction.DEPLOY and self.held is not None

    @property
    def is_delayed(self) -> bool:
        """Whether a moment gate delays the deploy, so that a request stays pending.

        Where the version gates refuse every version, a request counts as handled.
        """
        return self.held is not None and bool(self.resolution.tag)

    def known(self, entry: BundleEntry) -> tuple[object, ...]:
        """The decision's input; a reconcile with an equal one has nothing to do."""
        return entry.resource_version, self.resolution, self.wanted.values_hash


def decide_deploy(
    entry: BundleEntry,
    spec: BundleSpec,
    resolution: Resolution,
    values_hash: str | None,
    status: BundleStatus,
    *,
    moment: Sequence[Gate],
    features: Features,
    findings: Findings,
    now: datetime,
) -> Case:
    """Decide what to do about a resolution, by the moment gates and what is found for them."""
    wanted = deciding.DesiredDeploy(
        version=resolution.tag,
        digest=resolution.digest,
        reference=spec.reference,
        namespace=spec.project_namespace,
        server=spec.server or None,
        values_hash=values_hash,
        spec_hash=entry.spec_hash,
        generation=entry.generation,
        request=entry.request,
    )
    case = Case(
        entry=entry,
        spec=spec,
        status=status,
        wanted=wanted,
        now=now,
        is_awaited_refused=resolution.is_awaited_refused,
        findings=findings,
        resolution=resolution,
    )
    if not entry.is_plain:
        for one in features.of(entry, Feature.propose):
            case = one.propose(case)
    if resolution.tag:
        decision = deciding.decide(case.status, case.wanted, spec.retry, now)
        case = replace(case, decision=decision)
    return _correct(_judge_moment_gates(case, moment), moment, features)


def _correct(case: Case, moment: Sequence[Gate], features: Features) -> Case:
    """The case with a feature's correction, where nothing else is deployed and all gates pass.

    Else their verdicts are added to those on a newer version, so that the status shows the wait.
    """
    if case.deploys or case.entry.is_plain:
        return case
    asked = features.of(case.entry, Feature.correct)
    found = (one.correct(case, is_held=case.is_waiting) for one in asked)
    if (correction := next(filter(None, found), None)) is None:
        return case
    case, wanted = replace(case, findings=correction.findings), case.again
    candidate = Candidate(wanted.version, wanted.digest)
    facts = Facts(case.status, correction.occasion, findings=case.findings)
    judged = gates.judge(moment, case.spec, candidate, facts, case.now)
    judged = (*case.resolution.correctable, *judged)
    if gates.hold_back(candidate, judged):
        there_already = {one.gate for one in case.results}
        more = (one for one in judged if one.gate not in there_already)
        return replace(case, results=(*case.results, *more))
    decision = deciding.Decision(deciding.DeployAction.DEPLOY, deciding.DeployReason.CORRECTION)
    return replace(case, wanted=wanted, decision=decision, held=None, passed_over=())


def _judge_moment_gates(case: Case, moment: Sequence[Gate]) -> Case:
    """The case with the gates' verdicts, and the version that they hold back.

    Verdicts of moment gates are recorded only while one of them objects: what passes is deployed at
    once.
    """
    resolution, decision = case.resolution, case.decision
    results = resolution.held.results if resolution.held else resolution.results
    if not resolution.tag:
        return replace(case, results=results, held=resolution.held)
    retried_at = decision.until if decision.action is deciding.DeployAction.WAIT else None
    is_open = retried_at is not None or decision.action is deciding.DeployAction.DEPLOY
    if decision.need is None or not is_open:
        return replace(case, results=results)
    status, candidate = case.status, Candidate(case.wanted.version, case.wanted.digest)
    occasion = deciding.occasion(decision.need, case.wanted, status)
    facts = Facts(status, occasion, findings=case.findings)
    if retried_at is not None:
        those = [one for one in moment if one.delays_retries]
        judged = gates.judge(those, case.spec, candidate, facts, retried_at)
        return replace(case, results=(*results, *(one for one in judged if one.objects)))
    judged = gates.judge(moment, case.spec, candidate, facts, case.now)
    held = gates.hold_back(candidate, judged)
    is_newest = resolution.digest == candidate.digest  # else an older one that a feature awaits
    over = (*(resolution.results if is_newest else ()), *judged)
    return replace(
        case,
        results=(*results, *judged) if held else results,
        held=held,
        passed_over=gates.record_passed_over(over),
    )


def report_idle(case: Case, status: BundleStatus) -> tuple[BundleStatus, ReadyCondition]:
    """The status and condition where nothing is deployed now."""
    if case.spec.suspend:
        return _suspended(case, status)
    if case.held is not None:
        return status, _hold_condition(case, status, case.held)
    return _outcome(case, status)


def _suspended(case: Case, status: BundleStatus) -> tuple[BundleStatus, ReadyCondition]:
    """The status and condition where only ``spec.suspend`` keeps a version from being deployed."""
    there, wanted, need = status.deployed, case.wanted, None
    if case.held is not None:  # a newer version waits for its gates, so only an edit counts
        need = deciding.DeployReason.VALUES if there.values_hash != wanted.values_hash else None
        need = deciding.DeployReason.SPEC if there.spec_hash != wanted.spec_hash else need
    elif case.decision.action is deciding.DeployAction.DEPLOY:
        need = case.decision.need
    else:
        status, _ = _outcome(case, status)
    is_answered = case.resolution.unresolved is None
    if is_answered and status.last_error.reason != status.attempted.reason:
        status = structs.replace(
            status, last_error=LastError()
        )  # of the registry, or of what it names
    return status, ready_conditions.suspended(wanted.version, wanted.digest, need)


def _hold_condition(case: Case, status: BundleStatus, held: Held) -> ReadyCondition:
    """The condition where a gate holds something back.

    Ready is True where all that the spec requests is deployed, and only a newer version waits.
    """
    there, wanted = status.deployed, case.wanted
    same = (there.values_hash, there.spec_hash) == (wanted.values_hash, wanted.spec_hash)
    newer = not case.resolution.tag or case.decision.need is deciding.DeployReason.VERSION
    if case.resolution.is_pinned and held.candidate.digest != there.digest:
        newer = False  # what is pinned is requested
    if there.digest and same and newer and deciding.has_succeeded(status):
        return ready_conditions.deployed(status, case.spec.ignored_env)
    return ready_conditions.held(status, held)


def _outcome(case: Case, status: BundleStatus) -> tuple[BundleStatus, ReadyCondition]:
    if case.decision.action is deciding.DeployAction.WAIT:
        ends = (one.delays for one in case.results if one.objects and one.delays)
        return status, ready_conditions.will_retry(status, after=" and ".join(ends))
    if case.decision.action is deciding.DeployAction.QUARANTINE:
        return status, ready_conditions.quarantined(status)
    if (nothing := case.resolution.unresolved) is not None:
        reason, message = nothing.reason, nothing.message
        status = record_error(status, reason, message, case.now)
        return status, ready_conditions.unusable(reason, message, status)
    status = structs.replace(status, last_error=LastError())
    return status, ready_conditions.deployed(status, case.spec.ignored_env)


def record_resolution(case: Case, next_poll: datetime, judging: Gates) -> BundleStatus:
    """The status with the registry's resolution and the gates' verdicts.

    A tag that failed too often isn't listed as rejected any more once it has a new digest.
    """
    resolution = case.resolution
    results = () if _is_deployed_held(case) else case.results
    status = structs.replace(case.status, gates=gates.record_verdicts(results))
    candidates: tuple[CandidateStatus, ...] = ()
    if judging.remember(case.spec):
        candidates = record_candidates(
            status, case.spec, resolution.seen, case.now, resolution.preferred
        )
    status = status.with_part(AgeStatus(candidates=candidates))
    found: Candidate | None = None
    if resolution.is_pinned:
        found = resolution.named
    elif resolution.unresolved is None and resolution.tag:
        found = Candidate(resolution.tag, resolution.digest)
    available = Available(rejected=resolution.rejected)
    if found is not None:
        quarantined = case.decision.action is deciding.DeployAction.QUARANTINE
        rejected = tuple(
            one for one in resolution.rejected if quarantined or one.version != found.version
        )
        available = Available(version=found.version, digest=found.digest, rejected=rejected)
    status = record_available(status, available, next_poll, case.now)
    if resolution.is_pinned and resolution.tag:
        status = structs.replace(
            status, target=VersionRef(version=resolution.tag, digest=resolution.digest)
        )
    return status


def _is_deployed_held(case: Case) -> bool:
    """Whether a version gate holds back what is deployed, and neither values nor spec changed.

    Then no update is pending; the condition Verified reports it.
    """
    held, there = case.resolution.held, case.status.deployed
    if held is None or case.resolution.tag or held.candidate.digest != there.digest:
        return False
    return (there.values_hash, there.spec_hash) == (case.wanted.values_hash, case.wanted.spec_hash)


@dataclass(eq=False, kw_only=True)
class Deployer:
    """Decides on resolutions of Bundles that aren't being deleted and have no running Job."""

    context: Context
    patches: BundlePatcher
    resolver: VersionResolver
    accounts: ServiceAccountChecker
    attempts: AttemptRunner
    features: Features

    async def deploy(
        self, inputs: DeployInputs, answer: Answer, findings: Findings
    ) -> tuple[Step, DesiredVersion | None]:
        """Decide on an answer; ``findings``: what features have found for their gates.

        Returns:
            The step, and the desired version that is handled once the step was taken.
        """
        entry, desired, resolution = inputs.entry, inputs.desired, answer.resolution
        if resolution.inherited:
            now = self.context.clock()
            status = take_over(entry.status, inputs.spec, desired, resolution.digest, now)
            verdict = ready_conditions.taken_over(status)
            return Step(entry, status, verdict, decided=False, due=(AT_ONCE,)), None
        if resolution.error is not None:
            return self._report_poll_failed(inputs, answer, resolution.error), desired
        try:
            step, is_request_handled = await self._decide(inputs, answer, findings)
        except RegistryError as error:  # no login for a Job, as if it were none for the poll
            answer.polling.failures = answer.failures
            return self._report_poll_failed(inputs, answer, error, keeps=False), desired
        if not entry.is_plain:
            step = step.then(partial(self._tidy, entry))
        if is_request_handled is None:
            return step, None
        return step, replace(desired, request="") if is_request_handled else desired

    def _report_poll_failed(
        self, inputs: DeployInputs, answer: Answer, error: RegistryError, *, keeps: bool = True
    ) -> Step:
        """Report a failed poll; with ``keeps`` Ready is kept for some time where it may pass."""
        entry, spec, now = inputs.entry, inputs.spec, self.context.clock()
        polling = answer.polling
        failures = polling.failures.including(error)
        is_new = failures is not polling.failures
        first, rhythm = self.context.timing.poll_retry, self.resolver.poll_rhythm(entry, spec)
        next_poll = poll_retry(rhythm, failures.count, now, error.retry_after, first=first)
        status = inputs.observed or entry.status
        status = count_failure(status, now) if is_new else status
        status = structs.replace(
            record_error(status, error.reason, error.message, now),
            ready=0 if isinstance(error, AuthenticationFailed) else kept_ready(status),
            next_poll_at=format_time(next_poll),
        )

        async def set_next_poll(written: BundleEntry) -> Step:
            polling.failures, polling.next_poll = failures, next_poll
            if is_kept and not written.status.failed_polls.count:  # an older CRD dropped it
                return Step(written, written.status, verdict, due=(next_poll,))
            return Step(written, due=(next_poll, until if is_kept else None))

        verdict = ready_conditions.unusable(error.reason, error.message, status)
        is_passing = keeps and not isinstance(error, AuthenticationFailed | TagNotFound)
        until = kept_until(status, spec)
        is_kept = is_passing and until is not None and now < until
        is_kept = is_kept and is_lenient(entry.status, inputs.desired, polling.handled)
        if polling.handled is None:
            is_kept = is_kept and self.features.have_judged(spec, entry.status, inputs.read)
        if not is_kept:
            return Step(entry, status, verdict, effect=set_next_poll)
        if entry.request is not None:
            status = record_failed_request(status, entry.request)
        return Step(entry, status, effect=set_next_poll)

    async def _decide(
        self, inputs: DeployInputs, answer: Answer, findings: Findings
    ) -> tuple[Step, bool | None]:
        """Act on it; returns whether a user's request is handled, None: the poll isn't."""
        entry, spec, now = inputs.entry, inputs.spec, self.context.clock()
        status, values_hash = inputs.observed or entry.status, inputs.desired.values_hash
        found, next_poll = answer.resolution, answer.next_poll
        assert next_poll is not None, "only after an error there is none"
        status = self.features.judged(spec, status, found.findings, begins=False)
        case = decide_deploy(
            entry,
            spec,
            found,
            values_hash,
            status,
            moment=self.context.gates.moment,
            features=self.features,
            findings=findings,
            now=now,
        )
        status = record_resolution(case, next_poll, self.context.gates)
        if case.deploys:
            return await self._begin_attempt(case, status, answer.polling)
        status, verdict = report_idle(case, status)
        request, is_handled = entry.request, True
        if not entry.is_plain:
            find_account = partial(self._find_account, case, status, answer.polling)
            asked = replace(case, status=status)
            for one in self.features.of(entry, Feature.precede):
                if (begun := await one.precede(asked, verdict, find_account)) is not None:
                    due = (*begun.due, answer.polling.next_poll)
                    return replace(begun, due=due), request is None
            is_handled = not self.features.request(entry, status)
        # That a plan is being made, or waits for its turn, is no failure.
        is_planning = case.held and case.held.objection.reason == BundleReason.PLANNING
        if case.is_delayed and not spec.suspend and request is not None and not is_planning:
            status = record_failed_request(status, request)
        if spec.suspend or case.is_delayed:
            return self._rest(case, status, verdict, answer.polling), is_handled and request is None
        if request is not None:
            status = acknowledge(status, request)
        step = self._rest(case, status, verdict, answer.polling)
        if request is not None and request.force_update:
            step = step.then(self._reset_force)
        return step, is_handled

    async def _reset_force(self, entry: BundleEntry) -> Step:
        return Step(await self.patches.reset_force(entry))

    async def _tidy(self, before: BundleEntry, written: BundleEntry) -> Step:
        """Have features remove what the status names no more; a Job may be created by now."""
        present = self.context.bundles.get(written.key) or written
        for one in self.features.of(before, Feature.tidy):
            await one.tidy(before, present)
        return Step(written)

    def _rest(
        self, case: Case, status: BundleStatus, verdict: ReadyCondition, polling: Polling
    ) -> Step:
        """Report that nothing is deployed now; due is the next time that may change something."""
        until = None if case.spec.suspend else case.decision.until
        judge_at = next_verdict_change(status.gates)
        if judge_at is not None and judge_at <= case.now:
            judge_at = None  # it was just judged, and waits for something else
        changes_at = self.resolver.next_change(case.spec, status, case.now)
        awaited = until or judge_at or changes_at
        # What waits for its turn: the reconcile that had it may have waited for a registry.
        waits_for_turn = not case.entry.is_plain and self.features.due(case.entry) is not None
        is_final = case.resolution.unresolved is None and awaited is None and not waits_for_turn

        async def settle(written: BundleEntry) -> Step:
            if written is case.entry and is_final:
                polling.settle(case.known(written))
            return Step(written, due=(polling.next_poll, until, judge_at, changes_at))

        return Step(case.entry, status, verdict, effect=settle)

    async def _find_account(
        self, case: Case, status: BundleStatus, polling: Polling
    ) -> Step | None:
        """Report a missing service account; the time of the next poll isn't changed.

        Raises:
            RegistryError, JobPendingError: a Job lacks what a feature adds to it, or still does.
        """
        entry, key = case.entry, case.entry.key
        text = await self.accounts.missing(entry, case.spec, recheck=True)
        if text is None:
            if case.spec.parts:
                await self.features.prepare(entry, case.spec)
            return None
        reason = BundleReason.SERVICE_ACCOUNT_MISSING
        status = record_error(status, reason, text, self.context.clock())

        async def settle(written: BundleEntry) -> Step:
            polling.settle(case.known(written))
            return Step(written, due=(polling.next_poll, self.accounts.check_at(key)))

        return Step(entry, status, ready_conditions.unusable(reason, text, status), effect=settle)

    async def _begin_attempt(
        self, case: Case, status: BundleStatus, polling: Polling
    ) -> tuple[Step, bool | None]:
        """Record the attempt; once it is on record, its Job is created. Returns as ``_decide``."""
        entry, spec, need = case.entry, case.spec, case.decision.need
        assert need is not None
        is_correction = need is deciding.DeployReason.CORRECTION
        if (missing := await self._find_account(case, status, polling)) is not None:
            return missing, False
        occasion = deciding.occasion(need, case.wanted, status)
        if spec.parts and self.resolver.must_confirm(entry, spec, occasion):
            return Step(entry, due=(AT_ONCE,)), None
        if not is_correction:
            status = self.features.judged(spec, status, case.resolution.findings, begins=True)
        status = deciding.begin(status, case.wanted, self.context.clock(), case.passed_over)
        status = deciding.record_cause(replace(case, status=status), need)
        if not entry.is_plain:
            for one in self.features.of(entry, Feature.begun):
                status = one.begun(replace(case, status=status), is_correction=is_correction)
        step = await self.attempts.begin(entry, spec, status)
        return step, not is_correction or entry.request is None
