"""Whether a Bundle waits for itself, by ``spec.dependsOn``, ``spec.promoteFrom`` or both.

The search doesn't continue at a Bundle of another namespace that doesn't allow the promotion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from copyrator.api.keys import BundleKey
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.gates.depends_on import TooManyError, cycle_fault, find_cycle
from copyrator.bundles.promotions import allows


def fault(bundles: BundleCache, entry: BundleEntry) -> str | None:
    """The field of a Bundle that is part of a cycle, and the fault; None where there is none."""
    if not entry.depends_on and not entry.promoted_from:
        return None
    edges = _Edges(bundles)
    if entry.depends_on and (found := cycle_fault(entry.key, edges.depends_on)):
        return f"spec.dependsOn: {found}"
    if entry.promoted_from and (found := cycle_fault(entry.key, edges.promoted_from)):
        return f"spec.promoteFrom.bundles: {found}"
    return _mixed(edges, entry.key)


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


def _mixed(edges: _Edges, start: BundleKey) -> str | None:
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
