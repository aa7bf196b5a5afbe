"""A watch of many objects that caches only requested ones, so that memory follows their number.

All others are dropped on arrival, with nothing but their name decoded. A tenant that fills a
cluster with objects makes the operator read their metadata, but not hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.kube.client.pages import DELETED
from copyrator.kube.watch.store import Change, OutOfOrderError, Store, name_of

R = TypeVar("R")


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
