"""Shared watches: users of the same objects share one, because each is a connection.

Where the operator serves some namespaces only, no request is cluster-wide: a registration for all
objects of a kind gets one watch for each namespace, merged into one, and the namespaces themselves
are polled. One that doesn't exist, or that we may not read, doesn't delay the others.

Placements keep open those that are wanted and allowed, while either changes. A place is what is
watched by one decision: an object, a namespace, all namespaces. Where a wide place is denied, its
user may choose narrower ones, or report what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from contextvars import Context
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.kube.errors import ApiError, Permission, Refusal
from copyrator.kube.resources import NAMESPACES, Resource
from copyrator.kube.watch.namespace_polls import NamespacePolls, Presence
from copyrator.kube.watch.reflector import (
    DEFAULT_TIMING,
    OnChange,
    OnSynced,
    Reflector,
    Timing,
    WatchSpec,
)

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.metrics import Metrics


log = logging.getLogger(__name__)


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
    """A cache of some objects: a Reflector, several of them merged, or polled namespaces."""

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """Records by name."""

    @property
    def lists(self) -> int:
        """Complete lists so far."""

    @property
    def synced(self) -> bool:
        """Whether an object that isn't cached is known not to exist."""

    @property
    def failure(self) -> ApiError | None:
        """The present fault."""

    @property
    def failing_for(self) -> float:
        """Duration of the present fault in seconds; 0 without one."""

    def delivered(self, namespace: str) -> int:
        """The resourceVersion up to which the store shows a namespace's changes; 0: unknown."""

    def relist(self) -> None:
        """List everything again, to confirm the cache."""

    def close(self) -> None:
        """Release what it holds."""


M = TypeVar("M", bound=Mirror)


class Registration:
    """A listener's registration with a shared watch; must be released when it isn't needed."""

    def __init__(
        self, watch: SharedInformer[Any], listener: OnChange[Any], on_synced: OnSynced | None
    ) -> None:
        self.listener = listener
        self.on_synced = on_synced
        self.active = True
        self.watch = watch

    @property
    def reflector(self) -> Mirror:
        """The watch itself: lists, failing_for, delivered(), relist()."""
        mirror: Mirror = self.watch.mirror
        return mirror

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """Records by name."""
        return self.reflector.store

    @property
    def synced(self) -> bool:
        """Whether an object that isn't cached is known not to exist."""
        return self.reflector.synced

    @property
    def seen(self) -> bool:
        """Whether a list completed once, however long ago."""
        return self.reflector.lists > 0

    @property
    def failure(self) -> ApiError | None:
        """The present fault of the watch."""
        return self.reflector.failure

    def release(self) -> None:
        """Stop the listener; the last one to leave ends the watch. Idempotent."""
        if self.active:
            self.active = False
            self.watch.leave(self)


class SharedInformer(Generic[M]):
    """A mirror and its listeners; `on_unused` is called when the last one has left."""

    def __init__(
        self,
        make: Callable[[OnChange[Any], OnSynced], M],
        on_unused: Callable[[], None] = lambda: None,
    ) -> None:
        self._registrations: list[Registration] = []
        self._on_unused = on_unused
        self.mirror = make(self._changed, self._synced)

    def join(self, registration: Registration) -> None:
        """Add a listener; cached objects are replayed before this returns."""
        self._registrations.append(registration)
        for name, record in list(self.mirror.store.items()):
            self._call(registration.listener, name, None, record)
        if self.mirror.lists and registration.on_synced:
            self._call(registration.on_synced)

    def leave(self, registration: Registration) -> None:
        """Remove a listener."""
        self._registrations.remove(registration)
        if not self._registrations:
            self._on_unused()

    def _changed(self, name: ObjectName, old: Any, new: Any) -> None:
        for registration in tuple(self._registrations):
            if registration.active:
                self._call(registration.listener, name, old, new)

    def _synced(self) -> None:
        for registration in tuple(self._registrations):
            if registration.active and registration.on_synced:
                self._call(registration.on_synced)

    def _call(self, function: Callable[..., None], *args: Any) -> None:
        """Call a listener; its exception is logged and affects no other."""
        try:
            function(*args)
        except Exception:
            log.exception("a listener to the watch of %s failed", self.mirror)


class InformerFactory:
    """Starts a watch with its first listener and ends it with its last.

    ``namespaces`` are those that are served, where not all are.
    """

    def __init__(
        self,
        client: KubeClient,
        namespaces: tuple[str, ...] = (),
        *,
        metrics: Metrics | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self.metrics = metrics
        self._client = client
        self._timing = timing
        self._polls: SharedInformer[NamespacePolls] | None = None
        if namespaces:
            self._polls = SharedInformer(partial(NamespacePolls, client, namespaces, timing=timing))
        self._versions: dict[str, str] = {}
        """By the resource's key: the resourceVersion that a watch of it has reached."""
        self._shared: dict[WatchSpec, SharedInformer[Any]] = {}
        self._watches: dict[WatchSpec, Reflector[Any]] = {}
        """Those of them that are connections, not merged from others."""
        self._tasks: dict[WatchSpec, asyncio.Task[None]] = {}
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
        polls = self._polls
        if polls is not None:
            if _POLLS not in self._tasks:
                poll = polls.mirror.run()
                self._tasks[_POLLS] = asyncio.create_task(poll, name="poll of the namespaces")
            if spec.resource == NAMESPACES:
                return _DecodedNamespaces(polls, spec, listener, on_synced)
        shared = self._shared.get(spec)
        if shared is None:
            end = partial(self._end, spec)
            if polls is not None and spec.namespace is None:
                shared = SharedInformer(partial(_MergedWatches, self, polls, spec), end)
            else:
                shared = SharedInformer(partial(self._open, spec), end)
            self._shared[spec] = shared
        registration = Registration(shared, listener, on_synced)
        shared.join(registration)
        return registration

    def _open(
        self, spec: WatchSpec, on_change: OnChange[Any], on_synced: OnSynced
    ) -> Reflector[Any]:
        reflector = self._watches[spec] = Reflector(
            self._client,
            spec,
            on_change=on_change,
            on_synced=on_synced,
            versions=self._versions,
            metrics=self.metrics,
            timing=self._timing,
        )
        self._tasks[spec] = asyncio.create_task(reflector.run(), name=f"watch {reflector}")
        if spec.share:
            spec.share.opened()
        return reflector

    def _end(self, spec: WatchSpec) -> None:
        """End a watch; idempotent."""
        shared = self._shared.pop(spec, None)
        if shared is None:
            return
        shared.mirror.close()
        if self._watches.pop(spec, None) is not None:
            self._cancel(spec)
            if spec.share:
                spec.share.closed()

    def _cancel(self, spec: WatchSpec) -> None:
        task = self._tasks.pop(spec)
        task.cancel()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def statuses(self) -> list[WatchStatus]:
        """The present state of every watch, and of the polls in place of the one of namespaces."""
        found = [_status(spec, one, len(one.store)) for spec, one in self._watches.items()]
        if self._polls is not None:
            polls = self._polls.mirror
            found.append(_status(_POLLS, polls, len(polls.presence)))
        return found

    def suspect(self) -> None:
        """A watch that isn't of this factory was found silent: these may be, too."""
        for reflector in self._watches.values():
            reflector.suspect()

    def dead(self) -> list[WatchSpec]:
        """Watches whose task has ended, which no fault of a server can cause; or the polls."""
        return [spec for spec, task in self._tasks.items() if task.done()]

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
        if _POLLS in self._tasks:
            self._cancel(_POLLS)
        for spec in list(self._shared):
            self._end(spec)
        await asyncio.gather(*self._ending, return_exceptions=True)


def _status(spec: WatchSpec, mirror: Reflector[Any] | NamespacePolls, objects: int) -> WatchStatus:
    return WatchStatus(
        spec=spec,
        synced=mirror.synced,
        objects=objects,
        failure=mirror.failure,
        failing_for=mirror.failing_for,
        silent_for=mirror.silent_for,
    )


# --- in some namespaces only ---------------------------------------------------------------------

_POLLS: Final = WatchSpec(NAMESPACES)


class _DecodedNamespaces(Registration):
    """Polled namespaces, as a spec decodes them."""

    def __init__(
        self,
        polls: SharedInformer[NamespacePolls],
        spec: WatchSpec,
        listener: OnChange[Any],
        on_synced: OnSynced | None,
    ) -> None:
        super().__init__(polls, self._changed, on_synced)
        self._decode = spec.decode
        self._on_change = listener
        self._store: dict[ObjectName, Any] = {}
        polls.join(self)

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """The namespaces that exist."""
        return self._store

    def _changed(self, name: ObjectName, _old: Any, body: dict[str, Any] | None) -> None:
        old = self._store.pop(name, None)
        if body is not None:
            self._store[name] = self._decode(body)
        if old is not None or body is not None:
            self._on_change(name, old, self._store.get(name))


class _MergedWatches:
    """A kind in all our namespaces, by a watch in each that exists."""

    def __init__(
        self,
        factory: InformerFactory,
        polls: SharedInformer[NamespacePolls],
        spec: WatchSpec,
        on_change: OnChange[Any],
        on_synced: OnSynced,
    ) -> None:
        self._factory = factory
        self._polls = polls.mirror
        self._spec = spec
        self._on_change = on_change
        self._on_synced = on_synced
        self._parts: dict[str, Registration] = {}
        self._head_start: dict[str, int] = {}
        """Lists that the others had completed when a namespace joined: the count must not drop."""
        self.store = _Union(self._parts)
        self._namespaces = Registration(polls, self._on_namespace, self._announce)
        polls.join(self._namespaces)

    def __str__(self) -> str:
        failing = (str(part.reflector) for part in self._present.values() if part.failure)
        return next(failing, self._spec.resource.key)

    @property
    def _present(self) -> dict[str, Registration]:
        """The watches of the namespaces that exist."""
        presence = self._polls.presence
        return {
            name: part for name, part in self._parts.items() if presence[name] is Presence.PRESENT
        }

    @property
    def lists(self) -> int:
        """Complete lists of everything that we may read."""
        present = self._present
        if not self._polls.lists or not all(part.seen for part in present.values()):
            return 0
        counts = (self._head_start[name] + part.reflector.lists for name, part in present.items())
        return min(counts, default=1)

    @property
    def synced(self) -> bool:
        """Whether an object that isn't cached is known not to exist."""
        return self._polls.synced and all(part.synced for part in self._present.values())

    @property
    def failure(self) -> ApiError | None:
        """The present fault of one of them."""
        faults = (part.failure for part in self._present.values() if not part.synced)
        return next((fault for fault in faults if fault), self._polls.failure)

    @property
    def failing_for(self) -> float:
        """Duration of the longest fault in seconds."""
        present = self._present.values()
        return max((part.reflector.failing_for for part in present), default=0.0)

    def delivered(self, namespace: str) -> int:
        """The resourceVersion up to which the store shows a namespace's changes; 0: unknown."""
        part = self._parts.get(namespace)
        return part.reflector.delivered(namespace) if part else 0

    def relist(self) -> None:
        """List everything again."""
        for part in self._present.values():
            part.reflector.relist()

    def close(self) -> None:
        """Leave the watches of all namespaces."""
        self._namespaces.release()
        for part in self._parts.values():
            part.release()

    def _announce(self) -> None:
        if self.lists:
            self._on_synced()

    def _on_namespace(self, name: ObjectName, _old: Any, body: dict[str, Any] | None) -> None:
        namespace = name.name
        part = self._parts.get(namespace)
        if body is not None and part is None:
            self._head_start[namespace] = self.lists
            spec = replace(self._spec, namespace=namespace)
            # Listeners read the changed object from the store, so the part has to exist first.
            self._parts[namespace] = part = self._factory.acquire(spec, lambda *_: None)
            part.listener, part.on_synced = self._on_change, self._announce
            for one, record in list(part.store.items()):
                self._on_change(one, None, record)
            if part.seen:
                self._announce()
        elif part is not None and self._polls.presence[namespace] is Presence.GONE:
            records = dict(part.store)
            del self._parts[namespace]
            part.release()
            for one, record in records.items():
                self._on_change(one, record, None)


class _Union(Mapping[ObjectName, Any]):
    """The stores of all namespaces as one."""

    def __init__(self, parts: Mapping[str, Registration]) -> None:
        self._parts = parts

    def __getitem__(self, name: ObjectName) -> Any:
        return self._parts[name[0]].store[name]

    def __iter__(self) -> Iterator[ObjectName]:
        for part in self._parts.values():
            yield from part.store

    def __len__(self) -> int:
        return sum(len(part.store) for part in self._parts.values())


# Placements --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlacementTiming:
    """Durations in seconds."""

    check: float
    """Between two checks whether watches work, are forbidden, or may be retried."""
    settle: float = 0.05
    """After a change further changes are collected for so long before the watches are arranged."""
    retry: float = 15.0
    """Before a place that is forbidden is retried, doubling."""
    longest_retry: float = 600.0


@dataclass(frozen=True, slots=True)
class DeniedPlace:
    """A place that may not be watched, by an access review or a 403."""

    why: str
    until: float
    """Monotonic seconds."""
    delay: float


def watch_permissions(resources: Iterable[Resource], namespaces: Iterable[str]) -> list[Refusal]:
    """The permissions that watches in namespaces ("": in all) require, each as its refusal."""
    return [
        Refusal(Permission(resource.group, resource.plural, verb), namespace)
        for resource in resources
        for namespace in namespaces
        for verb in ("list", "watch")
    ]


class Opened(Protocol):
    """What is open at a place: one watch or several."""

    @property
    def denial(self) -> str:
        """The message of a 403 that denies the whole place; else empty."""

    def close(self) -> None:
        """End the watches."""


P = TypeVar("P", bound=Hashable)
W = TypeVar("W", bound=Opened)


class WatchPlacement(ABC, Generic[P, W]):
    """Opens and ends the watches of places, as a subclass chooses them.

    Each place is reviewed before it is opened: without the review a forbidden list would be
    reported as a missing permission. One that is denied is retried after a growing delay. The old
    watches end only when those that replace them are ready.

    Attributes:
        chosen: the places to watch, by the last decision; denied ones may be among them.
        wanted: those of them that aren't denied now.
        opened: what is open at each place.
        denied: places that are denied, and those that may be retried by now.
    """

    def __init__(self, timing: PlacementTiming, monotonic: Callable[[], float]) -> None:
        self.chosen: set[P] = set()
        self.wanted: set[P] = set()
        self.opened: dict[P, W] = {}
        self.denied: dict[P, DeniedPlace] = {}
        self._timing = timing
        self._monotonic = monotonic
        self._reviews: dict[P, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._has_changed = False

    @abstractmethod
    def choose(self, denied: Set[P], held: Set[P]) -> set[P]:
        """The places to watch; denied ones aren't opened. ``held`` are open or being reviewed."""

    @abstractmethod
    async def find_missing(self, place: P) -> str:
        """The permission that is missing for a place, as a message; else empty.

        Raises:
            ApiError: the review failed; it is repeated at the next check.
        """

    @abstractmethod
    def open(self, place: P) -> None:
        """Open the watches of a place, as ``opened[place]``."""

    @abstractmethod
    def may_end(self, place: P) -> bool:
        """Whether those are ready that replace a place that isn't wanted any more."""

    @abstractmethod
    def forgets(self, place: P, *, is_unused: bool) -> bool:
        """Whether a denial doesn't matter any more; `is_unused`: it is over, and not retried."""

    @abstractmethod
    def on_denied(self, place: P, why: str, *, is_new: bool) -> None:
        """A place was denied; `is_new`: not at a retry."""

    def on_checked(self) -> None:
        """Called after each check."""

    def close(self) -> None:
        """End all watches."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._has_changed = False
        for review in self._reviews.values():
            review.cancel()
        for opened in self.opened.values():
            opened.close()
        self.chosen.clear()
        self.wanted.clear()
        self.opened.clear()
        self.denied.clear()

    def arrange_soon(self) -> None:
        """Arrange the watches once all concurrent changes have been made."""
        if not self._has_changed:
            self._has_changed = True
            self._call_later(self._timing.settle)

    def retire(self) -> None:
        """End watches that aren't wanted any more, as soon as they may."""
        for place in self.opened.keys() - self.wanted:
            if self.may_end(place):
                self.opened.pop(place).close()

    def deny(self, place: P, why: str) -> None:
        """Close a place that may not be watched, and retry it later."""
        before, delay = self.denied.get(place), self._timing.retry
        if before is not None:
            delay = min(before.delay * 2, self._timing.longest_retry)
        self.denied[place] = DeniedPlace(why, self._monotonic() + delay, delay)
        self.wanted.discard(place)
        self.on_denied(place, why, is_new=before is None)
        if place in self.opened:
            self.opened.pop(place).close()
        self.arrange_soon()

    def _call_later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The watches serve all users: neither logs nor fairness assign the call to one key.
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, context=Context())

    def _check(self) -> None:
        """Close watches that are forbidden, and open and end watches where that is due."""
        self._timer = None
        try:
            for place, opened in list(self.opened.items()):
                if opened.denial:
                    self.deny(place, opened.denial)
            now = self._monotonic()
            over = {place for place, denied in self.denied.items() if denied.until <= now}
            if self._has_changed or over or self._unopened():
                self._has_changed = False
                self._arrange(self.denied.keys() - over)
            self.on_checked()
        finally:
            if self.chosen or self.opened:
                timing = self._timing
                self._call_later(timing.settle if self._has_changed else timing.check)

    def _unopened(self) -> set[P]:
        return self.wanted - self.opened.keys() - self._reviews.keys()

    def _arrange(self, denied: Set[P]) -> None:
        self.chosen = self.choose(denied, self.opened.keys() | self._reviews.keys())
        self.wanted = self.chosen - denied
        for place in list(self.denied):
            is_unused = place not in denied and place not in self.chosen
            if self.forgets(place, is_unused=is_unused):
                del self.denied[place]
        for place in self._unopened():
            self._reviews[place] = asyncio.create_task(
                self._review(place), name=f"access review of {place}"
            )
        self.retire()

    async def _review(self, place: P) -> None:
        """Open a place if an access review allows it."""
        try:
            missing = await self.find_missing(place)
        except ApiError as error:
            log.debug("can't review whether %s may be watched: %s", place, error)
            return
        finally:
            self._reviews.pop(place, None)
        if place not in self.wanted:
            return
        if missing:
            self.deny(place, missing)
        else:
            self.denied.pop(place, None)
            self.open(place)
