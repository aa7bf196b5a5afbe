"""The composition root: what it waits for, what events reach, and what keeps the process small."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.authority import Authority

from copyrator.api.keys import BundleKey, CopyKey, Key, RuleKey
from copyrator.handlers import deduplication
from copyrator.kube.client.answers import Page
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import ApiError, Forbidden, NotFound, TooManyRequests, Unreachable
from copyrator.kube.leader import DEFAULT_TERMS, Lease
from copyrator.kube.resources import BUNDLES, RULES, Resource
from copyrator.runtime import logs
from copyrator.runtime.app import (
    NEW_OBJECTS,
    TLS_BUFFER,
    App,
    Parts,
    freeze_survivors,
    reduce_memory,
)
from copyrator.runtime.prerequisites import (
    MissingPrerequisite,
    missing_crds,
    retry_until_done,
    wait_for_crds,
    wait_for_leadership,
)
from copyrator.settings.config import Settings
from copyrator.workqueue.queue import Done, Outcome, WorkQueue

# --- The composition root's own work: events reach their half, the resync is a safety net ---------


class Half:
    """A controller that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, bool]] = []
        self.keys: list[Key] = []
        self.fields: list[dict[str, str]] = []

    def rule_event(self, body: Any, *, deleted: bool) -> None:
        self.events.append((body["metadata"]["name"], deleted))

    bundle_event = rule_event

    async def reconcile(self, key: Key) -> Outcome:
        self.keys.append(key)
        logging.getLogger("copyrator").warning("looking")
        return Done()


class Server:
    """Answers lists of rules and Bundles, or doesn't."""

    def __init__(self) -> None:
        self.names: dict[Resource, list[str]] = {RULES: ["main"], BUNDLES: ["shop"]}
        self.faults = 0
        self.lists = 0

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        limit: int,
    ) -> AsyncIterator[Page]:
        self.lists += 1
        if self.faults:
            self.faults -= 1
            raise Unreachable("away")
        items = [
            {"metadata": {"namespace": "default", "name": name, "resourceVersion": "1"}}
            for name in self.names[res]
        ]
        yield Page(items, "1")


@pytest.fixture
async def app() -> App:
    app = App(Settings(), Connection(Endpoint(host="https://nowhere")), step_down=lambda: None)
    parts = SimpleNamespace(
        client=Server(), queue=WorkQueue[Key](), copying=Half(), deploying=Half()
    )
    app._parts = cast("Parts", parts)
    return app


def parts_of(app: App) -> Any:
    return app._parts


async def test_an_event_reaches_its_half(app: App) -> None:
    body = {"metadata": {"namespace": "default", "name": "one", "resourceVersion": "1"}}
    app._rules.event("ADDED", body)
    app._bundles.event("ADDED", body)
    app._bundles.event("DELETED", body)
    assert parts_of(app).copying.events == [("one", False)]
    assert parts_of(app).deploying.events == [("one", False), ("one", True)]


@pytest.mark.parametrize(
    ("key", "half", "fields"),
    [
        (RuleKey("default", "main"), "copying", {"rule": "default/main"}),
        (BundleKey("shop", "app"), "deploying", {"bundle": "shop/app"}),
        (CopyKey("secrets", "team", "tls"), "copying", {"namespace": "team", "name": "tls"}),
    ],
)
async def test_a_key_is_reconciled_by_its_half_under_its_name_in_the_log(
    app: App, key: Key, half: str, fields: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(logs.add_context)
    await app._reconcile(key)
    assert getattr(parts_of(app), half).keys == [key]
    (record,) = caplog.records
    assert record.__dict__["fields"] == {**fields, "reconcile": "1"}


async def test_the_resync_looks_at_everything_again_and_outlives_a_fault(app: App) -> None:
    parts = parts_of(app)
    parts.client.faults = 2
    net = asyncio.create_task(
        deduplication.resync_for_ever(parts.client, app._rules, app._bundles, parts.queue, 0.005)
    )
    async with asyncio.timeout(60):
        keys = {await parts.queue.get(), await parts.queue.get()}
    net.cancel()
    await asyncio.gather(net, return_exceptions=True)
    assert keys == {RuleKey("default", "main"), BundleKey("default", "shop")}
    assert parts.client.lists >= 4
    assert parts.copying.events == [("main", False)]


# --- What is waited for at the start, what is said of it, and how often ---------------------------


CRDS = {"copyrators.flant.com": RULES, "bundles.operator.werf.dev": BUNDLES}


def crd(name: str, *conditions: dict[str, str]) -> dict[str, Any]:
    group = name.partition(".")[2]
    return {
        "metadata": {"name": name},
        "spec": {"group": group},
        "status": {"conditions": list(conditions)},
    }


ESTABLISHED = {"type": "Established", "status": "True"}
REFUSED = {
    "type": "NamesAccepted",
    "status": "False",
    "message": '"CopyratorRule" is already in use',
}


class Crds:
    """An API server with CRDs and what its discovery shows of them."""

    def __init__(self) -> None:
        self.crds: dict[str, dict[str, Any] | ApiError] = {
            name: crd(name, ESTABLISHED) for name in CRDS
        }
        self.served = set(CRDS)
        self.faults: list[ApiError] = []

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        if self.faults:
            raise self.faults.pop(0)
        found = self.crds.get(name, NotFound("no such CRD", details={"name": name}))
        if isinstance(found, ApiError):
            raise found
        return found

    async def request(self, method: str, path: str) -> Any:
        served = [CRDS[name] for name in self.served]
        if path == "/apis":
            return {"groups": [{"name": res.group} for res in served]}
        resources = [
            {"name": res.plural} for res in served if path == f"/apis/{res.group}/{res.version}"
        ]
        if not resources:
            raise NotFound("404 page not found")
        return {"resources": resources}


@pytest.fixture
def server() -> Crds:
    return Crds()


async def test_a_missing_crd_is_named_with_what_to_do(server: Crds) -> None:
    del server.crds["bundles.operator.werf.dev"]
    (sentence,) = await missing_crds(server)
    assert sentence.startswith("the CRD bundles.operator.werf.dev is missing: install the chart")


async def test_a_crd_whose_names_are_taken_is_named_with_the_way_out(server: Crds) -> None:
    server.crds["copyrators.flant.com"] = crd("copyrators.flant.com", REFUSED)
    (sentence,) = await missing_crds(server)
    assert '"CopyratorRule" is already in use' in sentence
    assert "export its objects, delete that CRD" in sentence


async def test_a_crd_of_our_name_without_our_version_is_said_and_not_waited_for_in_vain(
    server: Crds,
) -> None:
    found = crd("copyrators.flant.com", ESTABLISHED)
    found["spec"]["versions"] = [{"name": "v1alpha1"}, {"name": "v1beta1"}]
    server.crds["copyrators.flant.com"] = found
    server.served.remove("copyrators.flant.com")
    (sentence,) = await missing_crds(server)
    assert "has the versions v1alpha1, v1beta1 and not v1" in sentence
    assert "docs/adoption.md" in sentence


async def test_a_crd_that_is_not_established_yet_is_waited_for(server: Crds) -> None:
    server.crds["copyrators.flant.com"] = crd("copyrators.flant.com")
    assert await missing_crds(server) == ["the CRD copyrators.flant.com is not established yet"]


async def test_established_is_not_enough_while_discovery_lags(server: Crds) -> None:
    server.served.remove("copyrators.flant.com")
    (sentence,) = await missing_crds(server)
    assert sentence.endswith("the API server doesn't serve it yet")


async def test_without_the_right_to_read_crds_discovery_decides(server: Crds) -> None:
    for name in CRDS:
        server.crds[name] = Forbidden("no right")
    assert await missing_crds(server) == []
    server.served.remove("bundles.operator.werf.dev")
    (sentence,) = await missing_crds(server)
    assert "grant get on customresourcedefinitions" in sentence


class Candidate:
    """An elector whose attempts go as they are told, and then succeed."""

    def __init__(self, *answers: bool | ApiError) -> None:
        self.answers = list(answers)
        self.lease = Lease("ops", "copyrator", "me", DEFAULT_TERMS)
        self.pause = 0.25

    async def attempt(self) -> bool:
        answer = self.answers.pop(0) if self.answers else True
        if isinstance(answer, ApiError):
            raise answer
        return answer


class Standby:
    """Notes what a replica does while it waits for the lead."""

    def __init__(self, *answers: bool | ApiError) -> None:
        self.waiting = MissingPrerequisite("starting")
        self.candidate = Candidate(*answers)
        self.notes: list[str] = []

    async def wait_for_leadership(self) -> list[str]:
        await wait_for_leadership(self.candidate, self.waiting, self._warm_up, self._sleep)
        return self.notes

    async def _warm_up(self) -> None:
        self.notes.append("warm up")

    async def _sleep(self, seconds: float) -> None:
        slept = "pause" if seconds == self.candidate.pause else "back off"
        self.notes.append(f"{slept}, {'not ready' if self.waiting.reason else 'ready'}")


async def test_a_standby_warms_up_once_and_is_ready_while_it_waits() -> None:
    assert await Standby(False, False, False).wait_for_leadership() == [
        "warm up",
        *["pause, ready"] * 3,
    ]


async def test_a_standby_that_cannot_read_the_lease_is_not_ready_until_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    standby = Standby(Forbidden("no get"), False, *[Unreachable("away")] * 2, False)
    assert await standby.wait_for_leadership() == [
        "back off, not ready",
        "warm up",
        "pause, ready",
        "back off, not ready",
        "back off, not ready",
        "pause, ready",
    ]
    assert [record.getMessage() for record in caplog.records] == [
        "Waiting: the Lease ops/copyrator can't be acquired: Forbidden (403): no get",
        "Waiting: the Lease ops/copyrator can't be acquired: away",
    ]


async def test_pauses_grow_and_obey_the_server() -> None:
    errors: list[ApiError] = [Unreachable("away") for _ in range(8)]
    errors.append(TooManyRequests("busy", retry_after=33.0))
    pauses: list[float] = []

    async def attempt() -> str:
        if errors:
            raise errors.pop(0)
        return "there"

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    assert (
        await retry_until_done(attempt, MissingPrerequisite("starting"), "it fails", sleep)
        == "there"
    )
    assert pauses[0] < 0.7
    assert all(pause <= 12.0 for pause in pauses[:8])
    assert pauses[8] > 26.0


# --- What keeps the process small reaches where it should -----------------------------------------


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settle for one test only."""
    protocol = asyncio.sslproto.SSLProtocol
    monkeypatch.setattr(protocol, "max_size", protocol.max_size)
    threshold = gc.get_threshold()
    reduce_memory()
    with freeze_survivors():
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
    assert len(transport._ssl_protocol._ssl_buffer) == TLS_BUFFER
    writer.close()
    server.close()


@pytest.mark.usefixtures("settled")
def test_what_is_there_at_the_start_is_not_walked_over_again() -> None:
    assert gc.get_freeze_count() > 100 * len(gc.get_objects())


@pytest.mark.usefixtures("settled")
def test_garbage_is_collected_once_in_five_thousand_new_objects() -> None:
    before = gc.get_stats()[0]["collections"]
    held: list[list[int]] = [[number] for number in range(2 * NEW_OBJECTS)]
    collections = gc.get_stats()[0]["collections"] - before
    assert len(held) == 2 * NEW_OBJECTS
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


async def test_stopping_what_never_started_does_no_harm(app: App) -> None:
    await app.stop()
    await app.stop()


async def test_waiting_ends_when_the_last_one_is_there_and_told_each_change_once(
    server: Crds, caplog: pytest.LogCaptureFixture
) -> None:
    present = dict(server.crds)
    server.crds = {}
    looks = 0

    async def sleep(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            server.crds["copyrators.flant.com"] = present["copyrators.flant.com"]
        if looks == 6:
            server.crds = present

    waiting = MissingPrerequisite("starting")
    with caplog.at_level(logging.WARNING):
        await wait_for_crds(server, waiting, sleep)
    assert looks == 6
    assert [record.getMessage().count("is missing") for record in caplog.records] == [2, 1]
