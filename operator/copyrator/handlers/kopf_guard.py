"""Filters the API server's answers to kopf, because kopf doesn't handle all of them.

Unfiltered, kopf reopens a watch that closes at once thousands of times a second, ends on an error
within a watch, a truncated answer or an expired page of a list, and logs each try. Here such
answers are logged once and retried with exponential back-off; where a watch can't continue, kopf
gets a 410, the one error after which it lists again. See docs/adr/0001-events-only.md.

Objects get to kopf as their identifying metadata, and the whole object as one text. kopf decodes a
page of a list as a whole, and each event with Python's own parser. One object of 1.4 MB can hold
700,000 lists: that takes it a quarter of a second, and a text of that size 5 ms. The handlers
decode the text, object by object and within limits (``whole``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec

from copyrator.api.keys import ObjectName
from copyrator.api.schema import DECODER
from copyrator.connections import Connector, keepalive_socket
from copyrator.kube.client.answers import (
    BOOKMARK,
    MOST,
    BareEvent,
    Page,
    bare_event,
    decode_page,
    fewer,
    flattened,
    from_answer,
    lines,
    no_answer,
    read,
    read_answer,
)
from copyrator.kube.client.transport import Connection, Endpoint, OnRefused
from copyrator.kube.errors import (
    AnswerTooLarge,
    ApiError,
    BrokenAnswer,
    Forbidden,
    Gone,
    Unauthorized,
    Unreachable,
)
from copyrator.kube.resources import DELETED, Resource
from copyrator.kube.watch.informers import WatchStatus
from copyrator.kube.watch.reflector import (
    DEFAULT_TIMING,
    Faults,
    OutOfOrderError,
    Timing,
    WatchHealth,
    WatchSpec,
)

TEXT: Final = "text"
"""The field that holds the whole object, as JSON."""


class _Metadata(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, rename="camel", omit_defaults=True):
    metadata: _Metadata
    api_version: str = ""
    kind: str = ""
    text: str = ""


_head_decoder = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True)
class KopfPage:
    """A page of a list in the form that kopf gets.

    Attributes:
        raw: the list; each of its items is a head with a text.
        names: of its objects.
        last: whether it is the list's last page.
    """

    raw: bytes
    names: set[ObjectName]
    last: bool


def wrapped_page(page: Page, res: Resource) -> KopfPage:
    """Convert a page of the API server's to kopf's form.

    Raises:
        BrokenAnswer: an item is not an object.
    """
    heads = [_head(raw) for raw in page.items.raw()]
    body = {
        "kind": f"{res.kind}List",
        "apiVersion": res.api_version,
        "metadata": {"resourceVersion": page.resource_version, "continue": page.continue_token},
        "items": heads,
    }
    names = {ObjectName(head.metadata.namespace, head.metadata.name) for head in heads}
    return KopfPage(msgspec.json.encode(body), names, last=not page.continue_token)


def wrapped_event(event: BareEvent) -> tuple[bytes, str]:
    """Convert an event of the API server's to kopf's form; also return its resourceVersion.

    Raises:
        BrokenAnswer: it holds no object.
    """
    head = _head(event.raw)
    return msgspec.json.encode({"type": event.type, "object": head}), head.metadata.resource_version


def whole(body: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the object from its text; return a body without a text as it is."""
    text = body.get(TEXT)
    decoded: dict[str, Any] = read(text.encode()) if isinstance(text, str) else dict(body)
    return decoded


def _head(raw: bytes) -> _Head:
    try:
        try:
            head = _head_decoder.decode(raw)
        except RecursionError:  # still too deep for one object, so that `read` marks it
            raw = flattened(raw, 2 * MOST)
            head = _head_decoder.decode(raw)
        head.text = raw.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenAnswer("the API server sent something that isn't an object") from error
    return head


LIST_AGAIN = b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n'

LONGEST_PAGE = 50
"""Objects per page of kopf's list: a Bundle with its whole history has 6 KB."""

OnListed = Callable[[WatchSpec, set[ObjectName]], None]
"""Called with what was listed and the names of all its objects."""


class KopfPath:
    """The state of one path: its present fault, and the pause before the next request.

    Attributes:
        spec: what is listed and watched here; None for discovery.
        last_contact: `clock` at the server's last answer.
        page_size: limit of objects in the list's next page.
    """

    def __init__(self, guard: KopfGuard, path: str, spec: WatchSpec | None) -> None:
        self.spec = spec
        self.timing = guard.timing
        self.clock = guard.clock
        self.last_contact = guard.clock()
        self.page_size = LONGEST_PAGE
        self.health = WatchHealth(guard.timing)
        what = f"kopf's watch of {spec.resource.key}" if spec else f"kopf's read of {path}"
        self._guard = guard
        self._faults = Faults(what, guard.timing, guard.clock)
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
            self._guard.on_refused(error.refusal)
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
                self._guard.on_silent()
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
            self._guard.on_listed(spec, self._shown)
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


KOPF_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one page of a list of rules or Bundles: kopf decodes each as a whole."""

WATCH_SECONDS = int(DEFAULT_TIMING.doubt)
"""Timeout of kopf's watches: short, so that a silent one is detected soon."""

_Handler = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]


class KopfGuard:
    """Makes kopf's HTTP sessions and reports the health of its lists and watches."""

    def __init__(
        self,
        connection: Connection,
        *resources: Resource,
        timing: Timing = DEFAULT_TIMING,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connection = connection
        self._resources = resources
        self.timing = timing
        self.clock = clock
        self.on_refused: OnRefused = lambda _refusal: None
        """Called for every RBAC 403 that kopf gets."""
        self.on_listed: OnListed = lambda _spec, _names: None
        """Called with the names in each complete list of kopf's; kopf has no callback for it."""
        self.on_silent: Callable[[], None] = lambda: None
        """Called when a watch of kopf's, which are short, is found silent: others may be, too."""
        self._paths: dict[str, KopfPath] = {}

    def session(self) -> aiohttp.ClientSession:
        """A session with the present credentials; must be called in the running loop."""
        endpoint = self.connection.endpoint

        async def guarded(
            request: aiohttp.ClientRequest, handler: _Handler
        ) -> aiohttp.ClientResponse:
            exchange = _Exchange(
                path=self._path(request.url.path),
                connection=self.connection,
                endpoint=endpoint,
                session=session,
                request=request,
                handler=handler,
            )
            watches = "watch" in request.url.query
            return await (exchange.watch() if watches else exchange.fetch())

        session = aiohttp.ClientSession(
            connector=Connector(ssl=endpoint.ssl or True, socket_factory=keepalive_socket),
            proxy=endpoint.proxy,
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(guarded,),
        )
        return session

    def statuses(self) -> list[WatchStatus]:
        """The present health of kopf's watches."""
        return [path.status(path.spec) for path in self._paths.values() if path.spec]

    def _path(self, path: str) -> KopfPath:
        if path not in self._paths:
            self._paths[path] = KopfPath(self, path, self._spec(path))
        return self._paths[path]

    def _spec(self, path: str) -> WatchSpec | None:
        """The list and watch that a path serves; None for discovery."""
        namespace = path.split("/")[5] if "/namespaces/" in path else None
        for resource in self._resources:
            if path == resource.path(namespace):
                return WatchSpec(resource, namespace)
        return None


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One request of kopf's, retried until there is an answer that kopf handles."""

    path: KopfPath
    connection: Connection
    endpoint: Endpoint
    session: aiohttp.ClientSession
    request: aiohttp.ClientRequest
    handler: _Handler
    refusal: aiohttp.ClientResponse | None = None
    """The answer that made the last try fail, if there was one."""

    async def fetch(self) -> aiohttp.ClientResponse:
        """A page of a list, or a document of discovery: complete, and JSON.

        Raises:
            aiohttp.ClientPayloadError: the list has to be restarted; kopf does that.
        """
        first = "continue" not in self.request.url.query
        if first:
            self.path.page_size = LONGEST_PAGE
        while True:
            self._limit_page(self.path.page_size)
            try:
                response = await self._try(whole=True)
                if self.path.spec and response.status != 404:
                    await self._take_page(response, self.path.spec, first=first)
            except AnswerTooLarge:
                self.path.page_size = fewer(self.path.page_size)
                continue
            except ApiError as error:
                self.path.note(error, everywhere=self.connection.breaker_is_open)
                if isinstance(error, Gone):
                    raise aiohttp.ClientPayloadError("the list's page has expired") from error
                continue
            self.path.answered()
            return response

    def _limit_page(self, most: int) -> None:
        """Limit the number of objects in a page."""
        url = self.request.url
        if self.path.spec and int(url.query.get("limit", LONGEST_PAGE)) > most:
            self.request.url = url.update_query(limit=most)

    async def _take_page(
        self, response: aiohttp.ClientResponse, spec: WatchSpec, *, first: bool
    ) -> None:
        """Replace each object by one that holds it as text."""
        page = decode_page(await response.read(), lone=self.path.page_size == 1)
        found = wrapped_page(page, spec.resource)
        response._body = found.raw
        self.path.page_size = page.next_limit()
        self.path.take_page(spec, found, first=first)

    async def watch(self) -> aiohttp.ClientResponse:
        """An open watch, or in its place one whose only event makes kopf list again."""
        while True:
            try:
                response = await self._try(whole=False)
            except ApiError as error:
                lost = self.path.broke(error, everywhere=self.connection.breaker_is_open)
                if self.refusal is None or not lost:
                    continue
                response, self.refusal.status = self.refusal, 200
            if response.status != 404:
                refused = response is self.refusal
                events: Any = GuardedEvents(self.path, response.content, lost=refused)
                response.content = events
            return response

    async def _try(self, *, whole: bool) -> aiohttp.ClientResponse:
        """Send the request once, after the pause that the last fault requires.

        Raises:
            ApiError: it failed.
            RuntimeError: the session is closed; kopf then requests a new one.
        """
        await self.path.rest()
        mine, now = self.endpoint, self.connection.endpoint  # tokens are set per request
        if (mine.host, mine.ssl, mine.proxy) != (now.host, now.ssl, now.proxy):
            await self.session.close()
        generation = self.connection.generation
        self.request.headers.update(await self.connection.headers())
        self.refusal = None
        try:
            async with self.connection.requests.attempt():
                response = await self._send(whole=whole)
        except ApiError as error:
            tls = isinstance(error.__cause__, aiohttp.ClientSSLError)
            if tls or isinstance(error, Unauthorized):
                await self.connection.renew(generation)
            raise
        self.path.last_contact = self.path.clock()
        return response

    async def _send(self, *, whole: bool) -> aiohttp.ClientResponse:
        """Send; a 404 is passed on, because by it kopf detects that the kind is gone."""
        if self.session.closed:
            raise RuntimeError("Session is closed")
        try:
            async with asyncio.timeout(self.path.timing.answer):
                response = await self.handler(self.request)
                if response.status == 404 or (response.status < 300 and not whole):
                    return response
                raw = await read_answer(response, self._most)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise no_answer(self.connection.host, error) from error
        response._body = raw
        if self.path.spec and response.status < 300:
            return response  # a page, which is decoded object by object
        try:
            body = DECODER.decode(flattened(raw))
        except msgspec.MsgspecError:
            body = None
        body = body if isinstance(body, dict) else None
        if response.status >= 300:
            self.refusal = response
            raise from_answer(response.status, body, response.headers)
        if body is None:
            raise BrokenAnswer("the API server's response is truncated or isn't JSON")
        return response

    @property
    def _most(self) -> int | None:
        """Limit of an answer in bytes, for a page of more than one object."""
        return KOPF_PAGE_BYTES if self.path.spec and self.path.page_size > 1 else None
