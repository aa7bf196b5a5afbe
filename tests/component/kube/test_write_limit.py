"""The write limit, the queue and the client against a server that refuses what is too much.

Real HTTP on loopback. What isn't real is time: it passes with the server's answers and with the
pauses that it asks for, so how busy this machine is changes nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from statistics import median

import pytest
from aiohttp import web
from tests.component.kube.fake_api import FakeApi, error
from tests.long import LONG

from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.resources import CONFIGMAPS
from copyrator.workqueue.limits import START, AdaptiveLimit
from copyrator.workqueue.queue import Done, Outcome, Workers, WorkQueue

SECONDS = 0.045
"""That an answer takes, however many are in work."""
QUIET = 30
"""Rounds of the loop without an arrival, after which all that was sent has arrived."""
ROUNDS = 400 if LONG else 200
"""Of writes; the second half of them comes when the limit has had time to settle."""


class StrictServer:
    """Works on `room` writes at a time; more are refused with 429 and Retry-After.

    Attributes:
        now: the time, in seconds.
        limits: what the client's limit was at each answer.
        refused: for each refusal, how many answers there had been.
    """

    def __init__(self, api: FakeApi, room: int) -> None:
        self.now = 0.0
        self.limits: list[int] = []
        self.refused: list[int] = []
        self.limit = AdaptiveLimit(clock=lambda: self.now, sleep=self._sleep)
        self._api = api
        self._room = room
        self._inside: list[asyncio.Event] = []
        self._arrivals = 0
        api.always("create", self._create)

    async def run(self) -> None:
        """Answer what has arrived once nothing more comes."""
        while True:
            before, quiet = self._arrivals, 0
            while quiet < QUIET or not self._inside:
                await asyncio.sleep(0 if self._inside else 0.001)
                quiet = quiet + 1 if before == self._arrivals else 0
                before = self._arrivals
            self.now += SECONDS
            for answer in self._inside:
                self.limits.append(self.limit.limit)
                answer.set()
            self._inside.clear()

    async def _sleep(self, seconds: float) -> None:
        until = self.now + seconds
        await asyncio.sleep(0)
        self.now = max(self.now, until)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        self._arrivals += 1
        if len(self._inside) >= self._room:
            self.refused.append(len(self.limits))
            headers = {"Retry-After": "1"}
            return await error(429, "TooManyRequests", headers=headers)(request)
        answer = asyncio.Event()
        self._inside.append(answer)
        await answer.wait()
        return await self._api.serve(request)


@pytest.fixture(params=[6, 16, 34] if LONG else [6])
def room(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
async def server(api: FakeApi, room: int) -> AsyncIterator[StrictServer]:
    server = StrictServer(api, room)
    running = asyncio.create_task(server.run())
    yield server
    running.cancel()


async def test_it_settles_at_what_the_server_takes_and_no_write_is_lost(
    api: FakeApi, server: StrictServer, room: int
) -> None:
    names = [f"n{number}" for number in range(ROUNDS * room)]
    await write_all(api, server, names)
    assert sorted(body["metadata"]["name"] for body in api.objects.values()) == sorted(names)

    half = len(names) // 2
    settled, late = server.limits[half:], [at for at in server.refused if at >= half]
    assert room // 2 <= min(settled)
    assert room <= max(settled) <= room + 1
    assert room * 0.6 <= median(settled)
    # To find out where it is costs one crowd halved until it fits; later one in a hundred at most.
    assert len(server.refused) - len(late) <= 2 * START
    assert len(late) <= len(settled) / 100


async def write_all(api: FakeApi, server: StrictServer, names: list[str]) -> None:
    """Write as the operator does: by workers, and what is refused again after its back-off."""
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 0.01)  # back-offs of 10 ms, 20 ms …
    async with KubeClient(Connection(Endpoint(host=api.url)), limit=server.limit) as client:

        async def write(name: str) -> Outcome:
            await client.create(CONFIGMAPS, "ns", {"metadata": {"name": name}})
            return Done()

        workers = Workers(queue, write)
        workers.start()
        for name in names:
            queue.add(name)
        async with asyncio.timeout(300):
            while len(api.objects) < len(names) or queue.working:
                await asyncio.sleep(0.01)
        assert await workers.drain(5)
