"""The cache of a watch: its owner and limit, the names that are wanted, and which events change it.

All but the wanted objects are dropped on arrival, with nothing but their name decoded: a tenant
that fills a cluster with objects makes the operator read their metadata, but not hold it. Pure: no
I/O, no clock.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.kube.errors import BrokenAnswer
from copyrator.kube.resources import DELETED


class Share(Protocol):
    """The common limits of one owner's watches; equal only to itself."""

    @property
    def tenant(self) -> str | None:
        """The namespace that the watches are for; None for the operator and trusted rules."""
        ...

    def opened(self) -> None:
        """A watch was opened."""
        ...

    def closed(self) -> None:
        """A watch was closed."""
        ...

    def held(self, old: Any, new: Any) -> Any:
        """Return the record to cache in place of `old` (None: none): `new`, or a smaller one."""
        ...

    def dropped(self, record: Any) -> None:
        """A record was removed from the cache."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as last seen by a metadata-only watch."""

    resource_version: str
    """Unique: also different for an object that was deleted and created again."""


def seen(body: Mapping[str, Any]) -> Seen:
    """Decode for a watch; a function of a module, so that equal watches are shared."""
    return Seen(str(body["metadata"].get("resourceVersion", "")))


log = logging.getLogger(__name__)

R = TypeVar("R")

Change = tuple[ObjectName, R | None, R | None]
"""Name, the record before (None: none), the record now (None: deleted)."""


class OutOfOrderError(BrokenAnswer, reason="OutOfOrder"):
    """A late event that can't be ordered against the cache: list again."""

    def __init__(self) -> None:
        super().__init__("events of the watch are out of order")


class Store(Generic[R]):
    """Records by name. A list replaces them only when it is complete; an event changes one.

    Events of one stream come in the order of their resourceVersions (KEP-5504: these may be
    compared as integers). A late one is a duplicate or was re-ordered on the way; it is dropped
    where the record shows that it is old, and otherwise requires a new list. For that, records
    have an attribute ``resource_version``, or are the object's own dict.

    `delivered` is the resourceVersion up to which everything was applied; 0 before a list.

    `share` bounds the cache: it is called for each record that is added or removed, and may
    replace it by a smaller one (with ``whole`` False: the next list reports it again).
    """

    def __init__(self, decode: Callable[[dict[str, Any]], R], share: Share | None = None) -> None:
        self.records: dict[ObjectName, R] = {}
        self._decode = decode
        self._share = share
        self._seen: set[ObjectName] = set()
        self.delivered = 0

    def begin_list(self) -> None:
        """A list starts; nothing is dropped until `end_list`."""
        self._seen = set()

    def listed(self, body: dict[str, Any]) -> Change[R] | None:
        """Add an object of a list; return None where it is unchanged."""
        name = name_of(body)
        self._seen.add(name)
        old = self.records.get(name)
        same = old is not None and _version(old) == _version(body) != None  # noqa: E711 - chained
        if same and getattr(old, "whole", True):
            return None
        return self._keep(name, old, body)

    def end_list(self, resource_version: str) -> list[Change[R]]:
        """The list is complete: records that weren't in it are deleted."""
        gone = [name for name in self.records if name not in self._seen]
        self._seen = set()
        self.delivered = _number(resource_version) or 0
        return [(name, self._drop(name), None) for name in gone]

    def event(self, kind: str, body: dict[str, Any]) -> Change[R] | None:
        """Apply an event of a watch; return None where nothing changed.

        Raises:
            OutOfOrderError: it is late, and the record doesn't show whether it is old.
        """
        name = name_of(body)
        old = self.records.get(name)
        version = _number(_version(body))
        if version is not None:
            if version <= self.delivered and self._is_old(old, version, kind):
                return None
            self.delivered = max(self.delivered, version)
        if kind == DELETED:
            if old is None:
                return None
            return name, self._drop(name), None
        return self._keep(name, old, body)

    def close(self) -> None:
        """Release the records; later events aren't counted."""
        share, self._share = self._share, None
        if share is not None:
            for record in self.records.values():
                share.dropped(record)

    def bookmark(self, resource_version: str) -> None:
        """The stream has delivered everything up to this resourceVersion."""
        self.delivered = max(self.delivered, _number(resource_version) or 0)

    def _keep(self, name: ObjectName, old: R | None, body: dict[str, Any]) -> Change[R] | None:
        """Cache an object; one that can't be decoded is logged and keeps its old record."""
        try:
            new = self._decode(body)
        except Exception as error:
            log.error("%s can't be parsed (%s); its previous state is kept", name, type(error))
            return None
        if self._share is not None:
            new = self._share.held(old, new)
        self.records[name] = new
        return name, old, new

    def _drop(self, name: ObjectName) -> R:
        record = self.records.pop(name)
        if self._share is not None:
            self._share.dropped(record)
        return record

    def _is_old(self, old: R | None, version: int, kind: str) -> bool:
        """Whether to drop a late event (True) or apply it (False)."""
        if old is None:
            if kind == DELETED:
                return True
            raise OutOfOrderError  # of a new object, or of a deleted one
        known = _number(_version(old))
        if known is None:
            raise OutOfOrderError
        return version <= known


def name_of(body: Mapping[str, Any]) -> ObjectName:
    """The object's name. Parts are interned: a copy's name is the same in 10,000 namespaces.

    Raises:
        BrokenAnswer: the object has none, so the whole answer is invalid.
    """
    try:
        meta = body["metadata"]
        return ObjectName(sys.intern(meta.get("namespace") or ""), sys.intern(meta["name"]))
    except (AttributeError, KeyError, TypeError):
        raise BrokenAnswer("the API server sent an object without a name") from None


def version_of(body: Mapping[str, Any]) -> str:
    """The object's resourceVersion.

    Raises:
        BrokenAnswer: it has none.
    """
    version = _version(body)
    if not version:
        raise BrokenAnswer("the API server sent an object without a resourceVersion")
    return version


def _version(record: object) -> str | None:
    if isinstance(record, dict):
        meta = record.get("metadata")
        version = meta.get("resourceVersion") if isinstance(meta, dict) else None
    else:
        version = getattr(record, "resource_version", None)
    return None if version is None else str(version)


def _number(version: str | None) -> int | None:
    return int(version) if version and version.isdecimal() else None


class WantedNames:
    """Names of objects of one kind. Equal only to itself, so that specs don't share watches.

    A name may be added while a watch is open. Its record then comes with the next event or list, so
    the caller has to read the object itself, after adding the name.
    """

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}
        self._stores: list[WantedStore[Any]] = []

    def __contains__(self, name: ObjectName) -> bool:
        return name.name in self._names.get(name.namespace, ())

    def __len__(self) -> int:
        return sum(map(len, self._names.values()))

    @property
    def by_namespace(self) -> Mapping[str, Collection[str]]:
        """The names in each namespace that has some; read-only."""
        return self._names

    def add(self, name: ObjectName) -> None:
        """Cache an object from now on."""
        self._names.setdefault(name.namespace, set()).add(name.name)

    def discard(self, name: ObjectName) -> None:
        """Drop an object; watches don't report it any more."""
        names = self._names.get(name.namespace, set())
        names.discard(name.name)
        if not names:
            self._names.pop(name.namespace, None)
        for store in self._stores:
            store.records.pop(name, None)

    def store(self, decode: Callable[[dict[str, Any]], R]) -> WantedStore[R]:
        """Create the store of one watch."""
        store = WantedStore(self, decode)
        self._stores.append(store)
        return store

    def closed(self, store: WantedStore[Any]) -> None:
        """A watch has ended."""
        if store in self._stores:
            self._stores.remove(store)


class WantedStore(Store[R]):
    """A Store of requested objects.

    It also reports deletions of objects without a record: the caller that added a name late may
    have read the object itself.
    """

    def __init__(self, wanted: WantedNames, decode: Callable[[dict[str, Any]], R]) -> None:
        super().__init__(decode)
        self._wanted = wanted

    def listed(self, body: dict[str, Any]) -> Change[R] | None:
        """Add an object of a list; None also where it isn't requested."""
        return super().listed(body) if name_of(body) in self._wanted else None

    def event(self, kind: str, body: dict[str, Any]) -> Change[R] | None:
        """Apply an event of a watch; None also where the object isn't requested.

        Raises:
            OutOfOrderError: it is late, and the record doesn't show whether it is old.
        """
        name = name_of(body)
        if name not in self._wanted:
            return None
        unseen = kind == DELETED and name not in self.records
        change = super().event(kind, body)
        return (name, None, None) if unseen else change

    def close(self) -> None:
        """The watch has ended."""
        super().close()
        self._wanted.closed(self)

    def _is_old(self, old: R | None, version: int, kind: str) -> bool:
        if old is None:
            raise OutOfOrderError
        return super()._is_old(old, version, kind)
