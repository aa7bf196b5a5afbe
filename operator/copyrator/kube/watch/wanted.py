"""A watch of many objects that keeps the few that somebody wants: memory follows what is wanted.

All others are dropped as they come, before anything is made of them but their name. So who fills a
cluster with objects makes the operator read their metadata, and hold none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.kube.client.pages import DELETED
from copyrator.kube.watch.store import Change, OutOfOrderError, Store, name_of

R = TypeVar("R")


class Wanted:
    """Names of objects of one kind. Equal to nothing but itself, so that specs tell watches apart.

    A name may be added while a watch stands. What is known of it then comes with its next event or
    the next list, so that whoever adds one reads the object itself, after having added it.
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
        """The names in each namespace that has some; to be read, not changed."""
        return self._names

    def add(self, name: ObjectName) -> None:
        """Keep an object from now on."""
        self._names.setdefault(name.namespace, set()).add(name.name)

    def discard(self, name: ObjectName) -> None:
        """Drop an object; watches say nothing of it any more."""
        names = self._names.get(name.namespace, set())
        names.discard(name.name)
        if not names:
            self._names.pop(name.namespace, None)
        for store in self._stores:
            store.records.pop(name, None)

    def store(self, decode: Callable[[dict[str, Any]], R]) -> WantedStore[R]:
        """What one watch keeps."""
        store = WantedStore(self, decode)
        self._stores.append(store)
        return store

    def closed(self, store: WantedStore[Any]) -> None:
        """A watch has ended."""
        if store in self._stores:
            self._stores.remove(store)


class WantedStore(Store[R]):
    """A Store of what is wanted.

    It tells of deletions of what it never saw, too: of a name that was added late somebody may
    know by other means that the object was there.
    """

    def __init__(self, wanted: Wanted, decode: Callable[[dict[str, Any]], R]) -> None:
        super().__init__(decode)
        self._wanted = wanted

    def listed(self, body: dict[str, Any]) -> Change[R] | None:
        """Take an object of a list; None where nobody wants it, too."""
        return super().listed(body) if name_of(body) in self._wanted else None

    def event(self, kind: str, body: dict[str, Any]) -> Change[R] | None:
        """Take an event of a watch; None where nobody wants the object, too.

        Raises:
            OutOfOrderError: it is late, and what is known doesn't tell whether it still matters.
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
