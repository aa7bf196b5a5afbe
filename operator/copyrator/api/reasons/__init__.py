"""Every reason of a condition, a gate, a failing copy or an Event: one table.

A reason is a text of the API: stable, once it is released. A class is a kind of reasons, and a
member a row: its word, the feature that it belongs to, its severity, what it means (a clause), what
to do (Markdown, with links from docs/), and what ends it, where lists say so. Conditions, Events
and gates take members only, so a reason without a row can't be made; docs/ are generated from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NewType, Self, TypeAlias


class Severity(StrEnum):
    """How a message is shown: Events and the services of notifications have a type for each."""

    INFO = "info"
    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


class Ends(StrEnum):
    """What ends the state of an object, where lists say so."""

    BY_PERSON = "person"
    """It is shown until somebody does something."""
    BY_WORK = "work"
    """The operator works on it; nobody else has to do anything."""
    BY_RESOLUTION = "resolution"
    """It lasts until it is resolved, which is told too."""


class Reason(StrEnum):
    """A row of the table."""

    feature: str
    severity: Severity
    meaning: str
    remedy: str
    ends: Ends | None

    def __new__(cls, word: str, *row: str) -> Self:
        """A row; ``cls(word)`` finds it.

        Raises:
            TypeError: it isn't whole.
        """
        if len(row) not in (4, 5) or not all((word, *row)):
            raise TypeError(f"{cls.__name__} {word}: its row lacks a part")
        self = str.__new__(cls, word)
        self._value_ = word
        self.feature, word, self.meaning, self.remedy = row[:4]
        self.severity, self.ends = Severity(word), Ends(row[4]) if row[4:] else None
        return self

    @classmethod
    def read(cls, word: str) -> Self | KeptReason:
        """The row of a word of a status; the word itself where there is none."""
        found = cls._value2member_map_.get(word)
        return found if isinstance(found, cls) else KeptReason(word)

    @property
    def advice(self) -> str:
        """What to do, as a sentence without markup."""
        text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", self.remedy).replace("`", "")
        return f"{text[:1].upper()}{text[1:]}."


KeptReason = NewType("KeptReason", str)
"""A word of a status that has no row: of another version of the operator, or forged."""
AnyReason: TypeAlias = Reason | KeptReason


def described(kind: Iterable[str]) -> str:
    """Their words, for the description of a field."""
    *first, last = kind
    return f"{', '.join(first)} or {last}"


INFO, SUCCESS, WARNING, FAILURE = Severity
BY_PERSON, BY_WORK, BY_RESOLUTION = Ends
NOTHING = "nothing"
"""What to do where nothing is."""
READY_BEFORE = "the message says [what `Ready` was](concepts.md#suspended-objects)"
DOCTOR = "grant the permission that the message names; `copyrator doctor` lists all missing ones"
