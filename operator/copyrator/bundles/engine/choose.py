"""Which version a Bundle is to have: when its registry is polled, what is chosen of its answers.

When is a state machine (poll.py). Answers are shared by all Bundles with the same query.

An exact tag is one query. A range is two: the tag list, from which all Bundles of the repository
choose, then the digest of the chosen tag. With version gates the digests of further tags are
requested until one passes. The deployed and the planned version are judged anew each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, TypeVar, cast

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import ABSENT, MAX_REJECTED, BundleStatus, Rejected
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import parse_time
from copyrator.api.version_range import ExactTag, VersionError, VersionRange, parse_version
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.gate import (
    MAX_CANDIDATES,
    NOTHING_FOUND,
    Candidate,
    Facts,
    Findings,
    GateResult,
    Gates,
    Held,
    Occasion,
    Passed,
    Refused,
    Waiting,
    next_verdict_change,
)
from copyrator.bundles.engine.lookup import DigestQuery, Lookup
from copyrator.bundles.engine.poll import (
    DesiredVersion,
    Failures,
    Polling,
    Rhythm,
    choose_rhythm,
    interval_of,
    is_answered,
    kept_until,
    poll_retry,
    query_of,
    retry_at,
)
from copyrator.bundles.engine.references import Access
from copyrator.bundles.engine.registry import PollAnswer, RegistryPoller, TagListQuery, TagQuery
from copyrator.bundles.engine.remembered import lower_tags, older_digests
from copyrator.bundles.engine.step import Change, Stale, Step
from copyrator.bundles.tags import Choice, Criteria, Selection, criteria_of, deployed_tag, explain
from copyrator.oci.errors import RegistryError, TagNotFound
from copyrator.oci.exchange import Repository
from copyrator.oci.notifications import Push, canonical


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry has nothing that fits the spec: the condition's reason and message."""

    reason: BundleReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tag and its digest, or why there is none: an error, or ``unresolved``."""

    tag: str = ""
    """With ``unresolved`` the deployed tag, where it can be deployed again; else empty."""
    digest: str = ""
    rejected: tuple[Rejected, ...] = ()
    """The tags that a range rejected."""
    unresolved: Unresolved | None = None
    inherited: bool = False
    """The tag is what the original operator deployed; without digest where it changed since."""
    error: RegistryError | None = None
    results: tuple[GateResult, ...] = ()
    """The version gates' verdicts on this version."""
    held: Held | None = None
    """The newest version that they hold back."""
    findings: Findings = NOTHING_FOUND
    """What features say of what is deployed, and of this version."""
    is_pinned: bool = False
    """What is pinned is deployed, instead of what the registry has for the spec."""
    named: Candidate | None = None
    """What the registry has for the spec, where ``is_pinned``; None: nothing, or it isn't known."""
    is_awaited_refused: bool = False
    """The version that a feature awaits is no longer trusted, or no longer promoted."""
    correctable: tuple[GateResult, ...] = ()
    """The verdict on the chart of what is deployed, where a correction would deploy it again."""
    seen: tuple[Candidate, ...] = ()
    """The versions that were evaluated, with the digests that their tags have now."""
    preferred: frozenset[str] = frozenset()
    """Digests that stay among the versions which are remembered."""


A = TypeVar("A")
F = TypeVar("F")


class PendingError(Exception):
    """An answer of the registry is pending; the Bundle is requeued when it arrives."""


@dataclass(frozen=True, slots=True)
class RegistryReader:
    """Queries for one Bundle; answers are to requests sent at ``since`` (monotonic) or later.

    Raises:
        PendingError: by each method, while the answer is pending.
    """

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    polls: RegistryPoller
    since: float
    confirmed_since: float | None = None
    """The same of what is confirmed, where a deploy by it was decided."""

    def tag(self, reference: str, *, with_config: bool = False) -> PollAnswer:
        """The digest of a tag or digest."""
        query = TagQuery(self._repository, reference, self.access.credential, with_config)
        return _require_answer(self.polls.ask(self.entry.key, query, self.since))

    def choice(self, criteria: Criteria) -> PollAnswer:
        """A choice from the repository's tags."""
        listing = TagListQuery(self._repository, self.access.credential)
        return _require_answer(self.polls.choose(self.entry.key, listing, criteria, self.since))

    def look_up(
        self, lookup: Lookup[A, F], digest: str, by: A, *, known_only: bool = False
    ) -> F | RegistryError:
        """What a lookup reads of a digest, judged by something, or why it can't be read.

        ``known_only``: the registry isn't asked.
        """
        query = DigestQuery(lookup, self._repository, digest, by, self.access.credential)
        if (known := lookup.recall(query)) is not None:
            return known
        if known_only:
            raise PendingError
        confirmed = self.confirmed_since if lookup.is_confirmed else None
        since = max(self.since, confirmed or self.since)
        answer = _require_answer(self.polls.ask(self.entry.key, query, since))
        return answer.error or cast("F", answer.found)

    @property
    def _repository(self) -> Repository:
        spec = self.spec
        return Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, self.access.ca
        )


def _require_answer(answer: PollAnswer | None) -> PollAnswer:
    if answer is None:
        raise PendingError
    return answer


ERROR_SECONDS: Final = 30.0
"""Seconds after which what couldn't be read of a version is requested again."""

_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's resolution, and the version gates' verdicts on versions."""

    queries: RegistryReader
    gates: Gates
    now: datetime
    features: Features
    findings: Findings = NOTHING_FOUND
    """What features have read and found."""
    values_hash: str | None = None
    """The hash of the values that would be deployed."""
    awaited: Candidate | None = None
    """The version that a feature may have deployed instead of what is chosen."""
    is_corrected: bool = False
    """Whether what is deployed may be deployed again by itself."""

    def resolve(self) -> Resolution | None:
        """The resolution; None while an answer is pending."""
        try:
            if self.entry.status.is_inherited:
                return self._inherited()
            is_pinned = self.entry.status.pin.digest is not None
            found = self._pinned() if is_pinned else self._resolve()
            found = replace(found, preferred=self.gates.preferred(self.spec, self.findings))
            return self._with_correction(self._with_findings(self._with_awaited(found)))
        except PendingError:
            return None

    def _pinned(self) -> Resolution:
        """The pinned version, by its digest; without it nothing is deployed."""
        pin = self.entry.status.pin
        candidate = Candidate(pin.version or "", pin.digest or "")
        answer = self.queries.tag(candidate.digest)
        if answer.error is not None and not isinstance(answer.error, TagNotFound):
            return Resolution(error=answer.error)
        found = self._resolve()  # only shown, so its errors don't matter
        is_named = found.tag and found.digest and found.unresolved is None
        named = Candidate(found.tag, found.digest) if is_named else None
        found = Resolution(rejected=found.rejected, seen=found.seen, is_pinned=True, named=named)
        if answer.error is not None:
            text = (
                f"{candidate.version} ({candidate.digest[:19]}) is pinned, and the registry no "
                "longer has it: publish this digest again, roll back to another version, or unpin"
            )
            return replace(found, unresolved=Unresolved(BundleReason.TAG_NOT_FOUND, text))
        results, held = self.judge(candidate)
        if held is not None:
            return replace(found, held=held)
        return replace(found, tag=candidate.version, digest=candidate.digest, results=results)

    def _resolve(self) -> Resolution:
        version = parse_version(self.spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution:
        answer = self.queries.tag(tag)
        if isinstance(answer.error, TagNotFound):
            reason, text = answer.error.reason, answer.error.message
            if reason is BundleReason.TAG_NOT_FOUND:
                text += "; push it, or correct spec.repo or spec.version"
            unresolved = Unresolved(reason, text)
            return self._nothing(unresolved, (), self._keeps(tag))
        if answer.error is None and self.is_gated:
            return self._first_passing((tag,), (), self._keeps(tag))
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _keeps(self, tag: str) -> bool:
        """Whether it is the deployed tag. Parses the status, which most polls don't need."""
        return deployed_tag(self.entry.status, self.spec.reference) == tag

    def _range(self, version: VersionRange) -> Resolution:
        depth = MAX_CANDIDATES if self.is_gated else 0
        criteria = criteria_of(self.spec, version, self.entry.status, depth)
        found = self.queries.choice(criteria)
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        if self.is_gated:
            tags = choice.fitting
            if len(tags) >= MAX_CANDIDATES:  # a remembered one may be beyond those that are listed
                tags = (*tags, *lower_tags(self.entry.status, self.spec, tags))
            return self._first_passing(tags, choice.rejected, choice.keeps)
        answer = self.queries.tag(choice.tag)
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _first_passing(
        self, tags: Sequence[str], rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """The first of these tags, the highest first, that passes the version gates.

        Former digests of a tag are evaluated too. Where none passes, the result is what is
        deployed, as long as it fits the spec and passes itself.
        """
        held_back: list[Held] = []
        seen: list[Candidate] = []
        for tag in tags:
            answer = self.queries.tag(tag)
            if isinstance(answer.error, TagNotFound):  # deleted since the list was read
                continue
            if answer.error is not None:
                return Resolution(error=answer.error)
            seen.append(Candidate(tag, answer.digest or ""))
            if (found := self._passing(seen[-1], held_back)) is not None:
                held = held_back[0] if held_back else None
                rejected = _add_held(rejected, held_back)
                return replace(found, rejected=rejected, held=held, seen=tuple(seen))
        if not held_back:
            text = f"all tags that match {self.spec.version} were deleted while they were read"
            unresolved = Unresolved(BundleReason.NO_MATCHING_VERSION, text)
            return self._nothing(unresolved, rejected, keeps)
        found = self._deployed_again(held_back[0], _add_held(rejected, held_back), keeps=keeps)
        return replace(found, seen=tuple(seen))

    def _passing(self, named: Candidate, held_back: list[Held]) -> Resolution | None:
        """The newest digest of a tag that passes the gates; None where none does.

        Args:
            named: the tag's present digest; a former one must still be in the registry.
            held_back: digests that don't pass are appended to it.
        """
        for one in (named, *older_digests(self.entry.status, named)):
            results, held = self.judge(one)
            if held is not None:
                held_back.append(held)
                continue
            answer = None if one == named else self.queries.tag(one.digest)
            if answer is None or answer.error is None:
                return Resolution(one.version, one.digest, results=results)
            if not isinstance(answer.error, TagNotFound):
                return Resolution(error=answer.error)
        return None

    def _deployed_again(
        self, newest: Held, rejected: tuple[Rejected, ...], *, keeps: bool
    ) -> Resolution:
        there = self.entry.status.deployed
        if not keeps or there.digest is None or there.version is None:
            return Resolution(rejected=rejected, held=newest)
        answer = self.queries.tag(there.digest)
        if answer.error is not None and not isinstance(answer.error, TagNotFound):
            return Resolution(error=answer.error)
        results, held = self.judge(Candidate(there.version, there.digest))
        if held is not None or answer.error is not None:
            return Resolution(rejected=rejected, held=newest)
        return Resolution(there.version, there.digest, rejected, results=results, held=newest)

    def _nothing(
        self, unresolved: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """The resolution without a match; where ``keeps``, with what is deployed, by its digest."""
        there = self.entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, unresolved=unresolved)
        answer = self.queries.tag(there.digest)
        if isinstance(answer.error, TagNotFound):
            unresolved = replace(unresolved, message=unresolved.message + _GONE)
            return Resolution(rejected=rejected, unresolved=unresolved)
        return Resolution(
            there.version or "", there.digest, rejected, unresolved, error=answer.error
        )

    def _explain(self, choice: Choice) -> Unresolved:
        reason = BundleReason.NO_MATCHING_VERSION
        if choice.verdict is Selection.WOULD_DOWNGRADE:
            reason = BundleReason.WOULD_DOWNGRADE
        deployed = self.entry.status.deployed.version
        return Unresolved(reason, explain(choice, self.spec.version, deployed))

    def _inherited(self) -> Resolution:
        there = self.entry.status.deploy
        answer = self.queries.tag(there.version or "", with_config=True)
        if answer.error is not None and not isinstance(answer.error, TagNotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)

    # --- the version gates ------------------------------------------------------------------------

    @property
    def is_gated(self) -> bool:
        """Whether the Bundle has a version gate."""
        return self.gates.judge_versions(self.spec)

    def judge(self, candidate: Candidate) -> tuple[tuple[GateResult, ...], Held | None]:
        """The version gates' verdicts on a candidate, and Held where one of them objects.

        Raises:
            PendingError: signatures or charts aren't known yet.
        """
        facts = self._facts(candidate, self._occasion(candidate))
        results = gates.judge(self.gates.version, self.spec, candidate, facts, self.now)
        return results, gates.hold_back(candidate, results)

    def _facts(self, candidate: Candidate, occasion: Occasion) -> Facts:
        asked = self.features.used_in(self.spec, Feature.ask)
        found = (one.ask(self.queries, candidate, occasion, self.findings) for one in asked)
        return Facts(self.entry.status, occasion, findings=self.findings.including(found))

    def _occasion(self, candidate: Candidate) -> Occasion:
        """The occasion on which it would be deployed."""
        entry = self.entry
        wanted = deciding.DesiredDeploy(
            version=candidate.version,
            digest=candidate.digest,
            values_hash=self.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
            server=self.spec.server or None,
            request=entry.request,
        )
        return deciding.occasion_of(entry.status, wanted)

    def _with_awaited(self, found: Resolution) -> Resolution:
        """The resolution with what gates say now of the version that is awaited."""
        candidate, concerned = self.awaited, self.gates.of(self.spec)
        judging = [one for one in concerned if one.judges_awaited]
        if not judging or candidate is None or candidate.digest == found.digest or found.error:
            return found
        facts, unread = self._facts(candidate, self._occasion(candidate)), None
        for one in gates.judge(judging, self.spec, candidate, facts, self.now):
            match one.verdict:
                case Passed():
                    continue
                case Waiting(is_unread=True):
                    unread = unread or one
                case _:
                    return replace(found, is_awaited_refused=True)
        return found if unread is None else _hold_awaited(found, candidate, unread)

    def _with_correction(self, found: Resolution) -> Resolution:
        """The resolution with the verdicts on the chart that a correction would deploy again."""
        judging = [one for one in self.gates.version if one.judges_chart]
        candidate = Candidate("", self.entry.status.deployed.digest or "")
        is_possible = self.is_corrected and candidate.digest and found.error is None
        if not judging or not is_possible:
            return found
        facts = self._facts(candidate, Occasion.CORRECTION)
        results = gates.judge(judging, self.spec, candidate, facts, self.now)
        return replace(found, correctable=results)

    def _with_findings(self, found: Resolution) -> Resolution:
        """The resolution with what features say of what is deployed and of what is awaited."""
        awaited, chosen = self.awaited or Candidate("", ""), found.digest
        rechecking = self.features.used_in(self.spec, Feature.recheck)
        for feature in rechecking if self.findings.values else ():
            one = feature.recheck(self.queries, chosen, awaited.digest, self.findings)
            if one is None:
                continue
            found = replace(found, findings=found.findings.including((one.found,)))
            match one.awaited:
                case Waiting() if awaited.digest != chosen:
                    found = _hold_awaited(found, awaited, GateResult(one.gate, one.awaited))
                case Refused():
                    found = replace(found, is_awaited_refused=True)
        return found

    @property
    def entry(self) -> BundleEntry:
        """The Bundle."""
        return self.queries.entry

    @property
    def spec(self) -> BundleSpec:
        """Its spec."""
        return self.queries.spec


def _hold_awaited(found: Resolution, awaited: Candidate, result: GateResult) -> Resolution:
    """The resolution where nothing may be deployed, as what is awaited can't be judged now."""
    return replace(found, tag="", digest="", held=Held(awaited, (result,)))


def _add_held(rejected: tuple[Rejected, ...], held_back: Sequence[Held]) -> tuple[Rejected, ...]:
    """The rejected tags together with those that a gate holds back."""
    ours = {one.candidate.version: one.objection.reason for one in reversed(held_back)}
    listed = (Rejected(version=tag, reason=reason) for tag, reason in reversed(ours.items()))
    return (*listed, *rejected)[:MAX_REJECTED]


SHARING: Final = 1.0
"""Seconds by which an answer may be older than a changed spec, so that Bundles that are created
together share one request.
"""

CONFIRMED: Final = 120.0
"""Seconds for which a deploy may begin by evidence that was read once more for it: longer than
reading it may take.
"""


@dataclass(frozen=True, slots=True)
class DeployInputs:
    """What a deploy is decided by beside the registry's answer, as the steps before it found it."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    read: Findings
    """What features have read of the objects that the spec names."""
    desired: DesiredVersion
    observed: BundleStatus | None
    """The status with what has come of features' Jobs, where that isn't written yet."""
    due: datetime | None = None
    """The earliest time at which one of the steps before is due again."""

    @property
    def is_unwritten(self) -> bool:
        """Whether that status differs from the one on record."""
        return self.observed is not None and self.observed != self.entry.status


@dataclass(frozen=True, slots=True)
class Answer:
    """What is decided on."""

    resolution: Resolution
    polling: Polling
    """The Bundle's polls."""
    failures: Failures
    """Those before this answer."""
    next_poll: datetime | None = None
    """None: an error, or what the original operator deployed is taken over."""


@dataclass(slots=True)
class PollMemory:
    """A Bundle's polls, and by what else it is decided when it is polled."""

    polling: Polling = field(default_factory=Polling)
    inputs: DeployInputs | None = None
    """What the pending poll was begun for; with its answer only the steps after it are taken."""
    judged_at: datetime | None = None
    """When the gates were evaluated last."""
    idle_at: datetime | None = None
    """The earliest time of a regular poll, as a user has edited the Bundle."""


class PollStates:
    """The polls of all Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.schedule.on_stale = self._make_stale

    def of(self, key: BundleKey) -> Polling:
        """The polls of one Bundle."""
        return self.memory(key).polling

    def memory(self, key: BundleKey) -> PollMemory:
        """What is remembered of one Bundle; only the resolver uses it."""
        memory = self._context.memories.of(key, PollMemory)
        if memory.polling.failures.since is None:
            memory.polling.failures = Failures(since=self._context.monotonic())
        return memory

    def edited(self, key: BundleKey) -> None:
        """Record that a user has edited a Bundle: its regular polls wait until nobody does."""
        idle = timedelta(seconds=self._context.settings.timer_idle)
        self.memory(key).idle_at = self._context.clock() + idle

    def _make_stale(self, key: BundleKey, what: Stale, since: float) -> None:
        polling, entry = self.of(key), self._context.bundles.get(key)
        if what is Stale.ANSWERS:
            again = since + self._context.timing.poll_after_push
            polling.push(since, again, self._context.clock())
        elif what is Stale.SETTLED:
            polling.unsettle()
        elif entry is not None and isinstance(entry.spec, BundleSpec):
            self.decide_again(key, entry.spec.interval)

    def decide_again(self, key: BundleKey, interval: float) -> None:
        """Have the next resolution decide again, without a new request to the registry.

        Any answer of the last interval is accepted, unless the second poll after a push is due. A
        decision in progress doesn't count: it may have read its inputs before they changed.
        ``interval``: the Bundle's, in seconds.
        """
        polling, now, monotonic = self.of(key), self._context.clock(), self._context.monotonic()
        polling.begin_second(monotonic, now)  # else it stays due while each reconcile decides again
        polling.decide_again(monotonic - interval, now)

    def unpolled_seconds(self, key: BundleKey) -> float:
        """Seconds since the last successful poll; at first, since the Bundle's first event."""
        since = self.of(key).failures.since
        return 0.0 if since is None else self._context.monotonic() - since


class VersionResolver:
    """Resolves the versions of Bundles, by polls of their registries where these are due."""

    def __init__(
        self, context: Context, polls: RegistryPoller, states: PollStates, features: Features
    ) -> None:
        self._context = context
        self._features = features
        self._polls = polls
        self._states = states

    def resolve(self, inputs: DeployInputs, found: Findings) -> Answer | Step:
        """What is decided on if a poll is due and answered; else when the Bundle is due.

        While a poll is pending, its answer requeues the Bundle. ``found``: what features have found
        for their gates.
        """
        entry, spec, context = inputs.entry, inputs.spec, self._context
        due = self._begin_poll(inputs)
        polling = self._states.of(entry.key)
        if (poll := polling.poll) is None:
            return self._wait(entry, spec, due)
        queries = RegistryReader(
            entry, spec, inputs.access, self._polls, poll.since, confirmed_since=poll.confirmed
        )
        awaiting = () if entry.is_plain else self._features.of(entry, Feature.awaits)
        awaited = (one.awaits(entry.status) for one in awaiting)
        correcting = self._features.used_in(spec, Feature.corrects)
        resolver = Resolver(
            queries,
            context.gates,
            context.clock(),
            self._features,
            findings=inputs.read.including(found.values),
            values_hash=inputs.desired.values_hash,
            awaited=next(filter(None, awaited), None),
            is_corrected=any(one.corrects(spec) for one in correcting),
        )
        if (resolution := resolver.resolve()) is not None:
            polling.answer()
            return self._begin_decision(inputs, resolution, polling)
        is_seen = entry.status.observed_generation == entry.generation
        if is_seen and kept_until(entry.status, spec) is None:
            return Step(entry)
        patience = poll.at + timedelta(seconds=context.timing.poll_report)
        if context.clock() < patience:
            return Step(entry, due=(patience,))
        if is_seen:
            return self._wait(entry, spec, ())
        # It is a new spec: report in its status that the registry hasn't answered yet.
        verdict = ready_conditions.polling(spec.reference, spec.version)
        return Step(entry, entry.status, verdict, decided=False)

    def _begin_decision(
        self, inputs: DeployInputs, resolution: Resolution, polling: Polling
    ) -> Answer | Step:
        """Set the next poll, unless there was an error; nothing is done where it is the same."""
        entry, failures, now = inputs.entry, polling.failures, self._context.clock()
        known = entry.resource_version, resolution, inputs.desired.values_hash
        is_settled = polling.is_settled(known) and inputs.observed is None
        if resolution.inherited or (resolution.error is not None and not is_settled):
            return Answer(resolution, polling, failures)
        next_poll = self._set_next_poll(entry, inputs.spec, resolution, now)
        if is_settled:
            step = self.mark_handled(entry, inputs.desired)
            return replace(step, due=(*step.due, next_poll))
        polling.unsettle()
        self._states.memory(entry.key).judged_at = now
        return Answer(resolution, polling, failures, next_poll)

    def _wait(self, entry: BundleEntry, spec: BundleSpec, due: tuple[datetime | None, ...]) -> Step:
        """Wait for the next poll, or an answer; Ready isn't kept any longer than failures allow."""
        until = kept_until(entry.status, spec)
        if until is None or self._context.clock() < until:
            return Step(entry, due=(*due, until))
        error = entry.status.last_error
        reason = BundleReason.read(error.reason or BundleReason.REGISTRY_UNREACHABLE)
        verdict = ready_conditions.unusable(reason, error.message or "", entry.status)
        return Step(entry, entry.status, verdict, due=due)

    def _begin_poll(self, inputs: DeployInputs) -> tuple[datetime | None, ...]:
        """Begin a poll where one is due and none is pending; else return when one is due."""
        entry, spec, desired = inputs.entry, inputs.spec, inputs.desired
        now, monotonic = self._context.clock(), self._context.monotonic()
        polling = self._states.of(entry.key)
        if (
            polling.handled is None
            and is_answered(entry.status, desired)
            and self._features.have_judged(spec, entry.status, inputs.read)
        ):
            polling.handled = desired
            polling.next_poll = self.poll_rhythm(entry, spec).after(now)
        if polling.is_for(desired.request):
            return ()
        if polling.handled != desired:
            sharing = 0.0 if desired.request else SHARING
            polling.begin(monotonic - sharing, now, desired.request)
        elif not polling.begin_second(monotonic, now):
            if (due := self._next_due(entry, spec, now)) is not None:
                return due
            may_be = spec.interval / 2
            if polling.failures.count:
                may_be = min(may_be, self._context.timing.poll_error_sharing)
            polling.begin(monotonic - may_be, now)
        return ()

    def _next_due(
        self, entry: BundleEntry, spec: BundleSpec, now: datetime
    ) -> tuple[datetime | None, ...] | None:
        """The times at which the next poll may be due, if nothing else changes; None: it is due."""
        status, memory = entry.status, self._states.memory(entry.key)
        judge_at, last = next_verdict_change(status.gates), memory.judged_at
        changes = self._changes(spec, status)
        if last is not None and judge_at is not None and judge_at <= last:
            judge_at = None  # the gates were evaluated since
        regular = memory.polling.next_poll
        regular = regular and max(regular, memory.idle_at or regular)
        times = regular, retry_at(status), judge_at
        if any(one <= now and (last is None or one > last) for one in changes):
            return None
        if any(one is not None and one <= now for one in times):
            return None
        changes_at = min((one for one in changes if one > now), default=None)
        return *times, self._again_at(memory.polling), changes_at

    def _again_at(self, polling: Polling) -> datetime | None:
        """The time of the second poll after a push, by the wall clock; None where none is due."""
        if polling.again is None:
            return None
        return self._context.clock() + timedelta(seconds=polling.again - self._context.monotonic())

    def next_change(self, spec: BundleSpec, status: BundleStatus, now: datetime) -> datetime | None:
        """When the verdict of a version gate changes next by itself; None where none does."""
        return min((at for at in self._changes(spec, status) if at > now), default=None)

    def _changes(self, spec: BundleSpec, status: BundleStatus) -> tuple[datetime, ...]:
        found = self._features.find(spec)
        concerned = self._context.gates.of(spec)
        return tuple(at for one in concerned for at in one.changes(spec, status, found))

    def poll_rhythm(self, entry: BundleEntry, spec: BundleSpec) -> Rhythm:
        """The Bundle's regular poll times, shared by all Bundles with the same query."""
        context = self._context
        polling, query, interval = self._states.of(entry.key), query_of(spec), interval_of(spec)
        held = polling.rhythm
        if held is None or (held.query, held.interval) != (query, interval):
            keyed = context.hasher()
            keyed.update(f"poll\0{query}".encode())
            known = (one.polling.rhythm for _, one in context.memories.each(PollMemory))
            announced = parse_time(entry.status.next_poll_at) if held is None else None
            held = choose_rhythm(query, interval, keyed.hexdigest(), known, announced)
            polling.rhythm = held
        return held

    def _set_next_poll(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> datetime:
        """Set the next poll to its regular time; sooner where a tag or signature is awaited."""
        polling, rhythm = self._states.of(entry.key), self.poll_rhythm(entry, spec)
        failures, unresolved = polling.failures, resolution.unresolved
        if unresolved is not None and unresolved.reason in ABSENT:
            tries = failures.count + 1
            failures = replace(failures, count=tries)
        else:
            tries = failures.unsigned + 1 if _awaits_registry(resolution) else 0
            failures = Failures(unsigned=tries, since=failures.since)
        next_poll = rhythm.after(now)
        if tries:
            next_poll = poll_retry(rhythm, tries, now, first=self._context.timing.poll_retry)
        polling.failures, polling.next_poll = failures, next_poll
        return next_poll

    def mark_handled(self, entry: BundleEntry, desired: DesiredVersion) -> Step:
        """Record that what was resolved last was handled."""
        polling = self._states.of(entry.key)
        polling.handle(desired, self._context.monotonic())
        return Step(entry, due=(self._again_at(polling),))

    def must_confirm(self, entry: BundleEntry, spec: BundleSpec, occasion: Occasion) -> bool:
        """Whether evidence has to be read once more before a new digest is deployed by it.

        Then the poll stays pending: the answer, and a withdrawal in it, is decided on again.
        """
        gates_ = self._context.gates.version
        if not any(one.confirms(spec) and occasion in one.occasions for one in gates_):
            return False
        now, polling = self._context.monotonic(), self._states.of(entry.key)
        since = polling.poll.confirmed if polling.poll is not None else None
        if since is not None and now < since + CONFIRMED:
            return False
        polling.confirm(now)
        return True

    def keep_inputs(self, inputs: DeployInputs) -> None:
        """Keep what the pending poll was begun for; without one, nothing."""
        memory = self._states.memory(inputs.entry.key)
        if memory.polling.poll is not None:
            memory.inputs = inputs

    def take_inputs(self, key: BundleKey) -> DeployInputs | None:
        """What was kept; it isn't kept any longer."""
        memory = self._states.memory(key)
        found, memory.inputs = memory.inputs, None
        return found


def _awaits_registry(resolution: Resolution) -> bool:
    """Whether a version waits for its signatures, or its chart or attestations can't be read."""
    held = resolution.held
    return held is not None and any(
        (one.awaits and one.objects) or (isinstance(one.verdict, Waiting) and one.verdict.is_unread)
        for one in held.results
    )


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Poll at once for every Bundle that a push may concern; returns their number.

    Answers to earlier requests aren't accepted. It takes one pass over all Bundles, however many
    pushes a payload has.
    """
    pushed: dict[tuple[str, str | None], set[str | None]] = {}
    for push in pushes:
        pushed.setdefault((push.repository, push.registry), set()).add(push.tag)
    count, now = 0, context.monotonic()  # one time for all, so that they share their queries
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        repo, registry = spec.repo.lower(), canonical(spec.registry)
        tags = pushed.get((repo, None), set()) | pushed.get((repo, registry), set())
        if tags and (context.gates.judge_versions(spec) or _may_concern(tags, spec)):
            context.schedule.changed(entry.key, Change.PUSH, since=now)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Whether one of the tags may match the Bundle's spec; None is any tag."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
