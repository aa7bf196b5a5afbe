"""Requests to registries: one pooled session, limits per host, typed errors, bounded bodies.

Knows HTTP and nothing of registries' authentication (tokens.py) or API (client.py).
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import aiohttp
from multidict import MultiMapping
from yarl import URL

from copyrator import __version__
from copyrator.oci.errors import (
    InvalidResponse,
    RateLimited,
    RegistryError,
    TLSFailed,
    Unreachable,
)
from copyrator.proxies import Proxies, ProxyError

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

PER_HOST: Final = 8
"""Requests in flight to one host: enough for a thousand polls a minute at 100 ms each."""
PER_SECOND: Final = 50.0
"""Requests that one host gets a second in the long run; ``BURST`` of them may come at once."""
BURST: Final = 100
MAX_REDIRECTS: Final = 3
DEFAULT_RETRY_AFTER: Final = 60.0
RETRY_AFTER_CAP: Final = 3600.0
_KEEP_ALIVE = 75.0  # seconds; longer than a common poll interval of a minute
_MAX_HEADER = 16 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Trust:
    """How a server's certificate is judged."""

    verify: bool = True
    ca: bytes | None = None

    @property
    def context(self) -> ssl.SSLContext | bool:
        """What aiohttp's ``ssl=`` takes. Equal trust gives the same object: connections pool by it.

        Raises:
            TLSFailed: the CA isn't a PEM certificate.
        """
        if not self.verify:
            return False
        return _context_for(self.ca) if self.ca else True


@lru_cache(maxsize=256)
def _context_for(ca: bytes) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ca.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise TLSFailed("caSecret: the key ca.crt holds no usable PEM certificate") from None


@dataclass(frozen=True, slots=True)
class Request:
    """One question. ``max_body`` in bytes; a longer answer is an InvalidResponse."""

    method: str
    url: str
    trust: Trust = Trust()
    headers: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    max_body: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; ``headers`` are case-insensitive."""

    status: int
    headers: MultiMapping[str]
    challenges: tuple[str, ...]
    body: bytes
    url: str


class _Host:
    """What we owe one host: few requests at a time, and none while it says it has enough."""

    __slots__ = ("_due", "blocked_by", "blocked_until", "slots")

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(PER_HOST)
        self.blocked_until = 0.0
        self.blocked_by = 0
        """The status that asked to be left alone until then: 429 or 503."""
        self._due = 0.0

    async def turn(self) -> None:
        """Wait until the next request may be sent: a steady rate, after a burst."""
        now = time.monotonic()
        self._due = max(self._due, now - BURST / PER_SECOND) + 1 / PER_SECOND
        if self._due > now:
            await asyncio.sleep(self._due - now)


class Transport:
    """Sends requests and turns every failure below HTTP into a RegistryError."""

    def __init__(self, *, metrics: Metrics, timeout: float = 30.0, connect: float = 10.0) -> None:
        self._metrics = metrics
        self._timeout = aiohttp.ClientTimeout(
            total=timeout, sock_connect=connect, sock_read=timeout / 2
        )
        self._session: aiohttp.ClientSession | None = None
        self._hosts: dict[str, _Host] = {}
        self._proxies = Proxies(os.environ)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, request: Request) -> Answer:
        """Send a request and follow redirects, without credentials once they leave the host.

        Raises:
            RateLimited: 429, now or shortly before, from this host.
            TLSFailed: the certificate or the TLS protocol isn't acceptable.
            Unreachable: no answer, or 5xx; or shortly before a 503 that said until when.
            InvalidResponse: the answer is no HTTP, too long, or leads astray.
        """
        origin = URL(request.url).origin()
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send_once(request)
            if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                return answer
            request = _redirected(request, origin, answer.headers["Location"])
        raise InvalidResponse(f"{origin.host} redirects more than {MAX_REDIRECTS} times")

    async def _send_once(self, request: Request) -> Answer:
        url = URL(request.url)
        name = url.authority
        host = self._hosts.setdefault(name, _Host())
        async with host.slots:
            await host.turn()
            left = host.blocked_until - time.monotonic()
            if left > 0:
                raise _left_alone(name, host.blocked_by, left)
            started = time.monotonic()
            code = 0
            try:
                answer = await self._exchange(request, url)
                code = answer.status
            finally:
                self._metrics.registry_requests.labels(name, request.method, str(code)).inc()
                self._metrics.registry_request_seconds.labels(name).observe(
                    time.monotonic() - started
                )
        if answer.status == 429 or (answer.status == 503 and "Retry-After" in answer.headers):
            wait = retry_after(answer.headers)
            host.blocked_until, host.blocked_by = time.monotonic() + wait, answer.status
            raise _left_alone(name, answer.status, wait)
        if answer.status >= 500:
            raise Unreachable(f"{name} answers {answer.status} to {request.method} {url.path}")
        return answer

    async def _exchange(self, request: Request, url: URL) -> Answer:
        where = url.authority
        try:
            async with self._open().request(
                request.method,
                url,
                headers=request.headers,
                data=request.form,
                ssl=request.trust.context,
                proxy=self._proxies.proxy_for(request.url),
                allow_redirects=False,
            ) as response:
                body = await _bounded(response, request.max_body, where)
                return Answer(
                    status=response.status,
                    headers=response.headers,
                    challenges=tuple(response.headers.getall("WWW-Authenticate", ())),
                    body=body,
                    url=request.url,
                )
        except (aiohttp.ClientError, ssl.SSLError, TimeoutError, ValueError) as error:
            raise _failure(error, where) from None

    def _open(self) -> aiohttp.ClientSession:
        """The session; made on first use, because it belongs to the running loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0, limit_per_host=PER_HOST, keepalive_timeout=_KEEP_ALIVE
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": f"copyrator/{__version__}"},
                max_field_size=_MAX_HEADER,
            )
        return self._session


def _left_alone(host: str, status: int, seconds: float) -> RegistryError:
    """The same words for all whom it concerns, however long it still lasts."""
    kind, what = (
        (RateLimited, "too many requests") if status == 429 else (Unreachable, "unavailable")
    )
    text = f"{host} answers {status} ({what}) and is left alone for as long as it asks"
    return kind(text, seconds)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a 429 or 503 asks for, between one second and an hour."""
    value = headers.get("Retry-After", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            asked = parsedate_to_datetime(value)
            seconds = (asked - parsedate_to_datetime(headers["Date"])).total_seconds()
        except (KeyError, TypeError, ValueError):
            seconds = DEFAULT_RETRY_AFTER
    if math.isnan(seconds):
        seconds = DEFAULT_RETRY_AFTER
    return min(max(seconds, 1.0), RETRY_AFTER_CAP)


async def _bounded(response: aiohttp.ClientResponse, limit: int, where: str) -> bytes:
    if not limit:
        return b""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(64 * 1024):
        size += len(chunk)
        if size > limit:
            raise InvalidResponse(f"{where}: an answer is longer than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _redirected(request: Request, origin: URL, location: str) -> Request:
    """The next request: the same question elsewhere, and nothing secret for strangers."""
    target = URL(request.url).join(URL(location))
    if target.scheme not in ("http", "https") or (
        URL(request.url).scheme == "https" and target.scheme != "https"
    ):
        raise InvalidResponse(f"{origin.host} redirects from https to {target.scheme}")
    if request.form is not None:
        raise InvalidResponse(f"{origin.host} redirects a token request")
    headers = dict(request.headers or {})
    trust = request.trust
    if target.origin() != origin:
        headers.pop("Authorization", None)
        trust = Trust()
    return Request(request.method, str(target), trust, headers, None, request.max_body)


def _failure(error: Exception, where: str) -> RegistryError:
    """What a request below HTTP failed of, in words that hold no address of a proxy."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return TLSFailed(_untrusted(where, error.certificate_error))
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return TLSFailed(
                f"{where}: the TLS handshake fails; a registry on plain HTTP needs insecure "
                "(spec.insecure: true; --insecure)"
            )
        case TimeoutError():
            text = f"{where} doesn't answer in time"
        case aiohttp.ClientConnectorDNSError():
            text = f"{where}: the name can't be resolved"
        case ProxyError():
            text = f"{where}: {error}"
        case aiohttp.ClientHttpProxyError():
            text = f"{where}: the proxy answers {error.status}"
        case aiohttp.ClientProxyConnectionError():
            text = f"{where}: the proxy can't be reached: {error.strerror}"
        case aiohttp.ServerDisconnectedError():
            text = f"{where} closed the connection without an answer"
        case aiohttp.ClientOSError():
            text = f"{where} can't be reached: {error.strerror or type(error).__name__}"
        case _:
            return InvalidResponse(f"{where}: unusable answer ({type(error).__name__})")
    return Unreachable(text)


def _untrusted(where: str, error: Exception) -> str:
    text = getattr(error, "verify_message", "") or "certificate verify failed"
    return f"{where}: its certificate isn't trusted ({text}); see caSecret and skipTLSVerify"
