"""The observed time: the time in which a leader renewed its Lease, without the gaps.

The gaps are stored in an annotation of the Lease, so that they survive restarts and changes of the
leader, and cost no request of their own. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.text import format_time, parse_time

MAX_GAPS: Final = 20
"""Gaps that are stored; of more, the two with the least time between them become one."""
KEPT: Final = timedelta(days=31)
"""A gap is stored for so long after its end: longer than any duration of a spec."""
ALLOWANCE: Final = timedelta(seconds=10)
"""Two renewals may be so far apart for the time between them to count as seen. A wall clock that is
set forward by more is a gap.
"""

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = timedelta()
_GAP: Final = re.compile(r"([^+\s]{1,30})\+([0-9]{1,9})s")
_MAX_TEXT: Final = 2048


@dataclass(frozen=True, slots=True)
class Gap:
    """Time that wasn't observed, in whole seconds."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class SeenTime:
    """The time from ``since`` on, without the gaps."""

    since: datetime = _EARLIEST
    gaps: tuple[Gap, ...] = ()
    """In order, and apart from each other."""
    renewed: datetime | None = None
    """When the Lease was renewed last; None: there is no gap since."""

    def seen(self, start: datetime, end: datetime) -> timedelta:
        """How much of the time from start to end was observed; never negative."""
        begin = max(start, self.since)
        if end <= begin:
            return _NOTHING
        lost = (min(gap.end, end) - max(gap.start, begin) for gap in self.gaps)
        return end - begin - sum((one for one in lost if one > _NOTHING), _NOTHING)

    def unseen(self, start: datetime, end: datetime) -> timedelta:
        """How much of it wasn't."""
        return max(end - start, _NOTHING) - self.seen(start, end)

    def reaches(self, start: datetime, duration: timedelta) -> datetime:
        """When so much time will have been observed since start, if there is no further gap."""
        moment, left = max(start, self.since), duration
        for gap in self.gaps:
            if gap.end <= moment:
                continue
            before = max(gap.start - moment, _NOTHING)
            if before >= left:
                break
            moment, left = gap.end, left - before
        return moment + left

    def as_of(self, now: datetime) -> SeenTime:
        """With the time since the last renewal as a gap, if it is one."""
        return self if self.renewed is None else self.renewed_at(self.renewed, now)

    def renewed_at(self, before: datetime | None, now: datetime) -> SeenTime:
        """With the renewal at ``now``, the one before which was then; None: it isn't known."""
        if before is None:
            return SeenTime(_up(now), (), now)
        gaps = [gap for gap in self.gaps if gap.end > now - KEPT]
        if now - before > ALLOWANCE:
            gaps = _merged([*gaps, Gap(_down(before), _up(now))])
        while len(gaps) > MAX_GAPS:
            at = min(range(1, len(gaps)), key=lambda i: gaps[i].start - gaps[i - 1].end)
            gaps[at - 1 : at + 1] = [Gap(gaps[at - 1].start, gaps[at].end)]
        return SeenTime(self.since, tuple(gaps), now)

    def format(self) -> str:
        """As the annotation has it: ``2026-01-31T12:00:00Z`` and each gap, ``TIME+SECONDSs``."""
        gaps = (
            f"{format_time(gap.start)}+{int((gap.end - gap.start).total_seconds())}s"
            for gap in self.gaps
        )
        return " ".join([format_time(self.since), *gaps])


def parse_seen(text: object, renewed: datetime | None) -> SeenTime | None:
    """Read ``SeenTime.format``; None for anything else."""
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        return None
    first, *rest = text.split() or [""]
    since = parse_time(first)
    gaps = [_gap(one) for one in rest[: 2 * MAX_GAPS]]
    if since is None or None in gaps:
        return None
    return SeenTime(since, tuple(_merged(gap for gap in gaps if gap is not None)), renewed)


def _gap(text: str) -> Gap | None:
    found = _GAP.fullmatch(text)
    start = parse_time(found[1]) if found else None
    if found is None or start is None:
        return None
    try:
        return Gap(start, start + timedelta(seconds=int(found[2])))
    except OverflowError:
        return None


def _merged(gaps: Iterable[Gap]) -> list[Gap]:
    """In order; those that touch are one."""
    merged: list[Gap] = []
    for gap in sorted(gaps, key=lambda one: one.start):
        if merged and gap.start <= merged[-1].end:
            merged[-1] = Gap(merged[-1].start, max(merged[-1].end, gap.end))
        else:
            merged.append(gap)
    return merged


def _down(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)


def _up(moment: datetime) -> datetime:
    down = _down(moment)
    return down if down == moment else down + timedelta(seconds=1)


ALL_SEEN: Final = SeenTime()
"""Without a record: everything counts."""
