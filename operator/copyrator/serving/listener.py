"""A listening port with limits per caller, used by the health checks and the webhook."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

HEADER_SECONDS: Final = 15.0
"""Seconds that a connection to one of the operator's own ports may take for the headers of a
request, and stay open without one."""


_Address = IPv4Address | IPv6Address
_PREFIX_LENGTH = 64
"""Prefix length of an IPv6 address that one caller can't choose freely."""


class Peers:
    """Distinguishes callers, also behind `trusted` proxies, by their X-Forwarded-For."""

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._trusted = tuple(trusted)

    def is_proxy(self, remote: str | None) -> bool:
        """Whether a connection is from a trusted proxy."""
        address = _read(remote or "")
        return address is not None and self._trusts(address)

    def caller(self, remote: str | None, forwarded: Iterable[str] = ()) -> str:
        """The caller behind a connection from `remote` with these X-Forwarded-For headers.

        Parsed from the right, where each trusted proxy has appended its peer; anything further left
        is unverified.
        """
        address = _read(remote or "")
        if address is None:
            return "unknown"
        for item in reversed(",".join(forwarded).split(",")):
            further = _read(item)
            if further is None or not self._trusts(address):
                break
            address = further
        return _network(address)

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def _network(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((int(address), _PREFIX_LENGTH), strict=False))


def _read(text: str) -> _Address | None:
    """Parse an address with or without a port; an IPv4-mapped IPv6 address returns the IPv4 one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


CONNECTIONS: Final = 1024
"""Connections to one of the operator's own ports."""

CONNECTIONS_PER_PEER: Final = 64
"""Of those, from one peer that isn't a trusted proxy."""

log = logging.getLogger(__name__)

LINGER: float = 1.0
"""Seconds in which the rest of a refused body is discarded: a caller that is still sending when its
connection is closed doesn't see the answer."""

CALLERS_FAULTS = (HttpProcessingError, web.RequestPayloadError, ConnectionError)
"""Exceptions of malformed or aborted requests."""


class ListenError(Exception):
    """The port can't be opened; the message names it and the remedy."""


class Listener:
    """Serves one application; ``what`` and ``option`` are for the message of a port in use.

    An empty address means all of this machine's. Port 0 means any that is free. Connections are
    bounded in number, also those of one peer, and in the time without a complete request.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        what: str,
        option: str,
        peers: Peers | None = None,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        self.port = port
        self._address = address
        self._what = what
        self._option = option
        self._peers = peers or Peers()
        self._header_seconds = header_seconds
        self._server: asyncio.Server | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The URL that it listens on, human-readable."""
        return f"http://{self._address or '*'}:{self.port}"

    async def start(self, app: web.Application) -> None:
        """Listen; afterwards `port` is the actual one, also where it was 0.

        Raises:
            ListenError: the port is in use, or the address isn't one of this machine's.
        """
        runner = web.AppRunner(
            app,
            access_log=None,
            logger=_quiet_logger(),
            shutdown_timeout=1.0,
            keepalive_timeout=self._header_seconds,
            lingering_time=LINGER,
            auto_decompress=False,
        )
        await runner.setup()
        handlers = runner.server
        assert handlers is not None
        try:
            self._server = await asyncio.get_running_loop().create_server(
                lambda: _ConnectionLimit(handlers, self._peers),
                self._address or None,
                self.port,
                reuse_address=True,
            )
        except OSError as error:
            await runner.cleanup()
            raise ListenError(
                f"Can't listen on {self._address or '*'}:{self.port} for {self._what} "
                f"({os.strerror(error.errno or 0)}): choose another {self._option}."
            ) from error
        self._runner = runner
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening; idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


class _ConnectionLimit(asyncio.Protocol):
    """Passes a new connection to the server, or aborts it if there are too many."""

    def __init__(self, handlers: web.Server, peers: Peers) -> None:
        self._handlers = handlers
        self._peers = peers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop for a new connection."""
        stream = cast("asyncio.Transport", transport)
        if self._has_too_many(_remote(stream)):
            stream.abort()
            return
        handler = self._handlers()
        stream.set_protocol(handler)
        handler.connection_made(stream)

    def _has_too_many(self, remote: str | None) -> bool:
        others = self._handlers.connections
        if len(others) >= CONNECTIONS:
            return True
        if len(others) < CONNECTIONS_PER_PEER or self._peers.is_proxy(remote):
            return False
        caller = self._peers.caller(remote)
        remotes = (_remote(other.transport) for other in others if other.transport is not None)
        same = sum(1 for remote in remotes if self._peers.caller(remote) == caller)
        return same >= CONNECTIONS_PER_PEER


def _remote(transport: asyncio.BaseTransport) -> str | None:
    peer = transport.get_extra_info("peername")
    return peer[0] if peer else None


def _quiet_logger() -> logging.Logger:
    """A logger for aiohttp's server that drops aborted requests, which any client can cause."""
    quiet = log.getChild("http")
    if not quiet.filters:
        quiet.addFilter(_is_ours)
    return quiet


def _is_ours(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], CALLERS_FAULTS))
