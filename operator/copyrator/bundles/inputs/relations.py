"""The Bundles that one waits for, by ``spec.dependsOn`` and ``spec.promoteFrom``, from the cache.

They are the input of the gates of these fields. A Bundle of another namespace that doesn't allow
the promotion is treated as one that doesn't exist: it influences neither the status nor the deploys
of Bundles that name it, and the search for cycles doesn't continue at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.conditions import ConditionStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.promotion import allows_promotion, hold_text
from copyrator.api.seen_time import SeenTime
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleCache, BundleEntry
from copyrator.bundles.gates.gate import NO_SOURCES, PromotionSource, Sources
from copyrator.bundles.gates.promotion import valid_records
from copyrator.bundles.step import Change

MAX_SEARCHED: Final = 500
"""Bundles that a search for a cycle visits at most."""


def sources(bundles: BundleCache, spec: BundleSpec, seen: Callable[[], SeenTime]) -> Sources:
    """The Bundles that this one is promoted from; NO_SOURCES where it names none.

    ``seen`` returns the periods in which an operator ran.
    """
    if not spec.promote_from:
        return NO_SOURCES
    named = spec.promote_from.bundles
    return Sources(tuple(_source(bundles, key, spec.namespace) for key in named), seen())


def _source(bundles: BundleCache, key: BundleKey, namespace: str) -> PromotionSource:
    name, entry = f"{key.namespace}/{key.name}", bundles.get(key)
    if entry is None or not allows(entry, namespace):
        return PromotionSource(name=name)
    status = entry.status
    return PromotionSource(
        name=name,
        is_allowed=True,
        hold=hold_text(entry.annotations),
        running=status.deployed.digest,
        soak=valid_records(status.soak, parse_time(entry.created)),
    )


def allows(entry: BundleEntry | None, namespace: str) -> bool:
    """Whether Bundles of this namespace may be promoted from that one."""
    return (
        entry is not None
        and not entry.deleting
        and allows_promotion(entry.annotations, entry.key.namespace, namespace)
    )


def is_kept(bundles: BundleCache, entry: BundleEntry) -> bool:
    """Whether ``status.soak`` of a Bundle is kept up to date, as others may be promoted from it.

    That is where it has a soak already, allows the promotion to other namespaces, or is named by a
    Bundle of its own namespace.
    """
    return (
        bool(entry.status.soak)
        or ANN_PROMOTE_TO in entry.annotations
        or any(key.namespace == entry.key.namespace for key in bundles.promoted_of(entry.key))
    )


_OTHERS: Final = " (or not Healthy, where that is watched)"


def find_unready(bundles: BundleCache, spec: BundleSpec) -> tuple[str, ...]:
    """The Bundles that this one waits for, a sentence for each.

    A missing Bundle has the same sentence as one that isn't Ready: its namespace may be another
    team's, whose objects must not be disclosed.
    """
    found = (_unready_text(key, bundles.get(key), spec) for key in spec.depends_on)
    return tuple(text for text in found if text)


def _unready_text(key: BundleKey, entry: BundleEntry | None, spec: BundleSpec) -> str:
    if entry is not None and _is_ready(entry) and _is_healthy(entry):
        return ""
    shown = f"Bundle {key.namespace}/{key.name}"
    if entry is not None and _is_ready(entry) and key.namespace == spec.namespace:
        return f"{shown} is Ready, but isn't Healthy"
    return f"{shown} isn't Ready{_OTHERS * (key.namespace != spec.namespace)}, or doesn't exist"


def _is_ready(entry: BundleEntry) -> bool:
    """Whether all that its spec requests is deployed, and the last poll didn't fail."""
    status = entry.status
    seen = status.observed_generation == entry.generation and not status.failed_polls.count
    return seen and status.ready_reason == BundleReason.DEPLOYED and not entry.deleting


def _is_healthy(entry: BundleEntry) -> bool:
    """Whether its release is healthy, or isn't watched."""
    if isinstance(entry.spec, InvalidSpec) or entry.spec.health is HealthMode.OFF:
        return True
    return entry.health == ConditionStatus.TRUE


class TooManyError(Exception):
    """A search for a cycle would visit more than MAX_SEARCHED Bundles."""


def find_cycle(
    start: BundleKey, depends_on: Callable[[BundleKey], Iterable[BundleKey]]
) -> tuple[BundleKey, ...]:
    """The shortest cycle through a Bundle, with it at both ends; empty where there is none.

    Raises:
        TooManyError: it depends on more than MAX_SEARCHED Bundles, directly or not.
    """
    came_from: dict[BundleKey, BundleKey] = {}
    line = [start]
    for one in line:
        for other in depends_on(one):
            if other == start:
                return (*_path(came_from, start, one), start)
            if other not in came_from:
                if len(came_from) >= MAX_SEARCHED:
                    raise TooManyError
                came_from[other] = one
                line.append(other)
    return ()


def cycle_fault(
    start: BundleKey, leads_to: Callable[[BundleKey], Iterable[BundleKey]]
) -> str | None:
    """The end of a sentence about a field by which a Bundle depends on itself; None without one."""
    try:
        cycle = find_cycle(start, leads_to)
    except TooManyError:
        return f"leads to more than {MAX_SEARCHED} Bundles; reduce it"
    if not cycle:
        return None
    shown = " -> ".join(f"{key.namespace}/{key.name}" for key in cycle)
    return f"is a cycle, {shown}; remove one of these"


def _path(
    came_from: dict[BundleKey, BundleKey], start: BundleKey, end: BundleKey
) -> tuple[BundleKey, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def find_cycle_fault(bundles: BundleCache, entry: BundleEntry) -> str | None:
    """The field of a Bundle that is part of a cycle, and the fault; None where there is none."""
    edges = _Edges(bundles)
    if entry.depends_on and (found := cycle_fault(entry.key, edges.depends_on)):
        return f"spec.dependsOn: {found}"
    if entry.promoted_from and (found := cycle_fault(entry.key, edges.promoted_from)):
        return f"spec.promoteFrom.bundles: {found}"
    return _find_mixed_cycle(edges, entry.key)


@dataclass(frozen=True, slots=True)
class _Edges:
    """The Bundles that each Bundle waits for, by field."""

    bundles: BundleCache

    def depends_on(self, key: BundleKey) -> Iterable[BundleKey]:
        found = self.bundles.get(key)
        return () if found is None else found.depends_on

    def promoted_from(self, key: BundleKey) -> Iterator[BundleKey]:
        found = self.bundles.get(key)
        named = () if found is None else found.promoted_from
        return (one for one in named if allows(self.bundles.get(one), key.namespace))

    def both(self, key: BundleKey) -> Iterator[BundleKey]:
        yield from self.depends_on(key)
        yield from self.promoted_from(key)


def _find_mixed_cycle(edges: _Edges, start: BundleKey) -> str | None:
    """The fault of a cycle with edges of both fields; None where there is none.

    Cycles of one field were excluded before.
    """
    try:
        cycle = find_cycle(start, edges.both)
    except TooManyError:  # the limit is of each field, not of both together
        return None
    if not cycle:
        return None
    steps = [
        (f"{one.namespace}/{one.name}", other in edges.depends_on(one), other)
        for one, other in pairwise(cycle)
    ]
    shown = ", ".join(
        f"{name} {'depends on' if depends else 'is promoted from'} {other.namespace}/{other.name}"
        for name, depends, other in steps
    )
    field = "spec.dependsOn" if steps[0][1] else "spec.promoteFrom.bundles"
    return f"{field}: is a cycle of dependsOn and promoteFrom: {shown}; remove one of these"


def changes_of_others(
    bundles: BundleCache, before: BundleEntry | None, after: BundleEntry | None
) -> Iterator[tuple[BundleKey, Change]]:
    """The Bundles that a change of one in the cache concerns, and why.

    Args:
        bundles: the cache after the change.
        before: the entry before it; None where there was none.
        after: the entry in the cache; None where it was removed.
    """
    entry = after or before
    if entry is None:
        return
    was_shown, is_shown = _shown(before), _shown(after)
    if was_shown.ownership != is_shown.ownership:
        for rival in _rivals(bundles, before, after):
            yield rival, Change.RIVAL  # its conflict message may have changed
    if was_shown.readiness != is_shown.readiness:
        for key in bundles.dependants_of(entry.key):
            yield key, Change.DEPENDENCY
    differs = was_shown.evidence != is_shown.evidence
    for key in bundles.promoted_of(entry.key):
        was, may = (allows(one, key.namespace) for one in (before, after))
        if was != may or (differs and may):
            yield key, Change.PROMOTION
    for key in {*is_shown.promoted_from} - {*was_shown.promoted_from}:
        if key.namespace == entry.key.namespace and bundles.get(key) is not None:
            yield key, Change.SOURCE  # its soak is recorded from now on


def _rivals(bundles: BundleCache, *changed: BundleEntry | None) -> Iterator[BundleKey]:
    """The other Bundles of the releases that a Bundle has or had."""
    entries = [one for one in changed if one is not None]
    for release in {one for entry in entries for one in entry.releases}:
        for rival in bundles.bundles_of(release):
            if rival.key != entries[0].key:
                yield rival.key


@dataclass(frozen=True, slots=True)
class _Shown:
    """What other Bundles see of one; where a part is equal, nothing changes for them."""

    ownership: tuple[object, ...] = ()
    """By which the owner of a release is determined."""
    readiness: tuple[object, ...] = ()
    """By which its dependants are judged."""
    evidence: tuple[object, ...] = ()
    """By which those promoted from it are judged."""
    promoted_from: tuple[BundleKey, ...] = ()


def _shown(entry: BundleEntry | None) -> _Shown:
    if entry is None:
        return _Shown()
    status, is_ready, is_healthy = entry.status, _is_ready(entry), _is_healthy(entry)
    is_refused = status.ready_reason == BundleReason.INVALID_SPEC
    running, releases = entry.running_release, entry.releases
    deployed_at, leads_to = status.deployed.time or "", (entry.depends_on, entry.promoted_from)
    hold = hold_text(entry.annotations)
    return _Shown(
        (entry.uid, releases, running, deployed_at, entry.deleting, status.known_consent),
        (is_ready, is_ready and is_healthy, leads_to, is_refused),
        (entry.uid, hash(status.soak), hold, is_refused, leads_to, entry.deleting),
        entry.promoted_from,
    )
