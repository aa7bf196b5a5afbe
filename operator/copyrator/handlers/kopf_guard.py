"""Filters the API server's answers to kopf, because kopf doesn't handle all of them.

Unfiltered, kopf reopens a watch that closes at once thousands of times a second, ends on an error
within a watch, a truncated answer or an expired page of a list, and logs each try. Here such
answers are logged once and retried with exponential back-off; where a watch can't continue, kopf
gets a 410, the one error after which it lists again. See docs/adr/0006-kopf-guard.md.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import msgspec

from copyrator.api.json_text import DECODER
from copyrator.connections import Connector, keepalive_socket
from copyrator.handlers.kopf_text import wrapped_page
from copyrator.handlers.kopf_watch import LONGEST_PAGE, GuardedEvents, KopfPath, OnListed
from copyrator.kube.client.answers import flattened, from_answer, no_answer, read_answer
from copyrator.kube.client.connection import Connection, Endpoint
from copyrator.kube.client.pages import decode_page, fewer
from copyrator.kube.client.transport import OnRefused
from copyrator.kube.errors import AnswerTooLarge, ApiError, BrokenAnswer, Gone, Unauthorized
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import WatchSpec, WatchStatus
from copyrator.kube.watch.reflector import DEFAULT_TIMING, Timing

KOPF_PAGE_BYTES: Final = 4 * 1024 * 1024  # limit: objects as the API server has them
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
        self._timing = timing
        self._clock = clock
        self.on_refused: OnRefused | None = None
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
            self._paths[path] = KopfPath(path, self._spec(path), self._timing, self._clock)
            if self.on_refused:
                self._paths[path].on_refused = self.on_refused
            self._paths[path].on_listed = self.on_listed
            self._paths[path].on_silent = self.on_silent
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
        if _differ(self.endpoint, self.connection.endpoint):
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


def _differ(one: Endpoint, other: Endpoint) -> bool:
    """Whether a session for one can't be used for the other; tokens are set per request."""
    return (one.host, one.ssl, one.proxy) != (other.host, other.ssl, other.proxy)
