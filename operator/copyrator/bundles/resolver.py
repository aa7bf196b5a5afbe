"""What a registry has for a Bundle, put together from answers that Bundles share.

An exact tag is one question. A range is two: the tag list, from which all Bundles of the
repository choose, then what the chosen tag names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, Rejected
from copyrator.api.version_range import ExactTag, VersionRange, parse_version
from copyrator.bundles.cache import BundleEntry
from copyrator.bundles.policy.candidates import Choice, Selection, explain
from copyrator.bundles.policy.criteria import criteria_of, deployed_tag
from copyrator.bundles.polls import Answer, Listing, Polls, Question
from copyrator.bundles.references import Access
from copyrator.oci.errors import NotFound, RegistryError
from copyrator.oci.reference import Repository

_GONE: Final = "; the registry no longer has its manifest either, so it can't be deployed again"


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry has nothing that the spec asks for: why, in the words of the condition."""

    reason: BundleReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tag and its digest, or why there is none: an error, or a lack."""

    tag: str = ""
    """With a lack it is the deployed one, where that can be deployed again; else empty."""
    digest: str = ""
    rejected: tuple[Rejected, ...] = ()
    """What a range passed over."""
    lack: Unresolved | None = None
    inherited: bool = False
    """Of the tag that the original operator deployed; no digest where that has changed since."""
    error: RegistryError | None = None


@dataclass(frozen=True, slots=True)
class Resolver:
    """One Bundle's look at its repository; each answer is as new as ``since`` (monotonic)."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    polls: Polls
    since: float

    def offer(self) -> Resolution | None:
        """What is known by now; None where the next answer is still on its way."""
        if self.entry.is_inherited:
            return self._inherited()
        version = parse_version(self.spec.version)
        if isinstance(version, ExactTag):
            return self._tag(version.tag)
        return self._range(version)

    def _tag(self, tag: str) -> Resolution | None:
        answer = self._ask(tag)
        if answer is None:
            return None
        if isinstance(answer.error, NotFound):
            keeps = deployed_tag(self.entry.status, self.spec.reference) == tag
            return self._nothing(
                Unresolved(BundleReason.TAG_NOT_FOUND, answer.error.message), (), keeps
            )
        return Resolution(tag, answer.digest or "", error=answer.error)

    def _range(self, version: VersionRange) -> Resolution | None:
        criteria = criteria_of(self.spec, version, self.entry.status)
        listing = Listing(self._repository, self.access.credential)
        found = self.polls.choose(self.entry.key, listing, criteria, self.since)
        if found is None:
            return None
        if found.error is not None:
            return Resolution(error=found.error)
        choice = found.choices[criteria]
        if choice.tag is None:
            return self._nothing(self._explain(choice), choice.rejected, choice.keeps)
        answer = self._ask(choice.tag)
        if answer is None:
            return None
        return Resolution(choice.tag, answer.digest or "", choice.rejected, error=answer.error)

    def _nothing(
        self, lack: Unresolved, rejected: tuple[Rejected, ...], keeps: bool
    ) -> Resolution | None:
        """What is deployed stays what the spec asks for, and is asked for by its digest."""
        there = self.entry.status.deployed
        if not keeps or there.digest is None:
            return Resolution(rejected=rejected, lack=lack)
        answer = self._ask(there.digest)
        if answer is None:
            return None
        if isinstance(answer.error, NotFound):
            lack = replace(lack, message=lack.message + _GONE)
            return Resolution(rejected=rejected, lack=lack)
        return Resolution(there.version or "", there.digest, rejected, lack, error=answer.error)

    def _explain(self, choice: Choice) -> Unresolved:
        reason = BundleReason.NO_MATCHING_VERSION
        if choice.verdict is Selection.WOULD_DOWNGRADE:
            reason = BundleReason.WOULD_DOWNGRADE
        deployed = self.entry.status.deployed.version
        return Unresolved(reason, explain(choice, self.spec.version, deployed))

    def _inherited(self) -> Resolution | None:
        there = self.entry.status.deploy
        answer = self._ask(there.version or "", with_config=True)
        if answer is None:
            return None
        if answer.error is not None and not isinstance(answer.error, NotFound):
            return Resolution(error=answer.error)
        same = answer.config is not None and answer.config == there.digest
        digest = answer.digest if same else None
        return Resolution(there.version or "", digest or "", inherited=True)

    def _ask(self, reference: str, *, with_config: bool = False) -> Answer | None:
        question = Question(self._repository, reference, self.access.credential, with_config)
        return self.polls.ask(self.entry.key, question, self.since)

    @property
    def _repository(self) -> Repository:
        spec = self.spec
        return Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, self.access.ca
        )
