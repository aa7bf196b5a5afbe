"""Which watches cover the ConfigMaps and Secrets that Bundles name. Pure: no I/O, no clock.

Each watch is a connection, so their scopes widen with the number of names: one object by its name,
where the server filters; a namespace, where its Bundles name several; all namespaces, where there
would be many of these. A wide watch delivers unrelated objects too, which are dropped on arrival.

Where a wide watch is forbidden, names and namespaces are watched up to a limit, which namespaces
share fairly: each gets its first watch before any gets a second. Other objects are read at polls.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass

from copyrator.kube.resources import Resource
from copyrator.settings import limits

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
    """What one watch covers: an object, a namespace's objects, or all of a kind."""

    resource: Resource
    namespace: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.namespace is None:
            return f"{self.resource.plural} of all namespaces"
        return f"{self.resource.plural} of {self.namespace}"

    @property
    def is_wide(self) -> bool:
        """Whether it needs the permission to list and watch more than an object by its name."""
        return self.name is None

    def overlaps(self, other: Scope) -> bool:
        """Whether there may be an object that both cover."""
        pairs = (self.namespace, other.namespace), (self.name, other.name)
        return self.resource == other.resource and all(
            one == another or one is None or another is None for one, another in pairs
        )


def covering(ref: Ref) -> tuple[Scope, Scope, Scope]:
    """The scopes that cover an object, the widest first."""
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
    """The watches to keep open.

    Args:
        wanted: what Bundles name.
        refused: wide scopes that are forbidden.
        held: the open watches; a wide one is kept until there are clearly fewer names, so that
            creating and deleting one Bundle opens and ends no watch.
    """
    everywhere = {
        Scope(resource)
        for resource, names in wanted.items()
        if _are_many(Scope(resource), names, refused, held)
    }
    narrow = {kind: names for kind, names in wanted.items() if Scope(kind) not in everywhere}
    places = limits.ALL_REFERENCE_WATCHES - len(everywhere)
    # No more namespaces than there are places are considered, however many there are.
    first = heapq.nsmallest(places, set[str]().union(*narrow.values()))
    scopes = {space: _of_namespace(space, narrow, refused, held) for space in first}
    return everywhere | _shared_fairly(scopes, places)


def waiting(wanted: Mapping[Resource, Names], scopes: Container[Scope]) -> list[Ref]:
    """The objects that no watch covers: an edit is seen at the next poll."""
    refs = (
        Ref(resource, namespace, name)
        for resource, names in wanted.items()
        for namespace, found in names.items()
        for name in sorted(found)
    )
    return [ref for ref in refs if not any(scope in scopes for scope in covering(ref))]


def _are_many(
    scope: Scope, names: Names, refused: Container[Scope], held: Container[Scope]
) -> bool:
    """Whether a kind is watched in all namespaces by one watch."""
    if scope in refused:
        return False
    watches = 0
    for namespace, found in names.items():
        count = len(found)
        if count > 1 and _is_wide(scope.resource, namespace, count, refused, held):
            count = 1
        watches += min(count, limits.REFERENCE_WATCHES)
    most = limits.KIND_REFERENCE_WATCHES
    return watches > (most * 3 // 4 if scope in held else most)


def _of_namespace(
    namespace: str,
    wanted: Mapping[Resource, Names],
    refused: Container[Scope],
    held: Container[Scope],
) -> list[Scope]:
    """The watches of one namespace, the wide ones first."""
    scopes: list[Scope] = []
    for resource, names in wanted.items():
        found = names.get(namespace, ())
        if found and _is_wide(resource, namespace, len(found), refused, held):
            scopes.insert(0, Scope(resource, namespace))
        else:
            some = heapq.nsmallest(limits.REFERENCE_WATCHES, found)
            scopes += (Scope(resource, namespace, name) for name in some)
    return scopes


def _is_wide(
    resource: Resource,
    namespace: str,
    names: int,
    refused: Container[Scope],
    held: Container[Scope],
) -> bool:
    most = limits.REFERENCES_BY_NAME
    if names <= most // 2:
        return False
    scope = Scope(resource, namespace)
    return scope not in refused and (names > most or scope in held)


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
