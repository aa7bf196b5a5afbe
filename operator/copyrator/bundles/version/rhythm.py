"""When a registry is polled next, and when a failed deploy is retried. Pure.

Polls are bound to slots (slots.py), one for each query: Bundles that share a tag are due
together and share one request, and a ``nextPollAt`` that was written long ago stays true: that time
plus a whole number of intervals.

Assigns each query to a registry a phase of its interval, so that polls are spread evenly.

A random phase, such as a hash, isn't good enough: of a thousand polls a minute one second gets
twice its share, and of a thousand in ten minutes five times. So each new query takes the phase
that is used least. Phases are of Unix time: a restart reuses the phase of the next poll in a
status, so that time remains valid. Pure, except for its state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, parse_version

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""Its multiples, modulo 1, are spread evenly however many there are."""
_MOST_BINS: Final = 3600


@dataclass(slots=True)
class PollSlot:
    """A query's times: ``phase`` seconds after every multiple of ``interval`` (Unix time)."""

    query: str
    interval: float
    phase: float
    bin: int
    holders: int = 0
    """Bundles with this query."""

    def after(self, now: datetime) -> datetime:
        """The first such time after ``now``."""
        number = (now.timestamp() - self.phase) // self.interval
        while True:
            moment = datetime.fromtimestamp(number * self.interval + self.phase, UTC)
            if moment > now:
                return moment
            number += 1


class SlotAllocator:
    """The slots of all Bundles.

    ``start``, from 0 to 1, shifts all of them. It has to be random: else the operators of all
    clusters would poll a registry at the same second.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._slots: dict[tuple[str, float], PollSlot] = {}
        self._wheels: dict[float, Counter[int]] = {}
        """The number of slots in each part of an interval, by interval."""

    def __len__(self) -> int:
        return len(self._slots)

    def take(
        self,
        held: PollSlot | None,
        query: str,
        interval: float,
        *,
        announced: datetime | None = None,
        bundles: int = 1,
    ) -> PollSlot:
        """The slot of a query; the same query at the same interval has the same slot.

        Args:
            held: the Bundle's former slot; released where the result is another one.
            query: the query's identity.
            interval: seconds.
            announced: the next poll by the Bundle's status. Its phase is reused unless too many
                others have the same, as after a change of the interval.
            bundles: the number of all Bundles; determines what is too many while slots are taken
                after a start.
        """
        if held is not None and (held.query, held.interval) == (query, interval):
            return held
        if held is not None:
            self.give_back(held)
        slot = self._slots.get((query, interval))
        if slot is None:
            slot = self._new(query, interval, announced, bundles)
            self._slots[query, interval] = slot
        slot.holders += 1
        return slot

    def give_back(self, slot: PollSlot) -> None:
        """Release a Bundle's slot: it was deleted, or has another query."""
        slot.holders -= 1
        if slot.holders:
            return
        del self._slots[slot.query, slot.interval]
        wheel = self._wheels[slot.interval]
        wheel[slot.bin] -= 1
        if not any(wheel.values()):
            del self._wheels[slot.interval]

    def _new(self, query: str, interval: float, announced: datetime | None, count: int) -> PollSlot:
        wheel = self._wheels.setdefault(interval, Counter())
        bins = min(math.ceil(interval), _MOST_BINS)
        width = interval / bins
        place, begin = None, 0.0
        if announced is not None:
            begin = announced.timestamp() % interval
            place = min(int(begin / width), bins - 1)
            if wheel[place] >= math.ceil(1.5 * math.ceil(count / bins)):
                place = None
        if place is None:
            fair = wheel.total() // bins  # a part with no more exists
            place = next(one for one in self._order(bins, wheel.total()) if wheel[one] <= fair)
            begin = place * width
        within = (self._start + wheel[place] * _GOLDEN) % 1.0
        wheel[place] += 1
        return PollSlot(query, interval, begin + within * min(width, 1.0), place)

    def _order(self, bins: int, used: int) -> Iterator[int]:
        """All parts of an interval, probably free ones first; successive ones are far apart."""
        stride = max(int(bins * _GOLDEN), 1)
        while math.gcd(stride, bins) > 1:
            stride += 1
        first = int(self._start * bins) + used * stride
        return ((first + number * stride) % bins for number in range(bins))


MAX_RETRY_DELAY: Final = 900.0


def query_of(spec: BundleSpec) -> str:
    """The part of a Bundle's query to the registry that determines its slot.

    All ranges of a repository have one slot, as one tag list answers them all.
    """
    if isinstance(version := parse_version(spec.version), ExactTag):
        return f"{spec.reference}:{version.tag}"
    return spec.reference


def interval_of(spec: BundleSpec) -> float:
    """Seconds between two polls; a status holds whole seconds, so they can't be closer."""
    return max(spec.interval, 1.0)


def poll_retry(
    slot: PollSlot, failures: int, now: datetime, retry_after: float | None = None, *, first: float
) -> datetime:
    """When to poll again after ``failures`` failed polls in a row: soon, then at the slots.

    ``first``: seconds before the first retry, doubling.

    Bundles with a Retry-After resume one after the other, not all at once.
    """
    delay = first * 2 ** min(max(failures, 1) - 1, 20)
    again = min(now + timedelta(seconds=delay), slot.after(now))
    if retry_after is not None:
        jitter = slot.phase / slot.interval * min(slot.interval, retry_after / 2)
        return max(now + timedelta(seconds=retry_after + jitter), again)
    return again


def same_rhythm(spec: BundleSpec, before: datetime, after: datetime) -> bool:
    """Whether ``after`` is ``before`` plus whole intervals, so that it needn't be written."""
    gap = (after - before).total_seconds()
    rest = gap % interval_of(spec)
    return gap >= 0 and min(rest, interval_of(spec) - rest) <= 1.0


def retry_delay(backoff: float, count: int) -> float:
    """Seconds before a deploy is retried after ``count`` failures: doubling, bounded."""
    return min(backoff * 2.0 ** min(max(count, 1) - 1, 30), max(MAX_RETRY_DELAY, backoff))
