"""The gate of ``spec.windows``: a deploy begins only inside a window. Pure.

A window is wall time: hours that summer time skips never open, and hours that are repeated in
autumn open twice. A deploy that runs when a window closes continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import Final
from zoneinfo import ZoneInfo

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.windows import DAYS, Window
from copyrator.bundles.gates.gate import PASSED, Candidate, Facts, Gate, Occasion, Verdict, Waiting

_HORIZON: Final = 15
"""Days that are searched: a window that summer time skips opens a week later."""
_STEP: Final = timedelta(hours=6)
"""Time zones don't change their offset twice within it."""
_SECOND: Final = timedelta(seconds=1)


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


def _judge(spec: BundleSpec, _candidate: Candidate, _facts: Facts, now: datetime) -> Verdict:
    if is_open(spec.windows, now):
        return PASSED
    found = next_opening(spec.windows, now)
    if found is None:
        text = "deploys begin only in spec.windows, of which none opens within two weeks"
        return Waiting(BundleReason.OUTSIDE_WINDOW, text, _midnight(now))
    opening, window = found
    local = opening.astimezone(ZoneInfo(window.zone))
    shown = f"{DAYS[local.weekday()]} {local:%Y-%m-%d %H:%M} {window.zone}"
    text = f"deploys begin only in spec.windows; the next one opens on {shown}"
    return Waiting(BundleReason.OUTSIDE_WINDOW, text, opening)


def _midnight(now: datetime) -> datetime:
    """The next midnight in UTC: a daily check changes the status once a day at most."""
    return datetime.combine(now.astimezone(UTC).date() + timedelta(days=1), time(), UTC)


GATE: Final = Gate(
    name="window",
    concerns=attrgetter("windows"),
    occasions=frozenset(Occasion) - {Occasion.FORCE, Occasion.INTERRUPTED},
    judge=_judge,
    ends=lambda _: "a window opens",
)
