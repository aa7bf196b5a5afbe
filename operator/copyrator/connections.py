"""Connections of aiohttp sessions, to the API server and to registries.

Every TLS connection has a context of its own (`ssl=`): aiohttp's default contexts trust no CA,
because it is imported here without loading the system's certificates: twice, in 75 ms.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any, Final

# aiohttp has a few short frozen lists; their C extension loads libstdc++, which takes 1.4 MB.
os.environ.setdefault("FROZENLIST_NO_EXTENSIONS", "1")
ssl.SSLContext.set_default_verify_paths = lambda self: None  # type: ignore[method-assign]  # noqa: ARG005
try:
    import aiohttp
    from aiohttp.client_proto import ResponseHandler
finally:
    del ssl.SSLContext.set_default_verify_paths  # the inherited method is visible again

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.http_parser import RawResponseMessage
    from aiohttp.streams import StreamReader

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
