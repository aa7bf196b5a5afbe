"""One Bundle's queries to its registry."""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.criteria import Criteria
from copyrator.bundles.policy.gates.signature import Asked
from copyrator.bundles.references.reader import Access
from copyrator.bundles.resolution.polls import (
    ChartQuery,
    Polls,
    Result,
    TagListQuery,
    TagQuery,
)
from copyrator.bundles.resolution.signature_verdicts import SignatureQuery
from copyrator.oci.reference import Repository


class PendingError(Exception):
    """An answer of the registry is pending; the Bundle is requeued when it arrives."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Queries for one Bundle; answers are to requests sent at ``since`` (monotonic) or later.

    Raises:
        PendingError: by each method, while the answer is pending.
    """

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    polls: Polls
    since: float

    def tag(self, reference: str, *, with_config: bool = False) -> Result:
        """The digest of a tag or digest."""
        query = TagQuery(self._repository, reference, self.access.credential, with_config)
        return _known(self.polls.ask(self.entry.key, query, self.since))

    def choice(self, criteria: Criteria) -> Result:
        """A choice from the repository's tags."""
        listing = TagListQuery(self._repository, self.access.credential)
        return _known(self.polls.choose(self.entry.key, listing, criteria, self.since))

    def signatures(self, digest: str, asked: Asked) -> Result:
        """Whether the signatures of a digest satisfy the requirements."""
        query = SignatureQuery(self._repository, digest, asked, self.access.credential)
        return _known(self.polls.judgement(self.entry.key, query, self.since))

    def chart(self, digest: str, *, known_only: bool = False) -> Result:
        """What the chart of a digest can do: its facts, or the error of reading it.

        ``known_only``: the registry isn't asked.
        """
        query = ChartQuery(self._repository, digest, self.access.credential)
        if known_only:
            return _known(self.polls.known_chart(query))
        return _known(self.polls.chart(self.entry.key, query, self.since))

    @property
    def _repository(self) -> Repository:
        spec = self.spec
        return Repository(
            spec.registry, spec.repo, spec.insecure, not spec.skip_tls_verify, self.access.ca
        )


def _known(answer: Result | None) -> Result:
    if answer is None:
        raise PendingError
    return answer
