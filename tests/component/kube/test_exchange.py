"""Writes on kept connections: what is sent, when it is sent again, and what answers become."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.exchange import MOST_BYTES
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import BrokenAnswer, NotLeading, Unreachable

CLOSE = b""
PATH = "/api/v1/namespaces/ns/secrets"
BODY: dict[str, Any] = {"metadata": {"name": "a"}}


def whole(body: bytes = b'{"a":1}', *headers: str, status: str = "201 Created") -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


class Server:
    """Gives each request the next answer, whichever connection it comes by; CLOSE closes it.

    Attributes:
        requests: the head of each, and the number of its connection.
        connections: how many were opened.
    """

    def __init__(self, *answers: bytes | float) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, int]] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
                await reader.readexactly(length)
                self.requests.append((head, number))
                answer = self.answers.pop(0) if self.answers else whole()
                if isinstance(answer, float):
                    await asyncio.sleep(answer)
                    answer = whole(b'{"late":1}')
                if answer == CLOSE:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | float) -> AsyncIterator[Server]:
    found = Server(*answers)
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield found


@asynccontextmanager
async def writing(
    *answers: bytes | float,
    user: str = "",
    prefix: str = "",
    impersonate: str | None = None,
    fence: Callable[[], bool] | None = None,
    **endpoint: Any,
) -> AsyncIterator[tuple[Server, Callable[..., Any]]]:
    """A server, and a function that sends a POST with BODY to PATH."""
    async with serving(*answers) as server:
        host = server.url.replace("//", f"//{user}") + prefix
        connection = Connection(Endpoint(host=host, **endpoint))
        connection.impersonate = impersonate
        async with KubeClient(connection, fence=fence) as client:

            async def write(method: str = "POST", path: str = PATH, **more: Any) -> Any:
                return await client.request(method, path, **{"body": BODY, **more})

            yield server, write


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_one_that_was_kept_and_is_closed_costs_no_write_and_makes_none_twice(
    method: str,
) -> None:
    async with writing(whole(), CLOSE, whole(b'{"b":2}')) as (server, write):
        await write()
        if method in ("PUT", "DELETE"):
            assert await write(method) == {"b": 2}
        else:
            with pytest.raises(Unreachable, match="disconnected"):
                await write(method)
        assert [number for _, number in server.requests] == [1, 1, 2][: len(server.requests)]
        assert len(server.requests) == (3 if method in ("PUT", "DELETE") else 2)


async def test_what_is_sent() -> None:
    endpoint = {"prefix": "/k8s/clusters/c-1", "authorization": "Bearer t"}
    async with writing(**endpoint) as (server, write):
        await write(path=f"{PATH}/a%20b")
        head, *_ = server.requests[0]
        first, *lines = head.strip().split("\r\n")
        target = f"/k8s/clusters/c-1{PATH}/a%20b?fieldManager=copyrator"
        assert first == f"POST {target} HTTP/1.1"
        headers = dict(line.split(": ", 1) for line in lines)
        assert headers.pop("User-Agent").startswith("copyrator/")
        assert headers == {
            "Host": server.url.removeprefix("http://"),
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Authorization": "Bearer t",
            "Content-Length": str(len(b'{"metadata":{"name":"a"}}')),
            "Content-Type": "application/json",
        }


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ({"authorization": "Bearer t\r\nX-Remote-User: admin"}, PATH),
        ({"impersonate": "a\udcff"}, PATH),
        ({}, f"{PATH} HTTP/1.1\r\nX-Remote-User: admin\r\n"),
        ({}, f"{PATH}/a b"),
    ],
)
async def test_nothing_is_sent_where_a_name_or_a_token_would_end_its_line(
    endpoint: dict[str, str], path: str
) -> None:
    async with writing(**endpoint) as (server, write):
        with pytest.raises(Unreachable) as caught:
            await write(path=path)
        assert "Bearer" not in str(caught.value)
        assert not server.requests


@pytest.mark.parametrize(("given", "sent"), [(None, "Basic dTpwQHg="), ("Bearer t", "Bearer t")])
async def test_a_name_and_a_password_in_the_url_are_the_credentials_unless_others_are_given(
    given: str | None, sent: str
) -> None:
    async with writing(user="u:p%40x@", authorization=given) as (server, write):
        await write()
        assert f"\r\nAuthorization: {sent}\r\n" in server.requests[0][0]


@pytest.mark.parametrize(
    ("opens", "requests"), [((True, False), 0), ((True, True, False), 1)], ids=["first", "again"]
)
async def test_the_fence_is_asked_on_each_connection_just_before_sending(
    opens: tuple[bool, ...], requests: int
) -> None:
    answers = list(opens)
    async with writing(CLOSE, fence=lambda: answers.pop(0)) as (server, write):
        with pytest.raises(NotLeading):
            await write("PUT")
        assert len(server.requests) == requests


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{"\r\n5\r\na":1}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + whole(),
    ],
    ids=["in chunks", "after others"],
)
async def test_whole_answers(answer: bytes) -> None:
    async with writing(answer, whole(b'{"b":2}')) as (server, write):
        assert await write() == {"a": 1}
        assert await write() == {"b": 2}
        assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (b"SSH-2.0-OpenSSH\r\n", BrokenAnswer, "isn't HTTP"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 50, Unreachable, "can't be reached"),
        (whole()[:-1], Unreachable, "didn't respond in time"),
        (0.5, Unreachable, "didn't respond in time"),
    ],
    ids=["another protocol", "no end of interim answers", "half an answer", "none"],
)
async def test_an_answer_that_isnt_whole_costs_that_write_and_its_connection(
    answer: bytes | float, error: type[Exception], text: str
) -> None:
    async with writing(answer, whole(b'{"b":2}')) as (server, write):
        with pytest.raises(error, match=text):
            await write(timeout=0.3)
        assert await write() == {"b": 2}
        assert [number for _, number in server.requests] == [1, 2]


async def test_a_server_may_close_after_an_answer() -> None:
    async with writing(whole(b'{"a":1}', "Connection: close")) as (server, write):
        await write()
        await write()
        assert server.connections == 2


async def test_who_is_cancelled_leaves_no_answer_to_another() -> None:
    async with writing(0.3) as (server, write):
        task = asyncio.create_task(write())
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await write() == {"a": 1}
        assert server.connections == 2


@pytest.mark.parametrize("proxied", [False, True])
async def test_large_bodies_and_proxies(proxied: bool) -> None:
    async with serving() as proxy:
        endpoint = {"proxy": proxy.url} if proxied else {}
        async with writing(**endpoint) as (server, write):
            large = {"data": {"a": "x" * (MOST_BYTES if not proxied else 1)}}
            assert await write(body=large) == {"a": 1}
            assert len(proxy.requests) == proxied
            assert len(server.requests) == (not proxied)
            seen = (proxy if proxied else server).requests[0][0]
            assert seen.startswith(f"POST {server.url if proxied else ''}{PATH}?")
