"""``status.attest``: statements in the registry about what is deployed."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from copyrator.api.records import Record

MAX_ATTESTED: Final = 10
"""Digests of which a status lists what was attested."""


class AttestState(StrEnum):
    """What was last said about a digest in the registry, or is about to be."""

    ATTESTING = "Attesting"
    """The statement is recorded, and may be in the registry."""
    RENEWING = "Renewing"
    """The same, while an older one is in the registry."""
    ATTESTED = "Attested"
    WITHDRAWING = "Withdrawing"
    """The same of its withdrawal."""
    WITHDRAWN = "Withdrawn"
    GONE = "Gone"
    """Withdrawn, and the registry has the digest no more. It may come back, with the statement."""


class AttestStatus(Record, frozen=True):
    """The newest statement about a digest.

    It is written before it is pushed, so that another process pushes the same.
    """

    digest: str | None = None
    version: str | None = None
    environment: str | None = None
    reference: str | None = None
    """``host[:port]/path`` of the repository that it is pushed to."""
    state: str | None = None
    """A value of AttestState."""
    issued_at: str | None = None
    """Later than that of every older statement about this digest; like ``since`` and ``until``, a
    date in the statement.
    """
    since: str | None = None
    """When the newest stretch began."""
    until: str | None = None
    seconds: int | None = None
    """How long it stood, as far as an operator saw it: the longest stretch."""
    revision: int | None = None
    """Of the release."""
    reason: str | None = None
    """Why it is withdrawn."""
    requested_for: str | None = None
    """Where a user has withdrawn it: when the stretch began that isn't attested again. From then on
    only the present stretch counts."""
    manifest: str | None = None
    """The digest of the manifest that was pushed last, which the next push replaces."""
    left: int | None = None
    """How many older statements the registry didn't delete."""

    @property
    def is_positive(self) -> bool:
        """Whether it says that the digest stands there."""
        return self.state in (AttestState.ATTESTING, AttestState.RENEWING, AttestState.ATTESTED)

    @property
    def is_pending(self) -> bool:
        """Whether it isn't known to be in the registry."""
        return self.state in (
            AttestState.ATTESTING,
            AttestState.RENEWING,
            AttestState.WITHDRAWING,
            AttestState.GONE,
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is amiss while it is pending."""
        return self.state in (AttestState.RENEWING, AttestState.GONE)


class AttestationsStatus(Record, frozen=True):
    """The statements about the digests that were deployed."""

    attest: tuple[AttestStatus, ...] = ()
    """Only with spec.attest; oldest first."""
    last_handled_withdrawal: str | None = None
    """The last value of the withdraw annotation whose withdrawals are recorded in ``attest``."""
