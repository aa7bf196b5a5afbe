"""Which watches show the ConfigMaps and Secrets that Bundles name. Pure: no I/O, no clock.

Each watch is a connection, so their scopes widen as names grow in number: each object by its name,
where the server filters; a namespace, where its Bundles name several; all namespaces, where even
that would be many. A wider one tells of strangers' objects too, which are dropped as they come.

Where a wider one isn't granted, there are names and namespaces up to a bound, which namespaces
share fairly: each gets its first watch before any gets a second. What has none waits for the poll.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass

from copyrator.api import limits
from copyrator.kube.resources import Resource

Names = Mapping[str, Collection[str]]
"""Names of objects of one kind, by namespace."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One object that a Bundle names."""

    resource: Resource
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What one watch shows: one object, a namespace's, or, without a namespace, all of a kind."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.namespace is None:
            return f"{self.resource.plural} of all namespaces"
        return f"{self.resource.plural} of {self.namespace}"

    @property
    def is_wide(self) -> bool:
        """Whether it needs the right to list and watch more than an object by its name."""
        return self.name is None

    def overlaps(self, other: Scope) -> bool:
        """Whether there may be an object that both show."""
        pairs = (self.namespace, other.namespace), (self.name, other.name)
        return self.resource == other.resource and all(
            one == another or one is None or another is None for one, another in pairs
        )


def covering(ref: Ref) -> tuple[Scope, Scope, Scope]:
    """The scopes that show an object, the widest first."""
    return (
        Scope(ref.resource),
        Scope(ref.resource, ref.namespace),
        Scope(ref.resource, ref.namespace, ref.name),
    )


def decide(
    wanted: Mapping[Resource, Names],
    refused: Container[Scope] = frozenset(),
    held: Container[Scope] = frozenset(),
) -> set[Scope]:
    """The watches that there should be.

    Args:
        wanted: what Bundles name.
        refused: wide scopes that aren't granted.
        held: the watches that there are; a wide one stays until there are clearly fewer names, so
            that one Bundle that comes and goes changes nothing.
    """
    everywhere: set[Scope] = set()
    narrow: dict[str, list[Scope]] = {}
    for resource, names in wanted.items():
        scope = Scope(resource)
        wide = {
            namespace: _is_wide(Scope(resource, namespace), len(found), refused, held)
            for namespace, found in names.items()
        }
        watches = sum(
            1 if wide[namespace] else min(len(found), limits.REFERENCE_WATCHES)
            for namespace, found in names.items()
        )
        most = limits.KIND_REFERENCE_WATCHES
        if watches > (most * 3 // 4 if scope in held else most) and scope not in refused:
            everywhere.add(scope)
            continue
        for namespace, found in names.items():
            scopes = narrow.setdefault(namespace, [])
            if wide[namespace]:
                scopes.insert(0, Scope(resource, namespace))
            else:
                first = heapq.nsmallest(limits.REFERENCE_WATCHES, found)
                scopes += (Scope(resource, namespace, name) for name in first)
    return everywhere | _shared_fairly(narrow, limits.ALL_REFERENCE_WATCHES - len(everywhere))


def waiting(wanted: Mapping[Resource, Names], scopes: Container[Scope]) -> list[Ref]:
    """What none of the watches shows: an edit of it is seen at the next poll."""
    refs = (
        Ref(resource, namespace, name)
        for resource, names in wanted.items()
        for namespace, found in names.items()
        for name in sorted(found)
    )
    return [ref for ref in refs if not any(scope in scopes for scope in covering(ref))]


def _is_wide(scope: Scope, names: int, refused: Container[Scope], held: Container[Scope]) -> bool:
    most = limits.REFERENCES_BY_NAME
    return names > (most // 2 if scope in held else most) and scope not in refused


def _shared_fairly(narrow: Mapping[str, list[Scope]], places: int) -> set[Scope]:
    """Each namespace's first one, then each one's second, until there is no place left."""
    chosen: set[Scope] = set()
    left = sorted(narrow)
    for turn in range(limits.REFERENCE_WATCHES):
        left = [namespace for namespace in left if len(narrow[namespace]) > turn]
        for namespace in left:
            if len(chosen) >= places:
                return chosen
            chosen.add(narrow[namespace][turn])
    return chosen
