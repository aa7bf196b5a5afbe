"""Which copies have to be read whole, because metadata alone doesn't prove that they are right.

managedFields record each writer by the name that the client chooses: a client that uses this
operator's name can't be distinguished from it. The running operator recognises its own writes by
their resourceVersion, so any other version is read once, though a copy not more often than every
ten seconds. Such changes made while the operator was down are found by reading each copy about
once a day, a few in a minute.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from copyrator.api.keys import CopyKey
from copyrator.copies.targets.records import Name
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming

ROUND_RATE: Final = 2.0
"""Copies read per second, at most, for a round."""
LONGEST_STEP: Final = 60.0
"""Seconds that one step of a round covers at most: no burst after a pause."""


class CopyDriftTracker:
    """Which copies to read, and when each was read last."""

    def __init__(self, monotonic: Callable[[], float], timing: CopyTiming = DEFAULT_TIMING) -> None:
        self._now = monotonic
        self._reread = timing.reread
        self._suspects: dict[CopyKey, str | None] = {}
        """With the version that isn't ours; None where any version has to be read."""
        self._read: dict[CopyKey, float] = {}

    def __len__(self) -> int:
        return len(self._suspects)

    def suspect(self, key: CopyKey, version: str | None = None) -> None:
        """Mark a copy to be read: a version that isn't ours, or (None) its turn in the round."""
        self._suspects[key] = version

    def wait(self, key: CopyKey) -> float | None:
        """Seconds until a copy may be read; None where there is no reason to read it."""
        if key not in self._suspects:
            return None
        return max(0.0, self._read.get(key, -self._reread) + self._reread - self._now())

    def wrote(self, key: CopyKey, version: str) -> None:
        """A version of ours: neither it nor an earlier one has to be read."""
        suspected = self._suspects.get(key)
        if suspected is None or not (suspected.isdigit() and version.isdigit()):
            self._suspects.pop(key, None)
        elif int(suspected) <= int(version):
            del self._suspects[key]

    def reading(self, key: CopyKey) -> None:
        """A copy is being read now."""
        self._suspects.pop(key, None)
        self._read[key] = self._now()

    def forget_old(self) -> None:
        """Drop times of reads that delay no other any more."""
        oldest = self._now() - self._reread
        for key in [key for key, when in self._read.items() if when < oldest]:
            del self._read[key]


class Round:
    """Spreads the reading of all copies evenly over a day, from a random start."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        copies: Callable[[], Mapping[str, list[Name]]],
        *,
        timing: CopyTiming = DEFAULT_TIMING,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._now = monotonic
        self._copies = copies
        self._chance = chance
        self._seconds = timing.round
        self._last = monotonic() + timing.round_rest
        self._credit = 0.0
        self._left: dict[str, list[Name]] = {}
        self._count = 0

    def due(self) -> list[tuple[str, Name]]:
        """The copies to be read now, by kind and name; call it every few seconds."""
        passed = self._now() - self._last
        if passed <= 0:
            return []
        self._last += passed
        passed = min(passed, LONGEST_STEP)
        if not self._left:
            self._begin()
        self._credit += min(self._count / self._seconds, ROUND_RATE) * passed
        found = []
        while self._credit >= 1 and self._left:
            self._credit -= 1
            kind, names = next(iter(self._left.items()))
            found.append((kind, names.pop()))
            if not names:
                del self._left[kind]
        return found

    def _begin(self) -> None:
        for kind, names in self._copies().items():
            start = int(self._chance() * len(names))
            if names:
                self._left[kind] = names[start:] + names[:start]
        self._count = sum(map(len, self._left.values()))
