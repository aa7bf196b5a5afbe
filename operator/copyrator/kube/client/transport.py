"""HTTP requests to one API server: credentials, circuit breaker, limits, timeouts, typed errors.

One session, because a connection is a TLS handshake and memory on both sides. Watches and requests
are counted apart, so that neither can use up the other's connections. Bodies are never logged, and
values of Secrets that a server quotes are removed from its error messages.

While all requests fail, the breaker lets one probe at a time through until one succeeds. Each key
and each watch has a back-off of its own, but there can be ten thousand of them: without this, all
would send their retries to an API server that is recovering. When it is back, all continue at once,
however long their back-offs had become.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import copy
import io
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
from yarl import URL

from copyrator import __version__
from copyrator.api.names import FIELD_MANAGER
from copyrator.connections import Connector, aiohttp, keepalive_socket
from copyrator.kube.client.answers import (
    Answer,
    dropped_fields,
    from_answer,
    from_foreign_answer,
    no_answer,
    read_answer,
)
from copyrator.kube.client.exchange import MOST_BYTES, Exchange
from copyrator.kube.errors import ApiError, Forbidden, NotLeading, Refusal, Unreachable
from copyrator.kube.resources import Resource
from copyrator.workqueue.fairness import FairLimit, Waiters, tenant

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler

    from copyrator.metrics import Metrics
    from copyrator.workqueue.limits import AdaptiveLimit


log = logging.getLogger(__name__)

# The circuit breaker -----------------------------------------------------------------------------

FAILURES = 5
"""Failures in a row, with no other answer between them, after which attempts are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Durations in seconds; only tests use others than the defaults."""

    first: float = 0.25
    longest: float = 2.0
    """Between probes: few requests, and a recovery is detected soon."""
    patience: float = 15.0
    """An attempt is held back for so long before it fails with the last probe's error."""


DEFAULT_PAUSES = Pauses()


class Permit:
    """One attempt that was let through. Only the first outcome that is reported counts."""

    __slots__ = ("_breaker", "_caller", "_reported")

    def __init__(self, breaker: CircuitBreaker, caller: object) -> None:
        self._breaker = breaker
        self._caller = caller
        self._reported = False

    def succeeded(self) -> None:
        """The server answered, or refused this request alone."""
        if self._is_first():
            self._breaker.answered()

    def failed(self, error: ApiError) -> None:
        """It failed with an error that any other attempt would get."""
        if self._is_first():
            self._breaker.failed(error, self._caller)

    def given_up(self) -> None:
        """It ended without an outcome."""
        if self._is_first():
            self._breaker.abandoned()

    def _is_first(self) -> bool:
        reported, self._reported = self._reported, True
        return not reported


class Attempt:
    """One attempt as an async context manager; a class, because there is one for each request."""

    __slots__ = ("_breaker", "_patience", "_permit")

    def __init__(self, breaker: CircuitBreaker, patience: float) -> None:
        self._breaker = breaker
        self._patience = patience

    async def __aenter__(self) -> None:
        self._permit = await self._breaker.permit(patience=self._patience)

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        single = isinstance(error, ApiError) and not error.concerns_all
        if error is None or (single and not isinstance(error, NotLeading)):
            self._permit.succeeded()
        elif isinstance(error, ApiError) and not isinstance(error, NotLeading):
            self._permit.failed(error)
        else:
            self._permit.given_up()  # nothing was sent, or it was cancelled


class CircuitBreaker:
    """Closed while attempts at `what` succeed; open, with single probes, while all of them fail."""

    def __init__(
        self,
        what: str = "requests",
        clock: Callable[[], float] = time.monotonic,
        pauses: Pauses = DEFAULT_PAUSES,
    ) -> None:
        self.answered_at = clock()
        """`clock` at the server's last answer, including the refusal of a single request."""
        self.on_close: Callable[[], None] = lambda: None
        """Called when the server is back, so that back-offs elsewhere can end."""
        self._what = what
        self._clock = clock
        self._pauses = pauses
        self._failing: set[object] = set()
        self._last: ApiError | None = None
        self._opened_at: float | None = None
        self._pause = 0.0
        self._probing = False
        self._waiting = Waiters()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """The common error and its duration in seconds; None while closed."""
        if self._opened_at is None or self._last is None:
            return None
        return self._last, self._clock() - self._opened_at

    def attempt(self) -> Attempt:
        """Wait until attempts are let through, and record the outcome: a context manager.

        Entering raises a copy of the last probe's error after `Pauses.patience`.
        """
        return Attempt(self, self._pauses.patience)

    async def permit(self, caller: object = None, *, patience: float) -> Permit:
        """Wait until attempts are let through; the outcome must be reported to the Permit.

        Failures of the same caller count once; without a caller, each counts.

        Raises:
            ApiError: a copy of the last probe's, after `patience` seconds.
        """
        if self._opened_at is not None:
            await self._wait(patience)
        return Permit(self, caller or object())

    async def _wait(self, patience: float) -> None:
        turn = self._waiting.join()
        self._arm()
        try:
            async with asyncio.timeout(patience):
                await self._waiting.wait(turn, self.abandoned)
        except TimeoutError:
            if self._last:
                raise copy.copy(self._last) from None
            raise

    def failed(self, error: ApiError, caller: object) -> None:
        """Record a failed attempt."""
        self._last = error
        self._probing = False
        if self._opened_at is not None:
            self._pause = min(self._pause * 2, self._pauses.longest)
            self._arm()
            return
        self._failing.add(caller)
        if len(self._failing) >= FAILURES:
            self._opened_at = self._clock()
            self._pause = self._pauses.first
            log.warning(
                "all %s fail (%s); they are paused until the API server recovers", self._what, error
            )
            self._arm()

    def answered(self) -> None:
        """Record a success and release all that wait."""
        self.answered_at = self._clock()
        self._failing.clear()
        self._probing = False
        if self._opened_at is not None:
            seconds = self._clock() - self._opened_at
            log.info("the API server serves %s again after %.0f s", self._what, seconds)
            self._opened_at = None
            while self._waiting:
                self._waiting.call()
            self.on_close()

    def abandoned(self) -> None:
        """Record an attempt without an outcome: the next one becomes the probe."""
        self._probing = False
        self._arm()

    def _arm(self) -> None:
        if self._opened_at is not None and self._waiting and not (self._probing or self._timer):
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._probe)

    def _probe(self) -> None:
        self._timer = None
        self._probing = self._waiting.call()


# The server and the credentials ------------------------------------------------------------------

REREAD_SECONDS = 60.0
"""Interval for reading token files again: bound service account tokens rotate on disk."""

RENEW_PAUSE = 10.0
"""Seconds between renewals caused by refused requests: an exec plug-in can be slow."""


class KubeconfigError(Exception):
    """The cluster can't be configured; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One server and one set of credentials, as loaded."""

    host: str
    authorization: str | None = None
    """Value of the header: ``Bearer …``; never logged, so not part of the representation."""
    ssl: ssl.SSLContext | None = None
    proxy: str | None = None
    server_hostname: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    valid_for: float | None = None
    """Seconds after which it should be loaded again; None: as long as it is accepted."""

    def __repr__(self) -> str:
        return f"Endpoint(host={self.host!r})"


Loader = Callable[[], Awaitable[Endpoint]]


class Connection:
    """The current `Endpoint`, loaded again when it is due or the server refused it.

    Attributes:
        origin: human-readable source of the credentials.
        place: `` in the cluster of …`` for messages; empty for the cluster of the operator.
        generation: grows with each renewal, so that many requests refused together cause one.
        requests: holds all requests back while the server fails all of them.
        watches: holds watches back while none of them can be opened.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        origin: str = "given",
        loader: Loader | None = None,
        clock: Callable[[], float] = time.monotonic,
        pauses: Pauses = DEFAULT_PAUSES,
        place: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.origin = origin
        self.place = place
        self.generation = 0
        self.requests = CircuitBreaker(f"requests{place}", clock, pauses)
        self.watches = CircuitBreaker(f"watches{place}", clock, pauses)
        self._loader = loader
        self._clock = clock
        self._lock = asyncio.Lock()
        self._loaded_at = clock()
        self._tried_at = float("-inf")
        self._fault: str | None = None
        self.impersonate: str | None = None
        """User to impersonate, where the credentials allow it."""
        self.context = ""
        """The context of the kubeconfig; empty where the credentials are from elsewhere."""
        self._headers = _headers(endpoint)

    @property
    def host(self) -> str:
        """The server's URL without a trailing slash."""
        return self.endpoint.host

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The SSL context of the current credentials (client certificates can change)."""
        return self.endpoint.ssl

    @property
    def breaker_is_open(self) -> bool:
        """Whether a circuit breaker delays requests or watches; it has logged the cause already."""
        return bool(self.requests.outage or self.watches.outage)

    async def headers(self) -> Mapping[str, str]:
        """Headers of a request: user agent and impersonation, and the present token."""
        due = self.endpoint.valid_for
        if due is not None and self._clock() - self._loaded_at >= due:
            await self.renew(self.generation, pause=REREAD_SECONDS / 4)
        if self.impersonate:
            return {**self._headers, "Impersonate-User": self.impersonate}
        return self._headers

    async def renew(self, seen: int, *, pause: float = RENEW_PAUSE) -> bool:
        """Load the credentials again, unless another caller did so meanwhile.

        Return whether there are newer ones than the generation that was refused, `seen`. Two tries
        are `pause` seconds apart at least.
        """
        async with self._lock:
            if self.generation != seen:
                return True
            now = self._clock()
            if self._loader is None or now - self._tried_at < pause:
                return False
            self._tried_at = now
            try:
                endpoint = await self._loader()
            except (KubeconfigError, OSError, ssl.SSLError) as error:
                self._report(f"credentials can't be renewed ({self.origin}): {error}")
                return False
            self._report(None)
            self.endpoint = endpoint
            self._headers = _headers(endpoint)
            self._loaded_at = self._clock()
            self.generation += 1
            return True

    def _report(self, fault: str | None) -> None:
        if fault != self._fault:
            if fault:
                log.warning("%s", fault)
            else:
                log.info("credentials were renewed (%s)", self.origin)
        self._fault = fault


def _headers(endpoint: Endpoint) -> Mapping[str, str]:
    headers = {"User-Agent": f"copyrator/{__version__}", "Accept-Encoding": "identity"}
    if endpoint.authorization:
        headers["Authorization"] = endpoint.authorization
    return headers


TENANT_READS: Final = 4
"""Requests that read for one namespace at a time (lists, sources, values, Secrets for registries):
large objects of one don't delay others."""

TENANTS_READS: Final = 32
"""The same of all tenants together, of 128 connections for requests."""

SHORTEST = 4
"""Characters; shorter values stay: replacing them would break ordinary words."""


def redact(answer: Any, secret: Any) -> Any:
    """Remove the values of a Secret that was sent from all texts of a Status, also its causes.

    Webhooks and older API servers quote what they were sent, as it was sent or decoded. `secret` is
    the body of the request: a Secret, or a patch of one.
    """
    values = sorted(_values(secret), key=len, reverse=True)

    def clean(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: clean(value) for key, value in part.items()}
        if isinstance(part, list):
            return [clean(value) for value in part]
        if isinstance(part, str):
            for value in values:
                part = part.replace(value, "<redacted>")
        return part

    return clean(answer)


def _values(secret: Any) -> Iterator[str]:
    if isinstance(secret, Mapping):
        held = [secret.get("data"), secret.get("stringData")]
    else:  # a JSON Patch
        held = [step.get("value") for step in secret or () if isinstance(step, Mapping)]
    for text in _texts(held):
        yield from (form for form in (text, _decoded(text)) if len(form) >= SHORTEST)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


# Requests ----------------------------------------------------------------------------------------

CONNECT_TIMEOUT = 5.0
"""Seconds to connect, TLS included."""

REQUEST_TIMEOUT = 30.0
"""Seconds for a whole answer, unless the call sets its own."""

JSON = "application/json"

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""RBAC's verbs for the methods that write."""

REVIEWS = "/apis/authorization.k8s.io/"

WRITES = frozenset({"create", "update", "patch", "delete"})


USUAL_TIMEOUT: Final = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT, sock_connect=CONNECT_TIMEOUT)


@dataclass(frozen=True, slots=True)
class Call:
    """One request. `verb` and `resource` are RBAC's terms, for metrics and limits."""

    verb: str
    resource: str
    path: str
    method: str = "GET"
    params: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: aiohttp.ClientTimeout = USUAL_TIMEOUT
    most: int | None = None
    """Limit of the answer in bytes; a longer one raises AnswerTooLarge."""
    dropped: set[str] | None = None
    """Filled with the fields of the body that the server has dropped."""

    @property
    def writes(self) -> bool:
        """Whether it changes an object; an access review is sent by POST and doesn't."""
        return self.verb in WRITES and not self.path.startswith(REVIEWS)


def write(
    method: str, res: Resource, path: str, body: Any, *, content_type: str = JSON, **params: str
) -> Call:
    """A request that writes, with our field manager."""
    if method != "DELETE":
        params.setdefault("fieldManager", FIELD_MANAGER)
    headers = {"Content-Type": content_type, "Accept": JSON}
    return Call(VERBS[method], res.key, path, method, params, body, headers)


def total(seconds: float) -> aiohttp.ClientTimeout:
    """A timeout for the whole answer."""
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)


def selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    """The query parameters of the selectors."""
    found = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in found.items() if value}


def resource_of(path: str) -> str:
    """The resource's key for a path, for metrics; the path itself where it names none."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (".".join(parts[1:2]), parts[3:])
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if parts[0] not in {"api", "apis"} or not rest:
        return parts[0]
    return f"{rest[0]}.{group}" if group else rest[0]


T = TypeVar("T")

REQUEST_CONNECTIONS = 128
"""More than the 64 writes and the TENANTS_READS together: other requests have some left."""

WATCH_CONNECTIONS = 256
"""Each watch is a connection; further ones wait for a free one. Watches that are bounded in other
ways (reserved ones) aren't counted."""

CONNECTS_AT_ONCE = 16
"""Connections that are being set up. A whole crowd at once, as after an outage, takes longer than
CONNECT_TIMEOUT where we have little processor time, and then nearly all of it fails in vain."""

LARGE_BODY = 512 * 1024

BUFFER = 64 * 1024
SMALL_BUFFER = 16 * 1024
"""Bytes that are buffered of an answer, of a server that isn't trusted: even in pieces of a byte
they take little time."""

WATCH_PATIENCE = 60.0
"""Seconds that a watch waits for a connection before it fails, which is reported."""


Fence = Callable[[], bool]
"""Whether writes may be sent at this moment (kube.leader, set in runtime.app)."""


OnDryRun = Callable[[Call, Any], None]
"""Called for every successful write with ``dryRun=All``, with the decoded answer."""

OnRefused = Callable[[Refusal], None]
"""Called for every RBAC 403."""


class Transport:
    """Sends calls. Must be made in the running loop, and closed.

    `limit` bounds the writes in flight; commands that make a few requests have none. `fence` is
    called before each write is sent; False makes it fail with NotLeading. `alone` is for
    requests with a deadline of their own: the circuit breaker doesn't hold them back. With
    `on_dry_run` every write is a dry run, whatever method makes it. `most` is for servers that
    aren't trusted: the limit of every answer in bytes, and no error has words of theirs.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        limit: AdaptiveLimit | None = None,
        fence: Fence | None = None,
        metrics: Metrics | None = None,
        watch_connections: int = WATCH_CONNECTIONS,
        watch_patience: float = WATCH_PATIENCE,
        on_refused: OnRefused | None = None,
        on_dry_run: OnDryRun | None = None,
        alone: bool = False,
        most: int | None = None,
    ) -> None:
        self.connection = connection
        self._most = most
        self._on_dry_run = on_dry_run
        self._on_refused = on_refused
        self._date = ""
        self._limit = limit
        self._fence = fence
        self._alone = alone
        self._metrics = metrics
        self._watch_connections = watch_connections
        self._watch_patience = watch_patience
        self._watch_slots = asyncio.Semaphore(watch_connections)
        self._request_slots = asyncio.Semaphore(REQUEST_CONNECTIONS)
        self._reads = FairLimit(each=TENANT_READS, together=TENANTS_READS)
        self._exchange: tuple[Endpoint, Exchange] | None = None
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=0,  # limited by the semaphores here
                keepalive_timeout=60.0,
                socket_factory=keepalive_socket,
            ),
            auto_decompress=False,
            read_bufsize=BUFFER if most is None else SMALL_BUFFER,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """The error that all requests get and its duration in seconds; None while they succeed."""
        return self.connection.requests.outage

    @property
    def silent_for(self) -> float:
        """Seconds since the server last answered a request; watch events don't count."""
        return time.monotonic() - self.connection.requests.answered_at

    @property
    def server_time(self) -> datetime:
        """The time of the last answer by the server's clock, in whole seconds; ours before it."""
        try:
            return parsedate_to_datetime(self._date).astimezone(UTC)
        except (ValueError, OverflowError):
            return datetime.now(UTC)

    def report_denied(self, refusal: Refusal) -> None:
        """Report a missing permission that no answer names in RBAC's form."""
        if self._on_refused:
            self._on_refused(refusal)

    async def close(self) -> None:
        """Close all connections; requests in flight fail with Unreachable."""
        await self._session.close()

    async def fetch(self, call: Call, decode: Callable[[bytes], T]) -> T:
        """Send, read the whole answer, and decode it.

        With `on_dry_run` the server persists no write: each is sent with ``dryRun=All``.

        Raises:
            ApiError: anything but success.
        """
        on_dry_run = self._on_dry_run if call.writes else None
        if on_dry_run:
            call = _as_dry_run(call)
        await self._pause()
        slot: AbstractAsyncContextManager[object] = nullcontext()
        if not call.writes:
            slot = self._reads.slot(tenant())
        elif self._limit:
            slot = self._limit.slot()
        attempt = nullcontext() if self._alone else self.connection.requests.attempt()
        async with slot, attempt, self._request_slots:
            started = time.perf_counter()
            code = 0
            try:
                response = await self._open(call)
                try:
                    code = response.status
                    self._date = response.headers.get("Date", "")
                    foreign = self._most is not None
                    limit = min(filter(None, (call.most, self._most)), default=None)
                    answer = decode(await read_answer(response, limit, foreign=foreign))
                    if call.dropped is not None:
                        call.dropped.update(dropped_fields(response.headers.getall("Warning", ())))
                finally:
                    response.release()
                if on_dry_run:
                    on_dry_run(call, answer)
                return answer
            except ApiError as error:
                code = error.status
                raise
            except (TimeoutError, aiohttp.ClientError, OSError) as error:
                unreachable = no_answer(self.connection.host, error)
                code = unreachable.status
                raise unreachable from error
            finally:
                if self._metrics:
                    self._metrics.api_requests.labels(call.verb, call.resource, str(code)).inc()
                    seconds = time.perf_counter() - started
                    self._metrics.api_request_seconds.labels(call.verb).observe(seconds)

    @asynccontextmanager
    async def stream(
        self, call: Call, *, reserved: bool = False
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Open a watch; reading from it raises ApiError as well.

        A `reserved` one has a connection of its own and never waits for others.
        """
        await self._pause()
        async with AsyncExitStack() as stack:
            if not reserved:
                await stack.enter_async_context(self._watch_slot())
            code = 0
            try:
                async with self.connection.requests.attempt():
                    response = await stack.enter_async_context(self._answer(call))
                    code = response.status
            except ApiError as error:
                code = error.status
                raise
            finally:
                if self._metrics:
                    self._metrics.api_requests.labels(call.verb, call.resource, str(code)).inc()
            yield response.content

    async def _pause(self) -> None:
        if self._limit:
            await self._limit.pause()

    @asynccontextmanager
    async def _watch_slot(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._watch_patience):
                await self._watch_slots.acquire()
        except TimeoutError:
            raise Unreachable(
                f"no connection is free for a watch, the limit is {self._watch_connections}; "
                "use fewer different namespaces and selectors in rules",
                reason="TooManyWatches",
            ) from None
        try:
            yield
        finally:
            self._watch_slots.release()

    @asynccontextmanager
    async def _answer(self, call: Call) -> AsyncIterator[aiohttp.ClientResponse]:
        """The response of a stream, which is released."""
        try:
            response = await self._open(call)
            assert isinstance(response, aiohttp.ClientResponse)  # it has no body
            try:
                yield response
            finally:
                response.release()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise no_answer(self.connection.host, error) from error

    async def _open(self, call: Call) -> aiohttp.ClientResponse | Answer:
        """Send, with renewed credentials where they were refused; return a success."""
        response = await self._send(call)
        if response.status < 300:
            return response
        try:
            if self._most is None or isinstance(response, Answer):
                error = await _error(response, call)
            else:
                error = from_foreign_answer(response.status, response.headers)
                response.close()
        finally:
            response.release()
        if error.throttled and self._limit:
            self._limit.throttled(error.retry_after)
        if self._on_refused and isinstance(error, Forbidden) and error.refusal:
            self._on_refused(error.refusal)
        raise error

    async def _send(self, call: Call) -> aiohttp.ClientResponse | Answer:
        generation = self.connection.generation
        try:
            response = await self._send_once(call)
        except aiohttp.ClientSSLError:
            # The CA, or our certificate, may have been replaced on disk.
            if not await self.connection.renew(generation):
                raise
            return await self._send_once(call)
        if response.status != 401 or not await self.connection.renew(generation):
            return response
        response.release()
        return await self._send_once(call)

    async def _send_once(self, call: Call) -> aiohttp.ClientResponse | Answer:
        headers = dict(await self.connection.headers())
        headers.update(call.headers)
        endpoint = self.connection.endpoint
        query = _query(tuple(call.params.items())) if call.params else ""
        if self._session.closed:
            raise Unreachable("the client is closed")
        check = partial(self._check_fence, call)
        check()  # before a connection is made, too
        body = _encoded(call.body)
        if isinstance(body, bytes) and self._is_direct(call, body):
            return await self._exchange_with(endpoint).send(
                call.method, call.path + query, headers, body, call.timeout, check=check
            )
        return await self._session.request(
            call.method,
            URL(f"{endpoint.host}{call.path}{query}", encoded=True),
            data=body,
            headers=headers,
            ssl=endpoint.ssl or True,
            server_hostname=endpoint.server_hostname,
            proxy=endpoint.proxy,
            timeout=call.timeout,
            allow_redirects=False,
        )

    def _check_fence(self, call: Call) -> None:
        if call.writes and self._fence and not self._fence():
            raise NotLeading("this replica isn't the leader, so it doesn't write")

    def _is_direct(self, call: Call, body: bytes) -> bool:
        """Whether a small body goes to a server that is trusted, without a proxy on the way."""
        bounded = call.most or self._most
        return not (bounded or self.connection.endpoint.proxy) and len(body) <= MOST_BYTES

    def _exchange_with(self, endpoint: Endpoint) -> Exchange:
        """The present one; another where the credentials were renewed."""
        known, exchange = self._exchange or (None, None)
        if exchange is None or known is not endpoint:
            assert self._session.connector is not None
            exchange = Exchange(
                self._session.connector, endpoint.host, endpoint.ssl, endpoint.server_hostname
            )
            self._exchange = endpoint, exchange
        return exchange


class _Connector(Connector):
    """Sets up few connections at once; who waits for a turn isn't within CONNECT_TIMEOUT yet.

    A free connection is used without waiting, so this isn't done in `connect`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._turns = asyncio.Semaphore(CONNECTS_AT_ONCE)

    async def _create_connection(self, *request: Any) -> ResponseHandler:
        async with self._turns:
            return await super()._create_connection(*request)


def _as_dry_run(call: Call) -> Call:
    """The same write, which the server doesn't persist.

    Of a DELETE with a body, kube-apiserver reads all options from the body and none from the query
    (docs/facts/writes.md).
    """
    params = {**call.params, "dryRun": "All"}
    if call.method != "DELETE" or call.body is None:
        return replace(call, params=params)
    return replace(call, params=params, body={**call.body, "dryRun": ["All"]})


@lru_cache(maxsize=64)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Cached, because most writes have the same one."""
    return f"?{urlencode(params)}"


def _encoded(body: Any) -> bytes | io.BytesIO | None:
    """JSON; from LARGE_BODY on as a file, which aiohttp sends in chunks."""
    if body is None:
        return None
    encoded = msgspec.json.encode(body)
    return encoded if len(encoded) < LARGE_BODY else io.BytesIO(encoded)


async def _error(response: aiohttp.ClientResponse | Answer, call: Call) -> ApiError:
    try:
        status = msgspec.json.decode(await response.read())
    except msgspec.MsgspecError:
        status = None
    if not isinstance(status, dict):
        status = None
    elif call.resource == "secrets" and call.body is not None:
        status = redact(status, call.body)
    return from_answer(response.status, status, response.headers)
