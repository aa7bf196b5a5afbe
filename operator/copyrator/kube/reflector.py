"""Keeps a local picture of some objects, true or known to be incomplete, never silently stale.

List, then watch from where the list stood, for ever. Deletions are reported only when the server
said so: by a DELETED event, or by a complete list that no longer shows the object. Every fault
keeps what is known, is logged once, and is retried with growing delays.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from copyrator.api.keys import ObjectName
from copyrator.kube.client import KubeClient, WatchEvent
from copyrator.kube.errors import ApiError, BrokenAnswer, Forbidden, Gone, NotFound, Unreachable
from copyrator.kube.faults import DEFAULT_TIMING, Faults, Timing
from copyrator.kube.pages import BOOKMARK
from copyrator.kube.resources import Resource
from copyrator.kube.store import Change, OutOfOrderError, Store, version_of
from copyrator.metrics import Metrics

log = logging.getLogger(__name__)

R = TypeVar("R")

OnChange = Callable[[ObjectName, R | None, R | None], None]


RESUMES = 3
"""Tries to go on with a watch before everything is listed again: after etcd was restored from a
backup our version lies in its future, and the server answers "too large" for ever."""


class Reflector(Generic[R]):
    """Mirrors the objects of one kind that match into `store`.

    Attributes:
        last_contact: `clock` when the server was last heard.
        lists: complete lists so far.
    """

    def __init__(
        self,
        client: KubeClient,
        res: Resource,
        *,
        decode: Callable[[dict[str, Any]], R],
        on_change: OnChange[R],
        on_synced: Callable[[], None] | None = None,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        metrics: Metrics | None = None,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = res
        self.last_contact: float | None = None
        self.lists = 0
        self._client = client
        self._filter: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "metadata_only": metadata_only,
        }
        self._store = Store(decode)
        self._on_change = on_change
        self._on_synced = on_synced
        self._metrics = metrics
        self._timing = timing
        self._clock = clock
        self._version: str | None = None
        self._resumes = 0
        self._expired = False
        self._doubt = False
        self._bookmarks_expected = True
        self._faults = Faults(str(self), timing, clock)
        self._changed = asyncio.Event()
        self._complete = False
        self._unannounced = False
        self._asked = False
        self._scope: asyncio.Timeout | None = None

    def __str__(self) -> str:
        parts = [self.resource.key]
        parts += [f"in {self._filter['namespace']}"] if self._filter["namespace"] else []
        selectors = (self._filter["label_selector"], self._filter["field_selector"])
        parts += [f"with {selector}" for selector in selectors if selector]
        return " ".join(parts)

    @property
    def store(self) -> dict[ObjectName, R]:
        """What is known; to be read, not changed."""
        return self._store.records

    @property
    def synced(self) -> bool:
        """A complete list has been seen, and what changed since is known, give or take a hiccup.

        Only then may the absence of an object be taken for its deletion.
        """
        return self._complete and self.failing_for < self._timing.tolerance

    @property
    def failure(self) -> ApiError | None:
        """The present fault, None when all is well."""
        return self._faults.current

    @property
    def failing_for(self) -> float:
        """Seconds that the present fault has lasted, 0 when all is well."""
        return self._faults.seconds

    async def wait_synced(self) -> None:
        """Return when `synced` is True."""
        while not self.synced:
            await self._changed.wait()

    def relist(self) -> None:
        """List everything again now, as a second opinion; `lists` grows when that is complete."""
        self._asked = True
        if self._scope:
            self._scope.reschedule(0)

    async def run(self) -> None:
        """Mirror until cancelled; no fault ends it."""
        while True:
            try:
                if self._asked:
                    self._asked, self._version = False, None
                if self._version is None:
                    self._version = await self._list()
                await self._follow(self._version)
            except ApiError as error:
                self._fail(error)
                await asyncio.sleep(self._faults.next_delay())
            except Exception as error:
                log.exception("watch of %s: an error of ours; it starts again", self)
                self._version = None
                self._fail(ApiError(f"internal error: {type(error).__name__}", reason="Internal"))
                await asyncio.sleep(self._faults.next_delay())

    # --- list and watch --------------------------------------------------------------------------

    async def _list(self) -> str:
        """Read everything; returns the version to watch from."""
        version = ""
        self._store.begin_list()
        async with aclosing(self._client.list_pages(self.resource, **self._filter)) as found:
            async for page in found:
                version = version or page.resource_version
                for body in page.items:
                    self._notify(self._store.listed(body))
                self.last_contact = self._clock()
        for change in self._store.end_list(version):
            self._notify(change)
        self.lists += 1
        self._resumes = 0
        self._complete = self._unannounced = True
        self._announce()
        return version

    async def _follow(self, version: str) -> None:
        """Watch until the stream ends; what ends it too early or in silence is a fault."""
        opened: list[float] = []
        timers: list[asyncio.TimerHandle] = []

        def on_open() -> None:
            self.last_contact = self._clock()
            opened.append(self.last_contact)
            loop = asyncio.get_running_loop()
            timers.append(loop.call_later(self._timing.settled, self._recover))

        try:
            async with asyncio.timeout(None) as self._scope:
                await self._read(self._stream(version, on_open))
            self._ended(self._clock() - opened[0])
        except TimeoutError:
            self._asked = True  # by relist()
        except (ApiError, OutOfOrderError) as error:
            self._broken(error, opened=bool(opened))
        finally:
            self._scope = None
            for timer in timers:
                timer.cancel()
            if opened and self._clock() - opened[0] >= self._timing.stable:
                self._faults.calm()

    def _stream(
        self, version: str, on_open: Callable[[], None]
    ) -> AsyncGenerator[WatchEvent, None]:
        timing = self._timing
        length = timing.doubt if self._doubt else timing.stream * _spread()
        silence = timing.doubt_silence if self._doubt else timing.silence
        if not self._bookmarks_expected:
            silence = length + 5.0
        return self._client.watch(
            self.resource,
            **self._filter,
            resource_version=version,
            timeout=length,
            silence=silence,
            on_open=on_open,
        )

    async def _read(self, stream: AsyncGenerator[WatchEvent, None]) -> None:
        bookmarks = False
        async with aclosing(stream) as events:
            async for event in events:
                self.last_contact = self._clock()
                self._doubt = False
                version = version_of(event.object)
                if event.type == BOOKMARK:
                    bookmarks = self._bookmarks_expected = True
                    self._store.bookmark(version)
                else:
                    self._notify(self._store.event(event.type, event.object))
                    if self._metrics:
                        labels = self.resource.key, event.type.lower()
                        self._metrics.watch_events.labels(*labels).inc()
                self._version = version
        if self._doubt and not bookmarks:
            self._bookmarks_expected = False  # it ended in order: this server sends none
        self._doubt = False

    def _ended(self, lived: float) -> None:
        """The server ended the stream, as it was asked to, or too early."""
        if lived < self._timing.settled:
            raise BrokenAnswer("the server closes the watch at once", reason="WatchClosed")
        self._recover()

    # --- faults ----------------------------------------------------------------------------------

    def _broken(self, error: ApiError | OutOfOrderError, *, opened: bool) -> None:
        """Decide where to go on from after a fault, and raise what is to be reported."""
        if isinstance(error, OutOfOrderError):
            self._restart("out_of_order")
            raise BrokenAnswer("events of the watch come out of order", reason="OutOfOrder")
        if isinstance(error, Gone):
            self._restart("expired")
            if self._expired:  # once is normal; again and again isn't
                raise error
            self._expired = True
            return
        if opened and error.reason == "Timeout":
            self._doubt = True
            self._restart("silent")
            raise Unreachable("the watch is silent: no event, no bookmark", reason="WatchSilent")
        if opened or error.status:  # a server that isn't there says nothing about our version
            self._resumes += 1
        if self._resumes >= RESUMES:
            self._restart("lost")
        raise error

    def _restart(self, reason: str) -> None:
        self._version = None
        if self._metrics:
            self._metrics.watch_restarts.labels(self.resource.key, reason).inc()

    def _fail(self, error: ApiError) -> None:
        everywhere = self._client.outage is not None
        self._faults.note(error, known=len(self.store), everywhere=everywhere)
        if isinstance(error, Forbidden | NotFound):
            self._complete = False  # we may not look, or there is nowhere to look
            self._version = None
        self._pulse()

    def _recover(self) -> None:
        self._resumes = 0
        self._expired = False
        if self.failure:
            self._unannounced |= not self.synced
            self._faults.clear()
            self._announce()

    def _notify(self, change: Change[R] | None) -> None:
        if change is not None:
            self._on_change(*change)

    def _announce(self) -> None:
        self._pulse()
        if self._unannounced and self.synced:
            self._unannounced = False
            if self._on_synced:
                self._on_synced()

    def _pulse(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _spread() -> float:
    return random.uniform(0.9, 1.1)  # noqa: S311 - not for secrets
