"""What keeps the process small reaches where it should."""

from __future__ import annotations

import asyncio
import gc
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.authority import Authority

from copyrator.runtime import app


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settle for one test only."""
    protocol = asyncio.sslproto.SSLProtocol
    monkeypatch.setattr(protocol, "max_size", protocol.max_size)
    threshold = gc.get_threshold()
    app.reduce_memory()
    with app.freeze_survivors():
        yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("settled")
async def test_a_tls_connection_holds_a_small_buffer_and_carries_more_than_that(
    tmp_path: Path,
) -> None:
    authority = Authority.make(tmp_path / "ca")
    sent = bytes(range(256)) * 1024

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=authority.context())
    host, port = server.sockets[0].getsockname()
    trust = ssl.create_default_context(cadata=authority.pem.decode())

    reader, writer = await asyncio.open_connection(host, port, ssl=trust)
    transport: Any = writer.transport

    assert await reader.read(-1) == sent
    assert len(transport._ssl_protocol._ssl_buffer) == app.TLS_BUFFER
    writer.close()
    server.close()


@pytest.mark.usefixtures("settled")
def test_what_is_there_at_the_start_is_not_walked_over_again() -> None:
    assert gc.get_freeze_count() > 100 * len(gc.get_objects())


@pytest.mark.usefixtures("settled")
def test_garbage_is_collected_once_in_five_thousand_new_objects() -> None:
    before = gc.get_stats()[0]["collections"]
    held: list[list[int]] = [[number] for number in range(2 * app.NEW_OBJECTS)]
    collections = gc.get_stats()[0]["collections"] - before
    assert len(held) == 2 * app.NEW_OBJECTS
    assert 1 <= collections <= 3


@pytest.mark.usefixtures("settled")
def test_no_collection_visits_all_of_very_many_objects() -> None:
    took: list[float] = [0.0]
    begun = 0.0

    def measure(phase: str, _: object) -> None:
        nonlocal begun
        if phase == "start":
            begun = time.thread_time()
        else:
            took.append(time.thread_time() - begun)

    gc.callbacks.append(measure)
    held: list[list[list[int]]] = [[[number]] for number in range(400_000)]
    longest = max(took)
    gc.unfreeze()
    gc.collect()
    gc.callbacks.remove(measure)
    assert len(held) == 400_000
    assert longest < took[-1] / 3
