"""Registries behind a proxy that the environment names."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.authority import Authority
from tests.component.oci.fake_registry import FakeRegistry, registry_client

from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import RegistryUnreachable, TLSFailed
from copyrator.oci.exchange import Repository

FAR = "registry.far.invalid"
"""A name that only a proxy knows."""


@dataclass
class Tunnel:
    """A proxy for HTTPS: every CONNECT leads to one server.

    Attributes:
        heads: the heads of the requests that it was sent.
        refusal: answered in place of a tunnel, while it is set.
    """

    port: int
    heads: list[str] = field(default_factory=list)
    refusal: str = ""
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self.refusal:
            writer.write(f"HTTP/1.1 {self.refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        there_in, there_out = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(_pass_on(reader, there_out), _pass_on(there_in, writer))


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    sink.close()


@pytest.fixture
async def registry(authority: Authority) -> AsyncIterator[FakeRegistry]:
    """One that is called registry.far.invalid, by TLS."""
    async with FakeRegistry(tls=authority.context(FAR)) as registry:
        yield registry


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "ca")


@pytest.fixture
async def tunnel(registry: FakeRegistry) -> AsyncIterator[Tunnel]:
    tunnel = Tunnel(int(registry.host.rpartition(":")[2]))
    server = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    tunnel.url = f"http://alice:s3cret@{host}:{port}"
    yield tunnel
    server.close()


@asynccontextmanager
async def client_with(
    monkeypatch: pytest.MonkeyPatch, **names: str
) -> AsyncIterator[RegistryClient]:
    """A client that was started with these variables."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    client = registry_client()
    try:
        yield client
    finally:
        await client.close()


async def test_https_goes_through_a_tunnel_and_the_registry_is_still_verified(
    registry: FakeRegistry,
    tunnel: Tunnel,
    authority: Authority,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    far = Repository(FAR, "app", ca=authority.pem)

    async with client_with(monkeypatch, HTTPS_PROXY=tunnel.url) as client:
        assert await client.digest(far, "1.0.0", None) == digest

    assert tunnel.heads[0].startswith(f"CONNECT {FAR}:443 ")
    assert "Proxy-Authorization: Basic " in tunnel.heads[0]
    assert registry.seen_authorization == [None]  # the proxy's password is the proxy's alone


async def test_plain_http_is_asked_of_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    far = Repository(FAR, "app", plain_http=True)
    async with FakeRegistry() as proxy:
        digest = proxy.put("app", "1.0.0", "one")
        async with client_with(monkeypatch, HTTP_PROXY=f"http://{proxy.host}") as client:
            assert await client.digest(far, "1.0.0", None) == digest


async def test_an_https_proxy_is_verified_also_on_the_way_to_plain_http(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Repository(FAR, "app", plain_http=True)
    async with FakeRegistry(tls=authority.context("127.0.0.1")) as proxy:
        names = {"HTTP_PROXY": f"https://{proxy.host}"}
        async with client_with(monkeypatch, **names) as client:
            with pytest.raises(TLSFailed):
                await client.digest(far, "1.0.0", None)
    assert proxy.seen_authorization == []


@pytest.mark.parametrize("exceptions", ["far.invalid", ".invalid,10.0.0.0/8", f"{FAR}:443", "*"])
async def test_what_no_proxy_names_goes_directly(
    tunnel: Tunnel, monkeypatch: pytest.MonkeyPatch, exceptions: str
) -> None:
    names = {"HTTPS_PROXY": tunnel.url, "NO_PROXY": exceptions}

    async with client_with(monkeypatch, **names) as client:
        with pytest.raises(RegistryUnreachable, match="can't be resolved"):
            await client.digest(Repository(FAR, "app"), "1.0.0", None)

    assert tunnel.heads == []


async def test_a_proxy_that_fails_is_named_without_its_password(
    tunnel: Tunnel, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnel.refusal = "407 Proxy Authentication Required"
    secrets = ("s3cret", base64.b64encode(b"alice:s3cret").decode())
    for url, told in (
        (tunnel.url, "the proxy responds with 407"),
        ("http://alice:s3cret@127.0.0.1:1", "the proxy can't be reached"),
        ("socks5://alice:s3cret@127.0.0.1:1", "HTTPS_PROXY isn't an http"),
    ):
        async with client_with(monkeypatch, HTTPS_PROXY=url) as client:
            with pytest.raises(RegistryUnreachable, match=told) as failed:
                await client.digest(Repository(FAR, "app"), "1.0.0", None)
        assert not any(secret in str(failed.value) for secret in secrets)
