"""A Bundle's resolution, from answers of registries that Bundles share, and by the version gates.

An exact tag is one query. A range is two: the tag list, from which all Bundles of the repository
choose, then the digest of the chosen tag. With version gates the digests of further tags are
requested until one passes. The deployed and the planned version are judged anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar, cast

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_REJECTED, Rejected
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.version_range import ExactTag, VersionRange, parse_version
from copyrator.bundles.engine import deciding
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.feature import Rechecked
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
)
from copyrator.bundles.engine.lookup import DigestQuery, Lookup
from copyrator.bundles.engine.references import Access
from copyrator.bundles.engine.registry import PollAnswer, RegistryPoller, TagListQuery, TagQuery
from copyrator.bundles.engine.remembered import lower_tags, older_digests
from copyrator.bundles.engine.tags import (
    Choice,
    Criteria,
    Selection,
    criteria_of,
    deployed_tag,
    explain,
)
from copyrator.oci.errors import RegistryError, TagNotFound
from copyrator.oci.exchange import Repository


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

Recheck = Callable[[RegistryReader, str, str, Findings], Iterable[Rechecked]]
"""Returns what features say of what is deployed, the chosen digest and the awaited one."""


def no_rechecks(*_: object) -> Iterable[Rechecked]:
    """Of a Bundle for which features have read nothing."""
    return ()


Ask = Callable[[RegistryReader, Candidate, Occasion, Findings], Findings]
"""Asks the registry what features judge a version by; returns that with what was found before."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Evaluates the version gates of one Bundle.

    Raises:
        PendingError: by each method, while signatures or charts aren't known yet.
    """

    queries: RegistryReader
    gates: Gates
    now: datetime
    findings: Findings = NOTHING_FOUND
    """What features have read and found."""
    ask: Ask = lambda _registry, _candidate, _occasion, found: found
    recheck: Recheck = no_rechecks
    values_hash: str | None = None
    """The hash of the values that would be deployed."""
    awaited: Candidate | None = None
    """The version that a feature may have deployed instead of what is chosen."""
    is_corrected: bool = False
    """Whether what is deployed may be deployed again by itself."""

    @property
    def is_gated(self) -> bool:
        """Whether the Bundle has a version gate."""
        return self.gates.judge_versions(self.spec)

    def judge(self, candidate: Candidate) -> tuple[tuple[GateResult, ...], Held | None]:
        """The version gates' verdicts on a candidate, and Held where one of them objects."""
        facts = self._facts(candidate, self._occasion(candidate))
        results = gates.judge(self.gates.version, self.spec, candidate, facts, self.now)
        return results, gates.hold_back(candidate, results)

    def rechecked(self, found: Resolution) -> Resolution:
        """The resolution with the present verdicts on what is deployed and what is awaited."""
        found = replace(found, preferred=self.gates.preferred(self.spec, self.findings))
        return self._with_correction(self._with_findings(self._with_awaited(found)))

    def _facts(self, candidate: Candidate, occasion: Occasion) -> Facts:
        found = self.ask(self.queries, candidate, occasion, self.findings)
        return Facts(self.entry.status, occasion, findings=found)

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

    def _other_awaited(self, found: Resolution) -> Candidate | None:
        """What is awaited, where another version was chosen."""
        awaited = self.awaited
        is_other = awaited is not None and awaited.digest != found.digest
        return awaited if is_other and found.error is None else None

    def _with_awaited(self, found: Resolution) -> Resolution:
        """The resolution with what gates say now of the version that is awaited."""
        judging = [
            one for one in self.gates.version if one.judges_awaited and one.concerns(self.spec)
        ]
        candidate = self._other_awaited(found)
        if not judging or candidate is None:
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
        for one in self.recheck(self.queries, chosen, awaited.digest, self.findings):
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


_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's resolution, with the queries of its judge."""

    judge: Judge

    def resolve(self) -> Resolution | None:
        """The resolution; None while an answer is pending."""
        try:
            if self.judge.entry.status.is_inherited:
                return self._inherited()
            is_pinned = self.judge.entry.status.pin.digest is not None
            return self.judge.rechecked(self._pinned() if is_pinned else self._resolve())
        except PendingError:
            return None

    def _pinned(self) -> Resolution:
        """The pinned version, by its digest; without it nothing is deployed."""
        pin = self.judge.entry.status.pin
        candidate = Candidate(pin.version or "", pin.digest or "")
        answer = self.judge.queries.tag(candidate.digest)
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
        results, held = self.judge.judge(candidate)
        if held is not None:
            return replace(found, held=held)
        return replace(found, tag=candidate.version, digest=candidate.digest, results=results)

    def _resolve(self) -> Resolution:
        version = parse_version(self.judge.spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution:
        answer = self.judge.queries.tag(tag)
        if isinstance(answer.error, TagNotFound):
            reason, text = answer.error.reason, answer.error.message
            if reason is BundleReason.TAG_NOT_FOUND:
                text += "; push it, or correct spec.repo or spec.version"
            unresolved = Unresolved(reason, text)
            return self._nothing(unresolved, (), self._keeps(tag))
        if answer.error is None and self.judge.is_gated:
            return self._first_passing((tag,), (), self._keeps(tag))
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _keeps(self, tag: str) -> bool:
        """Whether it is the deployed tag. Parses the status, which most polls don't need."""
        return deployed_tag(self.judge.entry.status, self.judge.spec.reference) == tag

    def _range(self, version: VersionRange) -> Resolution:
        depth = MAX_CANDIDATES if self.judge.is_gated else 0
        criteria = criteria_of(self.judge.spec, version, self.judge.entry.status, depth)
        found = self.judge.queries.choice(criteria)
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        if self.judge.is_gated:
            tags = (*choice.fitting, *self._remembered(choice.fitting))
            return self._first_passing(tags, choice.rejected, choice.keeps)
        answer = self.judge.queries.tag(choice.tag)
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _remembered(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Tags of remembered candidates below these, the highest first.

        Needed where more tags match than a choice lists: a remembered one may be beyond them.
        """
        if len(tags) < MAX_CANDIDATES:
            return ()
        return lower_tags(self.judge.entry.status, self.judge.spec, tags)

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
            answer = self.judge.queries.tag(tag)
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
            text = (
                f"all tags that match {self.judge.spec.version} were deleted while they were read"
            )
            return self._nothing(
                Unresolved(BundleReason.NO_MATCHING_VERSION, text), rejected, keeps
            )
        found = self._deployed_again(held_back[0], _add_held(rejected, held_back), keeps=keeps)
        return replace(found, seen=tuple(seen))

    def _passing(self, named: Candidate, held_back: list[Held]) -> Resolution | None:
        """The newest digest of a tag that passes the gates; None where none does.

        Args:
            named: the tag's present digest; a former one must still be in the registry.
            held_back: digests that don't pass are appended to it.
        """
        for one in (named, *older_digests(self.judge.entry.status, named)):
            results, held = self.judge.judge(one)
            if held is not None:
                held_back.append(held)
                continue
            answer = None if one == named else self.judge.queries.tag(one.digest)
            if answer is None or answer.error is None:
                return Resolution(one.version, one.digest, results=results)
            if not isinstance(answer.error, TagNotFound):
                return Resolution(error=answer.error)
        return None

    def _deployed_again(
        self, newest: Held, rejected: tuple[Rejected, ...], *, keeps: bool
    ) -> Resolution:
        there = self.judge.entry.status.deployed
        if not keeps or there.digest is None or there.version is None:
            return Resolution(rejected=rejected, held=newest)
        answer = self.judge.queries.tag(there.digest)
        if answer.error is not None and not isinstance(answer.error, TagNotFound):
            return Resolution(error=answer.error)
        results, held = self.judge.judge(Candidate(there.version, there.digest))
        if held is not None or answer.error is not None:
            return Resolution(rejected=rejected, held=newest)
        return Resolution(there.version, there.digest, rejected, results=results, held=newest)

    def _nothing(
        self, unresolved: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """The resolution without a match; where ``keeps``, with what is deployed, by its digest."""
        there = self.judge.entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, unresolved=unresolved)
        answer = self.judge.queries.tag(there.digest)
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
        deployed = self.judge.entry.status.deployed.version
        return Unresolved(reason, explain(choice, self.judge.spec.version, deployed))

    def _inherited(self) -> Resolution:
        there = self.judge.entry.status.deploy
        answer = self.judge.queries.tag(there.version or "", with_config=True)
        if answer.error is not None and not isinstance(answer.error, TagNotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)


def _add_held(rejected: tuple[Rejected, ...], held_back: Sequence[Held]) -> tuple[Rejected, ...]:
    """The rejected tags together with those that a gate holds back."""
    ours = {one.candidate.version: one.objection.reason for one in reversed(held_back)}
    listed = (Rejected(version=tag, reason=reason) for tag, reason in reversed(ours.items()))
    return (*listed, *rejected)[:MAX_REJECTED]
