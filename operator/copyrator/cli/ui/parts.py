"""What pages of several kinds have in common: values for templates, and drawings. Pure.

The templates are ``templates/parts.html`` and ``templates/drawing.html``. Drawings are SVG: boxes
with lines between them. Colours come from classes of the style sheet: the page's policy allows no
style attributes. All lengths are in pixels of a drawing that is shown at its own size.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, urlencode

from copyrator.api.conditions import NO_CONDITION, ConditionType, read_conditions
from copyrator.api.text import printable, time_since
from copyrator.cli.core.objects import Body
from copyrator.cli.view.lists import Query
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import Validity

STATE_TONES: Final[Mapping[str, str]] = {
    State.FAILING: "fault",
    State.WAITING: "waiting",
    State.SUSPENDED: "suspended",
    State.READY: "good",
}
"""The class of the state of a rule or Bundle."""
SIGNS: Final = {"good": "✓", "waiting": "…", "suspended": "‖", "fault": "✕", "": "○"}
"""By the class, the sign beside the state's word."""
CONDITIONS: Final = 20
"""Conditions of an object that a page shows; the operator writes fewer."""


def segment(text: str) -> str:
    """A name as a segment of a path."""
    return quote(str(text), safe="")


def address(path: str, query: Query, **changes: Any) -> str:
    """The address of a list with a query, changed."""
    found = urlencode(replace(query, **changes).parameters)
    return f"{path}?{found}" if found else path


def certificate_tone(validity: Validity) -> str:
    """The class of a certificate."""
    return {Validity.EXPIRED: "fault", Validity.VALID: "good"}.get(validity, "waiting")


def condition_rows(body: Body, now: datetime) -> list[dict[str, str]]:
    """The conditions of a rule or Bundle, at most CONDITIONS.

    A message is empty where Ready has the same: it is the page's first sentence.
    """
    found = read_conditions(body)
    told = found.get(ConditionType.READY, NO_CONDITION).message
    return [
        {
            "type": printable(one.type or ""),
            "status": printable(one.status or ""),
            "reason": printable(one.reason or ""),
            "since": time_since(one.since, now),
            "message": printable(one.message or "") if one.message != told else "",
        }
        for one in islice(found.values(), CONDITIONS)
    ]


CHARACTER: Final = 7.5
"""Width of a character, at most, in the 13 px font of a box; wide ones take two."""
LINE: Final = 18
"""Height of a line of text."""
INDENT: Final = 28
"""How far a box is indented of which there are several below or above another one."""
PADDING: Final = 10
"""Between a box's border and its text."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with lines of text, the first one in bold."""

    x: float
    y: float
    width: float
    texts: Sequence[str]
    tone: str = ""
    """``good``, ``waiting``, ``suspended``, ``fault``, or empty; never the only sign of a state."""
    href: str = ""
    """The page that it leads to, as a path; empty: none."""
    done: float | None = None
    """The part of it that is done, from 0 to 1, drawn as a bar along the lower border."""
    is_marked: bool = False
    """Whether the drawing is about it."""

    @property
    def height(self) -> float:
        """By the number of its texts."""
        return len(self.texts) * LINE + PADDING * 1.2

    @property
    def shown(self) -> list[str]:
        """The texts, cut to its width."""
        return [fit(text, self.width - 2 * PADDING) for text in self.texts]

    @property
    def title(self) -> str:
        """The whole texts, for whoever points at it and for screen readers."""
        return ", ".join(self.texts)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line from one box to another: from its right side to the left one, or down."""

    start: Box
    end: Box
    tone: str = ""
    is_angled: bool = False
    """Down along the left side of boxes of which one is indented below or above the other."""

    @property
    def path(self) -> str:
        """For the attribute ``d``: a curve that leaves and arrives at right angles."""
        a, b = self.start, self.end
        if b.x >= a.x + a.width:
            x, y, u, v = a.x + a.width, a.y + a.height / 2, b.x, b.y + b.height / 2
            middle = (x + u) / 2
            return f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {v:g} {u:g} {v:g}"
        x, y, u, v = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y
        if self.is_angled and b.x > a.x:
            return f"M{a.x + INDENT / 2:g} {y:g}V{b.y + b.height / 2:g}H{b.x:g}"
        if self.is_angled:
            return f"M{a.x:g} {a.y + a.height / 2:g}H{b.x + INDENT / 2:g}V{v:g}"
        middle = (y + v) / 2
        return f"M{x:g} {y:g}C{x:g} {middle:g} {u:g} {middle:g} {u:g} {v:g}"


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn, and what it is called; the text says the same to those who don't see it."""

    name: str
    """Part of identifiers: of letters, digits and dashes; one for each drawing of a page."""
    title: str
    boxes: Sequence[Box]
    arrows: Sequence[Arrow] = ()

    @property
    def width(self) -> float:
        """With a margin for borders."""
        return max((box.x + box.width for box in self.boxes), default=0) + 2

    @property
    def height(self) -> float:
        """With a margin for borders."""
        return max((box.y + box.height for box in self.boxes), default=0) + 2


def fit(text: str, width: float) -> str:
    """A text that is at most so wide, cut in the middle: both ends of a name distinguish it."""
    if len(text) * CHARACTER <= 2 * width and _width(text) <= width:
        return text
    most = int(width / CHARACTER) + 1
    text = text[:most] + text[-most:] if len(text) > 2 * most else text
    while text and _width(text) + CHARACTER > width:
        middle = len(text) // 2
        text = text[:middle] + text[middle + 1 :]
    middle = (len(text) + 1) // 2
    return f"{text[:middle]}…{text[middle:]}"


def _width(text: str) -> float:
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in text)
    return (len(text) + wide) * CHARACTER
