"""``spec.minAge`` and ``status.candidates``: how old a digest has to be to be deployed."""

from __future__ import annotations

from typing import Annotated, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.records import Record
from copyrator.api.schema import duration, items

MAX_CANDIDATES: Final = 10
"""Versions that aren't deployed yet, and that a status lists."""


class AgeSpec(Part):
    """How old a version has to be."""

    min_age: Annotated[float, duration("minAge")] = 0.0
    """How long a version's digest has to be known to the operator before it is deployed, such as
    2h. A first install doesn't wait."""


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
