"""What reaches kopf through the guard, and how often it asks; driven as kopf drives its session."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from tests.component.kube.fake_api import (
    Answer,
    FakeApi,
    cut,
    error,
    event,
    hang,
    line,
    raw,
    status_body,
    stream,
    until,
)
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.schema import TOO_MANY
from copyrator.handlers import kopf_guard
from copyrator.handlers.kopf_guard import KopfGuard, whole
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.reflector import Timing
from copyrator.runtime.watchdog import failing_watches

QUICK = Timing(
    doubt=2.0,
    doubt_silence=0.5,
    settled=0.25,
    stable=0.3,
    first_delay=0.02,
    longest_delay=0.1,
)
PATH = CONFIGMAPS.path()
LIST_AGAIN = ["ERROR 410"]


class Kopf:
    """The part of kopf that lists, watches, and asks for another session when one was closed."""

    def __init__(self, guard: KopfGuard) -> None:
        self.guard = guard
        self.sessions = [guard.session()]

    async def request(self, path: str, **params: str) -> aiohttp.ClientResponse:
        url = self.guard.connection.host + path
        try:
            return await self.sessions[-1].request("get", url, params=params)
        except RuntimeError:
            assert self.sessions[-1].closed
            self.sessions.append(self.guard.session())
            return await self.request(path, **params)

    async def get(self, path: str = PATH, **params: str) -> Any:
        async with await self.request(path, **params) as response:
            return await response.json()

    async def events(self, since: int) -> list[dict[str, Any]]:
        """A whole stream."""
        params = {"watch": "true", "resourceVersion": str(since), "timeoutSeconds": "2"}
        async with await self.request(PATH, **params) as response:
            assert response.status == 200
            return [json.loads(text) async for text in response.content.iter_chunked(1024)]

    async def watch(self, since: int = 100) -> list[str]:
        """What a whole stream tells: type and name, or type and code."""
        told = []
        for found in await self.events(since):
            body = found["object"]
            what = body["code"] if found["type"] == "ERROR" else body["metadata"].get("name")
            told.append(f"{found['type']} {what}")
        return told

    async def close(self) -> None:
        for session in self.sessions:
            await session.close()


@pytest.fixture
async def start(api: FakeApi) -> AsyncIterator[Callable[..., Kopf]]:
    made: list[Kopf] = []

    def make(timing: Timing = QUICK, connection: Connection | None = None) -> Kopf:
        connection = connection or Connection(Endpoint(host=api.url, authorization="Bearer one"))
        made.append(Kopf(KopfGuard(connection, CONFIGMAPS, timing=timing)))
        return made[-1]

    yield make
    for kopf in made:
        await kopf.close()


Start = Callable[..., Kopf]


def complaint(kopf: Kopf) -> str:
    (status,) = kopf.guard.statuses()
    return status.failure.reason if status.failure else ""


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("copyrator")]


async def test_a_watch_that_closes_at_once_is_opened_ever_more_slowly(
    start: Start, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """Measured without the guard: kopf opens it 4,000 times a second."""
    api.always("watch", stream())
    kopf = start(replace(QUICK, first_delay=0.2, longest_delay=10.0, settled=1.0))

    async def as_kopf_does() -> None:
        while True:
            await kopf.watch()

    watching = asyncio.create_task(as_kopf_does())
    await asyncio.sleep(3.0)  # a rate is measured over a time, which may be longer
    await until(lambda: api.count("watch") >= 3, "it is opened again")
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert api.count("watch") <= 7
    assert told(caplog) == [
        "kopf's watch of configmaps: the server closes the watch at once",
    ]
    assert complaint(kopf) == "WatchClosed"


@pytest.mark.parametrize(
    "broken",
    [
        stream(line("ERROR", status_body(500, "InternalError", "etcd", None))),
        stream(event("MODIFIED", "a", 101)[:30] + b"\n"),
        stream(event("MODIFIED", "a", 101)[:30], then="cut"),
        error(504, "Timeout", "Too large resource version: 100, current: 5"),
    ],
    ids=["500 within", "half an event", "cut", "version of the future"],
)
async def test_a_watch_that_breaks_is_tried_again_and_then_kopf_lists_again(
    start: Start, api: FakeApi, broken: Answer
) -> None:
    kopf = start()
    api.always("watch", broken)
    streams: list[list[str]] = []
    async with asyncio.timeout(60):
        while LIST_AGAIN not in streams:
            streams.append(await kopf.watch())
    assert api.count("watch") == 3
    assert complaint(kopf)


async def test_an_expired_watch_is_no_fault_the_first_time(
    start: Start, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    kopf = start()
    api.script("watch", *[stream(line("ERROR", status_body(410, "Expired", "old", None)))] * 2)
    assert await kopf.watch() == LIST_AGAIN
    assert not complaint(kopf)
    assert await kopf.watch() == LIST_AGAIN
    assert complaint(kopf) == "Expired"
    assert len(told(caplog)) == 1


async def test_a_silent_watch_is_found_out_and_the_next_has_to_prove_that_it_lives(
    start: Start, api: FakeApi
) -> None:
    kopf = start()
    api.script("watch", *[stream(then="silence")] * 2)
    told: list[str] = []
    kopf.guard.on_silent = lambda: told.append("silent")
    assert await kopf.watch() == LIST_AGAIN
    assert complaint(kopf) == "WatchSilent"
    assert told == ["silent"]
    (status,) = kopf.guard.statuses()
    assert status.failing_for >= QUICK.doubt_silence  # it fails since it was last heard
    second = asyncio.create_task(kopf.watch())
    await until(lambda: api.count("watch") == 2, "the second watch")
    await asyncio.sleep(QUICK.settled * 3)
    assert complaint(kopf) == "WatchSilent"
    assert await second == LIST_AGAIN
    assert told == ["silent"]  # once, as long as it lasts
    api.bookmarks = 0.1
    assert "BOOKMARK None" in await kopf.watch(since=api.version)
    assert not complaint(kopf)


async def test_events_out_of_order_raise_no_ghosts_and_lose_no_deletion(
    start: Start, api: FakeApi
) -> None:
    api.script(
        "watch",
        stream(
            event("ADDED", "b", 300),
            event("ADDED", "b", 300),
            event("DELETED", "a", 250),
            event("MODIFIED", "a", 240),
            event("ADDED", "c", 400),
        ),
    )
    told = await start().watch()
    assert told == ["ADDED b", "ADDED b", "DELETED a", *LIST_AGAIN]


@pytest.mark.parametrize(
    "broken",
    [
        error(403, "Forbidden"),
        cut(b'{"kind": "ConfigMapList"'),
        hang(),
    ],
    ids=["403", "cut", "no answer"],
)
async def test_a_list_that_fails_is_tried_again_until_it_is_whole(
    start: Start,
    api: FakeApi,
    caplog: pytest.LogCaptureFixture,
    broken: Answer,
) -> None:
    api.put("a")
    api.script("list", *[broken] * 4)
    found = await start(replace(QUICK, answer=1.0)).get()
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
    assert api.count("list") == 5
    assert len(told(caplog)) == 1


async def test_an_expired_page_makes_the_list_begin_anew_after_a_pause(
    start: Start, api: FakeApi
) -> None:
    kopf = start(replace(QUICK, first_delay=0.2, longest_delay=10.0))
    api.always("list", error(410, "Expired"))
    started = asyncio.get_running_loop().time()
    for _ in range(3):
        with pytest.raises(aiohttp.ClientPayloadError):
            await kopf.get(**{"continue": "page-2"})
    assert asyncio.get_running_loop().time() - started >= 0.3
    assert api.count("list") == 3


async def test_what_a_complete_list_shows_is_told_and_what_an_incomplete_one_does_not(
    start: Start, api: FakeApi
) -> None:
    listed: list[set[str]] = []
    kopf = start()
    kopf.guard.on_listed = lambda spec, names: listed.append({name.name for name in names})
    for name in "abc":
        api.put(name)
    first = await kopf.get(limit="2")
    api.script("list", error(410, "Expired"))
    with pytest.raises(aiohttp.ClientPayloadError):
        await kopf.get(limit="2", **{"continue": first["metadata"]["continue"]})
    assert listed == []
    first = await kopf.get(limit="2")
    await kopf.get(limit="2", **{"continue": first["metadata"]["continue"]})
    assert listed == [{"a", "b", "c"}]


async def test_kopf_gets_a_text_of_each_object_and_the_handlers_the_whole(
    start: Start, api: FakeApi
) -> None:
    kopf = start()
    api.put("a", spec={"deep": [{"x": "\u00fc"}]})
    for found in (await kopf.get())["items"][0], (await kopf.events(since=0))[0]["object"]:
        assert set(found) == {"metadata", "text"}
        assert set(found["metadata"]) == {"namespace", "name", "uid", "resourceVersion"}
        assert whole(found) == api.objects[CONFIGMAPS.path("ns", "a")]


async def test_a_page_that_is_too_large_for_kopf_has_fewer_objects(
    start: Start, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf_guard, "KOPF_PAGE_BYTES", 50_000)
    for number in range(40):
        api.put(f"c{number:02}", data={"blob": "x" * 10_000})
    api.put("c10", data={"blob": "x" * 60_000})  # alone it is larger than a page
    kopf, names, sizes, params = start(), [], [], {}
    while True:
        page = await kopf.get(limit="50", **params)
        names += [item["metadata"]["name"] for item in page["items"]]
        sizes.append(sum(len(item["text"]) for item in page["items"]))
        if not page["metadata"]["continue"]:
            break
        params = {"continue": page["metadata"]["continue"]}
    assert names == [f"c{number:02}" for number in range(40)]
    assert max(sizes) < 70_000
    assert int(api.of("list")[0].params["limit"]) == 50
    assert int(api.of("list")[1].params["limit"]) == 6
    assert complaint(kopf) == ""


async def test_a_page_of_kopfs_with_objects_of_any_shape_takes_short_steps(
    start: Start, api: FakeApi
) -> None:
    lists = ",".join(["[" * 200 + "]" * 200] * 3_000)
    dense = f'{{"metadata": {{"name": "a", "resourceVersion": "7"}}, "spec": [{lists}]}}'
    head = '{"kind": "XList", "metadata": {"resourceVersion": "7"}, "items": ['
    api.always("list", raw(f"{head}{dense},{dense}]}}".encode()))
    api.always("watch", raw(f'{{"type": "ADDED", "object": {dense}}}\n'.encode()))
    kopf = start()
    with measured_steps() as steps:
        items = (await kopf.get())["items"]
        items += [one["object"] for one in await kopf.events(since=0) if one["type"] == "ADDED"]
    assert [whole(item)["spec"] for item in items] == [TOO_MANY] * 3
    assert steps.longest < 2 * STEP_SECONDS, steps.where


async def test_a_kind_that_is_gone_is_told_at_once(start: Start, api: FakeApi) -> None:
    kopf = start()
    for verb in ("list", "watch"):
        api.script(verb, error(404, "NotFound"))
    for params in ({}, {"watch": "true"}):
        async with await kopf.request(PATH, **params) as response:
            assert response.status == 404
    assert (api.count("list"), api.count("watch")) == (1, 1)


async def test_a_refused_token_is_renewed_and_the_session_stays(start: Start, api: FakeApi) -> None:
    async def load() -> Endpoint:
        return Endpoint(host=api.url, authorization="Bearer two")

    first = Endpoint(host=api.url, authorization="Bearer one")
    kopf = start(connection=Connection(first, loader=load))
    api.script("list", error(401, "Unauthorized"))
    await kopf.get()
    sent = [one.headers["Authorization"] for one in api.of("list")]
    assert sent == ["Bearer one", "Bearer two"]
    assert len(kopf.sessions) == 1


async def test_new_certificates_need_a_new_session(start: Start, api: FakeApi) -> None:
    async def load() -> Endpoint:
        return Endpoint(host=api.url, ssl=ssl.create_default_context())

    kopf = start(connection=Connection(Endpoint(host=api.url), loader=load))
    api.script("list", error(401, "Unauthorized"))
    await kopf.get()
    assert len(kopf.sessions) == 2
    assert kopf.sessions[0].closed


async def test_readyz_names_kopfs_watch_and_why_it_fails(start: Start, api: FakeApi) -> None:
    now = [0.0]
    kopf = start()
    kopf.guard = KopfGuard(kopf.guard.connection, CONFIGMAPS, timing=QUICK, clock=lambda: now[0])
    kopf.sessions.append(kopf.guard.session())
    api.always("watch", error(403, "Forbidden", "not you"))
    assert await kopf.watch() == LIST_AGAIN
    assert failing_watches(kopf.guard.statuses()) is None
    now[0] += 20.0
    says = failing_watches(kopf.guard.statuses())
    assert says == "no watch of configmaps for 20 s (Forbidden (403): not you)"
