"""The health of kopf's lists and watches, and the check of each event of its watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import aiohttp

from copyrator.api.keys import ObjectName
from copyrator.handlers.kopf_text import KopfPage, wrapped_event
from copyrator.kube.client.pages import BOOKMARK, bare_event, lines
from copyrator.kube.client.transport import OnRefused
from copyrator.kube.errors import ApiError, BrokenAnswer, Forbidden, Refusal, Unreachable
from copyrator.kube.resources import DELETED
from copyrator.kube.watch.informers import WatchSpec, WatchStatus
from copyrator.kube.watch.reflector import Faults, Timing, WatchHealth
from copyrator.kube.watch.store import OutOfOrderError

LIST_AGAIN = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'

LONGEST_PAGE = 50
"""Objects per page of kopf's list: a Bundle with its whole history has 6 KB."""

OnListed = Callable[[WatchSpec, set[ObjectName]], None]
"""Called with what was listed and the names of all its objects."""


def _ignore(_refusal: Refusal) -> None:
    """No-op `on_refused`."""


class KopfPath:
    """The state of one path: its present fault, and the pause before the next request.

    Attributes:
        spec: what is listed and watched here; None for discovery.
        last_contact: `clock` at the server's last answer.
        page_size: limit of objects in the list's next page.
        on_refused: called for every RBAC 403.
        on_listed: called with the names in a complete list.
        on_silent: called when a healthy watch of kopf's is found silent.
    """

    def __init__(
        self, path: str, spec: WatchSpec | None, timing: Timing, clock: Callable[[], float]
    ) -> None:
        self.spec = spec
        self.timing = timing
        self.clock = clock
        self.last_contact = clock()
        self.page_size = LONGEST_PAGE
        self.on_refused: OnRefused = _ignore
        self.on_listed: OnListed = lambda _spec, _names: None
        self.on_silent: Callable[[], None] = lambda: None
        self.health = WatchHealth(timing)
        what = f"kopf's watch of {spec.resource.key}" if spec else f"kopf's read of {path}"
        self._faults = Faults(what, timing, clock)
        self._pause = 0.0
        self._shown: set[ObjectName] = set()

    def status(self, spec: WatchSpec) -> WatchStatus:
        """As `/readyz` shows it; the objects are kopf's."""
        return WatchStatus(
            spec=spec,
            synced=self._faults.current is None,
            objects=0,
            failure=self._faults.current,
            failing_for=self._faults.seconds,
            silent_for=self.clock() - self.last_contact,
        )

    async def rest(self) -> None:
        """Wait for the pause that the last fault requires."""
        pause, self._pause = self._pause, 0.0
        await asyncio.sleep(pause)

    def note(
        self, error: ApiError, *, since: float | None = None, everywhere: bool = False
    ) -> None:
        """Record a fault that occurred now or at the time `since`."""
        if isinstance(error, Forbidden) and error.refusal:
            self.on_refused(error.refusal)
        self._faults.note(error, since=since, everywhere=everywhere)
        self._pause = max(self._faults.next_delay(), min(error.retry_after or 0.0, 60.0))

    def broke(self, error: ApiError, *, opened: bool = False, everywhere: bool = False) -> bool:
        """Record that a watch failed or was refused; return whether kopf has to list again."""
        doubted = self.health.doubt
        report, restart = self.health.broke(error, opened=opened)
        if report:
            silent = report.reason == "WatchSilent"
            self.note(report, since=self.last_contact if silent else None, everywhere=everywhere)
            if silent and not doubted:
                self.on_silent()
        return bool(restart)

    def answered(self) -> None:
        """Record a complete answer. A path with a watch is healthy only once that is open."""
        self.health.listed()
        if self.spec is None:
            self.recover()

    def take_page(self, spec: WatchSpec, page: KopfPage, *, first: bool) -> None:
        """Add a page to its list."""
        if first:
            self._shown = set()
        self._shown |= page.names
        if page.last:
            self.on_listed(spec, self._shown)
            self._shown = set()

    def recover(self) -> None:
        """Clear the fault."""
        self.health.recovered()
        self._faults.clear()

    def settled(self) -> None:
        """Called when a watch has been open for `settled` seconds."""
        if not self.health.doubt:
            self.recover()

    def calm(self) -> None:
        """Called when a watch was open for `stable` seconds or more."""
        self._faults.calm()

    def ended(self, lived: float) -> None:
        """Record a watch's regular end; raises BrokenAnswer when that was too early."""
        self.health.ended(lived, bookmarks=True)
        self.recover()
        if lived >= self.timing.stable:
            self._faults.calm()


class GuardedEvents:
    """Replaces the content of a watch's response; checks each event.

    Ends with the event that makes kopf list again, where needed; `lost`: has only that one.
    """

    def __init__(self, path: KopfPath, content: aiohttp.StreamReader, *, lost: bool) -> None:
        self._path = path
        self._content = content
        self._lost = lost
        self._latest = 0

    def __getattr__(self, name: str) -> Any:
        """Every other attribute that aiohttp uses."""
        return getattr(self._content, name)

    async def iter_chunked(self, _size: int) -> AsyncGenerator[bytes, None]:
        """One event at a time; kopf reads a watch with this method."""
        if self._lost:
            yield LIST_AGAIN
            return
        path = self._path
        opened = path.clock()
        timer = asyncio.get_running_loop().call_later(path.timing.settled, path.settled)
        try:
            async with aclosing(lines(self._chunks())) as found:
                async for line in found:
                    yield self._checked(line) + b"\n"
            path.ended(path.clock() - opened)
        except ApiError as error:
            if path.clock() - opened >= path.timing.stable:
                path.calm()
            if path.broke(error, opened=True):
                yield LIST_AGAIN
        finally:
            timer.cancel()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        path = self._path
        while True:
            try:
                async with asyncio.timeout(path.timing.doubt_silence):
                    chunk = await self._content.readany()
            except TimeoutError:
                raise Unreachable("no response", reason="Timeout") from None
            except (aiohttp.ClientError, OSError) as error:
                raise BrokenAnswer("the watch was interrupted") from error
            if not chunk:
                return
            path.last_contact = path.clock()
            if path.health.doubt:
                path.recover()
            yield chunk

    def _checked(self, line: bytes) -> bytes:
        """Check an event and convert it to kopf's form.

        Raises:
            ApiError: it is invalid or out of order; a late one may be of an object long deleted.
        """
        event = bare_event(line)
        found, version = wrapped_event(event)
        if not version:
            raise BrokenAnswer("the API server sent an object without a resourceVersion")
        number = int(version) if version.isdecimal() else self._latest
        if number < self._latest and event.type not in (BOOKMARK, DELETED):
            raise OutOfOrderError
        self._latest = max(self._latest, number)
        return found
