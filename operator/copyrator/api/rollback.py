"""``status.pin``: what a user rolled back to."""

from __future__ import annotations

from typing import ClassVar, Final

from copyrator.api.records import Record


class PinStatus(Record, frozen=True):
    """What a user rolled back to; see deploy.requests."""

    FIELD: ClassVar[str] = "pin"

    requested: str | None = None
    """The newest value of the annotation that was seen; None: it is absent."""
    version: str | None = None
    digest: str | None = None
    """None: no pin is in force."""
    selection: str | None = None
    """Hash of the fields of the spec that choose a version; an edit of these ends the pin."""
    at: str | None = None
    refused: str | None = None
    """Why ``requested`` wasn't taken, as a sentence; an earlier pin stays in force."""


UNPINNED: Final = PinStatus()
