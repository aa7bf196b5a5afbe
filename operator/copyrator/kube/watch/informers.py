"""Shared watches: users of the same objects share one, because each is a connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import Resource
from copyrator.kube.watch.faults import DEFAULT_TIMING, Timing
from copyrator.kube.watch.reflector import OnChange, Reflector
from copyrator.kube.watch.store import Share, WantedNames
from copyrator.metrics import Metrics

log = logging.getLogger(__name__)


def whole(body: dict[str, Any]) -> dict[str, Any]:
    """Keep the object without managedFields, which can be larger than the rest."""
    body["metadata"].pop("managedFields", None)
    return body


@dataclass(frozen=True, slots=True)
class WatchSpec:
    """What is watched and what is kept of it. Equal ones share a watch.

    `decode` converts an object to the record that is cached; it should be a function of a module
    (so that specs compare equal) and leave out everything unused.
    """

    resource: Resource
    namespace: str | None = None
    label_selector: str | None = None
    name: str | None = None
    """Name of a single object to watch."""
    metadata_only: bool = False
    decode: Callable[[dict[str, Any]], Any] = whole
    share: Share | None = None
    """The owner of the watch, where that has limits; other owners never share it."""
    wanted: WantedNames | None = None
    """Only these objects are kept, with only name, namespace and resourceVersion."""
    reserved: bool = False
    """Whether it never waits for a connection: essential, or bounded in number already."""


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """A watch as `/readyz` and the metrics show it."""

    spec: WatchSpec
    synced: bool
    objects: int
    failure: ApiError | None
    failing_for: float
    """Seconds; 0 without a fault."""
    silent_for: float = 0.0
    """Seconds since the server's last answer or event."""


class Mirror(Protocol):
    """A cache of some objects: a Reflector, or several of them merged."""

    @property
    def lists(self) -> int:
        """Complete lists so far."""
        ...

    @property
    def failing_for(self) -> float:
        """Duration of the present fault in seconds; 0 without one."""
        ...

    def relist(self) -> None:
        """List everything again, to confirm the cache."""
        ...


class Registration:
    """A listener's registration with a shared watch; must be released when it isn't needed."""

    def __init__(
        self, watch: _SharedInformer, listener: OnChange[Any], on_synced: OnSynced | None
    ) -> None:
        self.listener = listener
        self.on_synced = on_synced
        self.active = True
        self.watch = watch

    @property
    def reflector(self) -> Mirror:
        """The watch itself: lists, failing_for, relist()."""
        return self.watch.reflector

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """Records by name."""
        return self.watch.reflector.store

    def delivered(self, namespace: str) -> int:  # noqa: ARG002 - for a watch of each namespace
        """The resourceVersion up to which the store shows a namespace's changes; 0: unknown."""
        return self.watch.reflector.delivered

    @property
    def synced(self) -> bool:
        """Whether an object that isn't cached is known not to exist."""
        return self.watch.reflector.synced

    @property
    def seen(self) -> bool:
        """Whether a list completed once, however long ago."""
        return self.watch.reflector.lists > 0

    @property
    def failure(self) -> ApiError | None:
        """The present fault of the watch."""
        return self.watch.reflector.failure

    async def wait_synced(self) -> None:
        """Return when `synced` is True."""
        await self.watch.reflector.wait_synced()

    def release(self) -> None:
        """Stop the listener; the last one to leave ends the watch. Idempotent."""
        if self.active:
            self.active = False
            self.watch.leave(self)


OnSynced = Callable[[], None]


class _SharedInformer:
    """A reflector, its task, and its listeners."""

    def __init__(self, factory: InformerFactory, spec: WatchSpec) -> None:
        self.spec = spec
        self.registrations: list[Registration] = []
        self._factory = factory
        self.reflector: Reflector[Any] = Reflector(
            factory.client,
            spec.resource,
            decode=spec.decode,
            on_change=self._changed,
            on_synced=self._synced,
            namespace=spec.namespace,
            label_selector=spec.label_selector,
            name=spec.name,
            metadata_only=spec.metadata_only,
            share=spec.share,
            wanted=spec.wanted,
            reserved=spec.reserved,
            versions=factory.versions,
            metrics=factory.metrics,
            timing=factory.timing,
        )
        self.task = asyncio.create_task(self.reflector.run(), name=f"watch {self.reflector}")

    def join(self, listener: OnChange[Any], on_synced: OnSynced | None) -> Registration:
        registration = Registration(self, listener, on_synced)
        self.registrations.append(registration)
        for name, record in list(self.reflector.store.items()):
            self._call(listener, name, None, record)
        if self.reflector.lists and on_synced:
            self._call(on_synced)
        return registration

    def leave(self, registration: Registration) -> None:
        self.registrations.remove(registration)
        if not self.registrations:
            self._factory.end(self)

    def _changed(self, name: ObjectName, old: Any, new: Any) -> None:
        for registration in tuple(self.registrations):
            if registration.active:
                self._call(registration.listener, name, old, new)

    def _synced(self) -> None:
        for registration in tuple(self.registrations):
            if registration.active and registration.on_synced:
                self._call(registration.on_synced)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        """Call a listener; its exception is logged and affects no other."""
        try:
            function(*args)
        except Exception:
            log.exception("a listener to the watch of %s failed", self.reflector)


class InformerFactory:
    """Starts a watch with its first listener and ends it with its last."""

    def __init__(
        self,
        client: KubeClient,
        *,
        metrics: Metrics | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.client = client
        self.metrics = metrics
        self.timing = timing
        self.versions: dict[str, str] = {}
        """By the resource's key: the resourceVersion that a watch of it has reached."""
        self._watches: dict[WatchSpec, _SharedInformer] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._watches)

    def __contains__(self, spec: WatchSpec) -> bool:
        return spec in self._watches

    def specs(self) -> Iterable[WatchSpec]:
        """The present watches."""
        return self._watches.keys()

    def acquire(
        self, spec: WatchSpec, listener: OnChange[Any], *, on_synced: OnSynced | None = None
    ) -> Registration:
        """Join the watch, which starts if it is new.

        Cached objects are replayed before this returns: (name, None, record) for each, then
        `on_synced` if a list has completed. `on_synced` is called after every complete list.
        """
        watch = self._watches.get(spec)
        if watch is None:
            watch = self._watches[spec] = _SharedInformer(self, spec)
            if spec.share:
                spec.share.opened()
        return watch.join(listener, on_synced)

    def end(self, watch: _SharedInformer) -> None:
        """Stop a watch (Registration.release calls this)."""
        del self._watches[watch.spec]
        watch.task.cancel()
        watch.reflector.close()
        if watch.spec.share:
            watch.spec.share.closed()
        self._ending.add(watch.task)
        watch.task.add_done_callback(self._ending.discard)

    def statuses(self) -> list[WatchStatus]:
        """The present state of every watch."""
        return [_status(watch) for watch in self._watches.values()]

    def suspect(self) -> None:
        """A watch that isn't of this factory was found silent: these may be, too."""
        for watch in self._watches.values():
            watch.reflector.suspect()

    def dead(self) -> list[WatchSpec]:
        """Watches whose task has ended, which no fault of a server can cause."""
        return [spec for spec, watch in self._watches.items() if watch.task.done()]

    def publish(self) -> None:
        """Set the gauges; to be called before a scrape."""
        if self.metrics is None:
            return
        gauges = self.metrics.watches, self.metrics.watches_synced, self.metrics.watch_objects
        for gauge in gauges:
            gauge.clear()
        for status in self.statuses():
            for gauge, value in zip(gauges, (1, status.synced, status.objects), strict=True):
                gauge.labels(status.spec.resource.key).inc(value)

    async def close(self) -> None:
        """End all watches and wait for them."""
        for watch in list(self._watches.values()):
            self.end(watch)
        await asyncio.gather(*self._ending, return_exceptions=True)


def _status(watch: _SharedInformer) -> WatchStatus:
    reflector = watch.reflector
    return WatchStatus(
        spec=watch.spec,
        synced=reflector.synced,
        objects=len(reflector.store),
        failure=reflector.failure,
        failing_for=reflector.failing_for,
        silent_for=reflector.silent_for,
    )
