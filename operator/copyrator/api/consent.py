"""Annotations of consent: allow-to, allow-from, accept-from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from copyrator.api.globs import NO_GLOBS, Globs, is_wild
from copyrator.settings.limits import MAX_GLOB_TEXT, MAX_GLOBS

MAX_CONSENT_TEXT: Final = 256 * 1024  # limit: copies, sources, consent
"""Characters of an allow-to or allow-from annotation: as many as the API server allows all
annotations of an object together."""


@dataclass(frozen=True, slots=True)
class Consent:
    """An annotation of consent, parsed once."""

    listed: frozenset[str] = frozenset()
    globs: Globs = NO_GLOBS
    problem: str | None = None
    """Why it is invalid, for its author: it allows nothing then."""

    def names(self, namespace: str) -> bool:
        """Whether it names a namespace."""
        return namespace in self.listed or self.globs.matches(namespace)


def read_consent(annotations: Mapping[str, str], annotation: str) -> Consent | None:
    """Parse an annotation of consent; None where it is absent."""
    text = annotations.get(annotation)
    return None if text is None else _parse_consent(text)


def _parse_consent(text: str) -> Consent:
    if len(text) > MAX_CONSENT_TEXT:
        return Consent(problem=f"is longer than {MAX_CONSENT_TEXT} characters")
    parts = {part.strip() for part in text.split(",")} - {""}
    wild = {part for part in parts if is_wild(part)} if is_wild(text) else set()
    if len(wild) > MAX_GLOBS:
        return Consent(
            problem=f"has {len(wild)} patterns with wildcards; at most {MAX_GLOBS} are allowed"
        )
    if sum(map(len, wild)) > MAX_GLOB_TEXT:
        return Consent(
            problem=f"has more than {MAX_GLOB_TEXT} characters in patterns with wildcards"
        )
    return Consent(frozenset(parts - wild), Globs(tuple(wild)))
