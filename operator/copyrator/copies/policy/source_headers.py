"""What is known of a template's sources without their contents: versions and consent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from copyrator.api import names
from copyrator.api.consent import Consent, read_consent
from copyrator.copies.policy.matching import refusal


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeader:
    """The metadata of one object that matter here."""

    resource_version: str
    refused: str | None = None
    """Why it is never used."""
    consent: Consent | None = None
    """Where it may be copied to, by its annotation; None where it has none."""

    def allows(self, target: str) -> bool:
        """Whether its content may be copied into a namespace."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class HeaderReader:
    """Decodes the metadata of one kind; equal readers make equal watches, which are shared."""

    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceHeader:
        """Keep what decides whether, and where to, the object may be copied.

        A Secret's type isn't in its metadata: it is checked when the object is read.
        """
        metadata = body["metadata"]
        return SourceHeader(
            resource_version=str(metadata["resourceVersion"]),
            refused=refusal(self.kind, body),
            consent=read_consent(metadata.get("annotations") or {}, names.ANN_ALLOW_TO),
        )


def is_newer(one: str, other: str) -> bool:
    """Whether a resourceVersion is a later one than another of the same object."""
    if one.isdecimal() and other.isdecimal():
        return int(one) > int(other)
    return one != other
