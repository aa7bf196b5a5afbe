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
from copyrator.api.conditions import PAUSES, ConditionStatus, ConditionType
from copyrator.api.consent import ConsentStatus
from copyrator.api.dependencies import DependenciesSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode, HealthSpec, watched_health
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE, ANN_PROMOTE_TO
from copyrator.api.promotion import PromotionSpec, PromotionStatus, allows_promotion, hold_text
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import SeenTime
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleCache, BundleEntry
from copyrator.bundles.gates.gate import NO_SOURCES, PromotionSource, Sources
from copyrator.bundles.gates.promotion import valid_records
from copyrator.bundles.step import Change

MAX_CAUSE: Final = 300
"""Characters of the reason and message that are named of a Bundle that isn't Ready."""
MAX_SEARCHED: Final = 500
"""Bundles that a search for a cycle visits at most."""


def sources(bundles: BundleCache, spec: BundleSpec, seen: Callable[[], SeenTime]) -> Sources:
    """The Bundles that this one is promoted from; NO_SOURCES where it names none.

    ``seen`` returns the periods in which an operator ran.
    """
    if not spec.part(PromotionSpec):
        return NO_SOURCES
    named = spec.part(PromotionSpec).bundles
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
        soak=valid_records(status.part(PromotionStatus).soak, parse_time(entry.created)),
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

    That is where it has a soak already, attests it, allows the promotion to other namespaces, or is
    named by a Bundle of its own namespace.
    """
    return (
        bool(entry.status.part(PromotionStatus).soak)
        or entry.attests
        or ANN_PROMOTE_TO in entry.annotations
        or any(key.namespace == entry.key.namespace for key in bundles.promoted_of(entry.key))
    )


def find_unready(bundles: BundleCache, spec: BundleSpec) -> tuple[str, ...]:
    """The Bundles that this one waits for, a sentence for each.

    Of a Bundle of another namespace the sentence is always the same, also where it doesn't exist:
    it may be another team's, whose objects must not be disclosed.
    """
    found = (
        _unready_text(key, bundles.get(key), spec) for key in spec.part(DependenciesSpec).depends_on
    )
    return tuple(text for text in found if text)


def _unready_text(key: BundleKey, entry: BundleEntry | None, spec: BundleSpec) -> str:
    if not (fault := _find_fault(entry)):
        return ""
    if key.namespace != spec.namespace:
        fault = "isn't Ready (or not Healthy, where that is watched), or doesn't exist"
    return f"Bundle {key.namespace}/{key.name} {fault}"


def _find_fault(entry: BundleEntry | None) -> str:
    """Why a Bundle doesn't run, and healthily, all that its spec requests; empty where it does."""
    if entry is None or entry.deleting:
        return "doesn't exist" if entry is None else "is being deleted"
    status, reason, fault = entry.status, entry.status.ready_reason, ""
    if status.observed_generation != entry.generation:
        edited = "has an edit that" if status.observed_generation else "is new, and"
        return f"{edited} isn't reconciled yet"
    if reason in PAUSES:
        fault = _find_suspended_fault(entry)
    elif reason != BundleReason.DEPLOYED:
        fault = f"isn't Ready: {_cut(reason, status.condition(ConditionType.READY).message)}"
    elif status.failed_polls.count:
        error = status.last_error
        fault = f"is Ready, but its last poll failed: {_cut(error.reason, error.message)}"
    return fault or _find_health_fault(entry)


def _find_suspended_fault(entry: BundleEntry) -> str:
    """Why a Bundle doesn't run all that its spec requests although it is suspended; else empty.

    While polls are off nothing tells what an edit would deploy.
    """
    status, kept = entry.status, entry.status.suspension
    if not (entry.is_paused or (isinstance(entry.spec, BundleSpec) and entry.spec.suspend)):
        return "was resumed, and isn't reconciled since"
    if kept.status != ConditionStatus.TRUE:
        ready = status.condition(ConditionType.READY)
        return f"isn't Ready: {_cut(status.ready_reason, ready.message)}"
    is_edited = status.deployed.spec_hash != entry.spec_hash
    if entry.is_paused and (is_edited or entry.generation > (kept.generation or 0)):
        return f"was edited while the annotation {ANN_DISABLE_AUTOUPDATE} disables its updates"
    if is_edited or kept.pending:
        return f"is suspended, and doesn't run what it asks for: {kept.pending or 'it was edited'}"
    if status.last_error.reason and not entry.is_paused:
        error = status.last_error
        return f"is suspended, and has an error: {_cut(error.reason, error.message)}"
    return ""


def _find_health_fault(entry: BundleEntry) -> str:
    """Why the release of a Bundle isn't healthy; empty where it is, or isn't watched."""
    if isinstance(entry.spec, InvalidSpec) or entry.spec.part(HealthSpec).health is HealthMode.OFF:
        return ""
    if watched_health(entry.spec, entry.status) == ConditionStatus.TRUE:
        return ""
    found = entry.status.condition(ConditionType.HEALTHY)
    return f"is Ready, but isn't Healthy{': ' * bool(found)}{_cut(found.reason, found.message)}"


def _cut(reason: str | None, message: str | None) -> str:
    """A reason and its message, shortened; empty without either."""
    text = ": ".join(filter(None, (reason, message))).rstrip(". ")
    return text if len(text) <= MAX_CAUSE else f"{text[:MAX_CAUSE].rsplit(' ', 1)[0]} …"


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
    fault = is_shown.fault
    turned = was_shown.edges != is_shown.edges or bool(was_shown.fault) != bool(fault)
    for key in bundles.dependants_of(entry.key):
        # In other namespaces only whether there is a fault is said.
        if turned or (was_shown.fault != fault and key.namespace == entry.key.namespace):
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
    edges: tuple[object, ...] = ()
    """By which cycles are found."""
    fault: str = ""
    """Why its dependants wait for it."""
    evidence: tuple[object, ...] = ()
    """By which those promoted from it are judged."""
    promoted_from: tuple[BundleKey, ...] = ()


def _shown(entry: BundleEntry | None) -> _Shown:
    if entry is None:
        return _Shown(fault=_find_fault(entry))
    status, fault = entry.status, _find_fault(entry)
    is_refused = status.ready_reason == BundleReason.INVALID_SPEC
    running, releases = entry.running_release, entry.releases
    deployed_at, leads_to = status.deployed.time or "", (entry.depends_on, entry.promoted_from)
    hold = hold_text(entry.annotations)
    return _Shown(
        (
            entry.uid,
            releases,
            running,
            deployed_at,
            entry.deleting,
            status.find(ConsentStatus),
        ),
        (leads_to, is_refused),
        fault,
        (
            entry.uid,
            hash(status.part(PromotionStatus).soak),
            hold,
            is_refused,
            leads_to,
            entry.deleting,
        ),
        entry.promoted_from,
    )
