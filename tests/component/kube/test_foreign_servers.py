"""What a server that isn't trusted sends instead of HTTP, over TLS."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.authority import Authority

from copyrator.api.kubeconfig import kubeconfig_in
from copyrator.kube.auth import remote_endpoint
from copyrator.kube.client.remote import RemoteClient
from copyrator.kube.errors import ApiError, ServerError, Unreachable
from copyrator.kube.resources import SECRETS

TOKEN = "t0ken-of-the-account"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca") / "ca")


@asynccontextmanager
async def client_of(
    authority: Authority, *chunks: bytes, repeated: bytes = b""
) -> AsyncIterator[RemoteClient]:
    """A client of a server that sends this as its answer, and closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.writelines(chunks)
        try:
            while repeated:
                writer.write(repeated)
                await writer.drain()
            await writer.drain()
        except OSError:
            pass
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=authority.context())
    port = server.sockets[0].getsockname()[1]
    described = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority-data": base64.b64encode(authority.pem).decode(),
    }
    text = json.dumps(
        {
            "clusters": [{"name": "hub", "cluster": described}],
            "users": [{"name": "puller", "user": {"token": TOKEN}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "puller"}}],
        }
    )
    body = {"data": {"value": base64.b64encode(text.encode()).decode()}}
    client = RemoteClient(remote_endpoint(kubeconfig_in(body, "value")), " in the hub")
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "sent",
    [
        f"HTTP/1.1 200 {TOKEN}\r\nX-Sent: Bearer {TOKEN}\r\nX:",
        f"HTTP/1.1 200 OK\r\n{TOKEN}\1: x\r\n\r\n",
        f"HTTP/1.1 {TOKEN} {TOKEN}\r\n\r\n",
        f"{TOKEN}\r\n\r\n",
        f"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{TOKEN}",
        f"HTTP/1.1 500 {TOKEN}\r\nContent-Length: 20\r\n\r\n{TOKEN}",
    ],
    ids=["cut off", "header", "status", "no HTTP", "short", "error"],
)
async def test_no_error_repeats_what_it_sent(authority: Authority, sent: str) -> None:
    async with client_of(authority, sent.encode()) as client:
        with pytest.raises(ApiError) as raised:
            await client.identify()
    assert TOKEN not in f"{raised.value!r} {raised.value}"


@pytest.mark.promise
@pytest.mark.parametrize("code", [301, 302, 307, 308])
async def test_a_redirect_leads_the_operator_nowhere(authority: Authority, code: int) -> None:
    asked: list[bytes] = []

    async def victim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(victim, "127.0.0.1", 0)
    there = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    sent = f"HTTP/1.1 {code} Moved\r\nLocation: {there}\r\nContent-Length: 0\r\n\r\n"
    async with client_of(authority, sent.encode()) as client:
        with pytest.raises(ApiError):
            await client.identify()
    server.close()
    await server.wait_closed()
    assert asked == []


async def test_answers_that_only_announce_another_one_are_ended(authority: Authority) -> None:
    """aiohttp skips them without end, and without letting anything else run."""
    flood = b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000
    async with client_of(authority, repeated=flood) as client:
        with pytest.raises(Unreachable, match="disconnected"):
            await client.identify()


@pytest.mark.parametrize("code", ["9" * 4000, "-1", "true", "200", "0"])
async def test_the_code_of_an_error_in_a_watch_is_one_of_http(
    authority: Authority, code: str
) -> None:
    line = f'{{"type": "ERROR", "object": {{"code": {code}}}}}\n'
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    async with client_of(authority, (head + line).encode()) as client:
        client._identified_at = time.monotonic()  # its watch doesn't ask which cluster it is
        with pytest.raises(ServerError) as raised:
            async for _ in client.watch(SECRETS, "infra", resource_version="1"):
                pass
    assert raised.value.message == "it responded with 500"
