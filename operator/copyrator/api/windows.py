"""``spec.windows``: the hours in which deploys may begin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from copyrator.api import syntax
from copyrator.api.fields import Fields

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MAX_WINDOWS: Final = 20
DAY_MINUTES: Final = 24 * 60
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00")


@dataclass(frozen=True, slots=True)
class Window:
    """Some hours of some days, as wall time in a time zone."""

    days: frozenset[int] = frozenset(range(7))
    """Days on which it opens; 0 is Monday."""
    start: int = 0
    """Minutes since midnight; the window includes it."""
    end: int = DAY_MINUTES
    """Minutes since midnight; not included. Below ``start``: on the next day."""
    zone: str = "UTC"
    """IANA name."""


def read_windows(spec: Fields) -> tuple[Window, ...]:
    """``spec.windows``; empty where it is absent, which means at any time.

    Raises:
        SpecError: it isn't valid.
    """
    items = spec.items("windows")
    if len(items) > MAX_WINDOWS:
        spec.fail("windows", f"has {len(items)} items; at most {MAX_WINDOWS} are allowed")
    path = spec.at("windows")
    return tuple(_window(Fields(item, f"{path}[{i}]")) for i, item in enumerate(items))


def _window(window: Fields) -> Window:
    days = frozenset(DAYS.index(day) for day in window.texts("days", _day)) or Window().days
    start = _minutes(window.text("from", _time) or "00:00")
    end = _minutes(window.text("to", _time) or "24:00")
    if start == DAY_MINUTES:
        window.fail("from", "must be before 24:00; 00:00 is the beginning of a day")
    if start == end:
        window.fail("to", "must differ from from; for the whole day leave both out")
    return Window(days, start, end, window.text("timeZone", _zone) or "UTC")


def _day(value: str) -> str | None:
    if value in DAYS:
        return None
    return f"{syntax.shown(value)} isn't a day; use {', '.join(DAYS)}"


def _time(value: str) -> str | None:
    if _TIME.fullmatch(value):
        return None
    return f"{syntax.shown(value)} isn't a time; write it as 09:00, up to 24:00"


def _zone(value: str) -> str | None:
    if value in _zones():
        return None
    return f"{syntax.shown(value)} isn't a known time zone; use an IANA name such as Europe/Berlin"


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


@cache
def _zones() -> frozenset[str]:
    """The names in tzdata, without what a machine has beside them, such as ``localtime``."""
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split())


def shown(windows: Sequence[Window]) -> str:
    """``Mon-Fri 09:00-17:00 Europe/Berlin; Sat 10:00-12:00 UTC``."""
    return "; ".join(_shown(window) for window in windows)


def _shown(window: Window) -> str:
    hours = f"{_clock(window.start)}-{_clock(window.end)} {window.zone}"
    return hours if len(window.days) == len(DAYS) else f"{_days(sorted(window.days))} {hours}"


def _days(days: Sequence[int]) -> str:
    if len(days) > 2 and days[-1] - days[0] == len(days) - 1:
        return f"{DAYS[days[0]]}-{DAYS[days[-1]]}"
    return ",".join(DAYS[day] for day in days)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
