"""A notifier with its real child process, a fake API server, and receivers over real HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiosmtpd.smtp import SMTP
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.lasting_child import LastingChild

from copyrator.api.text import format_time
from copyrator.bundles.engine.bundle import BundleCache, read_entry
from copyrator.bundles.fields import BundleDefaults
from copyrator.copies.rules.rules import Rule, RuleCache
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.events import EventRecorder
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Timing
from copyrator.metrics import Metrics
from copyrator.notify.config import KEY
from copyrator.notify.lane import NotifyTiming
from copyrator.notify.marks import CONFIG_MAP as MARKS
from copyrator.notify.notifier import _MOST_CHILDREN, Notifier, make_isolated
from copyrator.workqueue.isolated import Isolated

HOME = "ops"
TIMING = NotifyTiming(settle=0.2, retries=(0.3,), save_retry=0.1)
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Receiver:
    """A server that keeps what it is sent, and answers as it is told."""

    url: str = ""
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    """The next ones; then 200, as Slack's and Mattermost's webhooks."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.paths.append(request.path)
        if self.answers:
            return await self.answers.pop(0)(request)
        self.got.append((dict(request.headers), body))
        return web.Response(text="ok")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The CloudEvents."""
        return [json.loads(body) for _, body in self.got]

    @property
    def texts(self) -> list[str]:
        return [one["data"]["text"] for one in self.events]


@dataclass
class Mailbox:
    """An SMTP server that keeps what comes, but refuses mails with a text."""

    refuses: bytes = b"\0"
    answer: str = "554 5.7.1 policy"
    mails: list[EmailMessage] = field(default_factory=list)
    refused: int = 0

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        if self.refuses in envelope.content:
            self.refused += 1
            return self.answer
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"

    @property
    def texts(self) -> list[str]:
        return [str(mail.get_body(("plain",)).get_content()) for mail in self.mails]

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Serve on loopback; yields host and port."""
        loop = asyncio.get_running_loop()
        async with await loop.create_server(lambda: SMTP(self), "127.0.0.1", 0, ssl=tls) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def answering(status: int, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers=named, text="secret text of the server")

    return answer


async def serve(handle: Answer, tls: ssl.SSLContext | None = None) -> web.AppRunner:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    return runner


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    runner = await serve(found.handle)
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


@dataclass
class World:
    """The API server, what the caches of one leader hold, and that leader's notifier."""

    cluster: FakeCluster
    notifier: Notifier
    client: KubeClient
    informers: InformerFactory
    metrics: Metrics
    bundles: BundleCache = field(default_factory=BundleCache)
    rules: RuleCache = field(default_factory=RuleCache)
    version: int = 1000

    def bundle(
        self, name: str = "shop", namespace: str = "prod", uid: str = "", **status: Any
    ) -> None:
        """A Bundle as the API server returns it after a write of its status."""
        self.version += 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "resourceVersion": str(self.version),
            "generation": 1,
        }
        spec = {"registry": "registry.example.com", "repo": "app"}
        body = {"metadata": metadata, "spec": spec, "status": status}
        self.bundles.take(read_entry(body, BundleDefaults()))

    def rule(self, name: str = "creds", **status: Any) -> None:
        metadata = {"name": name, "namespace": HOME, "uid": f"uid-{name}", "generation": 1}
        self.rules.put(Rule.from_body({"metadata": metadata, "spec": {}, "status": status}))

    def count(self, name: str, outcome: str) -> float:
        labels = {"entry": name, "outcome": outcome}
        value = self.metrics.registry.get_sample_value("copyrator_notifications_total", labels)
        return value or 0.0

    @property
    def failing(self) -> float | None:
        labels = {"entry": "chat"}
        return self.metrics.registry.get_sample_value("copyrator_notifications_failing", labels)

    async def start(self) -> None:
        await self.notifier.start()

    async def stop(self) -> None:
        await self.notifier.stop()
        await self.informers.close()
        await self.client.close()


def now() -> str:
    return format_time(datetime.now(UTC))


def failed(attempt: int = 1, at: str = "2099-01-01T00:00:00Z", **more: Any) -> dict[str, Any]:
    """A status after a deploy that failed; later than any entry began, unless it says otherwise."""
    attempted = {"version": "1.9.0", "attempt": attempt, "outcome": "Failed", "finishedAt": at}
    return {"attempted": {**attempted, "nextRetryAt": at, **more}}


def deployed(attempt: int = 2, at: str = "2099-01-02T00:00:00Z") -> dict[str, Any]:
    attempted = {"version": "1.9.1", "attempt": attempt, "outcome": "Succeeded", "finishedAt": at}
    return {"attempted": attempted, "deployed": {"version": "1.9.1", "time": at}}


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    fake = FakeCluster()
    fake.namespace(HOME)
    runner = await serve(fake.handle)
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield fake
    await runner.cleanup()


def configure(cluster: FakeCluster, *entries: dict[str, Any], **more: Any) -> None:
    written = yaml.safe_dump({"entries": list(entries), **more})
    cluster.object("configmaps", HOME, "copyrator-notifications", data={KEY: written})


def secret(cluster: FakeCluster, name: str = "chat", **values: str) -> None:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    cluster.object("secrets", HOME, name, data=data)


def entry(name: str = "chat", **fields: Any) -> dict[str, Any]:
    url = {"secretName": name, "key": "url"}
    return {"name": name, "urlFrom": url, "minInterval": "1s", **fields}


def marks_of(cluster: FakeCluster) -> dict[str, Any]:
    """The marks that are stored, by entry; empty where none are."""
    found = cluster.found("configmaps", HOME, MARKS)
    return {} if found is None else json.loads(found["data"]["marks.json"])["entries"]


@pytest.fixture(scope="module")
def children() -> Iterator[list[Isolated]]:
    """Work for all leaders of a file; a process starts when it is needed."""
    with ExitStack() as stack:
        lasting = (LastingChild(make_isolated()) for _ in range(1 + _MOST_CHILDREN))
        yield [stack.enter_context(child.running()) for child in lasting]


Make = Callable[..., World]


@pytest.fixture
async def world(cluster: FakeCluster, children: list[Isolated]) -> AsyncIterator[Make]:
    """Makes a leader: ``world()``."""
    made: list[World] = []

    def make(*, timing: NotifyTiming = TIMING, **options: Any) -> World:
        client = KubeClient(Connection(Endpoint(host=cluster.url)))
        watches = Timing(first_delay=0.02, longest_delay=0.1, settled=0.02, tolerance=1.0)
        informers, metrics = InformerFactory(client, timing=watches), Metrics()
        bundles, rules = BundleCache(), RuleCache()
        free = iter(children)
        options.setdefault("isolated", lambda: next(free))
        notifier = Notifier(
            client=client,
            informers=informers,
            bundles=bundles,
            rules=rules,
            recorder=EventRecorder(client),
            metrics=metrics,
            namespace=HOME,
            clock=lambda: datetime.now(UTC),
            timing=timing,
            **options,
        )
        made.append(World(cluster, notifier, client, informers, metrics, bundles, rules))
        return made[-1]

    yield make
    for one in made:
        with suppress(Exception):
            await one.stop()


async def begun(cluster: FakeCluster, name: str = "chat") -> None:
    """Until an entry has marks: from now on it is told."""
    await eventually(lambda: name in marks_of(cluster), "the entry has begun")
