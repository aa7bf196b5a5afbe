"""Work that hangs or piles up shows on the real pages, with its reason."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from tests.component.kube.fake_api import until

from copyrator.api.keys import Key, RuleKey
from copyrator.kube.client.transport import FAILURES, Connection, Endpoint
from copyrator.kube.errors import Unreachable
from copyrator.runtime import supervisor, watchdog
from copyrator.runtime.app import App, Parts
from copyrator.settings.config import Settings
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import Done, Outcome, Workers, WorkQueue

KEY = RuleKey("team", "shop")


class Kit:
    """An App whose workers hang until they are let go, and whose queue has a clock of its own."""

    def __init__(self, workers: int) -> None:
        self.now = 0.0
        self.released = asyncio.Event()
        self.queue: WorkQueue[Key] = WorkQueue(clock=lambda: self.now)
        self.app = App(
            Settings(health_port=0),
            Connection(Endpoint(host="https://nowhere")),
            step_down=lambda: None,
        )
        self.workers = Workers(self.queue, self._hang, count=workers)
        self.background = watchdog.Background()

    async def _hang(self, _key: Key) -> Outcome:
        await self.released.wait()
        return Done()

    async def start(self) -> None:
        pool = SimpleNamespace(statuses=list, dead=list, publish=lambda: None)
        parts: Any = SimpleNamespace(
            queue=self.queue,
            limit=AdaptiveLimit(),
            informers=pool,
            client=SimpleNamespace(outage=None),
            publish=lambda: None,
        )
        self.workers.start()
        self.app._observe_watches(cast("Parts", parts), self.background)
        self.app._observe_work(cast("Parts", parts), self.workers)
        await self.app.health.start()

    async def page(self, path: str) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.app.health.port}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    kit = Kit(workers=2)
    await kit.start()
    yield kit
    kit.released.set()
    await kit.workers.drain(1.0)
    await kit.app.health.stop()


async def test_nobody_waits_on_when_the_api_server_is_back(kit: Kit) -> None:
    """After an outage of minutes each key would wait for minutes more."""
    for _ in range(10):
        kit.queue.retry(KEY)
    gate = kit.app.connection.requests
    for who in range(FAILURES):
        gate.failed(Unreachable("away"), who)
    assert kit.queue.working == 0
    gate.answered()
    await until(lambda: kit.queue.working == 1)


async def test_a_stuck_worker_turns_readyz_red_within_a_minute_and_healthz_in_the_end(
    kit: Kit,
) -> None:
    kit.queue.add(KEY)
    while not kit.queue.working:
        await asyncio.sleep(0)
    assert await kit.page("/readyz") == (200, "ok\n")
    kit.now = 59.0
    status, body = await kit.page("/readyz")
    assert status == 503
    assert f"{KEY} has been reconciled for 59 s" in body
    assert await kit.page("/healthz") == (200, "ok\n")
    kit.now = 901.0
    status, body = await kit.page("/healthz")
    assert status == 503
    assert "has been blocked for 901 s" in body


async def test_a_queue_that_stands_still_turns_readyz_red_within_a_minute(kit: Kit) -> None:
    for name in ("one", "two", "three"):
        kit.queue.add(RuleKey("team", name))
    while kit.queue.working < 2:
        await asyncio.sleep(0)
    kit.now = 59.0
    status, body = await kit.page("/readyz")
    assert status == 503
    assert "a key has waited for 59 s" in body
    kit.released.set()
    while kit.queue.working or len(kit.queue):
        await asyncio.sleep(0)
    assert await kit.page("/readyz") == (200, "ok\n")


async def test_dead_workers_turn_healthz_red(kit: Kit) -> None:
    await kit.workers.drain(0.0)
    assert await kit.page("/healthz") == (503, "workers: no worker is running\n")


async def test_kopfs_end_restarts_the_operator_and_a_signal_ends_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[App] = []

    async def run_kopf(app: App, signalled: asyncio.Event, *_: object) -> None:
        runs.append(app)
        if len(runs) == 2:
            signalled.set()

    async def connect(*_: object) -> Connection:
        return Connection(Endpoint(host="https://nowhere"))

    monkeypatch.setattr(supervisor.lifecycle, "run_kopf", run_kopf)
    monkeypatch.setattr(supervisor, "load_connection", connect)
    await supervisor._run(Settings(health_port=0))
    assert runs[0] is not runs[1]
    assert [one.getMessage() for one in caplog.records] == ["Restarting in 1 s"]
