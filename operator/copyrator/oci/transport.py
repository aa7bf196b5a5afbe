"""HTTP requests to registries: one pooled session, limits per host, typed errors, bounded bodies.

Independent of registries' authentication (auth.py) and API (client.py). SSL contexts with the
certificates of caSecret are built without blocking the event loop: a browser's bundle takes 60 ms
to parse, in one call of C code.

A Bundle names its registry, which names token servers and redirects. The operator's own machine,
link-local hosts and a cloud's metadata services can be reached by the operator, though not by a
tenant. So every address that a name resolves to is checked, and the connection uses only checked
ones. Private ranges are allowed, because many registries are there. As Bundles and registries
choose the names, the state of all hosts is bounded.
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from yarl import URL

from copyrator import __version__
from copyrator.api.bundle_spec import CA_BYTES
from copyrator.api.text import parse_retry_after
from copyrator.connections import Connector, Proxies, ProxyError, aiohttp
from copyrator.oci.errors import (
    AddressRefused,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    TLSFailed,
)
from copyrator.oci.exchange import (
    REGISTRY_HEADER_BYTES,
    Request,
    Response,
    TlsVerification,
    error_text,
    is_same_origin,
    parse_url,
)
from copyrator.oci.push_route import Route
from copyrator.tls import create_context
from copyrator.workqueue.fairness import FairLimit, TimeSlice, tenant

if TYPE_CHECKING:
    from copyrator.metrics import Metrics


# Hosts -------------------------------------------------------------------------------------------

REGISTRY_REQUESTS_PER_HOST: Final = 8
"""Requests in flight to one host: enough for a thousand polls a minute at 100 ms each."""

REGISTRY_HOSTS: Final = 2048
"""Hosts whose request rate and pause (after a 429 or 503) are remembered. Idle ones are dropped at
once; above this number the least recently used ones are."""

REGISTRY_HOST_LABELS: Final = 100
"""Hosts with separate metrics: each has some twenty series. Further ones, redirects' targets
and token servers are counted as host="other"."""

REGISTRY_LOOKUPS: Final = 16
"""Names of hosts that are resolved at a time, each in a thread: a name server that doesn't answer
occupies one for some ten seconds."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ANYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""For the command line: its user may send requests to any address."""

_METADATA: Final = tuple(
    ip_network(network)
    for network in (
        "fd00:ec2::/32",  # AWS and its EKS; their IPv4 addresses are link-local, as most clouds'
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "fd00:100::100:200",  # Alibaba
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fd00:a9fe:a9fe::1",  # Akamai
        "fd00:42::42",  # Scaleway
    )
)
_THIS_NETWORK: Final = ip_network("0.0.0.0/8")  # RFC 1122: "this host on this network"
_BROADCAST: Final = ip_address("255.255.255.255")
_IPV4_AT_THE_END: Final = (
    ip_network("64:ff9b::/96"),  # RFC 6052: NAT64
    ip_network("::ffff:0:0:0/96"),  # RFC 2765: translated
    ip_network("::/96"),  # RFC 4291: compatible
)
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")  # RFC 8215
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # RFC 5214


class AddressRules:
    """Refuses addresses that a registry must not have, except in the `allowed` networks."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def check(self, host: str, address: Address) -> None:
        """Check an address that `host` resolves to.

        Raises:
            AddressRefused: a registry must not have it.
        """
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        judged = (mapped,) if mapped else (address, *_embedded(address))
        objections = (_objection(one) for one in judged if not self._allows(one))
        what = next(filter(None, objections), None)
        if what is None:
            return
        name = host if host == str(address) else f"{host}, which is {address},"
        raise AddressRefused(
            f"no request is sent to {name}: {what}; if it is a registry, add the "
            "address to the operator's --allow-registry-addresses"
        )

    def check_url(self, url: URL, *, proxied: bool) -> None:
        """Check the host of a URL, which may be an address in any spelling, without resolving it.

        A proxy resolves names itself, so that with one only localhost's can be checked.

        Raises:
            AddressRefused: a registry must not have its address.
        """
        host = (url.raw_host or "").rstrip(".")
        if (address := _literal(host)) is not None:
            self.check(host, address)
        elif proxied and (host.lower() == "localhost" or host.lower().endswith(".localhost")):
            self.check(host, ip_address("127.0.0.1"))

    def _allows(self, address: Address) -> bool:
        return any(address in network for network in self._allowed)


class CheckedResolver(aiohttp.abc.AbstractResolver):
    """Resolves names in separate threads, and returns addresses only if all are allowed.

    Separate, because a name server that doesn't respond would block all other users of the event
    loop's threads.
    """

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._threads = ThreadPoolExecutor(REGISTRY_LOOKUPS, thread_name_prefix="registry-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """The addresses to connect to.

        Raises:
            OSError: the name can't be resolved.
            AddressRefused: a registry must not have one of them.
        """
        lookup = partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        except UnicodeError:
            raise OSError(socket.EAI_NONAME, "it isn't a valid name") from None
        results = []
        for kind, _, proto, _, address in found:
            text = str(address[0])
            if len(address) == 4 and address[3] and "%" not in text:
                text = f"{text}%{address[3]}"
            self._rules.check(host, ip_address(text))
            results.append(
                aiohttp.abc.ResolveResult(
                    hostname=host,
                    host=text,
                    port=int(address[1]),
                    family=kind,
                    proto=proto,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Cancel pending lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _literal(host: str) -> Address | None:
    """The address that a host is, parsed like getaddrinfo: also 127.1, 0x7f.1 and 2130706433."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError, ValueError):
        return None


def _embedded(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that a packet to an IPv6 one may be sent to."""
    if isinstance(address, IPv4Address):
        return []
    packed = address.packed
    if address in _LOCAL_NAT64:  # RFC 6052, for prefixes of 48, 56, 64 and 96 bits
        forms = (packed[6:8] + packed[9:11], packed[7:8] + packed[9:12], packed[9:13], packed[12:])
        found = map(IPv4Address, forms)
        return [one for one in found if one not in _THIS_NETWORK]  # zeros of a longer prefix
    is_last = packed[8:12] in _ISATAP or any(address in network for network in _IPV4_AT_THE_END)
    last = IPv4Address(packed[12:]) if is_last else None
    return list(filter(None, (last, address.sixtofour, *(address.teredo or ()))))


def _objection(address: Address) -> str | None:
    """Why a registry must not have an address; None where it may."""
    kinds = (
        (address.is_loopback, "loopback addresses are the operator's own machine"),
        (address.is_link_local, "link-local addresses are the node's and the cloud's services"),
        (
            any(address in network for network in _METADATA),
            "it is a cloud's metadata service",
        ),
        (address in _LOCAL_NAT64, "NAT64 of the local network leads to any IPv4 address"),
        (
            address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK),
            "it isn't the address of a host",
        ),
        (address.is_multicast or address == _BROADCAST, "it isn't the address of a single host"),
    )
    return next((text for applies, text in kinds if applies), None)


KEEP_ALIVE: Final = 75.0
"""Seconds that an idle connection is kept; longer than a common poll interval of a minute."""
KEPT_ALIVE: Final = 512
"""Hosts named by Bundles whose connections are kept, and ..."""
KEPT_ALIVE_OTHERS: Final = 32
"""... token servers and redirects' targets."""

OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of requests to one host; only tests use another than the default."""

    per_second: float = 50.0
    """Long-term limit; ``burst`` requests may be sent at once."""
    burst: int = 100


DEFAULT_RATE: Final = Rate()


@dataclass(slots=True, eq=False)
class Host:
    """What is known of one host: limits, a pause, and whether it has metrics or a connection."""

    rate: Rate
    slots: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(REGISTRY_REQUESTS_PER_HOST)
    )
    blocked_until: float = 0.0
    blocked_by: int = 0
    """The status that caused the pause: 429 or 503."""
    users: int = 0
    """Requests that wait or are in flight."""
    has_series: bool = False
    """Whether it has a label value of its own in metrics."""
    kept_until: float = 0.0
    """When its last idle connection is closed."""
    is_named: bool = False
    """Whether it was named by a Bundle when that was kept."""
    due: float = 0.0
    """Of the next request, at the steady rate."""

    async def turn(self) -> None:
        """Wait until the next request may be sent: a steady rate, after a burst."""
        now = time.monotonic()
        rate = self.rate
        self.due = max(self.due, now - rate.burst / rate.per_second) + 1 / rate.per_second
        if self.due > now:
            await asyncio.sleep(self.due - now)

    def is_used(self, now: float) -> bool:
        """Whether it has requests, metrics or a connection."""
        return bool(self.users) or self.has_series or self.kept_until > now

    def is_idle(self, now: float) -> bool:
        """Whether it isn't used, and has no pause and its full burst, so that it can be dropped."""
        rate = self.rate
        idle = self.due <= now - rate.burst / rate.per_second + 1 / rate.per_second
        return not self.is_used(now) and idle and self.blocked_until <= now


class HostCache:
    """The hosts that are used, had recent requests or have a pause, by ``host[:port]``."""

    def __init__(self, metrics: Metrics, rate: Rate = DEFAULT_RATE) -> None:
        self._metrics = metrics
        self._rate = rate
        self._hosts: OrderedDict[str, Host] = OrderedDict()
        self._series = 0
        """Hosts with label values of their own; none of them is dropped."""

    def __len__(self) -> int:
        return len(self._hosts)

    @contextmanager
    def use(self, name: str) -> Iterator[Host]:
        """The host, while a request to it waits or is in flight."""
        host = self._hosts.setdefault(name, Host(self._rate))
        host.users += 1
        try:
            yield host
        finally:
            host.users -= 1
            self._hosts.move_to_end(name)
            self._forget(time.monotonic())

    def label_of(self, name: str, *, named: bool) -> str:
        """Its label's value in metrics: its own if a Bundle names it, up to a limit of hosts."""
        host = self._hosts[name]
        if named and not host.has_series and self._series < REGISTRY_HOST_LABELS:
            host.has_series = True
            self._series += 1
        return name if host.has_series else OTHER

    def may_keep(self, name: str, *, named: bool) -> bool:
        """Whether the connection of this request may be kept: those of a limited number are."""
        host, now = self._hosts[name], time.monotonic()
        if host.kept_until <= now:
            kept = (one for one in self._hosts.values() if one.kept_until > now)
            others = sum(one.is_named == named for one in kept)
            if others >= (KEPT_ALIVE if named else KEPT_ALIVE_OTHERS):
                return False
            host.is_named = named
        host.kept_until = now + KEEP_ALIVE
        return True

    def drop_series(self, kept: Collection[str]) -> None:
        """Drop the metrics of all hosts but these."""
        for name, host in self._hosts.items():
            if host.has_series and name not in kept:
                host.has_series = False
                self._series -= 1
                self._metrics.registry_requests.remove_by_labels({"host": name})
                self._metrics.registry_request_seconds.remove_by_labels({"host": name})

    def _forget(self, now: float) -> None:
        """Check the two least recently used hosts, so that more can be dropped than are added."""
        for _ in range(2):
            name, oldest = next(iter(self._hosts.items()))
            over = len(self._hosts) > REGISTRY_HOSTS and not oldest.is_used(now)
            if over or oldest.is_idle(now):
                del self._hosts[name]
            else:
                self._hosts.move_to_end(name)
            if not self._hosts:
                return


# Requests ----------------------------------------------------------------------------------------

REGISTRY_REQUESTS: Final = 128
"""Requests to registries in flight over all hosts, fair between hosts: each may hold the headers
and the unread part of a response, some 200 KB."""

REGISTRY_LARGE_ANSWERS: Final = 4
"""Responses of over REGISTRY_SMALL_ANSWER bytes that are held at a time over all hosts: 16 MiB; and
as many pages of tag lists (32 MiB), two for the Bundles of one namespace."""

REGISTRY_SMALL_ANSWER: Final = 64 * 1024
"""Bytes of a response that are held without waiting: manifests and tokens have a few KB."""

REGISTRY_HEADERS: Final = 64
"""Headers of a response."""

CA_CONTEXTS: Final = 64
"""Sets of certificates that are cached as SSL contexts."""

_END: Final = "-----END CERTIFICATE-----"
_AT_ONCE: Final = 10
"""Certificates that are parsed in one step."""


class SslContextCache:
    """aiohttp's ``ssl=`` argument by CA; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self._ready: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()
        self._system: ssl.SSLContext | None = None
        self._lock = asyncio.Lock()

    async def of(self, trust: TlsVerification) -> ssl.SSLContext | bool:
        """The context for a verification; equal ones share one, as connections are pooled by it.

        Raises:
            TLSFailed: the CA isn't a PEM certificate, or is too long.
        """
        if not trust.verify:
            return False
        if not trust.ca:
            async with self._lock:
                if self._system is None:
                    self._system = await asyncio.to_thread(create_context)
                return self._system
        if trust.ca not in self._ready:
            made = await _build_context(trust.ca)
            self._ready.setdefault(trust.ca, made)
        self._ready.move_to_end(trust.ca)
        context = self._ready[trust.ca]
        if len(self._ready) > CA_CONTEXTS:
            self._ready.popitem(last=False)
        return context


async def _build_context(ca: bytes) -> ssl.SSLContext:
    if len(ca) > CA_BYTES:
        raise TLSFailed(f"caSecret: the key ca.crt has more than {CA_BYTES} bytes")
    time_slice = TimeSlice()
    try:
        first, *others = _groups(ca.decode("ascii"))
        context = create_context(cadata=first)
        for group in others:
            await time_slice.pause()
            context.load_verify_locations(cadata=group)
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise TLSFailed("caSecret: the key ca.crt has no valid PEM certificate") from None
    return context


def _groups(text: str) -> list[str]:
    """The PEM text in groups of _AT_ONCE certificates; text after the last one is dropped."""
    *certificates, rest = text.split(_END)
    if not certificates:
        return [rest]
    return [
        "".join(one + _END for one in certificates[start : start + _AT_ONCE])
        for start in range(0, len(certificates), _AT_ONCE)
    ]


DEFAULT_RETRY_AFTER: Final = 60.0
RETRY_AFTER_CAP: Final = 3600.0


def pause_error(host: str, status: int, seconds: float, said: str = "") -> RegistryError:
    """The error in the pause after a 429 or 503; its text doesn't depend on the remaining time."""
    kind, what = (
        (RateLimited, "too many requests")
        if status in (403, 429)
        else (RegistryUnreachable, "unavailable")
    )
    text = (
        f"{host} responds with {status} ({what}){said}; no request is sent to it until its "
        "Retry-After has passed"
    )
    return kind(text, seconds)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a 429 or 503 requires, between one second and an hour."""
    seconds = parse_retry_after(headers.get("Retry-After"), headers)
    return min(max(DEFAULT_RETRY_AFTER if seconds is None else seconds, 1.0), RETRY_AFTER_CAP)


def connection_error(error: Exception, where: str) -> RegistryError:
    """Convert a failure below HTTP; the message never includes a proxy's address."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = getattr(error.certificate_error, "verify_message", "")
            why = why or "certificate verify failed"
            return TLSFailed(
                f"{where}: its certificate isn't trusted ({why}); see caSecret and skipTLSVerify"
            )
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return TLSFailed(
                f"{where}: the TLS handshake fails; a registry on plain HTTP needs insecure "
                "(spec.insecure: true; --insecure)"
            )
        case TimeoutError():
            text = f"{where} didn't respond in time"
        case aiohttp.ClientConnectorDNSError():
            text = f"{where}: the name can't be resolved"
        case ProxyError():
            text = f"{where}: {error}"
        case aiohttp.ClientHttpProxyError():
            text = f"{where}: the proxy responds with {error.status}"
        case aiohttp.ClientProxyConnectionError():
            text = f"{where}: the proxy can't be reached: {error.strerror}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            text = f"{where} closed the connection without a complete response"
        case aiohttp.ClientOSError():
            text = f"{where} can't be reached: {error.strerror or type(error).__name__}"
        case _:
            text = f"{where}: invalid response ({type(error).__name__})"
            return InvalidResponse(text, status=0)
    return RegistryUnreachable(text, status=0 if _is_cut_off(error) else None)


def _is_cut_off(error: Exception) -> bool:
    """Whether there was a connection, but no complete answer."""
    cut = aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | aiohttp.ClientOSError
    return isinstance(error, cut) and not isinstance(error, aiohttp.ClientConnectorError)


MAX_REDIRECTS: Final = 3
_CONNECT_SECONDS: Final = 10.0
_USER_AGENT: Final = f"copyrator/{__version__}"
_SAID_BYTES: Final = 16 * 1024
"""Of an error's body, which has the registry's own message, and ..."""
_SAID_SECONDS: Final = 3.0
"""... the time in which it has to arrive."""
_SEE_OTHER: Final = 303
_REDIRECTS: Final = frozenset({301, 302, _SEE_OTHER, 307, 308})


class RegistryTransport:
    """Sends requests and converts every failure below HTTP to a RegistryError."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        timeout: float = 30.0,
        allowed: Sequence[Network] = (),
        rate: Rate = DEFAULT_RATE,
    ) -> None:
        self._metrics = metrics
        self._seconds = timeout
        self._timeout = aiohttp.ClientTimeout(
            total=timeout, sock_connect=_CONNECT_SECONDS, sock_read=timeout / 2
        )
        self._paced = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=timeout / 2
        )
        """The timeouts of requests with a sink; `_exchange` and `_body` apply the total timeout."""
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self.hosts = HostCache(metrics, rate)
        self._requests = FairLimit(each=REGISTRY_REQUESTS_PER_HOST, together=REGISTRY_REQUESTS)
        self._large = FairLimit(each=1, together=REGISTRY_LARGE_ANSWERS)
        self._large_pages = FairLimit(each=2, together=REGISTRY_LARGE_ANSWERS)
        """Of those for a sink, which may take any time: others don't wait for it. By tenant: hosts
        cost one nothing, and a slow one holds a slot until the timeout."""
        self._proxies = Proxies(os.environ)
        self._rules = AddressRules(allowed)
        self._contexts = SslContextCache()
        self._resolver = CheckedResolver(self._rules)

    async def close(self) -> None:
        """Close all connections."""
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()
        await self._resolver.close()

    async def send(self, request: Request) -> Response:
        """Send a request and follow redirects, without credentials to another host.

        Raises:
            AddressRefused: it would go to an address that isn't allowed.
            RateLimited: 429, now or shortly before, from this host.
            TLSFailed: the certificate or the TLS protocol isn't acceptable.
            RegistryUnreachable: no answer, or 5xx; or a 503 shortly before, within its Retry-After.
            InvalidResponse: the answer isn't HTTP, is too long, or has an invalid redirect.
        """
        url = _parsed(request.url)
        if request.any_status:
            with self.hosts.use(_place(url)):
                return await self._counted(request, url, _place(url))
        origin = url.origin()
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._send_once(request)
            if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                return answer
            if answer.status == _SEE_OTHER and not request.see_other:
                return answer
            request = _follow(request, origin, answer.headers["Location"])
        raise InvalidResponse(f"{origin.host} redirects more than {MAX_REDIRECTS} times")

    async def _send_once(self, request: Request) -> Response:
        url = _parsed(request.url)
        name = _place(url)
        with self.hosts.use(name) as host:
            async with host.slots:
                await host.turn()
                left = host.blocked_until - time.monotonic()
                if left > 0:
                    raise pause_error(name, host.blocked_by, left)
                async with self._requests.slot(name):
                    answer = await self._counted(request, url, name)
            asks = answer.status in (403, 503) and "Retry-After" in answer.headers
            if answer.status == 429 or asks:
                wait = retry_after(answer.headers)
                host.blocked_until, host.blocked_by = time.monotonic() + wait, answer.status
                raise pause_error(name, answer.status, wait, answer.said)
        if answer.status >= 500:
            raise RegistryUnreachable(
                f"{name} responds with {answer.status} to {request.method} {url.path}{answer.said}",
                status=answer.status,
            )
        return answer

    async def _counted(self, request: Request, url: URL, name: str) -> Response:
        label = self.hosts.label_of(name, named=request.named)
        started = time.monotonic()
        code = 0
        try:
            answer = await self._exchange(request, url, name)
            code = answer.status
        finally:
            self._metrics.registry_requests.labels(label, request.method, str(code)).inc()
            self._metrics.registry_request_seconds.labels(label).observe(time.monotonic() - started)
        return answer

    async def _exchange(self, request: Request, url: URL, where: str) -> Response:
        try:
            proxy = self._proxies.proxy_for(request.url)
            self._rules.check_url(url, proxied=proxy is not None)
            if request.via is not None:
                return await request.via(request, await self._route(request, url, proxy))
            # An https proxy is verified as the registry is, also on the way to plain HTTP.
            plain = url.scheme == "http" and proxy is None and not request.trust.ca
            context = False if plain else await self._contexts.of(request.trust)
            headers = dict(request.headers)
            if not self.hosts.may_keep(where, named=request.named):
                headers["Connection"] = "close"
            async with asyncio.timeout(self._seconds):
                response = await self._open(proxied=proxy is not None).request(
                    request.method,
                    url,
                    headers=headers,
                    data=request.form if request.data is None else request.data,
                    ssl=context,
                    proxy=proxy,
                    allow_redirects=False,
                    timeout=self._paced if request.sink else self._timeout,
                )
            async with response:
                body, text = b"", ""
                if response.status >= 400 and not request.any_status:
                    text = await self._said(response, request)
                else:
                    body = await self._body(response, request, where)
                return Response(
                    status=response.status,
                    headers=response.headers,
                    challenges=tuple(response.headers.getall("WWW-Authenticate", ())),
                    body=body,
                    url=request.url,
                    said=text,
                )
        except (aiohttp.ClientError, ssl.SSLError, TimeoutError, ValueError) as error:
            raise connection_error(error, where) from None

    async def _route(self, request: Request, url: URL, proxy: str | None) -> Route:
        """The route of a request that another sends.

        Raises:
            AddressRefused: the host has an address that isn't allowed.
            RegistryUnreachable: its name can't be resolved.
            TLSFailed: the CA isn't a PEM certificate, or is too long.
        """
        trust = request.trust
        if trust.verify and trust.ca:
            await self._contexts.of(trust)
        addresses = () if proxy is not None else await self._addresses(url)
        paths = ssl.get_default_verify_paths()
        return Route(
            origin=str(url.origin()),
            addresses=addresses,
            proxy=proxy,
            verify=trust.verify,
            ca=trust.ca,
            system_ca=(paths.cafile, paths.capath),
            authorization=request.headers.get("Authorization"),
            user_agent=_USER_AGENT,
        )

    async def _addresses(self, url: URL) -> tuple[str, ...]:
        """The addresses of a host, each of which is allowed."""
        host = url.raw_host or ""
        with suppress(ValueError):
            return (str(ip_address(host)),)  # checked with the URL
        try:
            async with asyncio.timeout(self._seconds):
                found = await self._resolver.resolve(host, url.port or 0, socket.AF_UNSPEC)
        except TimeoutError:
            raise
        except OSError:
            raise RegistryUnreachable(f"{_place(url)}: the name can't be resolved") from None
        return tuple(dict.fromkeys(one["host"] for one in found))

    def _open(self, *, proxied: bool) -> aiohttp.ClientSession:
        """The session; made on first use, because it belongs to the running loop.

        The operator's owner sets the proxies, so they may have any address; they resolve names
        themselves.
        """
        if proxied not in self._sessions:
            self._sessions[proxied] = aiohttp.ClientSession(
                connector=Connector(
                    limit=0,
                    limit_per_host=0 if proxied else REGISTRY_REQUESTS_PER_HOST,
                    keepalive_timeout=KEEP_ALIVE,
                    resolver=None if proxied else self._resolver,
                ),
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Decompressing could take any time and memory; no requested answer is large.
                headers={"User-Agent": _USER_AGENT, "Accept-Encoding": "identity"},
                auto_decompress=False,
                max_field_size=REGISTRY_HEADER_BYTES,
                max_headers=REGISTRY_HEADERS,
            )
        return self._sessions[proxied]

    async def _said(self, response: aiohttp.ClientResponse, request: Request) -> str:
        """The own code and message of an error; none where its body is long, slow or cut off."""
        body = bytearray()
        if _is_encoded(response):
            return ""
        try:
            async with asyncio.timeout(min(_SAID_SECONDS, self._seconds)):
                async for piece in response.content.iter_chunked(_SAID_BYTES):
                    body += piece
                    if len(body) > _SAID_BYTES:
                        return ""
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return ""
        kind, _, sent = request.headers.get("Authorization", "").rpartition(" ")
        password = _password(sent) if kind == "Basic" else ""
        return error_text(bytes(body), (sent, password, *request.secrets))

    async def _body(self, response: aiohttp.ClientResponse, request: Request, where: str) -> bytes:
        """The body; empty if the sink takes it."""
        if not request.max_body:
            return b""
        if _is_encoded(response):
            raise InvalidResponse(f"{where} sent a compressed response, which wasn't requested")
        sink = request.sink if response.status == 200 else None
        body, left = bytearray(), self._seconds
        async with AsyncExitStack() as stack:
            is_large = False
            while True:
                began = time.monotonic()
                async with asyncio.timeout(left):
                    piece = await response.content.read(REGISTRY_SMALL_ANSWER)
                left -= time.monotonic() - began
                if not piece:
                    break
                if len(body) + len(piece) > request.max_body:
                    text = f"{where}: a response is longer than {request.max_body} bytes"
                    raise InvalidResponse(text)
                if not is_large and len(body) + len(piece) > REGISTRY_SMALL_ANSWER:
                    is_large = True
                    slot = self._page_slot(where) if sink else self._large.slot(where)
                    await stack.enter_async_context(slot)
                body += piece
            if sink is None:
                return bytes(body)
            await sink(body)
        return b""

    @asynccontextmanager
    async def _page_slot(self, where: str) -> AsyncIterator[None]:
        """Hold a slot for a long page; waiting is bounded, as the request holds others' limits."""
        group = tenant() or ""
        try:
            async with asyncio.timeout(2 * self._seconds):  # decoding others' may be slow, too
                await self._large_pages.acquire(group)
        except TimeoutError:
            raise RegistryUnreachable(
                f"{where}: its tag list waits for other long ones; it is requested again later"
            ) from None
        try:
            yield
        finally:
            self._large_pages.release(group)


def _password(pair: str) -> str:
    """The password in a Basic Authorization header of ours."""
    return base64.b64decode(pair).decode().partition(":")[2]


def _is_encoded(response: aiohttp.ClientResponse) -> bool:
    return response.headers.get("Content-Encoding", "identity").strip().lower() != "identity"


def _parsed(url: str) -> URL:
    try:
        parsed = parse_url(url)
        parsed.origin()
    except ValueError:
        raise InvalidResponse("the registry's host isn't valid in a URL") from None
    return parsed


def _place(url: URL) -> str:
    """``host:port`` for messages, limits and metrics: a redirect's target may have a password."""
    return url.with_user(None).authority


def _follow(request: Request, origin: URL, location: str) -> Request:
    """The request to the redirect's target, without credentials and CA for another host."""
    try:
        target = URL(request.url).join(parse_url(location))
        if target.scheme in ("http", "https"):
            target.origin()
    except ValueError:
        raise InvalidResponse(f"{origin.host} redirects to something that isn't a URL") from None
    if target.scheme not in ("http", "https") or (
        URL(request.url).scheme == "https" and target.scheme != "https"
    ):
        raise InvalidResponse(f"{origin.host} redirects from https to {target.scheme}")
    if request.form is not None or request.data is not None:
        raise InvalidResponse(f"{origin.host} redirects a token request")
    headers = dict(request.headers)
    trust = request.trust
    same = is_same_origin(target, origin)
    if not same:
        headers.pop("Authorization", None)
        trust = TlsVerification()
    named = request.named and same
    return replace(request, url=str(target), trust=trust, headers=headers, named=named)
