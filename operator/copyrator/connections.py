"""Connections of aiohttp sessions, to the API server and to registries."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ConnectionKey


class Connector(aiohttp.TCPConnector):
    """Aborts a TLS connection that isn't used again, as aiohttp itself does in `close`.

    That of a cancelled or unread request would wait up to 30 s for the server's close_notify, known
    to no session, and would still be open when the loop ends.
    """

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
