"""A Bundle's resolution, from answers of registries that Bundles share.

An exact tag is one query. A range is two: the tag list, from which all Bundles of the repository
choose, then the digest of the chosen tag. With version gates the digests of further tags are
requested until one passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_REJECTED, BundleReason, Rejected
from copyrator.api.version_range import ExactTag, VersionRange, parse_version
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.candidates import Choice, Selection, explain
from copyrator.bundles.policy.criteria import criteria_of, deployed_tag
from copyrator.bundles.policy.gates import MAX_CANDIDATES, Candidate, Held, age
from copyrator.bundles.policy.takeover import is_inherited
from copyrator.bundles.resolution.judge import Judge
from copyrator.bundles.resolution.model import Resolution, Unresolved
from copyrator.bundles.resolution.queries import PendingError, Queries
from copyrator.oci.errors import NotFound

_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's resolution."""

    queries: Queries
    judge: Judge

    def resolve(self) -> Resolution | None:
        """The resolution; None while an answer is pending."""
        try:
            if is_inherited(self._entry.status):
                return self._inherited()
            return self.judge.rechecked(self._resolve())
        except PendingError:
            return None

    def _resolve(self) -> Resolution:
        version = parse_version(self._spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution:
        answer = self.queries.tag(tag)
        if isinstance(answer.error, NotFound):
            unresolved = Unresolved(BundleReason.TAG_NOT_FOUND, answer.error.message)
            return self._nothing(unresolved, (), self._keeps(tag))
        if answer.error is None and self.judge.is_gated:
            return self._first_passing((tag,), (), self._keeps(tag))
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _keeps(self, tag: str) -> bool:
        """Whether it is the deployed tag. Parses the status, which most polls don't need."""
        return deployed_tag(self._entry.status, self._spec.reference) == tag

    def _range(self, version: VersionRange) -> Resolution:
        depth = MAX_CANDIDATES if self.judge.is_gated else 0
        criteria = criteria_of(self._spec, version, self._entry.status, depth)
        found = self.queries.choice(criteria)
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        if self.judge.is_gated:
            tags = (*choice.fitting, *self._remembered(choice.fitting))
            return self._first_passing(tags, choice.rejected, choice.keeps)
        answer = self.queries.tag(choice.tag)
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _remembered(self, tags: Sequence[str]) -> tuple[str, ...]:
        """Tags of remembered candidates below these, the highest first.

        Needed where more tags match than a choice lists: a remembered one may be beyond them.
        """
        if len(tags) < MAX_CANDIDATES:
            return ()
        return age.lower_tags(self._entry.status, self._spec, tags)

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
            text = f"all tags that match {self._spec.version} were deleted while they were read"
            return self._nothing(
                Unresolved(BundleReason.NO_MATCHING_VERSION, text), rejected, keeps
            )
        found = self._deployed_again(held_back[0], _with(rejected, held_back), keeps=keeps)
        return replace(found, seen=tuple(seen))

    def _passing(self, named: Candidate, held_back: list[Held]) -> Resolution | None:
        """The newest digest of a tag that passes the gates; None where none does.

        Args:
            named: the tag's present digest; a former one must still be in the registry.
            held_back: digests that don't pass are appended to it.
        """
        for one in (named, *age.older(self._entry.status, named)):
            results, held = self.judge.judge(one)
            if held is not None:
                held_back.append(held)
                continue
            answer = None if one == named else self.queries.tag(one.digest)
            if answer is None or answer.error is None:
                return Resolution(one.version, one.digest, results=results)
            if not isinstance(answer.error, NotFound):
                return Resolution(error=answer.error)
        return None

    def _deployed_again(
        self, newest: Held, rejected: tuple[Rejected, ...], *, keeps: bool
    ) -> Resolution:
        there = self._entry.status.deployed
        if not keeps or there.digest is None or there.version is None:
            return Resolution(rejected=rejected, held=newest)
        answer = self.queries.tag(there.digest)
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        results, held = self.judge.judge(Candidate(there.version, there.digest))
        if held is not None or answer.error is not None:
            return Resolution(rejected=rejected, held=newest)
        return Resolution(there.version, there.digest, rejected, results=results, held=newest)

    def _nothing(
        self, unresolved: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution:
        """The resolution without a match; where ``keeps``, with what is deployed, by its digest."""
        there = self._entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, unresolved=unresolved)
        answer = self.queries.tag(there.digest)
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
        deployed = self._entry.status.deployed.version
        return Unresolved(reason, explain(choice, self._spec.version, deployed))

    def _inherited(self) -> Resolution:
        there = self._entry.status.deploy
        answer = self.queries.tag(there.version or "", with_config=True)
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)

    @property
    def _entry(self) -> BundleEntry:
        return self.queries.entry

    @property
    def _spec(self) -> BundleSpec:
        return self.queries.spec


def _with(rejected: tuple[Rejected, ...], held_back: Sequence[Held]) -> tuple[Rejected, ...]:
    """The rejected tags together with those that a gate holds back."""
    ours = {one.candidate.version: one.objection.reason for one in reversed(held_back)}
    listed = (Rejected(version=tag, reason=reason) for tag, reason in reversed(ours.items()))
    return (*listed, *rejected)[:MAX_REJECTED]
