"""What one registry host is spared: many requests at a time, and many in a short time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.component.oci.fake_registry import FakeRegistry, registry_client

from copyrator.oci.exchange import Repository
from copyrator.oci.transport import REGISTRY_REQUESTS_PER_HOST, Rate


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as registry:
        for i in range(60):
            registry.put(f"app{i}", "1.0.0", "one")
        yield registry


def ask_all(registry: FakeRegistry) -> list[asyncio.Task[str]]:
    """One question to each of sixty repositories, all at once."""
    repositories = [Repository(registry.host, f"app{i}", plain_http=True) for i in range(60)]
    return [asyncio.create_task(registry.client.digest(one, "1.0.0", None)) for one in repositories]


async def test_a_host_gets_few_requests_at_a_time(registry: FakeRegistry) -> None:
    registry.gate = asyncio.Event()
    tasks = ask_all(registry)
    while registry.in_flight < REGISTRY_REQUESTS_PER_HOST:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    registry.gate.set()
    await asyncio.gather(*tasks)

    assert registry.most_in_flight == REGISTRY_REQUESTS_PER_HOST
    assert len(registry.asked) == 60


async def test_a_host_gets_requests_at_a_steady_rate_after_a_burst(
    registry: FakeRegistry,
) -> None:
    registry.client = registry_client(rate=Rate(per_second=50.0, burst=10))
    loop = asyncio.get_running_loop()
    started = loop.time()

    await asyncio.gather(*ask_all(registry))

    assert loop.time() - started >= 0.95  # the 50 beyond the burst, 50 a second


async def test_another_host_is_not_slowed_down(registry: FakeRegistry) -> None:
    other = FakeRegistry()
    await other.start()
    digest = other.put("app", "1.0.0", "one")
    registry.gate = asyncio.Event()
    tasks = ask_all(registry)
    while registry.in_flight < REGISTRY_REQUESTS_PER_HOST:
        await asyncio.sleep(0.01)

    async with asyncio.timeout(30):
        found = await registry.client.digest(
            Repository(other.host, "app", plain_http=True), "1.0.0", None
        )

    assert found == digest
    registry.gate.set()
    await asyncio.gather(*tasks)
    await other.stop()
