"""Watches of unmanaged objects at the targets of copies: each by its name, metadata only.

The watch of our own copies selects them by label and doesn't show others' objects. A watch is a
connection, so their number is bounded, fair between namespaces; objects beyond the bound are read
from time to time (copies/unmanaged.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from copyrator.api.keys import CopyKey, ObjectName
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import InformerFactory, Registration, WatchSpec
from copyrator.kube.watch.store import Seen, seen
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit

OnVersion = Callable[[CopyKey, str], None]
"""Called with a key and the resourceVersion of the live object; empty where there is none."""


@dataclass(frozen=True, slots=True)
class _Followed:
    registration: Registration
    places: FairLimit
    namespace: str
    """Whose share the watch counts against."""


class UnmanagedWatches:
    """Calls ``on_change`` for every change of the objects that it watches."""

    def __init__(self, informers: InformerFactory | None, on_change: OnVersion) -> None:
        self._informers = informers
        self._on_change = on_change
        self._followed: dict[CopyKey, _Followed] = {}
        each = limits.UNMANAGED_WATCHES
        self._trusted = FairLimit(each=each, together=limits.TRUSTED_UNMANAGED_WATCHES)
        self._tenants = FairLimit(each=each, together=limits.TENANTS_UNMANAGED_WATCHES)

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, key: CopyKey, resource: Resource, tenant: str | None) -> None:
        """Watch an object from now on, while there is room.

        Args:
            key: its target.
            resource: its kind.
            tenant: the namespace of the rule that requests the target; None for a trusted rule.
        """
        if self._informers is None or key in self._followed:
            return
        places = self._trusted if tenant is None else self._tenants
        namespace = tenant or key.namespace
        if not places.try_acquire(namespace):
            return
        spec = WatchSpec(
            resource=resource,
            namespace=key.namespace,
            name=key.name,
            metadata_only=True,
            decode=seen,
            reserved=True,
        )

        def changed(_name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
            self._on_change(key, new.resource_version if new else "")

        def synced() -> None:
            if self.version(key) == "":
                self._on_change(key, "")

        registration = self._informers.acquire(spec, changed, on_synced=synced)
        self._followed[key] = _Followed(registration, places, namespace)

    def version(self, key: CopyKey) -> str | None:
        """The live object's version, empty where there is none; None without a working watch."""
        followed = self._followed.get(key)
        if followed is None or not followed.registration.synced:
            return None
        told: Seen | None = followed.registration.store.get(ObjectName(key.namespace, key.name))
        return told.resource_version if told else ""

    def release(self, key: CopyKey) -> None:
        """End its watch; idempotent."""
        followed = self._followed.pop(key, None)
        if followed is not None:
            followed.registration.release()
            followed.places.release(followed.namespace)

    def close(self) -> None:
        """End all watches, and open no more."""
        self._informers = None
        for key in list(self._followed):
            self.release(key)
