"""``status.attest``: statements in the registry about what is deployed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from copyrator.api.records import Record, Time
from copyrator.api.schema import items

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
    """Manifest digest."""
    version: str | None = None
    """Tag."""
    environment: str | None = None
    """Name of the environment."""
    reference: str | None = None
    """Repository that it is pushed to."""
    state: str | None = None
    """Attesting, Renewing, Attested, Withdrawing, Withdrawn, or Gone: withdrawn, and the registry
    has the version no more."""
    issued_at: Time | None = None
    """Its date; later than that of each older statement."""
    since: Time | None = None
    """When the newest stretch began."""
    until: Time | None = None
    """Up to when it stood."""
    seconds: int | None = None
    """How long it stood, in the longest stretch that an operator saw."""
    revision: int | None = None
    """Revision of the release."""
    reason: str | None = None
    """Why it is withdrawn."""
    requested_for: Time | None = None
    """Of a withdrawal that a user requested: when the stretch began that isn't attested again."""
    manifest: str | None = None
    """Manifest digest of the attestation that was pushed last."""
    left: int | None = None
    """How many older attestations the registry didn't delete."""

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

    attest: Annotated[tuple[AttestStatus, ...], items(MAX_ATTESTED)] = ()
    """With spec.attest: the newest statement about each digest, oldest first. It is recorded here
    before it is pushed."""
    last_handled_withdrawal: str | None = None
    """The value of the annotation operator.werf.dev/withdraw that was handled last."""
