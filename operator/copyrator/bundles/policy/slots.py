"""Assigns each query to a registry a phase of its interval, so that polls are spread evenly.

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
from datetime import UTC, datetime
from typing import Final

_GOLDEN: Final = (math.sqrt(5) - 1) / 2
"""Its multiples, modulo 1, are spread evenly however many there are."""
_MOST_BINS: Final = 3600


@dataclass(slots=True)
class Slot:
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


class Slots:
    """The slots of all Bundles.

    ``start``, from 0 to 1, shifts all of them. It has to be random: else the operators of all
    clusters would poll a registry at the same second.
    """

    def __init__(self, start: float) -> None:
        self._start = start
        self._slots: dict[tuple[str, float], Slot] = {}
        self._wheels: dict[float, Counter[int]] = {}
        """The number of slots in each part of an interval, by interval."""

    def __len__(self) -> int:
        return len(self._slots)

    def take(
        self,
        held: Slot | None,
        query: str,
        interval: float,
        *,
        announced: datetime | None = None,
        bundles: int = 1,
    ) -> Slot:
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

    def give_back(self, slot: Slot) -> None:
        """Release a Bundle's slot: it was deleted, or has another query."""
        slot.holders -= 1
        if slot.holders:
            return
        del self._slots[slot.query, slot.interval]
        wheel = self._wheels[slot.interval]
        wheel[slot.bin] -= 1
        if not any(wheel.values()):
            del self._wheels[slot.interval]

    def _new(self, query: str, interval: float, announced: datetime | None, count: int) -> Slot:
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
        return Slot(query, interval, begin + within * min(width, 1.0), place)

    def _order(self, bins: int, used: int) -> Iterator[int]:
        """All parts of an interval, probably free ones first; successive ones are far apart."""
        stride = max(int(bins * _GOLDEN), 1)
        while math.gcd(stride, bins) > 1:
            stride += 1
        first = int(self._start * bins) + used * stride
        return ((first + number * stride) % bins for number in range(bins))
