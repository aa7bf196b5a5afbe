"""Numbers with their nouns, for messages."""

from __future__ import annotations


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 copy``, ``3 copies``; the words may include the verb: ``1 copy is``, ``3 copies are``."""
    return f"{number} {one if number == 1 else many or one + 's'}"
