"""What /healthz and /readyz call wrong, as functions and on the real pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest
from tests.component.kube.fake_api import until

from copyrator.api.keys import Key, RuleKey
from copyrator.handlers.lifecycle import KopfWatch, NoMemories, _log_exception
from copyrator.kube.client.transport import FAILURES, Connection, Endpoint
from copyrator.kube.errors import ApiError, Forbidden, NotFound, Unauthorized, Unreachable
from copyrator.kube.resources import BUNDLES, RULES, SECRETS
from copyrator.kube.watch.informers import WatchStatus
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.runtime import supervisor, watchdog
from copyrator.runtime.app import App, Parts
from copyrator.runtime.watchdog import (
    Background,
    dead_watches,
    failing_watches,
    probe_api_server,
    stale_queue,
    stuck_worker,
)
from copyrator.settings.config import Settings
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import Done, Outcome, Workers, WorkQueue

# --- What /healthz and /readyz call wrong, and what they don't ------------------------------------


class Queue:
    def __init__(self, age: float = 0.0, working: tuple[object, float] | None = None) -> None:
        self._age, self._working = age, working

    def oldest_age(self) -> float:
        return self._age

    def longest_working(self) -> tuple[object, float] | None:
        return self._working


def status(
    failure: ApiError | None, seconds: float, namespace: str | None = None, unheard: float = 0.0
) -> WatchStatus:
    return WatchStatus(
        spec=WatchSpec(SECRETS, namespace),
        synced=failure is None,
        objects=3,
        failure=failure,
        failing_for=seconds,
        silent_for=unheard,
    )


@pytest.mark.parametrize(
    ("queue", "ready", "live"),
    [
        (Queue(), None, None),
        (Queue(age=49), None, None),
        (Queue(age=51), "a key has waited for 51 s", None),
        (Queue(working=("rule/a/b", 49)), None, None),
        (Queue(working=("rule/a/b", 51)), "rule/a/b has been reconciled for 51 s", None),
        (
            Queue(working=("rule/a/b", 901)),
            "rule/a/b has been",
            "rule/a/b has been blocked for 901 s",
        ),
    ],
)
def test_a_queue_that_stands_still(queue: Queue, ready: str | None, live: str | None) -> None:
    for said, expected in ((stale_queue(queue), ready), (stuck_worker(queue), live)):
        assert (said is None) == (expected is None)
        assert (said or "").startswith(expected or "")


@pytest.mark.parametrize(
    ("statuses", "says"),
    [
        ([status(None, 0)], None),
        ([status(Unreachable("away"), 5)], None),
        ([status(NotFound("no kind"), 500)], None),
        ([status(None, 0, unheard=56)], None),
        ([status(None, 0, unheard=58)], "no watch of secrets for 58 s (no event or bookmark)"),
        (
            [status(Unreachable("away"), 5, unheard=58)],
            "no watch of secrets for 58 s (no event or bookmark)",
        ),
        ([status(Unreachable("away"), 11)], "no watch of secrets for 11 s (away)"),
        (
            [status(Forbidden("no right"), 99, "team"), status(None, 0)],
            "no watch of secrets in team for 99 s (Forbidden (403): no right)",
        ),
    ],
)
def test_watches_that_fail(statuses: list[WatchStatus], says: str | None) -> None:
    assert failing_watches(statuses) == says


def test_of_many_failing_watches_three_are_named() -> None:
    says = failing_watches([status(Unreachable("away"), 20)] * 50)
    assert says is not None
    assert says.endswith(", and 47 more")


class Server:
    """Counts what it is asked, and answers or doesn't."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answered = 0.0
        self.asked: list[float] = []
        self.error: ApiError | None = None
        self.outage: tuple[ApiError, float] | None = None

    @property
    def silent_for(self) -> float:
        return self.now - self.answered

    async def request(self, method: str, path: str, *, timeout: float) -> None:
        assert (method, path) == ("GET", "/version")
        self.asked.append(self.now)
        if self.error:
            raise self.error
        self.answered = self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


async def feel(server: Server, until: float) -> None:
    pulse = asyncio.create_task(probe_api_server(server, server.sleep))
    while server.now < until:
        await asyncio.sleep(0)
        assert not pulse.done()
    pulse.cancel()
    await asyncio.gather(pulse, return_exceptions=True)


async def test_an_idle_operator_asks_now_and_then_and_often_while_it_gets_no_answer() -> None:
    server = Server()
    await feel(server, until=100)
    assert 4 <= len(server.asked) <= 5
    server.error = Unreachable("away")
    server.asked.clear()
    await feel(server, until=200)
    assert len(server.asked) >= 30  # so that an outage is sure within seconds


def test_a_watch_that_ended_by_itself_is_named() -> None:
    assert dead_watches([]) is None
    assert dead_watches([WatchSpec(SECRETS)]) == "ended unexpectedly: the watch of secrets"


async def test_a_busy_operator_asks_for_nothing_else() -> None:
    server = Server()

    async def sleep(seconds: float) -> None:
        await server.sleep(seconds)
        server.answered = server.now - 1.0

    pulse = asyncio.create_task(probe_api_server(server, sleep))
    while server.now < 200:
        await asyncio.sleep(0)
    pulse.cancel()
    await asyncio.gather(pulse, return_exceptions=True)
    assert server.asked == []


async def test_an_endless_task_that_ends_is_named() -> None:
    background = Background()
    background.start(asyncio.sleep(1000), "the one that stays")
    assert background.dead() is None

    async def fails() -> None:
        raise KeyError("gone")

    background.start(fails(), "the one that fails")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert background.dead() == "ended unexpectedly: the one that fails"
    await background.stop()
    assert background.dead() is None


@pytest.fixture
async def tasks() -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """Tasks by the names that kopf gives its own."""
    made = {
        name: asyncio.create_task(asyncio.Event().wait(), name=name)
        for name in (
            "credentials retriever",
            "watcher for copyrators.v1.flant.com@None",
            "watcher for bundles.v1.operator.werf.dev@None",
        )
    }
    yield made
    for task in made.values():
        task.cancel()
    await asyncio.gather(*made.values(), return_exceptions=True)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_kopf_without_its_keeper_of_credentials(tasks: dict[str, asyncio.Task[None]]) -> None:
    watch = KopfWatch(RULES, BUNDLES)
    assert watch.fault() is None
    await end(tasks["credentials retriever"])
    assert "has no credentials" in (watch.fault() or "")


async def test_only_a_watch_of_kopfs_that_cant_be_closed_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def infinite_watch() -> AsyncIterator[None]:
        yield

    async def ours() -> AsyncIterator[None]:
        yield

    loop = asyncio.get_running_loop()
    for generator in (infinite_watch(), ours()):
        _log_exception(loop, {"message": f"{generator} can't be closed", "asyncgen": generator})
        await generator.aclose()  # type: ignore[attr-defined]
    _log_exception(loop, {"message": "nobody caught this"})
    assert ["ours" in caplog.messages[0], *caplog.messages[1:]] == [True, "nobody caught this"]


# --- Work that hangs or piles up shows on the real pages, with its reason -------------------------


KEY = RuleKey("team", "shop")


class Kit:
    """An App whose workers hang until they are let go, and whose queue has a clock of its own."""

    def __init__(self, workers: int) -> None:
        self.now = 0.0
        self.watches: list[WatchStatus] = []
        self.client = SimpleNamespace(outage=None)
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
        pool = SimpleNamespace(statuses=lambda: self.watches, dead=list, publish=lambda: None)
        parts: Any = SimpleNamespace(
            queue=self.queue,
            limit=AdaptiveLimit(),
            informers=pool,
            client=self.client,
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


async def test_silent_watches_and_lost_credentials_turn_readyz_red_and_nothing_is_restarted(
    kit: Kit,
) -> None:
    """`make bench BENCH=blind` measures how soon, by a proxy before a real API server."""
    kit.watches = [status(None, 0, unheard=58)]
    found = await kit.page("/readyz")
    assert (found[0], "no watch of secrets for 58 s (no event or bookmark)" in found[1]) == (
        503,
        True,
    )
    assert await kit.page("/healthz") == (200, "ok\n")
    kit.watches, kit.client.outage = [], (Unauthorized("who?"), 11.0)
    found = await kit.page("/readyz")
    assert (found[0], "all requests fail for 11 s (Unauthorized (401)" in found[1]) == (503, True)
    assert await kit.page("/healthz") == (200, "ok\n")
    kit.client.outage = None
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


async def test_kopf_keeps_nothing_of_an_object() -> None:
    memories = NoMemories()

    await memories.recall({"metadata": {"uid": "1"}})

    assert not list(memories.iter_all_memories())


async def test_kopf_that_missed_a_kind(tasks: dict[str, asyncio.Task[None]]) -> None:
    await end(tasks["watcher for bundles.v1.operator.werf.dev@None"])
    says = KopfWatch(RULES, BUNDLES).fault()
    assert says == "kopf doesn't watch bundles.operator.werf.dev"
