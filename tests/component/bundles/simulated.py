"""The operator, its API server and its registry in one process with a clock of their own.

Requests are calls: nothing is sent, so the loop's clock moves only while nobody has anything to do
(``tests.unit.workqueue.simulation``), and hours pass in milliseconds, always in the same way.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from aiohttp import web
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import WAITING, BundleCluster
from tests.component.copies.fake_cluster import Filter
from tests.component.kube.fake_api import line
from tests.component.oci.fake_registry import CHART, digest_of

from copyrator.api.seen_time import SeenTime
from copyrator.api.text import format_time
from copyrator.kube.client.answers import from_answer
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Call, Connection, Endpoint
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import TagNotFound
from copyrator.workqueue.queue import DueScheduler

BEGIN = datetime(2026, 1, 5, 1, 20, tzinfo=UTC)
"""The wall clock when a simulation begins; a Monday."""
RENEWAL = 5.0
"""Seconds between two renewals of the Lease."""


class Request:
    """A call as the fake API server reads it."""

    def __init__(self, call: Call) -> None:
        self.method, self.path, self.query = call.method, call.path, dict(call.params)
        self.headers = {"Accept": "application/json", **call.headers}
        self._body = call.body

    async def read(self) -> bytes:
        return b"" if self._body is None else json.dumps(self._body).encode()

    async def json(self) -> Any:
        return json.loads(await self.read())


class _Stream:
    """What a watch reads from."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks

    def iter_any(self) -> AsyncIterator[bytes]:
        return self._chunks


class _Calls:
    """In place of ``kube.client.transport.Transport``."""

    outage = None
    silent_for = 0.0

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def close(self) -> None:
        pass

    async def fetch(self, call: Call, decode: Callable[[bytes], Any]) -> Any:
        await asyncio.sleep(0)
        request = cast(web.Request, Request(call))
        answer = cast(web.Response, await self._cluster.handle(request))
        body = cast(bytes, answer.body)
        if answer.status >= 300:
            raise from_answer(answer.status, json.loads(body), answer.headers)
        return decode(body)

    @asynccontextmanager
    async def stream(self, call: Call, *, reserved: bool = False) -> AsyncIterator[_Stream]:
        yield _Stream(self._cluster.changes(cast(web.Request, Request(call))))


class SimulatedCluster(BundleCluster):
    """Objects are created when the wall clock says; watches never end; Jobs are ended by others.

    Attributes:
        wall: the wall clock.
        made: called for each new Job.
        ended: called for each Job that the operator gives up.
        written: called after each write, with the object's path.
    """

    def __init__(self, wall: Callable[[], datetime]) -> None:
        super().__init__()
        self.wall = wall
        self.ends, self.pods = None, WAITING
        self._made = 0
        self.made: Callable[[dict[str, Any]], None] = lambda job: None
        self.ended: Callable[[dict[str, Any]], None] = lambda job: None
        self.written: Callable[[str], None] = lambda path: None

    async def changes(self, request: web.Request) -> AsyncIterator[bytes]:
        """A watch's stream."""
        since, wanted = int(request.query["resourceVersion"]), Filter(request)
        shown = {path for path, body in self._at(since).items() if wanted.means(path, body)}
        position = bisect_right(self._log, since, key=lambda entry: entry[0])
        while True:
            while position < len(self._log):
                _, kind, path, body = self._log[position]
                position += 1
                if told := wanted.event(kind, path, body, shown):
                    yield line(told, wanted.shown(body))
            await self._news.wait()

    def _store(self, kind: str, path: str, body: dict[str, Any]) -> int:
        if kind == "ADDED":
            self._made += 1
            metadata = {
                **body["metadata"],
                "creationTimestamp": format_time(self.wall()),
                "uid": str(UUID(int=self._made)),  # polls and checks are spread by it
            }
            body = {**body, "metadata": metadata}
        version = super()._store(kind, path, body)
        self.written(path)
        return version

    async def _create(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._create(request)
        if request.path.endswith("/jobs") and answer.status == 201:
            self.made(await request.json())
        return answer

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._patch(request)
        if "/jobs/" in request.path and answer.status == 200:
            job = self.objects[request.path]
            if job["spec"].get("activeDeadlineSeconds") == 1:
                self.ended(job)
        return answer


class SimulatedRegistry:
    """One repository. In place of ``oci.client.RegistryClient``.

    Attributes:
        tags_now: the digest of each tag.
        first_asked: the wall clock at the first answer with each digest, the lowest of all.
    """

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        self.tags_now: dict[str, str] = {}
        self.known: set[str] = set()
        self.first_asked: dict[str, datetime] = {}

    def put(self, tag: str, content: str) -> str:
        digest = "sha256:" + hashlib.sha256(content.encode()).hexdigest()
        self.tags_now[tag] = digest
        self.known.add(digest)
        return digest

    async def digest(self, _repository: object, tag: str, _credential: object) -> str:
        await asyncio.sleep(0)
        found = tag if tag in self.known else self.tags_now.get(tag)
        if found is None:
            raise TagNotFound(f"{tag} doesn't exist")
        now = self._wall()
        self.first_asked[found] = min(self.first_asked.get(found, now), now)
        return found

    async def manifest_bytes(self, *_: object) -> bytes:
        await asyncio.sleep(0)
        layer = {"mediaType": "application/tar+gzip", "digest": digest_of(CHART)}
        return json.dumps({"layers": [{**layer, "size": len(CHART)}]}).encode()

    async def blob(self, *_: object) -> bytes:
        await asyncio.sleep(0)
        return CHART

    async def tags(
        self,
        _repository: object,
        _credential: object,
        take: Callable[[list[str]], Awaitable[None]],
    ) -> None:
        await asyncio.sleep(0)
        await take(sorted(self.tags_now))

    async def close(self) -> None:
        pass


class SimulatedOperator(Operator):
    """An operator of a simulation."""

    cluster: SimulatedCluster

    def __init__(
        self,
        cluster: SimulatedCluster,
        registry: SimulatedRegistry,
        *,
        seen_time: Callable[[], SeenTime],
        **settings: Any,
    ) -> None:
        self._registry = registry
        super().__init__(cluster, seen_time=seen_time, **settings)

    def make_clients(self) -> tuple[KubeClient, KubeClient]:
        client = KubeClient.__new__(KubeClient)
        client.connection = Connection(Endpoint(host="http://simulated"), clock=self.monotonic)
        client._on_refused, client._most = None, None
        calls = _Calls(cast(SimulatedCluster, self.cluster))
        client.__dict__.update(fetch=calls.fetch, stream=calls.stream, close=calls.close)
        return client, client

    def make_registry_client(self, seconds: float) -> RegistryClient:
        return cast(RegistryClient, self._registry)

    def make_scheduler(self) -> DueScheduler[Any]:
        wall = self.cluster.wall
        return DueScheduler(self.queue.add, clock=self.monotonic, wall=lambda: wall().timestamp())

    def now(self) -> datetime:
        return self.cluster.wall()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Clock:
    """The wall clock of a simulation, and what a leader saw of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset = timedelta()
        self.seen = SeenTime().renewed_at(None, self.wall())

    def wall(self) -> datetime:
        return BEGIN + timedelta(seconds=self._loop.time()) + self.offset

    async def lead(self) -> None:
        """Renew the Lease until cancelled."""
        while True:
            self.seen = self.seen.renewed_at(self.seen.renewed, self.wall())
            await asyncio.sleep(RENEWAL)
