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
from typing import TYPE_CHECKING, Any

from copyrator.api.keys import ObjectName
from copyrator.kube.client.answers import METADATA_WATCH
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import NAMESPACES
from copyrator.kube.watch.reflector import DEFAULT_TIMING, Faults, OnChange, OnSynced, Timing

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

log = logging.getLogger(__name__)


class Presence(enum.Enum):
    """The result of the last read of a namespace."""

    UNKNOWN = "unknown"
    PRESENT = "present"
    GONE = "gone"
    DENIED = "denied"


class NamespacePolls:
    """Reads the namespaces periodically and reports changes, as a Mirror of them.

    `on_change` is also called for a namespace that is found to be gone but was never read.
    `on_synced` is called when all were read for the first time, after `relist`, and when a fault is
    over.

    Attributes:
        lists: how many times all of them were read.
        presence: of each; the names are constant.
        store: the metadata of those that are present.
    """

    def __init__(
        self,
        client: KubeClient,
        names: tuple[str, ...],
        on_change: OnChange[Any],
        on_synced: OnSynced,
        *,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lists = 0
        self.presence = dict.fromkeys(names, Presence.UNKNOWN)
        self.store: dict[ObjectName, dict[str, Any]] = {}
        self._client = client
        self._on_change = on_change
        self._on_synced = on_synced
        self._timing = timing
        self._clock = clock
        self._heard = clock()
        self._faults = Faults(str(self), timing, clock)
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

    def delivered(self, namespace: str) -> int:  # noqa: ARG002 - a poll shows no order
        """Unknown."""
        return 0

    def relist(self) -> None:
        """Read all of them now."""
        self._asked.set()

    def close(self) -> None:
        """No-op: it holds the same few objects always."""

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
        for name in self.presence:
            await self._read(name)
        self.lists += 1
        self._heard = self._clock()
        self._faults.clear()
        self._faults.calm()
        if asked:
            self._on_synced()

    async def _read(self, name: str) -> None:
        try:
            path = NAMESPACES.path(None, name)
            body = await self._client.request("GET", path, accept=METADATA_WATCH)
        except NotFound:
            self._lose(name, Presence.GONE)
        except Forbidden:
            self._lose(name, Presence.DENIED)
        else:
            key = ObjectName("", name)
            before = self.store.get(key)
            self.presence[name] = Presence.PRESENT
            self.store[key] = body
            if before is None or _version(before) != _version(body):
                self._on_change(key, before, body)

    def _lose(self, name: str, presence: Presence) -> None:
        if self.presence[name] is presence:
            return
        self.presence[name] = presence
        known = self.store.pop(ObjectName("", name), None)
        if known is not None or presence is Presence.GONE:
            log.info("the namespace %s is %s", name, presence.value)
            self._on_change(ObjectName("", name), known, None)


def _version(body: Mapping[str, Any]) -> str:
    return str(body["metadata"].get("resourceVersion", ""))
