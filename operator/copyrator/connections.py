"""Connections of aiohttp sessions, to the API server and to registries, and proxies on the way.

Every TLS connection has a context of its own (`ssl=`): aiohttp's default contexts trust no CA,
because it is imported here without loading the system's certificates: twice, in 75 ms.

Proxies are those that the environment sets, by the rules of Go programs: werf in the Jobs is one of
those, and must use the same. Python's own rules support no address ranges and no ports. Source:
golang.org/x/net/http/httpproxy, without SOCKS.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.http_parser import RawResponseMessage
    from aiohttp.streams import StreamReader


# aiohttp has a few short frozen lists; their C extension loads libstdc++, which takes 1.4 MB.
os.environ.setdefault("FROZENLIST_NO_EXTENSIONS", "1")
ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]  # noqa: ARG005
try:
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
finally:
    del ssl.SSLContext.set_default_verify_paths  # the inherited method is visible again


__all__ = ["Connector", "aiohttp", "keepalive_socket"]


PARSED_AT_ONCE: Final = 16 * 1024
"""Bytes, of which aiohttp parses up to 256 KiB at once: 10,000 answers without a body."""
INTERIM_ANSWERS: Final = 8
"""Answers 1xx before one that counts; we ask for none, and aiohttp skips any number of them."""


class _Handler(ResponseHandler):
    """Ends a connection on which a server sends answers 1xx without end.

    Args:
        loop: the running one.
        opened: has its transport as long as that is open.
    """

    _interim = 0

    def __init__(self, loop: asyncio.AbstractEventLoop, opened: set[asyncio.Transport]) -> None:
        super().__init__(loop)
        self._opened = opened
        self._own: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        self._own = transport
        self._opened.add(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._own is not None:
            self._opened.discard(self._own)

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data) or 1, PARSED_AT_ONCE):
            super().data_received(data[start : start + PARSED_AT_ONCE])
            if self._interim > INTERIM_ANSWERS:
                self.abort()
                return

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        self._interim = self._interim + 1 if data[0].code < 200 else 0
        super().feed_data(data, size)


class Connector(aiohttp.TCPConnector):
    """Aborts a TLS connection that isn't used again, as aiohttp itself does in `close`.

    That of a cancelled or unread request would wait up to 30 s for the server's close_notify, known
    to no session, and would still be open when the loop ends. So would that of a request which is
    cancelled in the moment of connecting, and one that was kept too long: `close` aborts these.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._opened: set[asyncio.Transport] = set()
        handler: Callable[..., ResponseHandler] = _Handler
        self._factory = partial(handler, self._loop, self._opened)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close all connections, whatever state they are in."""
        await super().close(abort_ssl=abort_ssl)
        for transport in tuple(self._opened):
            transport.abort()

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        if key.is_ssl and (should_close or protocol.should_close):
            protocol.abort()
            should_close = True
        super()._release(key, protocol, should_close=should_close)


def keepalive_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that detects within half a minute that the peer is gone without closing."""
    family, kind, proto, *_ = address
    sock = socket.socket(family=family, type=kind, proto=proto)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):  # Linux; elsewhere the names differ, and timeouts detect it
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


_PORTS = {"http": 80, "https": 443}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ProxyError(ValueError):
    """A proxy variable has an unusable value; the message names the variable, not the value."""


class Proxies:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or their lower-case forms, as set at construction."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        def named(name: str) -> str:
            return environment.get(name) or environment.get(name.lower()) or ""

        self._urls = {scheme: named(f"{scheme.upper()}_PROXY").strip() for scheme in _PORTS}
        entries = (entry.strip().lower() for entry in named("NO_PROXY").split(","))
        self._exceptions = [entry for entry in entries if entry]

    def proxy_for(self, url: str) -> str | None:
        """The proxy's URL for a request to ``url``; None for a direct connection.

        Raises:
            ProxyError: the proxy's URL is unusable.
        """
        parts = urlsplit(url)
        proxy = self._urls.get(parts.scheme)
        if not proxy or self._is_exception(
            parts.hostname or "", parts.port or _PORTS[parts.scheme]
        ):
            return None
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        if urlsplit(proxy).scheme not in _PORTS or not urlsplit(proxy).hostname:
            raise ProxyError(f"{parts.scheme.upper()}_PROXY isn't an http:// or https:// URL")
        return proxy

    def _is_exception(self, host: str, port: int) -> bool:
        address = _address(host)
        if host == "localhost" or (address is not None and address.is_loopback):
            return True
        return any(_covers(entry, host, port, address) for entry in self._exceptions)


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Whether an entry of NO_PROXY matches a host: ``*``, a range, an address, a domain."""
    if entry == "*" or "/" in entry:
        return entry == "*" or _holds(entry, address)
    name, wanted = _split_port(entry)
    if wanted and wanted != str(port):
        return False
    if (excepted := _address(name)) is not None or address is not None:
        return excepted == address
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _holds(network: str, address: _Address | None) -> bool:
    try:
        return address is not None and address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """``host:port``, ``[IPv6]:port`` or a host alone: host without brackets, and the port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
