"""``status.candidates``: when versions that aren't deployed yet were seen first."""

from __future__ import annotations

from typing import Final

from copyrator.api.records import Record

MAX_CANDIDATES: Final = 10
"""Versions that aren't deployed yet, and that a status lists."""


class CandidateStatus(Record, frozen=True):
    """A version that isn't deployed yet, and when this operator saw it first."""

    version: str | None = None
    digest: str | None = None
    first_seen: str | None = None


class AgeStatus(Record, frozen=True):
    """The versions whose age is known."""

    candidates: tuple[CandidateStatus, ...] = ()
    """Only where spec.minAge is set; oldest first."""
