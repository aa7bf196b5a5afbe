"""Texts of messages: numbers with their nouns, lists, and others' texts, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

NAMED: Final = 2
"""Members that `some` names."""
GROUP: Final = 3
"""Number of members from which the same message is reported once for all."""


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 copy``, ``3 copies``; the words may include the verb: ``1 copy is``, ``3 copies are``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def times(number: int) -> str:
    """``once``, ``3 times``."""
    return "once" if number == 1 else f"{number} times"


def some(members: Iterable[str], what: str) -> str:
    """``7 namespaces (team-a, team-b, …)``."""
    all_ = sorted(set(members))
    more = ", …" if len(all_) > NAMED else ""
    return f"{len(all_)} {what} ({', '.join(all_[:NAMED])}{more})"


def first_of(texts: Sequence[str], most: int, separator: str = "; ") -> str:
    """The first texts of a list, and how many more there are: ``a; b; and 3 more``."""
    more = f"{separator}and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def truncate(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str, most: int) -> str:
    """One line of printable characters, truncated; white space is a single blank."""
    plain = "".join(one if one.isprintable() else " " for one in text[: 2 * most])
    return truncate(" ".join(plain.split()), most)


def printable_start(text: str, most: int) -> str:
    """So many characters of a text that another controller wrote, without control characters."""
    start = text[:most] + ("…" if len(text) > most else "")
    return "".join(one if one.isprintable() else " " for one in start)
