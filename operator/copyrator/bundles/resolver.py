"""A Bundle's resolution, from answers of registries that Bundles share.

An exact tag is one question. A range is two: the tag list, from which all Bundles of the repository
choose, then the digest of the chosen tag. With version gates the digests of further tags are
requested until one passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    MAX_REJECTED,
    BundleReason,
    Rejected,
    Verification,
)
from copyrator.api.version_range import ExactTag, VersionRange, parse_version
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy import gates, state
from copyrator.bundles.policy.candidates import Choice, Selection, explain
from copyrator.bundles.policy.criteria import criteria_of, deployed_tag
from copyrator.bundles.policy.gates import (
    MAX_CANDIDATES,
    Candidate,
    Facts,
    Gates,
    Held,
    Occasion,
    Passed,
    Refused,
    Result,
    Verdict,
    Waiting,
    age,
    promotion,
    signature,
)
from copyrator.bundles.policy.gates.signature import NOTHING_ASKED, Asked
from copyrator.bundles.policy.plans import due as plan_due
from copyrator.bundles.policy.sources import NO_SOURCES, Sources
from copyrator.bundles.polls import Answer, Listing, Polls, Question, SignatureQuestion
from copyrator.bundles.references.reader import Access
from copyrator.oci.errors import NotFound, RegistryError
from copyrator.oci.reference import Repository

_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry has nothing that fits the spec: the condition's reason and message."""

    reason: BundleReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tag and its digest, or why there is none: an error, or ``unresolved``."""

    tag: str = ""
    """With ``unresolved`` it is the deployed one, where that can be deployed again; else empty."""
    digest: str = ""
    rejected: tuple[Rejected, ...] = ()
    """The tags that a range rejected."""
    unresolved: Unresolved | None = None
    inherited: bool = False
    """Of the tag that the original operator deployed; no digest where that has changed since."""
    error: RegistryError | None = None
    results: tuple[Result, ...] = ()
    """What the version gates say of this version."""
    held: Held | None = None
    """The newest version that they hold back."""
    deployed: Verification | None = None
    """Whether the signatures of what is deployed are trusted; None where none are asked for."""
    chosen: Verification | None = None
    """The same of this version."""
    plan_refused: bool = False
    """The version of the plan that waits isn't trusted any more."""
    seen: tuple[Candidate, ...] = ()
    """The versions that were judged and that tags name now."""
    stood: frozenset[str] = frozenset()
    """Digests that stand, or have stood, in Bundles of ``spec.promoteFrom``."""


class _PendingError(Exception):
    """An answer of the registry is pending; the Bundle is requeued when it is there."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's resolution; each answer is as new as ``since`` (monotonic)."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    polls: Polls
    since: float
    gates: Gates
    now: datetime
    asked: Asked = NOTHING_ASKED
    sources: Sources = NO_SOURCES
    values_hash: str | None = None
    """Of the values that would be deployed."""

    def resolve(self) -> Resolution | None:
        """The resolution; None while an answer is pending."""
        try:
            if self.entry.is_inherited:
                return self._inherited()
            found = self._resolve()
            if self.spec.promote_from:
                found = self._with_promotion(replace(found, stood=self.sources.digests))
            return self._with_trust(found) if self.asked else found
        except _PendingError:
            return None

    def _with_promotion(self, found: Resolution) -> Resolution:
        """A plan waits only as long as its version may still be promoted."""
        plan = plan_due.awaited(self.entry.status)
        candidate = Candidate(plan.version or "", plan.digest or "")
        if not candidate.digest or candidate.digest == found.digest or found.error is not None:
            return found
        if self._occasion(candidate) not in promotion.GATE.occasions:
            return found
        verdict = promotion.GATE.judge(self.spec, candidate, self._facts(candidate), self.now)
        return found if isinstance(verdict, Passed) else replace(found, plan_refused=True)

    def _with_trust(self, found: Resolution) -> Resolution:
        """Judge what is deployed, and what a plan waits for, by the signatures asked for now."""
        status = self.entry.status
        there, plan = status.deployed, plan_due.awaited(status)
        verdicts = {
            digest: self._signature(digest)
            for digest in (there.digest, found.digest, plan.digest)
            if digest
        }
        if there.digest and there.reference != self.spec.reference:
            verdicts[there.digest] = signature.unavailable(
                f"it was deployed from {there.reference}, which the spec no longer names"
            )
        records = {
            digest: signature.verification(self.asked, digest, verdict)
            for digest, verdict in verdicts.items()
        }
        found = replace(
            found, deployed=records.get(there.digest or ""), chosen=records.get(found.digest)
        )
        match verdicts.get(plan.digest or ""):
            case Waiting() as waiting if plan.digest != found.digest:
                candidate = Candidate(plan.version or "", plan.digest or "")
                held = Held(candidate, (Result(signature.NAME, waiting),))
                return replace(found, tag="", digest="", held=held)
            case Refused():
                return replace(found, plan_refused=True)
        return found

    def _resolve(self) -> Resolution:
        version = parse_version(self.spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution:
        answer = self._ask(tag)
        if isinstance(answer.error, NotFound):
            unresolved = Unresolved(BundleReason.TAG_NOT_FOUND, answer.error.message)
            return self._nothing(unresolved, (), self._keeps(tag))
        if answer.error is None and self._is_gated:
            return self._first_passing((tag,), (), self._keeps(tag))
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _keeps(self, tag: str) -> bool:
        """Whether it is the deployed one. Reads the status, which most polls do without."""
        return deployed_tag(self.entry.status, self.spec.reference) == tag

    def _range(self, version: VersionRange) -> Resolution:
        depth = MAX_CANDIDATES if self._is_gated else 0
        criteria = criteria_of(self.spec, version, self.entry.status, depth)
        listing = Listing(self._repository, self.access.credential)
        found = self.polls.choose(self.entry.key, listing, criteria, self.since)
        if found is None:
            raise _PendingError
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        if self._is_gated:
            tags = (*choice.fitting, *self._remembered(choice.fitting))
            return self._first_passing(tags, choice.rejected, choice.keeps)
        answer = self._ask(choice.tag)
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _remembered(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Tags of remembered candidates below these, the highest first.

        There are some where so many were pushed since that only the highest are listed.
        """
        if len(tags) < MAX_CANDIDATES:
            return ()
        return age.lower_tags(self.entry.status, self.spec, tags)

    def _first_passing(
        self, tags: Sequence[str], rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """The first of these tags, the highest first, that passes the version gates.

        Of a tag that names a new digest the former ones may pass, too. Where none passes, what is
        deployed stays, as long as it fits the spec and passes itself.
        """
        held_back: list[Held] = []
        seen: list[Candidate] = []
        for tag in tags:
            answer = self._ask(tag)
            if isinstance(answer.error, NotFound):  # deleted since the list was read
                continue
            if answer.error is not None:
                return Resolution(error=answer.error)
            seen.append(Candidate(tag, answer.digest or ""))
            if (found := self._passing(seen[-1], held_back)) is not None:
                held = held_back[0] if held_back else None
                rejected = _with(rejected, held_back)
                return replace(found, rejected=rejected, held=held, seen=tuple(seen))
        if not held_back:
            text = f"all tags that match {self.spec.version} were deleted while they were read"
            return self._nothing(
                Unresolved(BundleReason.NO_MATCHING_VERSION, text), rejected, keeps
            )
        found = self._deployed_again(held_back[0], _with(rejected, held_back), keeps=keeps)
        return replace(found, seen=tuple(seen))

    def _passing(self, named: Candidate, held_back: list[Held]) -> Resolution | None:
        """The newest of a tag's digests that passes, to be deployed; None where none does.

        Args:
            named: what the tag names now; its former digests must still be in the registry.
            held_back: those that don't pass are added.
        """
        for one in (named, *age.older(self.entry.status, named)):
            results, held = self._judge(one)
            if held is not None:
                held_back.append(held)
                continue
            answer = None if one == named else self._ask(one.digest)
            if answer is None or answer.error is None:
                return Resolution(one.version, one.digest, results=results)
            if not isinstance(answer.error, NotFound):
                return Resolution(error=answer.error)
        return None

    def _deployed_again(
        self, newest: Held, rejected: tuple[Rejected, ...], *, keeps: bool
    ) -> Resolution:
        there = self.entry.status.deployed
        if not keeps or there.digest is None or there.version is None:
            return Resolution(rejected=rejected, held=newest)
        answer = self._ask(there.digest)
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        results, held = self._judge(Candidate(there.version, there.digest))
        if held is not None or answer.error is not None:
            return Resolution(rejected=rejected, held=newest)
        return Resolution(there.version, there.digest, rejected, results=results, held=newest)

    def _judge(self, candidate: Candidate) -> tuple[tuple[Result, ...], Held | None]:
        """The verdicts of the version gates."""
        facts = self._facts(candidate)
        results = gates.judge(self.gates.version, self.spec, candidate, facts, self.now)
        return results, gates.held(candidate, results)

    def _facts(self, candidate: Candidate) -> Facts:
        status = self.entry.status
        return Facts(
            status,
            self._occasion(candidate),
            signature=self._signature(candidate.digest) if self.asked else None,
            first_seen=age.first_seen(status, candidate),
            sources=self.sources,
        )

    def _occasion(self, candidate: Candidate) -> Occasion:
        """Why it would be deployed."""
        entry = self.entry
        wanted = state.Wanted(
            version=candidate.version,
            digest=candidate.digest,
            values_hash=self.values_hash,
            spec_hash=entry.spec_hash,
            generation=entry.generation,
            request=entry.request,
        )
        return state.occasion_of(entry.status, wanted)

    def _signature(self, digest: str) -> Verdict:
        """The verdict on a digest's signatures."""
        if self.asked.blocked is not None:
            return self.asked.blocked
        question = SignatureQuestion(self._repository, digest, self.asked, self.access.credential)
        answer = self.polls.judgement(self.entry.key, question, self.since)
        if answer is None:
            raise _PendingError
        if answer.judgement is None:
            return signature.unavailable(answer.error.message if answer.error else "")
        return signature.verdict(self.asked, digest, answer.judgement)

    @property
    def _is_gated(self) -> bool:
        return self.gates.judge_versions(self.spec)

    def _nothing(
        self, unresolved: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """What is deployed still fits the spec, and is requested by its digest."""
        there = self.entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, unresolved=unresolved)
        answer = self._ask(there.digest)
        if isinstance(answer.error, NotFound):
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
        answer = self._ask(there.version or "", with_config=True)
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)

    def _ask(self, reference: str, *, with_config: bool = False) -> Answer:
        question = Question(self._repository, reference, self.access.credential, with_config)
        answer = self.polls.ask(self.entry.key, question, self.since)
        if answer is None:
            raise _PendingError
        return answer

    @property
    def _repository(self) -> Repository:
        spec = self.spec
        return Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, self.access.ca
        )


def _with(rejected: tuple[Rejected, ...], held_back: Sequence[Held]) -> tuple[Rejected, ...]:
    """The tags that weren't chosen, with those that a gate holds back."""
    ours = {one.candidate.version: one.objection.reason for one in reversed(held_back)}
    listed = (Rejected(version=tag, reason=reason) for tag, reason in reversed(ours.items()))
    return (*listed, *rejected)[:MAX_REJECTED]
