"""Caches some objects; the cache is current or known to be incomplete, never stale unnoticed.

List, then watch from the list's resourceVersion, for ever. Deletions are reported only on evidence
from the server: a DELETED event, or a complete list without the object. A fault keeps the cache, is
logged once, and is retried with back-off. The history of the streams says whether a watch can be
resumed, and whether it is healthy.

All but the wanted objects are dropped on arrival, with nothing but their name decoded: a tenant
that fills a cluster with objects makes the operator read their metadata, but not hold it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.api.text import count
from copyrator.kube.client.answers import BOOKMARK, WatchEvent
from copyrator.kube.errors import ApiError, BrokenAnswer, Forbidden, Gone, NotFound, Unreachable
from copyrator.kube.resources import DELETED, Resource
from copyrator.workqueue.fairness import TimeSlice, working_for

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.client.transport import Permit
    from copyrator.metrics import Metrics


class Share(Protocol):
    """The common limits of one owner's watches; equal only to itself."""

    @property
    def tenant(self) -> str | None:
        """The namespace that the watches are for; None for the operator and trusted rules."""

    def opened(self) -> None:
        """A watch was opened."""

    def closed(self) -> None:
        """A watch was closed."""

    def held(self, old: Any, new: Any) -> Any:
        """Return the record to cache in place of `old` (None: none): `new`, or a smaller one."""

    def dropped(self, record: Any) -> None:
        """A record was removed from the cache."""


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

    @property
    def tenant(self) -> str | None:
        """The namespace that it is for; None for the operator and trusted rules."""
        return self.share.tenant if self.share else None


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds; only tests use others than the defaults."""

    stream: float = 46.0
    """Requested timeout of a watch, plus or minus a tenth. The server sends a bookmark every 60 s
    and 2 s before the end, if an object of the kind has changed since the last one: a longer watch
    could be silent for a minute and more and still be healthy."""
    silence: float = 55.0
    """Without a byte for so long the stream counts as dead."""
    doubt: float = 16.0
    """Timeout of kopf's streams, and of ours after a broken or silent one, until one is healthy."""
    doubt_silence: float = 20.0
    settled: float = 1.0
    """A stream that ends earlier counts as closed at once: a fault."""
    stable: float = 10.0
    """A stream that was open for so long resets the delays."""
    suspects: float = 2.0
    """In which watches that may be silent are reopened, so that not all come at once."""
    namespaces: float = 10.0
    """Between two polls of namespaces, so the delay of a new label or a deletion."""
    answer: float = 60.0
    """Timeout of a whole answer to kopf, or of a watch's headers."""
    first_delay: float = 0.3
    longest_delay: float = 10.0
    tolerance: float = 60.0
    """After a fault of this duration the cache doesn't count as synced any more."""


DEFAULT_TIMING = Timing()


class Faults:
    """The present fault of a watch, logged once and not per try; and the back-off."""

    def __init__(self, what: str, timing: Timing, clock: Callable[[], float]) -> None:
        self.current: ApiError | None = None
        self.since = 0.0
        self._what = what
        self._timing = timing
        self._clock = clock
        self._reported: set[tuple[type[ApiError], str]] = set()
        self._warned = False
        self._delay = 0.0

    @property
    def seconds(self) -> float:
        """Duration of the present fault; 0 without one."""
        return self._clock() - self.since if self.current else 0.0

    def note(
        self,
        error: ApiError,
        *,
        kept: str = "",
        everywhere: bool = False,
        since: float | None = None,
    ) -> None:
        """Record a fault that occurred now or at the time `since`; `kept` is added to the log line.

        A fault that occurs `everywhere` is logged by the circuit breaker, once for all. A single
        broken connection that is replaced at the first try is not logged.
        """
        is_single = self.current is None and error.concerns_all
        if self.current is None:
            self.since = self._clock() if since is None else since
        self.current = error
        kind = type(error), error.reason
        if kind not in self._reported and not everywhere and not is_single:
            self._reported.add(kind)
            self._warned = True
            log.warning("%s: %s%s", self._what, error, kept)

    def clear(self) -> None:
        """The fault is over."""
        if self._warned:
            log.info("%s: works again after %.0f s", self._what, self.seconds)
        self.current = None
        self._warned = False

    def calm(self) -> None:
        """Called after a long time without a fault: reset the delays, and log the next fault.

        A fault that comes and goes within seconds is logged once.
        """
        self._delay = 0.0
        if self.current is None:
            self._reported.clear()

    def next_delay(self) -> float:
        """Seconds to wait before the next try: each time three times as long, with jitter.

        A dozen watches that all fail still make fewer than ten tries a second.
        """
        timing = self._timing
        self._delay = min(max(self._delay * 3, timing.first_delay), timing.longest_delay)
        return self._delay * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets


# The watch ---------------------------------------------------------------------------------------

RESUMES = 3
"""Tries to resume a watch before everything is listed again: after etcd was restored from a backup
our resourceVersion may be in its future, and the server always answers "too large"."""


class WatchHealth:
    """One for each watch, for all its streams.

    Attributes:
        doubt: a stream was silent; the next one counts as healthy only after an event, a bookmark
            or a regular end.
        suspected: a stream broke or was refused, or another watch was found silent: the same cause
            may leave the next one silent, so that one is short, and its silence is detected soon.
    """

    def __init__(self, timing: Timing) -> None:
        self.doubt = False
        self.suspected = False
        self._timing = timing
        self._resumes = 0
        self._expired = False
        self._bookmarks = True

    def lengths(self) -> tuple[float, float]:
        """Timeout of the next stream and how long it may be silent, in seconds."""
        timing = self._timing
        spread = random.uniform(0.9, 1.1)  # noqa: S311 - not for secrets
        short = self.doubt or self.suspected
        length = timing.doubt if short else timing.stream * spread
        silence = timing.doubt_silence if short else timing.silence
        return length, silence if self._bookmarks else length + 5.0

    def broke(self, error: ApiError, *, opened: bool) -> tuple[ApiError | None, str]:
        """Record the failure of a stream, or the refusal of one that was never `opened`.

        Returns:
            The error to report, or None; and the reason why everything has to be listed again,
            empty where the watch can be resumed.
        """
        self.suspected = True
        if isinstance(error, Gone):
            again, self._expired = self._expired, True
            return error if again else None, "expired"  # once is normal, repeatedly isn't
        if isinstance(error, OutOfOrderError):
            return error, "out_of_order"
        if opened and error.reason == "Timeout":
            self.doubt = True
            silent = "the watch has received no event and no bookmark"
            return Unreachable(silent, reason="WatchSilent"), "silent"
        if opened or error.status:  # without an answer the version isn't in doubt
            self._resumes += 1
        return error, "lost" if self._resumes >= RESUMES else ""

    def ended(self, lived: float, *, bookmarks: bool) -> None:
        """Record a stream's regular end after `lived` seconds.

        Raises:
            BrokenAnswer: it was closed at once.
        """
        if lived < self._timing.settled:
            raise BrokenAnswer("the server closes the watch at once", reason="WatchClosed")
        self._bookmarks = bookmarks or (self._bookmarks and not self.doubt)
        self.suspected = False
        self.recovered()

    def listed(self) -> None:
        """Everything was listed: the next watch starts from there."""
        self._resumes = 0

    def recovered(self) -> None:
        """The stream is healthy."""
        self.doubt = False
        self._resumes = 0
        self._expired = False


OnChange = Callable[[ObjectName, R | None, R | None], None]
OnSynced = Callable[[], None]

POLL_SECONDS = 45.0
"""Seconds between two lists while no watch can be opened."""


class Reflector(Generic[R]):
    """Mirrors the matching objects of one kind into `store`.

    `versions` are the resourceVersions that the watches of each resource have reached, by its key;
    a new reflector of a single object that shares it starts from there.

    Attributes:
        last_contact: `clock` at the server's last answer or event, or else at the start.
        lists: complete lists so far.
    """

    def __init__(
        self,
        client: KubeClient,
        spec: WatchSpec,
        *,
        on_change: OnChange[R],
        on_synced: OnSynced | None = None,
        versions: dict[str, str] | None = None,
        metrics: Metrics | None = None,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = spec.resource
        self.last_contact = clock()
        self.lists = 0
        self._client = client
        self._spec = spec
        self._name = None if spec.metadata_only else spec.name
        self._versions = {} if versions is None else versions
        self._filter: dict[str, Any] = {
            "namespace": spec.namespace,
            "label_selector": spec.label_selector,
            "field_selector": f"metadata.name={spec.name}" if spec.name else None,
            "metadata_only": spec.metadata_only,
            "names_only": spec.wanted is not None,
        }
        self._store: Store[R] = Store(spec.decode, spec.share)
        if spec.wanted is not None:
            self._store = spec.wanted.store(spec.decode)
        self._on_change = on_change
        self._on_synced = on_synced
        self._metrics = metrics
        self._timing = timing
        self._clock = clock
        self._version: str | None = None
        self._health = WatchHealth(timing)
        self._faults = Faults(f"watch of {self}", timing, clock)
        self._complete = False
        self._listed_at = 0.0
        self._asked_at = clock()
        self._unannounced = False
        self._asked = False
        self._suspected = False
        self._scope: asyncio.Timeout | None = None

    def __str__(self) -> str:
        parts = [self.resource.key]
        parts += [f"in {self._spec.namespace}"] if self._spec.namespace else []
        selectors = (self._filter["label_selector"], self._filter["field_selector"])
        parts += [f"with {selector}" for selector in selectors if selector]
        return " ".join(parts) + self._client.connection.place

    @property
    def store(self) -> dict[ObjectName, R]:
        """The cached records; read-only."""
        return self._store.records

    def delivered(self, namespace: str) -> int:  # noqa: ARG002 - for a watch of each namespace
        """The resourceVersion up to which the cache shows every change; 0 before a list."""
        return self._store.delivered

    @property
    def synced(self) -> bool:
        """A full list completed; faults shorter than `tolerance` are ignored.

        Only then does the absence of an object mean its deletion.
        """
        known = self._clock() - max(self._faults.since, self._listed_at)
        return self._complete and (not self.failure or known < self._timing.tolerance)

    @property
    def failure(self) -> ApiError | None:
        """The present fault or None."""
        return self._faults.current

    @property
    def failing_for(self) -> float:
        """Duration of the present fault in seconds; 0 without one."""
        return self._faults.seconds

    @property
    def silent_for(self) -> float:
        """Seconds since the server's last answer or event."""
        return self._clock() - self.last_contact

    def relist(self) -> None:
        """List everything again now, to confirm the cache; `lists` grows when that is complete."""
        self._asked = True
        self._end_watch(at=0)

    def suspect(self) -> None:
        """Another watch was found silent: reopen this one, unless it received something just now.

        It is resumed, with a short timeout: if it is silent too, that is detected soon.
        """
        if self._scope and self.silent_for >= self._timing.settled:
            self._suspected = True
            spread = random.uniform(0.0, self._timing.suspects)  # noqa: S311 - not for secrets
            self._end_watch(at=asyncio.get_running_loop().time() + spread)

    def _end_watch(self, at: float) -> None:
        if self._scope and not self._scope.expired():  # else it ends already
            self._scope.reschedule(at)

    def close(self) -> None:
        """Release the store; `run` is to be cancelled, too."""
        self._store.close()

    async def run(self) -> None:
        """Mirror until cancelled; no fault ends it."""
        with working_for(self._spec.tenant):  # not for the caller that started it
            await self._run()

    async def _run(self) -> None:
        while True:
            try:
                if self._asked:
                    self._asked, self._version = False, None
                await self._cycle()
            except ApiError as error:
                self._fail(error)
                await asyncio.sleep(self._faults.next_delay())
            except Exception as error:
                log.exception("watch of %s: internal error; it is restarted", self)
                self._version = None
                self._fail(ApiError(f"internal error: {type(error).__name__}", reason="Internal"))
                await asyncio.sleep(self._faults.next_delay())

    # --- list and watch --------------------------------------------------------------------------

    async def _cycle(self) -> None:
        """List where needed, then watch; waits first while watches are held back."""
        try:
            permit = await self._client.connection.watches.permit(self, patience=POLL_SECONDS)
        except ApiError:
            self._version = await self._list()  # no watch can be opened, but a list shows changes
            return
        self._asked_at = self._clock()
        try:
            if self._version is None:
                self._version = await self._get() or await self._list()
            await self._follow(self._version, permit)
        except ApiError as error:
            if not isinstance(error, Forbidden | NotFound):  # which affect this watch alone
                permit.failed(error)
            raise
        finally:
            permit.given_up()

    async def _get(self) -> str | None:
        """Read the one object that is watched; return a version to watch from, or None: list.

        A consistent list waits 0.1 s for the server's cache, a get doesn't wait. The object's
        own version may be compacted, so its watch starts where others of the resource are; events
        that the stream repeats are older than what was read. Its absence needs a list as evidence.
        """
        since = self._versions.get(self.resource.key)
        if self._name is None or since is None or self.lists:
            return None
        try:
            body = await self._client.get(self.resource, self._spec.namespace, self._name)
        except (Forbidden, NotFound):
            return None
        self._store.begin_list()
        self._notify(self._store.listed(body))
        self._listed(version_of(body))
        return since

    async def _list(self) -> str:
        """List everything; return the resourceVersion to watch from."""
        version = ""
        slice_ = TimeSlice()
        self._store.begin_list()
        async with aclosing(self._client.list_pages(self.resource, **self._filter)) as found:
            async for page in found:
                version = version or page.resource_version
                for body in page.items:
                    self._notify(self._store.listed(body))
                    await slice_.pause()
                self.last_contact = self._clock()
        self._listed(version)
        self._versions[self.resource.key] = version
        return version

    def _listed(self, version: str) -> None:
        """Record that everything was read as of this resourceVersion."""
        for change in self._store.end_list(version):
            self._notify(change)
        self.lists += 1
        self._listed_at = self.last_contact = self._clock()
        self._health.listed()
        self._complete = self._unannounced = True
        self._announce()

    async def _follow(self, version: str, permit: Permit) -> None:
        """Watch until the stream ends; an early or silent end is a fault."""
        opened: list[float] = []
        timers: list[asyncio.TimerHandle] = []

        def settled() -> None:
            permit.succeeded()
            if not self._health.doubt:  # else only after an event or bookmark
                self._recover()

        def on_open() -> None:
            self.last_contact = self._clock()
            opened.append(self.last_contact)
            timers.append(asyncio.get_running_loop().call_later(self._timing.settled, settled))

        length, silence = self._health.lengths()
        stream = self._client.watch(
            self.resource,
            **self._filter,
            resource_version=version,
            timeout=length,
            silence=silence,
            on_open=on_open,
            reserved=self._spec.reserved,
        )
        try:
            async with asyncio.timeout(None) as self._scope:
                bookmarks = await self._read(stream)
            self._health.ended(self._clock() - opened[0], bookmarks=bookmarks)
            self._recover()
        except TimeoutError:  # by relist() or suspect()
            self._health.suspected |= self._suspected
            self._suspected = False
        except ApiError as error:
            self._broke(error, opened=bool(opened))
        finally:
            self._scope = None
            for timer in timers:
                timer.cancel()
            if opened and self._clock() - opened[0] >= self._timing.stable:
                self._faults.calm()

    async def _read(self, stream: AsyncGenerator[WatchEvent, None]) -> bool:
        """Process all events of a stream; return whether there were bookmarks among them."""
        bookmarks = False
        async with aclosing(stream) as events:
            async for event in events:
                self.last_contact = self._clock()
                if self._health.doubt:
                    self._recover()
                version = version_of(event.object)
                if event.type == BOOKMARK:
                    bookmarks = True
                    self._store.bookmark(version)
                else:
                    self._notify(self._store.event(event.type, event.object))
                    if self._metrics:
                        labels = self.resource.key, event.type.lower()
                        self._metrics.watch_events.labels(*labels).inc()
                self._version = self._versions[self.resource.key] = version
        return bookmarks

    # --- faults ----------------------------------------------------------------------------------

    def _broke(self, error: ApiError, *, opened: bool) -> None:
        report, restart = self._health.broke(error, opened=opened)
        if restart:
            self._version = None
            if self._metrics:
                self._metrics.watch_restarts.labels(self.resource.key, restart).inc()
        if report:
            raise report from None

    def _fail(self, error: ApiError) -> None:
        self._faults.note(
            error,
            kept=f"; {count(len(self.store), 'cached object is', 'cached objects are')} kept",
            everywhere=self._client.connection.breaker_is_open,
            since={"WatchSilent": self.last_contact, "Timeout": self._asked_at}.get(error.reason),
        )
        if isinstance(error, Forbidden | NotFound):
            self._complete = False  # we may not list it, or it isn't served
            self._version = None

    def _recover(self) -> None:
        self._health.recovered()
        if self.failure:
            self._unannounced |= not self.synced
            self._faults.clear()
            self._announce()

    def _notify(self, change: Change[R] | None) -> None:
        if change is not None:
            self._on_change(*change)

    def _announce(self) -> None:
        if self._unannounced and self.synced:
            self._unannounced = False
            if self._on_synced:
                self._on_synced()
