"""Copies that other clients change: which to read whole, and which to write only after pauses.

An injector adds a key to a copy, a controller normalises a field, another tool restores its own
content: each write of ours is answered by one of theirs, without end. From the third write in a
minute on, such a copy is written after a pause, which doubles. Only copies that were changed in the
last minute, and those in a fight, are kept; a restart begins to count anew.

managedFields record each writer by the name that the client chooses: a client that uses this
operator's name can't be distinguished from it. The running operator recognises its own writes by
their resourceVersion, so any other version is read once, though a copy not more often than every
ten seconds. Such changes made while the operator was down are found by reading each copy about once
a day, a few in a minute (kinds.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.text import member
from copyrator.copies.targets.content import Content
from copyrator.copies.targets.ownership import ANNOTATIONS, LABELS, SEP, paths_of
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming

FIGHTS: Final = 10_000
"""Copies that other clients change back, of which the pauses are kept (ConflictPersists): 1 KB
each. Beyond them the one that was written longest ago is written without a pause again."""

V = TypeVar("V")

MOST_WRITES: Final = 12
"""Requests for one copy in the time after which a fight would end."""
SHORTEST: Final = 0.001
"""Seconds: a shorter wait is none, whatever the sum of two times is rounded to."""
SHOWN: Final = 200
"""Characters of a field's path, or of a manager's name, that are shown."""


@dataclass(slots=True)
class Fight:
    """One copy that others change back."""

    requests: tuple[float, ...]
    """Loop times of the latest write requests."""
    number: int
    """Write requests since it began, the first three writes included."""
    changed: float
    """Loop time of the last change by others."""
    next_write: float = 0.0
    """Loop time before which it isn't written."""
    persists: bool = False
    """Others have changed it again since it began: it is reported."""
    told: bool = False
    """The owners of the namespace know."""
    change: str = ""
    """What others do to it: the field and the field manager."""

    @property
    def message(self) -> str:
        """What happens, and what ends it."""
        return (
            f"{self.change or 'another client changes it'} each time that it is written, so it is "
            "written after pauses of up to 5 minutes; let only one of both write the field "
            "(spec.transform or the template, spec.targets.exclude, or the other client's settings)"
        )


@dataclass(frozen=True, slots=True)
class _Recent:
    """Writes of one copy because of others, before there is a fight."""

    times: tuple[float, ...]
    """Loop times."""
    requests: int
    last: float
    """Loop time of the last request."""


_NOTHING: Final = _Recent((), 0, float("-inf"))


class FightTracker:
    """Which copies are in a fight, and when each may be written again."""

    def __init__(self, monotonic: Callable[[], float], timing: CopyTiming = DEFAULT_TIMING) -> None:
        self._now = monotonic
        self._timing = timing
        self._fights: dict[CopyKey, Fight] = {}
        self._recent: dict[CopyKey, _Recent] = {}
        self._lost: dict[CopyKey, float] = {}
        """When others deleted a copy that isn't created again yet."""

    def __len__(self) -> int:
        """How many are reported."""
        return sum(fight.persists for fight in self._fights.values())

    def get(self, key: CopyKey) -> Fight | None:
        """The fight for a copy, or None."""
        return self._fights.get(key)

    def wait(self, key: CopyKey) -> float:
        """Seconds until a copy may be written; 0: now."""
        fight = self.get(key)
        left = fight.next_write - self._now() if fight else 0.0
        return left if left > SHORTEST else 0.0

    def remaining(self, key: CopyKey) -> float | None:
        """Seconds until a fight ends if others change nothing; None where it has ended."""
        fight = self.get(key)
        if fight is None:
            return None
        left = fight.changed + self._timing.fight_end - self._now()
        if left > SHORTEST:
            return left
        self.end(key)
        return None

    def end(self, key: CopyKey) -> None:
        """The copy isn't wanted any more, or a person asked to begin anew."""
        self._fights.pop(key, None)
        self._recent.pop(key, None)

    def is_repeated(self, key: CopyKey, writes: int = 1) -> bool:
        """Whether a copy is in a fight, or was written so often because of others, not long ago."""
        if key in self._fights:
            return True
        return len(self._latest(self._recent.get(key, _NOTHING))) >= writes

    def is_next(self, key: CopyKey) -> bool:
        """Whether the next write because of others begins a fight, or continues one."""
        return self.is_repeated(key, self._timing.fight_writes - 1)

    # --- what happens ----------------------------------------------------------------------------

    def lose(self, key: CopyKey) -> None:
        """Others deleted a copy."""
        _keep(self._lost, key, self._now())
        self.change(key)

    def is_lost(self, key: CopyKey) -> bool:
        """Whether others deleted the copy that is created now."""
        return key in self._lost

    def change(self, key: CopyKey) -> None:
        """Others changed a copy, and it isn't as wanted."""
        if fight := self.get(key):
            fight.changed = self._now()
            fight.persists = True

    def count(
        self,
        key: CopyKey,
        requests: int,
        *,
        foreign: bool,
        complete: bool = True,
        age: float | None = None,
    ) -> None:
        """Count the write requests of one attempt to write a copy.

        Args:
            key: the copy.
            requests: how many were sent.
            foreign: whether others are the cause.
            complete: whether it counts as a write; otherwise only its requests do.
            age: seconds since the copy was created, if known: one more request.
        """
        if not requests:
            return
        if complete:
            self._lost.pop(key, None)
        now, known = self._now(), self._fights.pop(key, None)
        counts = foreign or not complete  # a refused create may be what others did
        fight = known or (self._first(key, requests, complete=complete) if counts else None)
        if fight is None:
            return
        if known is None and age is not None and age < self._timing.fight_end:
            fight.requests = (min(now - age, fight.requests[0]), *fight.requests)[:MOST_WRITES]
        if known is not None:
            if foreign and fight.changed <= fight.requests[-1]:
                fight.changed = now  # no event has shown it
            fight.persists |= foreign
            fight.number += requests
            fight.requests = (*fight.requests, *[now] * requests)[-MOST_WRITES:]
        fight.next_write = self._next_write(fight, requests)
        _keep(self._fights, key, fight)

    def _first(self, key: CopyKey, requests: int, *, complete: bool) -> Fight | None:
        """Count an attempt while there is no fight; the fight that it begins, or None."""
        now, known = self._now(), self._recent.pop(key, _NOTHING)
        times = (*self._latest(known), now) if complete else self._latest(known)
        oldest = now - self._timing.fight_window
        number = requests + (known.requests if known.last > oldest else 0)
        if len(times) < self._timing.fight_writes:
            _keep(self._recent, key, _Recent(times, number, now))
            return None
        return Fight((*times, *[now] * (number - len(times)))[-MOST_WRITES:], number, now)

    def _next_write(self, fight: Fight, requests: int) -> float:
        """Loop time before which a copy isn't written; the next write takes so many requests."""
        timing, now = self._timing, self._now()
        doublings = min(fight.number - timing.fight_writes, 30)
        pause = min(timing.fight_pause * 2.0**doublings, timing.longest_fight_pause)
        over = len(fight.requests) + requests - MOST_WRITES
        return max(now + pause, fight.requests[over - 1] + timing.fight_end if over > 0 else now)

    def _latest(self, recent: _Recent) -> tuple[float, ...]:
        oldest = self._now() - self._timing.fight_window
        return tuple(when for when in recent.times if when > oldest)

    def forget_old(self) -> None:
        """Drop what is over; call it about once a minute."""
        oldest = self._now() - self._timing.fight_window
        for key in [key for key, recent in self._recent.items() if recent.last <= oldest]:
            del self._recent[key]
        for key in [key for key, when in self._lost.items() if when <= oldest]:
            del self._lost[key]
        oldest -= self._timing.fight_end
        for key in [key for key, fight in self._fights.items() if fight.changed <= oldest]:
            del self._fights[key]


def _keep(known: dict[CopyKey, V], key: CopyKey, value: V) -> None:
    """Keep it as the newest of so many."""
    known.pop(key, None)
    known[key] = value
    if len(known) > FIGHTS:
        del known[next(iter(known))]


# --- what others change -----------------------------------------------------------------------


def describe_change(content: Content, metadata: Mapping[str, Any] | None) -> str:
    """What others did to a copy, by its managedFields: the field, and the field manager.

    ``metadata`` is None where they deleted it; ``content`` is what the rule wants.
    """
    if metadata is None:
        return "another client deletes it"
    ours: set[str] = set()
    others: list[tuple[str, str, frozenset[str]]] = []
    for entry in metadata.get("managedFields") or ():
        if entry.get("subresource"):
            continue
        paths = paths_of(entry)
        if entry.get("manager") == names.FIELD_MANAGER and entry.get("operation") == "Update":
            ours |= paths
        else:
            others.append((str(entry.get("time") or ""), str(entry.get("manager")), paths))
    others.sort(key=lambda one: one[0], reverse=True)
    for _, manager, paths in others:
        if found := sorted(path for path in paths - ours if _matters(content, path)):
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return f"the field manager {_cut(manager)} changes {_shown(found[0])}{more}"
    there = ours.union(*(paths for *_, paths in others))
    if gone := sorted(path for path in _wanted(content) if path not in there):
        by = _cut(others[0][1]) if others else ""
        who = f"another client (the last one is the field manager {by})" if by else "another client"
        return f"{who} removes {_shown(gone[0])}"
    return f"another client with the field manager {names.FIELD_MANAGER} changes it"


def _matters(content: Content, path: str) -> bool:
    """Whether a field that others own isn't as the rule wants it (ownership.py)."""
    steps = path.split(SEP)
    if steps[0] == "metadata":
        return path in _marks(content)
    if content.exact:
        return len(steps) > 1 or steps[0] not in ("data", "binaryData")
    return steps[0] in content.payload and not any(one.startswith(("k:", "v:")) for one in steps)


def _marks(content: Content) -> set[str]:
    """The paths of the labels and annotations that we write."""
    annotations = {*content.annotations, names.ANN_HASH}
    return {LABELS + key for key in content.labels} | {ANNOTATIONS + key for key in annotations}


def _wanted(content: Content) -> Iterable[str]:
    """The labels, annotations and keys of data that a copy should have."""
    yield from _marks(content)
    if content.exact:
        for name, value in content.payload.items():
            if isinstance(value, Mapping):
                yield from (f"{name}{SEP}{key}" for key in value)


def _shown(path: str) -> str:
    r"""As kubectl's jsonpath takes it: ``data.ca\\.crt``, ``spec.replicas``."""
    first, *steps = path.split(SEP)
    shown = (f"[{one}]" if one.startswith(("k:", "v:")) else member(one) for one in steps)
    return _cut(first + "".join(shown))


def _cut(text: str) -> str:
    """A name that any client may choose, on one line."""
    shown = "".join(one if one.isprintable() else "?" for one in text[:SHOWN])
    return shown if len(text) <= SHOWN else f"{shown[:-1]}…"


class CopyDriftTracker:
    """Which copies to read, and when each was read last."""

    def __init__(self, monotonic: Callable[[], float], timing: CopyTiming = DEFAULT_TIMING) -> None:
        self._now = monotonic
        self._reread = timing.reread
        self._suspects: dict[CopyKey, str | None] = {}
        """With the version that isn't ours; None where any version has to be read."""
        self._read: dict[CopyKey, float] = {}

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
