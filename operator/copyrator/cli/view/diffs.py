"""What is shown of a difference: lines, within limits, with what moves a cursor escaped. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from copyrator.api.text import count, printable

LINES: Final = 200
"""Lines of one object's difference that are shown."""
ALL_LINES: Final = 3000
"""Lines of all differences of a plan."""
AROUND: Final = 3
"""Lines before and after a change that are shown of long ones."""
LINE: Final = 1000
"""Characters of a line that are shown."""

_CLASSES: Final = {"+": "added", "-": "removed", "": "same"}


def sign_of(line: str) -> str:
    """``+`` of an added line of an object, ``-`` of a removed one; else empty."""
    return line[0] if line[:2] in ("+ ", "- ", "+", "-") else ""


def without_same(lines: Sequence[str]) -> list[str]:
    """Without lines that are the same and far from a change, where there are many lines."""
    if len(lines) <= LINES:
        return list(lines)
    changes = [at for at, line in enumerate(lines) if sign_of(line)]
    near = {one for at in changes for one in range(at - AROUND, at + AROUND + 1)}
    found: list[str] = []
    for is_near, ats in groupby(range(len(lines)), near.__contains__):
        part = [lines[at] for at in ats]
        found += part if is_near else [f"  … {count(len(part), 'line')} without a change"]
    return found


@dataclass(frozen=True, slots=True)
class DiffView:
    """What is shown of a difference."""

    lines: Sequence[tuple[str, str]] = ()
    """The class (``added``, ``removed``, ``same``) and the text of each."""
    left: int = 0
    """Lines that aren't shown."""
    added: int = 0
    removed: int = 0

    @classmethod
    def of(cls, lines: Sequence[str], budget: LineBudget) -> DiffView:
        """Of lines with signs, as far as there are lines left."""
        signs = [sign_of(line) for line in lines]
        taken = budget.take(len(lines))
        return cls(
            lines=[
                (_CLASSES[sign], printable(budget.cut(line)))
                for sign, line in zip(signs[:taken], lines, strict=False)
            ],
            left=len(lines) - taken,
            added=signs.count("+"),
            removed=signs.count("-"),
        )


@dataclass(slots=True)
class LineBudget:
    """The lines that may still be shown; ``None``: any number, of any length."""

    left: int | None = ALL_LINES
    each: int = LINES

    def take(self, wanted: int) -> int:
        """As many lines as there are left for one object."""
        if self.left is None:
            return wanted
        taken = min(wanted, self.each, self.left)
        self.left -= taken
        return taken

    def cut(self, line: str) -> str:
        """What is shown of a line."""
        is_whole = self.left is None or len(line) <= LINE
        return line if is_whole else f"{line[:LINE]}…"
