"""``spec.windows``: the hours in which deploys may begin, and when these are. Pure.

A window is wall time: hours that summer time skips never open, and hours that are repeated in
autumn open twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from importlib import resources
from typing import Annotated, Any, Final, Self
from zoneinfo import ZoneInfo

import msgspec

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.schema import (
    Form,
    Rule,
    Takes,
    check_text,
    custom,
    fail,
    form_reader,
    items,
    reader,
    text,
)
from copyrator.api.text import among, matching, quoted

DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MINUTES: Final = 24 * 60
_DAY: Final = among(DAYS, f"isn't a day; use {', '.join(DAYS)}")
_CLOCK: Final = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = matching(f"{_CLOCK}|24:00", "isn't a time; write it as 09:00, up to 24:00")
_HORIZON: Final = 15
"""Days that are searched: a window that summer time skips opens a week later."""
_STEP: Final = timedelta(hours=6)
"""Time zones don't change their offset twice within it."""
_SECOND: Final = timedelta(seconds=1)


def _read_days(value: Any) -> frozenset[int]:
    return frozenset(map(DAYS.index, _DAYS(value))) or _EVERY_DAY


_EVERY_DAY: Final = frozenset(range(7))
_DAYS: Final = reader(tuple[Annotated[str, text(_DAY, most=3)], ...], items(7))


def _read_time(value: Any) -> int:
    hours, minutes = check_text(value, "", _TIME).split(":")
    return int(hours) * 60 + int(minutes)


def _time(pattern: str) -> Takes:
    return custom(_read_time, {"type": "string", "maxLength": 5, "pattern": f"^{pattern}$"})


def _zone(value: str) -> str | None:
    if value in _zones():
        return None
    return f"{quoted(value)} isn't a known time zone; use an IANA name such as Europe/Berlin"


class Window(Form):
    """Some hours of some days, as wall time in a time zone."""

    days: Annotated[
        frozenset[int],
        custom(
            _read_days,
            {
                "type": "array",
                "maxItems": len(DAYS),
                "x-kubernetes-list-type": "set",
                "items": {"type": "string", "enum": list(DAYS)},
            },
        ),
    ] = _EVERY_DAY
    """Days on which the window opens; every day where it is absent."""
    start: Annotated[int, _time(_CLOCK)] = msgspec.field(default=0, name="from")
    """Time at which it opens, such as 09:00; default 00:00."""
    end: Annotated[int, _time(f"({_CLOCK}|24:00)")] = msgspec.field(default=DAY_MINUTES, name="to")
    """Time at which it closes, up to 24:00 (the default). Before from: on the next day."""
    zone: Annotated[str, text(_zone, most=64, pattern="[A-Za-z0-9_+/-]+")] = msgspec.field(
        default="UTC", name="timeZone"
    )
    """IANA name such as Europe/Berlin; default UTC. Hours that summer time skips never open, and
    repeated ones open twice."""

    RULES = (
        Rule(
            "(has(self.from) ? self.from : '00:00') != (has(self.to) ? self.to : '24:00')",
            "to must differ from from; for the whole day leave both out",
        ),
    )

    def __post_init__(self) -> None:
        if self.start == DAY_MINUTES:
            fail("from", "must be before 24:00; 00:00 is the beginning of a day")
        if self.start == self.end:
            fail("to", "must differ from from; for the whole day leave both out")


def _read_window(value: Any) -> Window:
    found = form_reader(Window)(value)
    if not any(map(value.get, ("days", "from", "to"))):
        fail("days", "is required, or from or to: without them it would always be open")
    return found


class WindowsSpec(Part):
    """When deploys begin."""

    windows: Annotated[
        tuple[Annotated[Window, custom(_read_window, like=Window)], ...],
        items(20),
    ] = ()
    """Hours in which deploys may begin; at any time where it is absent. An empty list, or a window
    without days, from and to, isn't valid. A deploy that runs when a window closes continues."""

    def fit(self, spec: BundleSpec) -> Self:
        """Refuse an empty list, which the API server takes."""
        del spec
        if not self.windows:
            fail("windows", "must have a window; remove it to deploy at any time")
        return self


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


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """Whether a deploy may begin now."""
    return any(_is_inside(window, now) for window in windows)


def next_opening(windows: Sequence[Window], now: datetime) -> tuple[datetime, Window] | None:
    """When the next window opens, in UTC, and which; None where none does in two weeks."""
    openings = ((opening, window) for window in windows for opening in _openings(window, now))
    return min(openings, key=lambda found: found[0], default=None)


def _is_inside(window: Window, now: datetime) -> bool:
    local = now.astimezone(ZoneInfo(window.zone))
    minute, today = local.hour * 60 + local.minute, local.weekday()
    if window.start < window.end:
        return today in window.days and window.start <= minute < window.end
    is_evening = today in window.days and minute >= window.start
    return is_evening or ((today - 1) % len(DAYS) in window.days and minute < window.end)


def _openings(window: Window, now: datetime) -> Iterator[datetime]:
    """Moments after now at which the window may open, and is open."""
    moments = (*_starts(window, now), *_changes(window.zone, now.astimezone(UTC).date()))
    return (moment for moment in moments if moment > now and _is_inside(window, moment))


def _starts(window: Window, now: datetime) -> Iterator[datetime]:
    zone = ZoneInfo(window.zone)
    start = time(window.start // 60, window.start % 60)
    today = now.astimezone(zone).date()
    for days in range(_HORIZON):
        day = today + timedelta(days=days)
        if day.weekday() in window.days:
            for fold in (0, 1):
                local = datetime.combine(day, start.replace(fold=fold), zone)
                yield local.astimezone(UTC)


@lru_cache(maxsize=256)
def _changes(zone: str, day: date) -> tuple[datetime, ...]:
    """The moments within the horizon after this day's beginning when the zone's offset changes."""
    info = ZoneInfo(zone)
    begin = datetime.combine(day, time(), UTC)
    steps = [begin + number * _STEP for number in range((_HORIZON + 1) * 4)]
    offsets = [step.astimezone(info).utcoffset() for step in steps]
    return tuple(
        _change(info, step)
        for step, before, after in zip(steps, offsets, offsets[1:], strict=False)
        if before != after
    )


def _change(zone: ZoneInfo, begin: datetime) -> datetime:
    """The first moment of the new offset; it is within a step after ``begin``."""
    before = begin.astimezone(zone).utcoffset()
    low, high = 0, int(_STEP.total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (begin + middle * _SECOND).astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return begin + high * _SECOND


SPEC: Final = (WindowsSpec,)
