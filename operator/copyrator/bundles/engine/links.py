"""Fields by which Bundles wait for others: who is named by whom, and cycles, which are refused.

A gate that judges by other Bundles declares its Link. The gates of all features are on one list, so
that a cycle of several fields is found, too. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry

MAX_SEARCHED: Final = 500
"""Bundles that a search for a cycle visits at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One such field."""

    field: str
    """Its path in the Bundle, for messages."""
    verb: str
    """What a Bundle does that names another one, for messages."""
    part: type[Part]
    """The part of the spec that has it."""
    named: Callable[[Any], tuple[BundleKey, ...]]
    """The Bundles that such a part names."""
    allows: Callable[[BundleEntry | None, str], bool] = lambda *_: True
    """Whether a Bundle may be named in a namespace; the search for cycles ends at one that may not.
    """

    @property
    def name(self) -> str:
        """The name of the field, or of the map that has it."""
        return self.field.split(".")[1]

    def of(self, entry: BundleEntry | None) -> tuple[BundleKey, ...]:
        """The Bundles that one names."""
        if entry is None or isinstance(entry.spec, InvalidSpec):
            return ()
        part = entry.spec.find(self.part)
        return () if part is None else self.named(part)

    def leads_to(self, bundles: BundleCache, key: BundleKey) -> tuple[BundleKey, ...]:
        """Those of them that count for a cycle."""
        named = self.of(bundles.get(key))
        return tuple(one for one in named if self.allows(bundles.get(one), key.namespace))


def edges(links: Iterable[Link], entry: BundleEntry | None) -> tuple[object, ...]:
    """By which cycles through a Bundle are found: while it is equal, none begins or ends."""
    if entry is None:
        return ()
    is_refused = entry.status.ready_reason == BundleReason.INVALID_SPEC
    return is_refused, *(one.of(entry) for one in links)


_NO_KEYS: Final[Mapping[BundleKey, None]] = {}


class Named:
    """Which Bundles name one by a link, kept up to date by each change in the cache."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.keys: dict[BundleKey, dict[BundleKey, None]] = {}
        """All Bundles that are named, each with those that name it; nobody else changes it."""

    def update(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Have a Bundle's names replaced."""
        was, now = self._link.of(before), self._link.of(after)
        if before is not None and was != now:
            for other in was:
                keys = self.keys.get(other, {})
                keys.pop(before.key, None)
                if not keys:
                    self.keys.pop(other, None)
        if after is not None and was != now:
            for other in now:
                self.keys.setdefault(other, {})[after.key] = None

    def by(self, key: BundleKey) -> Collection[BundleKey]:
        """The Bundles that name this one; it needn't exist."""
        return self.keys.get(key, _NO_KEYS)


class TooManyError(Exception):
    """A search for a cycle would visit more than MAX_SEARCHED Bundles."""


def find_cycle(
    start: BundleKey, leads_to: Callable[[BundleKey], Iterable[BundleKey]]
) -> tuple[BundleKey, ...]:
    """The shortest cycle through a Bundle, with it at both ends; empty where there is none.

    Raises:
        TooManyError: it depends on more than MAX_SEARCHED Bundles, directly or not.
    """
    paths: dict[BundleKey, tuple[BundleKey, ...]] = {start: (start,)}
    line = [start]
    for one in line:
        for other in leads_to(one):
            if other == start:
                return (*paths[one], start)
            if other not in paths:
                if len(paths) > MAX_SEARCHED:
                    raise TooManyError
                paths[other] = (*paths[one], other)
                line.append(other)
    return ()


def find_cycle_fault(links: Sequence[Link], bundles: BundleCache, entry: BundleEntry) -> str | None:
    """The field of a Bundle that is part of a cycle, and the fault; None where there is none."""
    used = [one for one in links if one.of(entry)]
    for link in used:
        try:
            cycle = find_cycle(entry.key, partial(link.leads_to, bundles))
        except TooManyError:
            return f"{link.field}: leads to more than {MAX_SEARCHED} Bundles; reduce it"
        if cycle:
            shown = " -> ".join(f"{key.namespace}/{key.name}" for key in cycle)
            return f"{link.field}: is a cycle, {shown}; remove one of these"
    return _find_mixed_cycle(links, bundles, entry.key) if used else None


def _find_mixed_cycle(links: Sequence[Link], bundles: BundleCache, start: BundleKey) -> str | None:
    """The fault of a cycle with edges of several fields; None where there is none.

    Cycles of one field were excluded before.
    """

    def any_of(key: BundleKey) -> Iterator[BundleKey]:
        return (other for link in links for other in link.leads_to(bundles, key))

    try:
        cycle = find_cycle(start, any_of)
    except TooManyError:  # the limit is of each field, not of all together
        return None
    if not cycle:
        return None
    steps = [
        (one, next(link for link in links if other in link.leads_to(bundles, one)), other)
        for one, other in pairwise(cycle)
    ]
    shown = ", ".join(
        f"{one.namespace}/{one.name} {link.verb} {other.namespace}/{other.name}"
        for one, link, other in steps
    )
    fields = " and ".join(link.name for link in links if any(link is one[1] for one in steps))
    return f"{steps[0][1].field}: is a cycle of {fields}: {shown}; remove one of these"
