"""A small request and its whole answer on a connection of aiohttp's pool.

Connections, TLS and the parser are aiohttp's. What aiohttp makes for each request besides (URL,
headers, payload, a writer with a task, a response) takes as much processor time as these together:
docs/adr/0017-kubernetes-client.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from yarl import URL

from copyrator.connections import aiohttp
from copyrator.kube.client.answers import Answer

MOST_BYTES: Final = 64 * 1024
"""Of a body that is written at once; a longer one needs flow control."""

_REPEATED: Final = frozenset({"PUT", "DELETE"})
"""Sent again where a connection that was kept is closed before any answer, as aiohttp does."""

_TARGET: Final = re.compile("/[!-~]*")
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")


class Exchange:
    """Requests to one server.

    Args:
        connector: the pool.
        url: the server's, with its base path and credentials, if it has these.
        ssl: its TLS context.
        server_hostname: the name in its certificate, where that isn't the host of the URL.
    """

    def __init__(
        self,
        connector: aiohttp.BaseConnector,
        url: str,
        ssl: object,
        server_hostname: str | None,
    ) -> None:
        self._connector = connector
        self._place = aiohttp.ClientRequest(
            "GET",
            URL(url),
            loop=asyncio.get_running_loop(),
            ssl=ssl or True,  # type: ignore[arg-type]
            server_hostname=server_hostname,
        )
        """What the pool finds a connection by."""
        self._prefix = self._place.url.raw_path.rstrip("/")
        own = self._place.headers
        self._own = {name: own[name] for name in ("Host", "Authorization") if name in own}
        """A name and a password in the URL are credentials, too."""

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        limits: aiohttp.ClientTimeout,
        *,
        check: Callable[[], None],
    ) -> Answer:
        """Send a request, and read the answer.

        `check` is called just before sending, also again; what it raises is raised.

        Raises:
            TimeoutError, aiohttp.ClientError, OSError: there is none.
        """
        target = self._prefix + target
        if not _TARGET.fullmatch(target):
            raise aiohttp.InvalidURL(target)
        head = f"{method} {target} HTTP/1.1\r\n{_block(tuple({**self._own, **headers}.items()))}"
        request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        async with asyncio.timeout(limits.total):
            try:
                return await self._exchange(request, limits, check)
            except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
                if method not in _REPEATED or isinstance(error, aiohttp.ClientConnectorError):
                    raise
            return await self._exchange(request, limits, check)

    async def _exchange(
        self, request: bytes, limits: aiohttp.ClientTimeout, check: Callable[[], None]
    ) -> Answer:
        connection = await self._connector.connect(self._place, [], limits)
        try:
            protocol, transport = connection.protocol, connection.transport
            assert protocol is not None
            protocol.set_response_params(read_until_eof=True, auto_decompress=False)
            if transport is None:
                raise aiohttp.ServerDisconnectedError
            check()
            transport.write(request)
            message, content = await protocol.read()
            while 100 <= message.code < 200 and message.code != 101:
                message, content = await protocol.read()
            answer = Answer(message.code, message.headers, await content.read())
        except BaseException as error:
            connection.close()
            if isinstance(error, aiohttp.http.HttpProcessingError):
                raise aiohttp.ClientResponseError(self._place.request_info, ()) from error
            raise
        connection.release()
        return answer


@lru_cache(maxsize=64)
def _block(headers: tuple[tuple[str, str], ...]) -> str:
    """The lines of the headers; cached, because most requests have the same."""
    lines = [f"{name}: {value}" for name, value in headers]
    if not all(map(_LINE.fullmatch, lines)):
        raise aiohttp.ClientError("a header has a character that none may have")
    return "".join(f"{line}\r\n" for line in lines)
