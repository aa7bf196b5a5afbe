"""What aiohttp sessions leave behind."""

import asyncio
import contextlib
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import pytest
from tests.authority import Authority

from copyrator import connections
from copyrator.connections import Connector

HALF_AN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"


class Silent:
    """A TLS server that says its answer and nothing more: it doesn't close what the client does."""

    def __init__(self, context: ssl.SSLContext, answer: bytes) -> None:
        self._context = context
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = threading.Event()

    def __enter__(self) -> "Silent":
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._thread.join(30)
        self._connection.close()
        self._listener.close()

    def _serve(self) -> None:
        accepted, _ = self._listener.accept()
        self._connection = self._context.wrap_socket(accepted, server_side=True)
        self._connection.recv(4096)
        self._connection.sendall(self._answer)
        self.asked.set()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("pki") / "ca")


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    gc.collect()
    with warnings.catch_warnings(record=True) as left:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert not [str(one.message) for one in left if one.category is ResourceWarning]


def test_a_cancelled_request_leaves_no_connection(authority: Authority) -> None:
    async def cancelled(session: aiohttp.ClientSession, server: Silent) -> None:
        request = asyncio.ensure_future(session.get(server.url))
        await asyncio.to_thread(server.asked.wait, 30)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)

    with nothing_left(), Silent(authority.context(), b"") as server:
        asyncio.run(on_a_session(authority, cancelled, server))


def test_an_answer_that_is_not_read_leaves_no_connection(authority: Authority) -> None:
    async def unread(session: aiohttp.ClientSession, server: Silent) -> None:
        async with session.get(server.url) as response:
            assert response.status == 200

    with nothing_left(), Silent(authority.context(), HALF_AN_ANSWER) as server:
        asyncio.run(on_a_session(authority, unread, server))


def test_a_request_that_is_cancelled_in_the_moment_of_connecting_leaves_no_connection(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the answer by which a command fails comes with the end of a handshake."""
    made = connections._Handler.connection_made

    async def cancelled(session: aiohttp.ClientSession, server: Silent) -> None:
        def cancel(handler: connections._Handler, transport: asyncio.BaseTransport) -> None:
            made(handler, transport)
            request.cancel()

        monkeypatch.setattr(connections._Handler, "connection_made", cancel)
        request = asyncio.ensure_future(session.get(server.url))
        with pytest.raises(asyncio.CancelledError):
            await request

    with nothing_left(), Silent(authority.context(), b"") as server:
        asyncio.run(on_a_session(authority, cancelled, server))


async def on_a_session(
    authority: Authority,
    work: Callable[[aiohttp.ClientSession, Silent], Awaitable[None]],
    server: Silent,
) -> None:
    trusted = ssl.create_default_context(cadata=authority.pem.decode())
    async with aiohttp.ClientSession(connector=Connector(ssl=trusted)) as session:
        await work(session, server)
