"""Watches of ConfigMaps and Secrets that Bundles name; requeues those that read another version.

Each watch is a connection, so their scopes widen with the number of names: one object by its name,
where the server filters; a namespace, where its Bundles name several; all namespaces, where there
would be many of these. A wide watch delivers unrelated objects too, which are dropped on arrival.
Where a wide watch is forbidden, names and namespaces are watched up to a limit, which namespaces
share fairly: each gets its first watch before any gets a second. Other objects are read at polls.

No edit is lost when the scope of a watch changes: the old watch ends only after the new one has
listed everything and its list was compared with what Bundles have read. Where several watches cover
an object, the events of one are used.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from copyrator.api.bundle_spec import BundleSpec, SecretKey, ValuesSource
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.bundles.context import Context
from copyrator.bundles.step import Change
from copyrator.kube.errors import ApiError, Forbidden, Refusal
from copyrator.kube.permissions import is_allowed
from copyrator.kube.resources import CONFIGMAPS, SECRETS, Resource
from copyrator.kube.watch.informers import Registration, WatchPlacement, watch_permissions
from copyrator.kube.watch.reflector import Seen, WantedNames, WatchSpec, seen
from copyrator.workqueue.fairness import TimeSlice

REFERENCES_BY_NAME: Final = 4
"""ConfigMaps, and likewise Secrets, named by one namespace's Bundles, with a watch each. For
more there is one metadata watch of the namespace, which caches only the named objects."""

KIND_REFERENCE_WATCHES: Final = 64
"""Watches of ConfigMaps, and likewise of Secrets, named by Bundles. Where all namespaces together
would have more, there is one metadata watch of all namespaces, which caches only the named
objects."""

REFERENCE_WATCHES: Final = 32
"""Watches for the Bundles of one namespace where the wider ones aren't granted. Objects beyond it
are read again at every poll instead."""

ALL_REFERENCE_WATCHES: Final = 128
"""Watches of objects named by Bundles, all together: each is a connection. Where the wider ones
aren't granted, each namespace gets its first before any gets a second."""

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


def references_of(spec: BundleSpec) -> frozenset[Ref]:
    """All objects that a Bundle names and the operator reads."""
    parts = (verify_ref(spec.namespace, ref) for _, ref in spec.part_refs)
    return frozenset((*values_refs(spec), *access_refs(spec), *parts))


def verify_ref(namespace: str, ref: LocalObjectRef) -> Ref:
    """The object with keys or certificates that an entry in this namespace names."""
    return Ref(SECRETS if ref.kind is ValuesKind.SECRET else CONFIGMAPS, namespace, ref.name)


def values_ref(spec: BundleSpec, source: ValuesSource) -> Ref:
    """The object of a values source."""
    resource = SECRETS if source.kind is ValuesKind.SECRET else CONFIGMAPS
    return Ref(resource, spec.namespace, source.name)


def values_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    """The objects of all values, the key of secret values last."""
    found = [values_ref(spec, source) for source in spec.values_sources]
    if spec.secret_key is not None:
        found.append(secret_key_ref(spec, spec.secret_key))
    return tuple(found)


def secret_key_ref(spec: BundleSpec, found: SecretKey) -> Ref:
    """The Secret of ``spec.secretKey``."""
    return Ref(SECRETS, spec.namespace, found.secret)


def access_refs(spec: BundleSpec) -> tuple[Ref, ...]:
    """The Secrets of the registry, each once."""
    found = [name for name in (spec.auth, spec.ca_secret) if name]
    return tuple(Ref(SECRETS, spec.namespace, name) for name in dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class WatchScope:
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

    def overlaps(self, other: WatchScope) -> bool:
        """Whether there may be an object that both cover."""
        pairs = (self.namespace, other.namespace), (self.name, other.name)
        return self.resource == other.resource and all(
            one == another or one is None or another is None for one, another in pairs
        )


def covering_scopes(ref: Ref) -> tuple[WatchScope, WatchScope, WatchScope]:
    """The scopes that cover an object, the widest first."""
    return (
        WatchScope(ref.resource),
        WatchScope(ref.resource, ref.namespace),
        WatchScope(ref.resource, ref.namespace, ref.name),
    )


def decide(
    wanted: Mapping[Resource, Names],
    refused: Container[WatchScope] = frozenset(),
    held: Container[WatchScope] = frozenset(),
) -> set[WatchScope]:
    """The watches to keep open.

    Args:
        wanted: what Bundles name.
        refused: wide scopes that are forbidden.
        held: the open watches; a wide one is kept until there are clearly fewer names, so that
            creating and deleting one Bundle opens and ends no watch.
    """
    everywhere = {
        WatchScope(resource)
        for resource, names in wanted.items()
        if _are_many(WatchScope(resource), names, refused, held)
    }
    narrow = {kind: names for kind, names in wanted.items() if WatchScope(kind) not in everywhere}
    places = ALL_REFERENCE_WATCHES - len(everywhere)
    # No more namespaces than there are places are considered, however many there are.
    first = heapq.nsmallest(places, set[str]().union(*narrow.values()))
    scopes = {space: _of_namespace(space, narrow, refused, held) for space in first}
    return everywhere | _share_fairly(scopes, places)


def find_uncovered(wanted: Mapping[Resource, Names], scopes: Container[WatchScope]) -> list[Ref]:
    """The objects that no watch covers: an edit is seen at the next poll."""
    refs = (
        Ref(resource, namespace, name)
        for resource, names in wanted.items()
        for namespace, found in names.items()
        for name in sorted(found)
    )
    return [ref for ref in refs if not any(scope in scopes for scope in covering_scopes(ref))]


def _are_many(
    scope: WatchScope, names: Names, refused: Container[WatchScope], held: Container[WatchScope]
) -> bool:
    """Whether a kind is watched in all namespaces by one watch."""
    if scope in refused:
        return False
    watches = 0
    for namespace, found in names.items():
        count = len(found)
        if count > 1 and _is_wide(scope.resource, namespace, count, refused, held):
            count = 1
        watches += min(count, REFERENCE_WATCHES)
    most = KIND_REFERENCE_WATCHES
    return watches > (most * 3 // 4 if scope in held else most)


def _of_namespace(
    namespace: str,
    wanted: Mapping[Resource, Names],
    refused: Container[WatchScope],
    held: Container[WatchScope],
) -> list[WatchScope]:
    """The watches of one namespace, the wide ones first."""
    scopes: list[WatchScope] = []
    for resource, names in wanted.items():
        found = names.get(namespace, ())
        if found and _is_wide(resource, namespace, len(found), refused, held):
            scopes.insert(0, WatchScope(resource, namespace))
        else:
            some = heapq.nsmallest(REFERENCE_WATCHES, found)
            scopes += (WatchScope(resource, namespace, name) for name in some)
    return scopes


def _is_wide(
    resource: Resource,
    namespace: str,
    names: int,
    refused: Container[WatchScope],
    held: Container[WatchScope],
) -> bool:
    most = REFERENCES_BY_NAME
    if names <= most // 2:
        return False
    scope = WatchScope(resource, namespace)
    return scope not in refused and (names > most or scope in held)


def _share_fairly(narrow: Mapping[str, list[WatchScope]], places: int) -> set[WatchScope]:
    """Each namespace's first one, then each one's second, until there is no place left."""
    chosen: set[WatchScope] = set()
    left = sorted(narrow)
    for turn in range(REFERENCE_WATCHES):
        left = [namespace for namespace in left if len(narrow[namespace]) > turn]
        for namespace in left:
            if len(chosen) >= places:
                return chosen
            chosen.add(narrow[namespace][turn])
    return chosen


log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenWatch:
    """A watch that is open."""

    scope: WatchScope
    registration: Registration | None = None
    comparison: asyncio.Task[None] | None = None
    """Of its list with what Bundles have read."""
    listed: bool = False
    """Whether it has listed everything once; from then on its events are used."""
    compared: bool = False
    """Whether its list was compared with what Bundles have read, so that an older watch may end."""

    @property
    def denial(self) -> str:
        """The message of a 403; empty for a single object, which needs no wider permission."""
        failure = self.registration and self.registration.failure
        return failure.message if self.scope.is_wide and isinstance(failure, Forbidden) else ""

    def close(self) -> None:
        """End the watch and its comparison."""
        if self.comparison is not None:
            self.comparison.cancel()
        if self.registration is not None:
            self.registration.release()


def scope_permissions(scope: WatchScope, served: Collection[str]) -> list[Refusal]:
    """The permissions that a wide scope requires, each as its refusal.

    `served`: the namespaces that the operator serves; empty: all.
    """
    namespaces = [scope.namespace] if scope.namespace else served or [""]
    return watch_permissions([scope.resource], namespaces)


HasRead = Callable[[BundleKey, Ref, str | None], bool]
"""Whether all that is cached from an object for a Bundle is of that version ("" for none)."""


@dataclass(slots=True)
class _FollowedObject:
    """One object that Bundles name."""

    version: str | None = None
    """None: not known; empty: the object doesn't exist."""
    changes: int = 0
    bundles: set[BundleKey] = field(default_factory=set)


@dataclass(slots=True)
class _Followed:
    refs: frozenset[Ref] = frozenset()
    """The objects that are watched for a Bundle."""


class ReferenceWatcher(WatchPlacement[WatchScope, OpenWatch]):
    """Watches objects for Bundles, and requeues Bundles that have read another version."""

    def __init__(self, context: Context, has_read: HasRead) -> None:
        super().__init__(context.timing.reference_watches, context.monotonic)
        self._context = context
        self._has_read = has_read
        self._refs: dict[Ref, _FollowedObject] = {}
        self._wanted = {resource: WantedNames() for resource in (CONFIGMAPS, SECRETS)}

    # --- for Bundles -----------------------------------------------------------------------------

    def follow(self, key: BundleKey, refs: frozenset[Ref]) -> None:
        """Watch these objects for a Bundle, and no others; the watches open a moment later."""
        memory = self._context.memories.of(key, _Followed)
        before = memory.refs
        if refs == before:
            return
        for ref in before - refs:
            self._leave(key, ref)
        for ref in refs - before:
            self._refs.setdefault(ref, _FollowedObject()).bundles.add(key)
            self._wanted[ref.resource].add(ObjectName(ref.namespace, ref.name))
        memory.refs = refs
        self.arrange_soon()

    def close(self) -> None:
        """End all watches."""
        for key, _ in self._context.memories.each(_Followed):
            self.follow(key, frozenset())
        super().close()

    def is_current(self, ref: Ref, version: str) -> bool:
        """Whether a watch shows that the current version is this one; empty: no object exists."""
        followed, opened = self._refs.get(ref), self._covering(ref)
        if followed is None or opened is None or opened.registration is None:
            return False
        return opened.registration.synced and followed.version == version

    def begin_read(self, ref: Ref) -> int:
        """Call it before an object is read; pass the result to `was_read`."""
        followed = self._refs.get(ref)
        return -1 if followed is None else followed.changes

    def was_read(self, ref: Ref, version: str, begun: int) -> None:
        """Record the version that was read (empty: none exists), unless an event came since."""
        followed = self._refs.get(ref)
        if followed is not None and followed.changes == begun:
            followed.version = version

    def count(self) -> Counter[str]:
        """The number of objects by the scope that covers them: name, namespace, all, poll."""
        found = Counter(name=0, namespace=0, all=0, poll=0)
        for resource, wanted in self._wanted.items():
            names = wanted.by_namespace
            if WatchScope(resource) in self.opened:
                found["all"] += len(wanted)
                continue
            wide = {ns for ns in names if WatchScope(resource, ns) in self.opened}
            by_namespace = sum(len(names[ns]) for ns in wide)
            by_name = sum(
                scope.resource == resource and bool(scope.name) and scope.namespace not in wide
                for scope in self.opened
            )
            found["namespace"] += by_namespace
            found["name"] += by_name
            found["poll"] += max(len(wanted) - by_namespace - by_name, 0)
        return found

    def _leave(self, key: BundleKey, ref: Ref) -> None:
        followed = self._refs[ref]
        followed.bundles.discard(key)
        if not followed.bundles:
            del self._refs[ref]
            self._wanted[ref.resource].discard(ObjectName(ref.namespace, ref.name))

    # --- for the placement -----------------------------------------------------------------------

    def choose(self, denied: Set[WatchScope], held: Set[WatchScope]) -> set[WatchScope]:
        """By the number of names."""
        wanted = {resource: names.by_namespace for resource, names in self._wanted.items()}
        return decide(wanted, denied, held)

    async def find_missing(self, place: WatchScope) -> str:
        """The missing permission of a wide scope, or why it can't be reviewed; else empty."""
        if not place.is_wide:
            return ""
        client, served = self._context.client, self._context.settings.watch_namespaces
        try:
            for refusal in scope_permissions(place, served):
                if not await is_allowed(client, refusal.attributes):
                    return f"the operator cannot {refusal}"
        except ApiError as error:
            return str(error)
        return ""

    def open(self, place: WatchScope) -> None:
        """Open a watch; its events are used when it has listed everything."""
        opened = self.opened[place] = OpenWatch(place)

        def changed(name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
            self._take(opened, Ref(place.resource, *name), new)

        spec = WatchSpec(
            resource=place.resource,
            namespace=place.namespace,
            name=place.name,
            metadata_only=True,
            decode=seen,
            wanted=self._wanted[place.resource] if place.is_wide else None,
            reserved=True,
        )
        synced = partial(self._synced, opened)
        opened.registration = self._context.informers.acquire(spec, changed, on_synced=synced)
        if opened.registration.seen:  # another user of an equal watch was there first
            synced()

    def may_end(self, place: WatchScope) -> bool:
        """Whether all that replace it have listed everything, and were compared."""
        others = (self.opened.get(other) for other in self.wanted if other.overlaps(place))
        return all(other is not None and other.compared for other in others)

    def forgets(self, place: WatchScope, *, is_unused: bool) -> bool:
        """Whether it isn't chosen any more, or nothing is named there."""
        names = self._wanted[place.resource].by_namespace
        return is_unused or not names or bool(place.namespace and place.namespace not in names)

    def on_denied(self, place: WatchScope, why: str, *, is_new: bool) -> None:
        """Log it once."""
        log.log(
            logging.INFO if is_new else logging.DEBUG,
            "Can't watch the %s that Bundles reference (%s); watching them by name where possible",
            place,
            why,
        )

    # --- for watches ------------------------------------------------------------------------------

    def _covering(self, ref: Ref) -> OpenWatch | None:
        """The watch whose events are used for an object: the widest that has listed, or None."""
        found = (self.opened.get(scope) for scope in covering_scopes(ref))
        return next((opened for opened in found if opened is not None and opened.listed), None)

    def _take(self, opened: OpenWatch, ref: Ref, new: Seen | None) -> None:
        """Process an event, if it is from the watch whose events are used for the object."""
        followed = self._refs.get(ref)
        if followed is None or self._covering(ref) is not opened:
            return
        version = new.resource_version if new else None
        if version == followed.version or (version is None and followed.version == ""):
            return
        followed.version = version
        followed.changes += 1
        self._requeue(followed, ref)

    def _synced(self, opened: OpenWatch) -> None:
        """A watch has listed everything: use its events from now on, and compare its list."""
        scope = opened.scope
        if self.opened.get(scope) is not opened or opened.registration is None:
            return
        opened.listed = True
        if opened.comparison is not None:
            opened.comparison.cancel()
        compare = self._compare(opened, self._shown_by(scope))
        opened.comparison = asyncio.create_task(compare, name=f"compare {scope}")

    async def _compare(self, opened: OpenWatch, refs: Iterable[Ref]) -> None:
        """Compare a list with what Bundles have read; events are processed meanwhile."""
        time_slice = TimeSlice()
        for ref in refs:
            await time_slice.pause()
            followed, registration = self._refs.get(ref), opened.registration
            if followed is None or registration is None or self._covering(ref) is not opened:
                continue
            found: Seen | None = registration.store.get(ObjectName(ref.namespace, ref.name))
            if found is not None:
                followed.version = found.resource_version
            elif followed.version:  # deleted, or named too late for this list: to be read
                followed.version = None
                followed.changes += 1
            self._requeue(followed, ref)
        opened.compared = True
        self.retire()

    def _shown_by(self, scope: WatchScope) -> Iterable[Ref]:
        names = self._wanted[scope.resource].by_namespace
        return [
            Ref(scope.resource, namespace, name)
            for namespace in (names if scope.namespace is None else [scope.namespace])
            for name in names.get(namespace, ())
            if scope.name in (None, name)
        ]

    def _requeue(self, followed: _FollowedObject, ref: Ref) -> None:
        """Requeue the Bundles that have read another version."""
        for key in followed.bundles:
            if not self._has_read(key, ref, followed.version):
                self._context.schedule.changed(key, Change.REFERENCE)
