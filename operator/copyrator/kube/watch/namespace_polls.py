"""Polls namespaces one by one, where they may not be listed or watched cluster-wide.

A Role in a namespace grants get on that Namespace object itself; a list or a watch of namespaces
is cluster-scoped. Changes of a namespace are therefore seen some seconds later than by a watch. A
namespace that we may not read (any more) may be deleted, with the Role in it: it counts neither as
present nor as gone.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.pages import METADATA_WATCH
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import NAMESPACES
from copyrator.kube.watch.faults import DEFAULT_TIMING, Faults, Timing

log = logging.getLogger(__name__)


class Presence(enum.Enum):
    """The result of the last read of a namespace."""

    UNKNOWN = "unknown"
    PRESENT = "present"
    GONE = "gone"
    DENIED = "denied"


NamespaceListener = Callable[[str, dict[str, Any] | None, bool], None]
"""Takes a namespace's name, its body (None: we can't read it), and whether it is certainly gone."""


class NamespacePolls:
    """Reads the namespaces periodically and reports changes; the names are constant.

    Attributes:
        lists: how many times all of them were read.
    """

    def __init__(
        self,
        client: KubeClient,
        names: tuple[str, ...],
        *,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.names = names
        self.lists = 0
        self._client = client
        self._timing = timing
        self._clock = clock
        self._heard = clock()
        self._presence = dict.fromkeys(names, Presence.UNKNOWN)
        self._bodies: dict[str, dict[str, Any]] = {}
        self._listeners: list[NamespaceListener] = []
        self._rounds: list[Callable[[], None]] = []
        self._faults = Faults("namespaces", timing, clock)
        self._asked = asyncio.Event()

    def __str__(self) -> str:
        return "namespaces"

    @property
    def synced(self) -> bool:
        """Whether all readable namespaces were read, recently enough."""
        return self.lists > 0 and self.failing_for < self._timing.tolerance

    @property
    def failure(self) -> ApiError | None:
        """The present fault or None; a missing namespace isn't one."""
        return self._faults.current

    @property
    def failing_for(self) -> float:
        """Duration of the present fault in seconds."""
        return self._faults.seconds

    @property
    def silent_for(self) -> float:
        """Seconds since all of them were read."""
        return self._clock() - self._heard

    def presence(self, name: str) -> Presence:
        """The presence of one of the namespaces."""
        return self._presence[name]

    def listen(
        self, listener: NamespaceListener, on_round: Callable[[], None] = lambda: None
    ) -> None:
        """Register for all changes, after a replay of the present state.

        Listeners are called in the order of their registration.

        `on_round` is called when all were read for the first time, after `relist`, and when a fault
        is over.
        """
        self._listeners.append(listener)
        self._rounds.append(on_round)
        for name, body in list(self._bodies.items()):
            listener(name, body, False)
        if self.lists:
            on_round()

    def ignore(self, listener: NamespaceListener, on_round: Callable[[], None]) -> None:
        """Unregister."""
        self._listeners.remove(listener)
        self._rounds.remove(on_round)

    def relist(self) -> None:
        """Read all of them now."""
        self._asked.set()

    async def run(self) -> None:
        """Poll until cancelled; no fault ends it."""
        while True:
            pause = self._timing.namespaces
            try:
                await self._poll_all()
            except ApiError as error:
                everywhere = self._client.connection.breaker_is_open
                self._faults.note(error, everywhere=everywhere)
                pause = self._faults.next_delay()
            try:
                async with asyncio.timeout(pause):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def _poll_all(self) -> None:
        asked = self._asked.is_set() or self.lists == 0 or self.failure is not None
        self._asked.clear()
        for name in self.names:
            await self._read(name)
        self.lists += 1
        self._heard = self._clock()
        self._faults.clear()
        self._faults.calm()
        for on_round in list(self._rounds) if asked else ():
            on_round()

    async def _read(self, name: str) -> None:
        try:
            path = NAMESPACES.path(None, name)
            body = await self._client.request("GET", path, accept=METADATA_WATCH)
        except NotFound:
            self._lost(name, Presence.GONE)
        except Forbidden:
            self._lost(name, Presence.DENIED)
        else:
            before = self._bodies.get(name)
            self._presence[name] = Presence.PRESENT
            self._bodies[name] = body
            if before is None or _version(before) != _version(body):
                self._notify(name, body, gone=False)

    def _lost(self, name: str, presence: Presence) -> None:
        if self._presence[name] is presence:
            return
        self._presence[name] = presence
        known = self._bodies.pop(name, None)
        if known is not None or presence is Presence.GONE:
            log.info("the namespace %s is %s", name, presence.value)
            self._notify(name, None, gone=presence is Presence.GONE)

    def _notify(self, name: str, body: dict[str, Any] | None, *, gone: bool) -> None:
        for listener in list(self._listeners):
            try:
                listener(name, body, gone)
            except Exception:
                log.exception("a listener to the namespace %s failed", name)


def _version(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion", ""))


def named(name: str) -> ObjectName:
    """The key of a namespace in a store."""
    return ObjectName("", name)
