"""Watches of sources that rules name: few have one each, many in one namespace share one.

A watch is a connection. For the first few names in a namespace the server filters by name, so that
no other object is sent; all other names of that namespace and kind share one watch of metadata
only, and each is read, whole, when it changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from copyrator.api.keys import ObjectName
from copyrator.api.selectors import LabelSelector
from copyrator.copies.sources.records import SourceReader, SourceRecord, is_newer
from copyrator.copies.sources.shares import SourceShare
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import (
    InformerFactory,
    Mirror,
    Registration,
    SharedInformer,
    WatchSpec,
)
from copyrator.kube.watch.reflector import OnChange, OnSynced, Seen, seen
from copyrator.workqueue.fairness import working_for

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

ALONE: Final = 4
"""Names in one namespace, of one kind, that have a watch each."""
READS: Final = 8
"""Concurrent reads of one shared watch."""
FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
"""Seconds before a failed read is retried, doubling."""


class NamedSources:
    """Opens and shares watches of single objects."""

    def __init__(self, client: KubeClient, informers: InformerFactory) -> None:
        self._client = client
        self._informers = informers
        self._shared: dict[WatchSpec, _SharedWatch] = {}

    def has_watch(self, resource: Resource, name: ObjectName, share: SourceShare) -> bool:
        """Whether `acquire` opens no new watch."""
        alone = source_watch(resource, share, *name)
        return _spec_of_all(alone) in self._shared or alone in self._informers

    def acquire(
        self,
        resource: Resource,
        name: ObjectName,
        share: SourceShare,
        listener: OnChange[SourceRecord],
        on_synced: OnSynced,
    ) -> Registration:
        """Watch one object; its known state is delivered before this returns."""
        alone = source_watch(resource, share, *name)
        spec = _spec_of_all(alone)
        if spec not in self._shared and (alone in self._informers or self._count(spec) < ALONE):
            return self._informers.acquire(alone, listener, on_synced=on_synced)
        if spec not in self._shared:
            end = partial(self._shared.pop, spec)
            self._shared[spec] = _SharedWatch(self._client, self._informers, spec, share, end)
        return self._shared[spec].join(name, listener, on_synced)

    def _count(self, spec: WatchSpec) -> int:
        place = spec.resource, spec.namespace, spec.share
        specs = self._informers.specs()
        return sum((s.resource, s.namespace, s.share) == place and bool(s.name) for s in specs)


def source_watch(
    resource: Resource,
    share: SourceShare,
    namespace: str,
    name: str | None,
    selector: LabelSelector | None = None,
) -> WatchSpec:
    """The watch of whole sources: of one, or of those that are selected."""
    return WatchSpec(
        resource=resource,
        namespace=namespace,
        name=name,
        label_selector=selector.to_string() if selector else None,
        decode=SourceReader(resource.api_version, resource.kind),
        share=share,
        reserved=share.tenant is not None,
    )


def _spec_of_all(alone: WatchSpec) -> WatchSpec:
    return replace(alone, name=None, metadata_only=True, decode=seen)


class _SharedWatch:
    """One watch of a namespace's metadata, shared by listeners to single objects of it."""

    def __init__(
        self,
        client: KubeClient,
        informers: InformerFactory,
        spec: WatchSpec,
        share: SourceShare,
        on_end: Callable[[], object],
    ) -> None:
        self.share = share
        self._client = client
        self._resource = spec.resource
        self._reader = SourceReader(spec.resource.api_version, spec.resource.kind)
        self._reads = asyncio.Semaphore(READS)
        self._on_end = on_end
        self._sources: dict[ObjectName, SharedInformer[_NamedSource]] = {}
        self._registration = informers.acquire(spec, self._changed, on_synced=self._synced)

    @property
    def mirror(self) -> Mirror:
        """The metadata of all objects."""
        return self._registration.reflector

    async def read(self, name: ObjectName) -> SourceRecord:
        """Read an object, whole."""
        with working_for(self.share.tenant):
            async with self._reads:
                return self._reader(await self._client.get(self._resource, *name))

    def join(
        self, name: ObjectName, listener: OnChange[SourceRecord], on_synced: OnSynced
    ) -> Registration:
        """Add a listener to one object."""
        source = self._sources.get(name)
        if source is None:
            source = SharedInformer(partial(_NamedSource, self, name), partial(self._leave, name))
            self._sources[name] = source
        registration = Registration(source, listener, on_synced)
        source.join(registration)
        source.mirror.refresh()
        return registration

    def _leave(self, name: ObjectName) -> None:
        self._sources.pop(name).mirror.close()
        if not self._sources:
            self._on_end()
            self._registration.release()

    def _changed(self, name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
        source = self._sources.get(name)
        if source is not None:
            if new is None:
                source.mirror.take(None)
            source.mirror.refresh()

    def _synced(self) -> None:
        for source in list(self._sources.values()):
            source.mirror.refresh()
            source.mirror.announce()


class _NamedSource:
    """One named object of a shared watch; a mirror of it alone."""

    def __init__(
        self,
        shared: _SharedWatch,
        name: ObjectName,
        on_change: OnChange[SourceRecord],
        on_synced: OnSynced,
    ) -> None:
        self.store: dict[ObjectName, SourceRecord] = {}
        self._shared = shared
        self._name = name
        self._on_change = on_change
        self._on_synced = on_synced
        self._read_failure: ApiError | None = None
        self._task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return str(self._shared.mirror)

    @property
    def lists(self) -> int:
        """Complete lists of the watch; 0 while the object exists and wasn't read."""
        return self._shared.mirror.lists if self.store or not self._is_stale else 0

    @property
    def synced(self) -> bool:
        """Whether the absence of the object can be taken for its deletion."""
        return self._shared.mirror.synced and not self._is_stale

    @property
    def failure(self) -> ApiError | None:
        """The present fault of the watch, or of reading the object."""
        return self._shared.mirror.failure or self._read_failure

    @property
    def failing_for(self) -> float:
        """Duration of the watch's present fault in seconds; 0 without one."""
        return self._shared.mirror.failing_for

    @property
    def _is_stale(self) -> bool:
        """Whether the watch has another version than the one that was read.

        Also where there was no room for its content, and there is now.
        """
        told: Seen | None = self._shared.mirror.store.get(self._name)
        if told is None:
            return False
        record = self.store.get(self._name)
        if record is None or is_newer(told.resource_version, record.resource_version):
            return True
        return not record.whole and self._shared.share.has_room(record.size)

    def delivered(self, namespace: str) -> int:
        """The resourceVersion up to which the watch shows a namespace's changes."""
        return self._shared.mirror.delivered(namespace)

    def relist(self) -> None:
        """List all objects of the watch again."""
        self._shared.mirror.relist()

    def close(self) -> None:
        """Nobody listens any more."""
        if self._task is not None:
            self._task.cancel()
        if (record := self.store.get(self._name)) is not None:
            self._shared.share.dropped(record)

    def refresh(self) -> None:
        """Read the object if the watch has another version."""
        if self._is_stale and self._task is None:
            self._task = asyncio.create_task(self._read(), name=f"read source {self._name}")

    def take(self, record: SourceRecord | None) -> None:
        """Deliver the object's new state."""
        before = self.store.pop(self._name, None)
        if record is not None:
            record = self.store[self._name] = self._shared.share.held(before, record)
        elif before is not None:
            self._shared.share.dropped(before)
        else:
            return
        self._on_change(self._name, before, record)

    def announce(self) -> None:
        """Tell the listeners that all is known, if it is."""
        if self.synced:
            self._on_synced()

    async def _read(self) -> None:
        delay = FIRST_DELAY
        try:
            while self._is_stale:
                try:
                    record = await self._shared.read(self._name)
                except ApiError as error:
                    # The watch delivers deletions.
                    self._read_failure = None if isinstance(error, errors.NotFound) else error
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, LONGEST_DELAY)
                else:
                    self._read_failure = None
                    if self._name in self._shared.mirror.store:
                        self.take(record)
        finally:
            self._task = None
        self.announce()
