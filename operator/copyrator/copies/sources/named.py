"""Watches of sources that rules name: few have one each, many in one namespace share one.

A watch is a connection. For the first few names in a namespace the server filters by name, so that
no other object is sent; all other names of that namespace and kind share one watch of metadata
only, and each is read, whole, when it changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from copyrator.api.keys import ObjectName
from copyrator.copies.sources.records import SourceReader, SourceRecord
from copyrator.copies.sources.shares import SourceShare
from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import InformerFactory, Registration, WatchSpec
from copyrator.kube.watch.reflector import OnChange, OnSynced
from copyrator.kube.watch.store import Seen, seen
from copyrator.workqueue.fairness import working_for

log = logging.getLogger(__name__)

ALONE: Final = 4
"""Names in one namespace, of one kind, that have a watch each."""
READS: Final = 8
"""Concurrent reads of one shared watch."""
FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
"""Seconds before a failed read is retried, doubling."""


_Place = tuple[Resource, str, SourceShare]
"""The kind, the namespace, and the share of its rules."""


class NamedSources:
    """Opens and shares watches of single objects."""

    def __init__(self, client: KubeClient, informers: InformerFactory) -> None:
        self._client = client
        self._informers = informers
        self._shared: dict[_Place, SharedWatch] = {}

    def has_watch(self, resource: Resource, name: ObjectName, share: SourceShare) -> bool:
        """Whether `acquire` opens no new watch."""
        if (resource, name.namespace, share) in self._shared:
            return True
        return _spec_of_one(resource, name, share) in self._informers

    def acquire(
        self,
        resource: Resource,
        name: ObjectName,
        share: SourceShare,
        listener: OnChange[SourceRecord],
        on_synced: OnSynced,
    ) -> Registration:
        """Watch one object; its known state is delivered before this returns."""
        place = (resource, name.namespace, share)
        spec = _spec_of_one(resource, name, share)
        if place not in self._shared and (spec in self._informers or self._count(place) < ALONE):
            return self._informers.acquire(spec, listener, on_synced=on_synced)
        shared = self._shared.get(place)
        if shared is None:
            shared = SharedWatch(self._client, self._informers, resource, name.namespace, share)
            shared.on_end = lambda: self._shared.pop(place, None)
            self._shared[place] = shared
        return shared.join(name, listener, on_synced)

    def _count(self, place: _Place) -> int:
        specs = self._informers.specs()
        return sum((s.resource, s.namespace, s.share) == place and bool(s.name) for s in specs)


def _spec_of_one(resource: Resource, name: ObjectName, share: SourceShare) -> WatchSpec:
    return WatchSpec(
        resource=resource,
        namespace=name.namespace,
        name=name.name,
        decode=SourceReader(resource.api_version, resource.kind),
        share=share,
        reserved=share.tenant is not None,
    )


class SharedWatch:
    """One watch of a namespace's metadata, shared by listeners to single objects of it."""

    def __init__(
        self,
        client: KubeClient,
        informers: InformerFactory,
        resource: Resource,
        namespace: str,
        share: SourceShare,
    ) -> None:
        self.client = client
        self.resource = resource
        self.share = share
        self.reader = SourceReader(resource.api_version, resource.kind)
        self.reads = asyncio.Semaphore(READS)
        self.on_end: Callable[[], object] = lambda: None
        self._wanted: dict[ObjectName, _Wanted] = {}
        spec = WatchSpec(
            resource=resource,
            namespace=namespace,
            metadata_only=True,
            decode=seen,
            share=share,
            reserved=share.tenant is not None,
        )
        self.registration = informers.acquire(spec, self._changed, on_synced=self._synced)

    def join(
        self, name: ObjectName, listener: OnChange[SourceRecord], on_synced: OnSynced
    ) -> Registration:
        """Add a listener to one object."""
        wanted = self._wanted.get(name)
        if wanted is None:
            wanted = self._wanted[name] = _Wanted(self, name)
        place = NamedSubscription(wanted, self.registration, listener, on_synced)
        wanted.places.append(place)
        if wanted.record is not None:
            listener(name, None, wanted.record)
        if place.synced:
            on_synced()
        wanted.refresh()
        return place

    def leave(self, wanted: _Wanted, place: NamedSubscription) -> None:
        """Remove a listener; the last one ends the watch."""
        wanted.places.remove(place)
        if wanted.places:
            return
        wanted.stop()
        if wanted.record is not None:
            self.share.dropped(wanted.record)
        del self._wanted[wanted.name]
        if not self._wanted:
            self.on_end()
            self.registration.release()

    def _changed(self, name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
        wanted = self._wanted.get(name)
        if wanted is None:
            return
        if new is None:
            wanted.take(None)
        wanted.refresh()

    def _synced(self) -> None:
        for wanted in list(self._wanted.values()):
            wanted.refresh()
            wanted.announce()


class _Wanted:
    """One named object of a shared watch."""

    def __init__(self, shared: SharedWatch, name: ObjectName) -> None:
        self.name = name
        self.places: list[NamedSubscription] = []
        self.record: SourceRecord | None = None
        self.failure: ApiError | None = None
        self.shared = shared
        self._task: asyncio.Task[None] | None = None

    @property
    def is_stale(self) -> bool:
        """Whether the watch has another version than the one that was read.

        Also where there was no room for its content, and there is now.
        """
        told: Seen | None = self.shared.registration.store.get(self.name)
        if told is None:
            return False
        if self.record is None or _is_newer(told.resource_version, self.record.resource_version):
            return True
        return not self.record.whole and self.shared.share.has_room(self.record.size)

    def refresh(self) -> None:
        """Read the object if the watch has another version."""
        if self.is_stale and self._task is None:
            self._task = asyncio.create_task(self._read(), name=f"read source {self.name}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def take(self, record: SourceRecord | None) -> None:
        """Deliver the object's new state."""
        before = self.record
        if before is record:
            return
        if record is not None:
            record = self.shared.share.held(before, record)
        elif before is not None:
            self.shared.share.dropped(before)
        self.record = record
        for place in tuple(self.places):
            try:
                place.listener(self.name, before, record)
            except Exception:
                log.exception("a listener to the source %s failed", self.name)

    def announce(self) -> None:
        """Call every listener's ``on_synced``."""
        for place in tuple(self.places):
            if place.synced and place.on_synced:
                place.on_synced()

    async def _read(self) -> None:
        delay = FIRST_DELAY
        try:
            while self.is_stale:
                try:
                    with working_for(self.shared.share.tenant):
                        body = await self._get()
                except ApiError as error:
                    # The watch delivers deletions.
                    self.failure = None if isinstance(error, errors.NotFound) else error
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, LONGEST_DELAY)
                else:
                    self.failure = None
                    if self.name in self.shared.registration.store:
                        self.take(self.shared.reader(body))
        finally:
            self._task = None
        self.announce()

    async def _get(self) -> dict[str, Any]:
        async with self.shared.reads:
            return await self.shared.client.get(self.shared.resource, *self.name)


class NamedSubscription(Registration):
    """A registration with a shared watch for one object only."""

    def __init__(
        self,
        wanted: _Wanted,
        shared: Registration,
        listener: OnChange[SourceRecord],
        on_synced: OnSynced,
    ) -> None:
        super().__init__(shared.watch, listener, on_synced)
        self._wanted = wanted
        self._shared = shared

    @property
    def store(self) -> dict[ObjectName, Any]:
        """The object, where it exists and was read."""
        record = self._wanted.record
        return {} if record is None else {self._wanted.name: record}

    @property
    def synced(self) -> bool:
        """Whether the absence of the object can be taken for its deletion."""
        return self._shared.synced and not self._wanted.is_stale

    @property
    def seen(self) -> bool:
        """Whether the object was read once, if it existed."""
        unread = self._wanted.record is None and self._wanted.is_stale
        return self._shared.seen and not unread

    @property
    def failure(self) -> ApiError | None:
        """The present fault of the watch, or of reading the object."""
        return self._shared.failure or self._wanted.failure

    def release(self) -> None:
        """End the registration; idempotent."""
        if self.active:
            self.active = False
            self._wanted.shared.leave(self._wanted, self)


def _is_newer(one: str, other: str) -> bool:
    if one.isdecimal() and other.isdecimal():
        return int(one) > int(other)
    return one != other
