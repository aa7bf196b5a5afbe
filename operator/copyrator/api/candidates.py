"""``status.candidates``: versions that aren't deployed yet, as gates need to know them."""

from __future__ import annotations

from typing import Annotated, Final

from copyrator.api.records import Record
from copyrator.api.schema import items

MAX_CANDIDATES: Final = 10
"""Versions that aren't deployed yet, and that a status lists."""


class CandidateStatus(Record, frozen=True):
    """A version that isn't deployed yet, and when this operator saw it first."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    first_seen: str | None = None
    """When it was seen first."""


class AgeStatus(Record, frozen=True):
    """The versions whose age is known."""

    candidates: Annotated[tuple[CandidateStatus, ...], items(MAX_CANDIDATES)] = ()
    """With spec.minAge or spec.promoteFrom: versions that aren't deployed yet, and when the
    operator saw them first."""
