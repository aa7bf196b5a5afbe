"""``status.pin``: what a user rolled back to."""

from __future__ import annotations

from typing import ClassVar, Final

from copyrator.api.records import Record, Time


class PinStatus(Record, frozen=True):
    """What a user rolled back to; see deploy.requests."""

    FIELD: ClassVar[str] = "pin"
    """The rollback that a user asked for by the annotation operator.werf.dev/pin; absent without
    one."""

    requested: str | None = None
    """The newest value of the annotation that the operator has seen; absent while the annotation
    is."""
    version: str | None = None
    """The tag of the pinned version, the only one that is deployed; absent where nothing is
    pinned."""
    digest: str | None = None
    """Its manifest digest."""
    selection: str | None = None
    """Hash of version, tagFilter, prerelease, registry and repo of the spec: an edit of these ends
    the pin."""
    at: Time | None = None
    """When it was pinned."""
    refused: str | None = None
    """Why the requested value wasn't taken. A former pin stays."""


UNPINNED: Final = PinStatus()
