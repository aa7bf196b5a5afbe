"""Bounds the rendering of one object: steps and characters are counted.

Counts, not time: the limits of a template are the same on every machine. A step is an operation, an
iteration of a loop for each node in its body, or 64 characters that are processed.
"""

from __future__ import annotations

import enum
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sized, ValuesView
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from copyrator.settings.limits import RENDER_STEPS, RENDERED_TEXT, RULE_DEPTH

RENDERED_OBJECT: Final = 1_572_864  # limit: templates
"""Characters of all strings of one rendered object: etcd's limit of an object, in bytes."""

TEMPLATE_NUMBER_BITS: Final = 4_096  # limit: templates
"""Binary digits of a number that a template calculates: a 64-bit number has 64."""

CHARACTERS: Final = 64
"""Characters that are processed in one step."""

_PARTED: Final = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_OTHER: Final = 64
"""Length of a value that is written as its type's name and address."""


class TemplateError(Exception):
    """A template couldn't be rendered for a target; the message is for its author."""


class ObjectLimitError(TemplateError):
    """All texts of one object together take too much, whichever of them was rendered last."""


@dataclass(slots=True)
class Findings:
    """What rendering from sources found out, beside the result."""

    overridden: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Registry, the source that isn't used, the one that is."""
    passed_over: dict[tuple[str, str], None] = field(default_factory=dict)
    """A source of which nothing is used, and why."""
    until: datetime | None = None
    """When the result changes although no source does: a certificate's end."""

    def pass_over(self, origin: str, why: str) -> None:
        """Note that nothing of a source, or of a key of it, is used."""
        source, _, key = origin.removeprefix("source ").partition(", key ")
        self.passed_over[source, f"{key} {why}" if key else why] = None


class Visibility(enum.Enum):
    """What may come out at a place of an object."""

    HIDDEN = "hidden"
    """No data of Secrets."""
    BUNDLES = "bundles"
    """Of Secrets, certificates only."""
    CLEAR = "clear"
    """Everything: data of Secrets are texts here, so no message may quote a value."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The place of a text in an object that is rendered from sources."""

    now: datetime
    findings: Findings
    visibility: Visibility


class Meter:
    """Counts down; one for each object that is rendered."""

    __slots__ = ("_room", "left", "scope", "whole")

    def __init__(self) -> None:
        self.left = RENDER_STEPS
        """Steps that may still be taken."""
        self._room = RENDERED_OBJECT
        self.scope: Scope | None = None
        """Of the text that is rendered; None in an object without sources."""
        self.whole: bool | int | float | None = None
        """What the text that was rendered last consists of, if that is a number or boolean."""

    @property
    def reveals(self) -> bool:
        """Whether values are secret, so that no message may quote one."""
        return self.scope is not None and self.scope.visibility is Visibility.CLEAR

    @property
    def findings(self) -> Findings:
        """Where to note them; without sources nobody reads them."""
        return self.scope.findings if self.scope is not None else Findings()

    def take(self, steps: int, characters: int = 0) -> None:
        """Count work before it is done.

        Raises:
            ObjectLimitError: it is too much.
        """
        self.left -= abs(steps) + abs(characters) // CHARACTERS
        if self.left < 0:
            raise ObjectLimitError(
                f"rendering takes more than {RENDER_STEPS} steps; shorten its loops and texts"
            )

    def make(self, characters: int) -> None:
        """Count a text before it is made.

        Raises:
            TemplateError: it is too long.
        """
        if characters > RENDERED_TEXT:
            raise TemplateError(f"a string would be longer than {RENDERED_TEXT} characters")
        self.take(1, characters)

    def put_out(self, text: str) -> None:
        """Count a text of the finished object.

        Raises:
            ObjectLimitError: the object is too large.
        """
        self._room -= len(text)
        if self._room < 0:
            raise ObjectLimitError(
                f"the object's strings would be longer than {RENDERED_OBJECT} characters in total"
            )

    def weigh(self, value: Any) -> int:
        """Count a value with all its parts as read, and return its length.

        Raises:
            TemplateError: it is too large, or nested too deeply.
        """
        if type(value) is str:
            self.take(1, len(value))
            return len(value)
        level, length = [value], 0
        for _ in range(RULE_DEPTH):
            parts: list[Any] = []
            for one in level:
                length += self._length(one, parts)
            if not parts:
                self.take(1, 4 * length)  # quotes and escapes, where it is written as text
                return length
            level = parts
        raise TemplateError(f"a value is nested more than {RULE_DEPTH} levels deep")

    def _length(self, value: Any, parts: list[Any]) -> int:
        """Characters of a value without its parts, which are added to `parts`."""
        if isinstance(value, str):
            return len(value)
        if isinstance(value, int):
            return value.bit_length() // 3 + 1
        if isinstance(value, Mapping):
            self.take(2 * len(value))
            parts += value.keys()
            parts += value.values()
            return 6 * len(value)
        if isinstance(value, _PARTED):
            self.take(len(value))
            parts += value
            return 4 * len(value)
        if isinstance(value, range):
            self.take(len(value) // 8)
        return _OTHER

    def items(self, values: Iterable[Any]) -> list[Any]:
        """All items of an iterable, each counted before the next one is made."""
        found = []
        for value in values:
            self.take(1)
            found.append(value)
        return found

    def loop(self, values: Iterable[Any], steps: int, characters: int) -> Iterator[Any]:
        """An iterable each of whose items costs as much as the loop's body."""
        for value in values:
            self.take(steps, characters)
            yield value

    def search(self, text: str, part: Any) -> None:
        """Count a search in a text; in short texts Python may compare every pair of characters."""
        length = len(text)
        other = len(part) if isinstance(part, str) else 1
        self.take(1, length * 8 if length >= 30_000 else length + length * other // 8)


def checked(value: Any) -> Any:
    """A result of a calculation.

    Raises:
        TemplateError: a number with too many digits.
    """
    if isinstance(value, int) and value.bit_length() > TEMPLATE_NUMBER_BITS:
        raise TemplateError("a number has too many digits")
    return value


def count_of(value: Any) -> int:
    """How many items or characters a value has; 0 where it has none."""
    return len(value) if isinstance(value, Sized) else 0
