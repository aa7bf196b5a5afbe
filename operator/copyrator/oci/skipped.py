"""Why signatures weren't read, in a limited number of sentences."""

from __future__ import annotations

import re
from typing import Final

from copyrator.oci.reference import DIGEST

SENTENCES: Final = 10
_REASON: Final = 200
"""Characters."""
_OTHER: Final = "not read for other reasons"
_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+/:;=_#-]{0,99}")


class Skipped:
    """Collects reasons, each with the first signature that it applies to."""

    def __init__(self) -> None:
        self._by_reason: dict[str, tuple[str, bool]] = {}

    def note(self, sentence: str) -> None:
        """Add a sentence that isn't about a single signature."""
        self._by_reason.setdefault(self._bounded(sentence), ("", False))

    def add(self, reason: str, *digests: str) -> None:
        """Add the reason why these signatures weren't read."""
        reason = self._bounded(reason)
        for name in digests:
            digest = name if DIGEST.fullmatch(name) else "one without a sha256 digest"
            first, _ = found = self._by_reason.get(reason, (digest, False))
            self._by_reason[reason] = (first, True) if digest != first else found

    def sentences(self) -> tuple[str, ...]:
        """At most SENTENCES sentences without a full stop."""
        return tuple(
            f"{first}{' and others' if more else ''}: {reason}" if first else reason
            for reason, (first, more) in self._by_reason.items()
        )

    def _bounded(self, reason: str) -> str:
        reason = reason if len(reason) <= _REASON else reason[:_REASON] + "…"
        has_room = reason in self._by_reason or len(self._by_reason) < SENTENCES - 1
        return reason if has_room else _OTHER


def type_named(text: str) -> str:
    """A media type or URI from a registry for a message; another text is replaced."""
    return text if _TYPE.fullmatch(text) else "another type"
