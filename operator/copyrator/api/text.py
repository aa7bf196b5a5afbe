"""Texts of messages: numbers with their nouns, lists, and others' texts, bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


_UNUSUAL = re.compile(r"[^\n\t -~]")


def printable(text: str) -> str:
    """A text that others wrote, without what moves a terminal's cursor or hides or reorders text.

    Line feeds and tabs stay; other characters that aren't printable are shown as escapes.
    """
    return _UNUSUAL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "replace").decode("ascii")


MOST: Final = 256
"""Characters of a text of the status that are shown; more than an ID or a user's name has."""


def said(value: object, most: int = MOST) -> str:
    """A text of a status, which may be forged, in one line; a dash where there is none."""
    text = str(value) if value not in (None, "") else "-"
    text = printable(text[:most] + ("…" if len(text) > most else ""))
    return text.replace("\n", " ").replace("\t", " ")


@dataclass(frozen=True, slots=True)
class Detail:
    """A part of a description, for a terminal or a page; others' text is escaped by `printable`."""

    label: str
    value: object = ""
    below: Sequence[str] = ()
    """Lines."""

    @property
    def line(self) -> str:
        """``Label:     value``, with the values of all parts aligned."""
        value = printable(str(self.value))
        return f"{self.label + ':':<15}{value}" if value else f"{self.label}:"

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        return [self.line, *(f"  {printable(one)}" for one in self.below)]

    @property
    def text(self) -> str:
        """For a page: all but the label."""
        return printable("\n".join((str(self.value), *self.below))).strip()


def detail_lines(parts: Iterable[Detail]) -> list[str]:
    """The lines of parts."""
    return [line for part in parts for line in part.lines]


def short_digest(value: object) -> str:
    """The first characters of a digest, enough to distinguish two."""
    text = str(value or "")
    return text.removeprefix("sha256:")[:12] or "-"
