"""The health server answers over real HTTP with the reason in the body."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from copyrator.metrics import Metrics
from copyrator.serving.health import HealthServer
from copyrator.serving.listener import ListenError


@pytest.fixture
async def server() -> AsyncIterator[HealthServer]:
    server = HealthServer(Metrics().registry, address="127.0.0.1", port=0)
    await server.start()
    yield server
    await server.stop()


async def get(server: HealthServer, path: str, accept: str = "*/*") -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{server.port}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={"Accept": accept}) as response,
    ):
        return response.status, await response.text(), response.headers["Content-Type"]


async def test_with_nothing_wrong_it_is_live_and_ready(server: HealthServer) -> None:
    server.live.add("workers", lambda: None)
    server.ready.add("rules", lambda: None)
    assert (await get(server, "/healthz"))[:2] == (200, "ok\n")
    assert (await get(server, "/readyz"))[:2] == (200, "ok\n")


async def test_each_failing_check_is_a_line_of_the_body(server: HealthServer) -> None:
    server.ready.add("crds", lambda: "bundles.operator.werf.dev is missing")
    server.ready.add("rules", lambda: "not listed yet")
    status, body, _ = await get(server, "/readyz")
    assert status == 503
    assert body == "crds: bundles.operator.werf.dev is missing\nrules: not listed yet\n"


async def test_not_live_is_not_ready_either(server: HealthServer) -> None:
    server.live.add("workers", lambda: "worker 3 died")
    assert (await get(server, "/healthz"))[:2] == (503, "workers: worker 3 died\n")
    assert (await get(server, "/readyz"))[0] == 503


async def test_a_check_that_raises_has_failed(server: HealthServer) -> None:
    def broken() -> str | None:
        raise RuntimeError("secret detail")

    server.live.add("broken", broken)
    status, body, _ = await get(server, "/healthz")
    assert (status, body) == (503, "broken: the check raised an exception (RuntimeError)\n")


async def test_metrics_are_prometheus_text_and_openmetrics(server: HealthServer) -> None:
    status, body, content_type = await get(server, "/metrics")
    assert status == 200
    assert "# TYPE copyrator_queue_depth gauge" in body
    assert content_type.startswith("text/plain")
    openmetrics = await get(server, "/metrics", "application/openmetrics-text")
    assert openmetrics[2].startswith("application/openmetrics-text")
    assert openmetrics[1].endswith("# EOF\n")


async def test_a_taken_port_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = HealthServer(Metrics().registry, address="127.0.0.1", port=port)
        with pytest.raises(ListenError, match=rf"127.0.0.1:{port}.*--health-port"):
            await server.start()


async def test_stopping_twice_is_no_error(server: HealthServer) -> None:
    await server.stop()
    await server.stop()


async def test_not_ready_is_still_live(server: HealthServer) -> None:
    server.ready.add("rules", lambda: "not listed yet")
    assert (await get(server, "/healthz"))[0] == 200
