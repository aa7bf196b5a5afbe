"""A reflector's picture is true, or known to be incomplete; it never invents a deletion."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from aiohttp import web
from tests.component.kube.fake_api import (
    Answer,
    FakeApi,
    bookmark,
    cut,
    error,
    event,
    hang,
    raw,
    stream,
    until,
)

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.reflector import Reflector, Timing, WatchSpec
from copyrator.metrics import Metrics

QUICK = Timing(
    stream=30.0,
    silence=1.0,
    doubt=1.0,  # whole seconds are asked of the server
    doubt_silence=2.0,
    settled=0.05,
    stable=0.3,
    first_delay=0.02,
    longest_delay=0.1,
    tolerance=0.5,
)

Change = tuple[str, Any, Any]


class Seen:
    """What a reflector reported."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.syncs = 0

    def on_change(self, name: ObjectName, old: Any, new: Any) -> None:
        self.changes.append((name.name, value(old), value(new)))

    def on_synced(self) -> None:
        self.syncs += 1

    @property
    def deleted(self) -> list[str]:
        return [name for name, _, new in self.changes if new is None]


def value(body: Any) -> Any:
    return None if body is None else body.get("data", {}).get("v", "")


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def reflect(client: KubeClient, seen: Seen) -> AsyncIterator[Callable[..., Reflector[Any]]]:
    tasks = []

    def start(timing: Timing = QUICK, by: KubeClient = client, **more: Any) -> Reflector[Any]:
        spec = WatchSpec(CONFIGMAPS, decode=lambda body: body)
        of_spec = {field.name: more.pop(field.name) for field in fields(spec) if field.name in more}
        reflector: Reflector[Any] = Reflector(
            by,
            replace(spec, **of_spec),
            on_change=seen.on_change,
            on_synced=seen.on_synced,
            timing=timing,
            **more,
        )
        tasks.append(asyncio.create_task(reflector.run()))
        return reflector

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


Reflect = Callable[..., Reflector[Any]]


def names(reflector: Reflector[Any]) -> set[str]:
    return {name.name for name in reflector.store}


async def settled(reflector: Reflector[Any], api: FakeApi) -> None:
    await until(lambda: reflector.synced and reflector.failure is None, "synced and healthy")
    await until(lambda: api.watches == 1, "a watch stands")


async def test_it_lists_and_then_follows_what_changes(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    reflector = reflect()
    assert not reflector.synced
    await until(lambda: reflector.synced, "all is listed", 60)
    api.put("b", data={"v": "1"})
    api.put("a", data={"v": "2"})
    api.remove("b")
    await until(lambda: len(seen.changes) == 4, "four changes")
    assert seen.changes == [("a", None, "1"), ("b", None, "1"), ("a", "1", "2"), ("b", "1", None)]
    assert names(reflector) == {"a"}
    assert (seen.syncs, reflector.lists, api.count("list")) == (1, 1, 1)


async def test_one_object_is_read_and_watched_from_where_others_are(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    since = str(api.version)
    api.put("a", data={"v": "2"})
    api.remove("a")
    api.put("a", data={"v": "3"})
    versions = {"configmaps": since}
    reflector = reflect(namespace="ns", name="a", versions=versions)
    await settled(reflector, api)
    assert api.count("list") == 0
    assert api.of("watch")[0].params["resourceVersion"] == since
    api.put("a", data={"v": "4"})
    api.remove("a")
    await until(lambda: bool(seen.deleted), "the deletion is told")
    assert seen.changes == [("a", None, "3"), ("a", "3", "4"), ("a", "4", None)]
    assert versions["configmaps"] == str(api.version)


@pytest.mark.parametrize("answer", [None, error(403, "Forbidden")])
async def test_one_object_that_cannot_be_read_is_listed(
    reflect: Reflect, api: FakeApi, answer: Answer | None
) -> None:
    """Only a list proves that it isn't there."""
    if answer:
        api.put("a")
        api.always("get", answer)
    reflector = reflect(namespace="ns", name="a", versions={"configmaps": str(api.version)})
    await settled(reflector, api)
    assert [seen.verb for seen in api.seen] == ["get", "list", "watch"]
    assert names(reflector) == ({"a"} if answer else set())


async def test_one_object_is_listed_where_no_watch_can_follow_its_reading(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    api.forget_history()
    reflector = reflect(namespace="ns", name="a", versions={"configmaps": "100"})
    await until(lambda: api.watches == 1, "it is watched")
    assert [seen.verb for seen in api.seen] == ["get", "watch", "list", "watch"], "too old"
    assert seen.changes == [("a", None, "1")]
    api.seen.clear()
    reflector.relist()
    await until(lambda: reflector.lists == 3 and api.watches == 1, "the second opinion")
    assert [seen.verb for seen in api.seen] == ["list", "watch"]


async def test_it_lists_with_consistency_and_watches_from_there(
    reflect: Reflect, api: FakeApi
) -> None:
    version = api.put("a")
    reflector = reflect(namespace="ns", label_selector="x=y", metadata_only=True)
    await settled(reflector, api)
    listed, watched = api.of("list")[0], api.of("watch")[0]
    assert "resourceVersion" not in listed.params  # a list with 0 may be old
    assert watched.params["resourceVersion"] == str(version)
    assert watched.params["allowWatchBookmarks"] == "true"
    assert 26 <= int(watched.params["timeoutSeconds"]) <= 33
    for request in (listed, watched):
        assert request.path == "/api/v1/namespaces/ns/configmaps"
        assert request.params["labelSelector"] == "x=y"
        assert "as=PartialObjectMetadata" in request.headers["Accept"]


async def test_a_watch_that_ends_in_order_is_resumed_without_a_list(
    reflect: Reflect, api: FakeApi, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    api.put("a")

    async def short(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0)
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(0.1)
        await response.write(bookmark(api.version))
        return response

    api.script("watch", short, short, short)
    reflector = reflect()
    await until(lambda: api.count("watch") >= 4, "four watches")
    await settled(reflector, api)
    assert api.count("list") == 1
    assert not [r for r in caplog.records if r.name.startswith("copyrator")]


# --- faults: whatever breaks, nothing known is lost and no deletion is invented ------------------

BROKEN_LISTS: dict[str, Answer] = {
    "403": error(403, "Forbidden"),
    "404 of the kind": raw(b"404 page not found\n", "text/plain", 404),
    "410": error(410, "Expired"),
    "500": error(500, "InternalError"),
    "a cut body": cut(
        b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "999"}, "items": ['
    ),
    "an empty object": raw(b"{}"),
    "a Status": raw(b'{"kind": "Status", "status": "Failure"}'),
    "objects without names": raw(
        b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "999"}, "items": [{}]}'
    ),
}


@pytest.mark.parametrize("answer", BROKEN_LISTS.values(), ids=BROKEN_LISTS)
async def test_a_list_that_fails_deletes_nothing(
    reflect: Reflect, api: FakeApi, seen: Seen, answer: Answer
) -> None:
    api.put("a")
    reflector = reflect()
    await settled(reflector, api)
    api.always("list", answer)
    before = api.count("list")
    reflector.relist()
    await until(lambda: reflector.failure, "the fault shows")
    await until(lambda: api.count("list") >= before + 3, "it goes on trying")
    assert names(reflector) == {"a"}
    assert seen.deleted == []
    assert reflector.lists == 1
    api.behave()
    await settled(reflector, api)
    assert names(reflector) == {"a"}
    assert reflector.lists >= 2


async def test_a_list_that_fails_on_page_two_is_not_complete(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    for number in range(150):
        api.put(f"c{number:03}")
    reflector = reflect()
    await settled(reflector, api)

    async def second_page_fails(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query:
            return await BROKEN_LISTS["a cut body"](request)
        return await api.serve(request)

    api.remove("c149")
    await until(lambda: seen.deleted == ["c149"], "the true deletion is told")
    api.always("list", second_page_fails)
    api.cut_watches()
    api.forget_history()
    await until(lambda: reflector.failure and api.count("list") >= 6, "it goes on trying")
    api.remove("c000")
    assert seen.deleted == ["c149"]
    api.behave()
    await settled(reflector, api)
    assert seen.deleted == ["c149", "c000"]
    assert len(reflector.store) == 148


async def test_what_vanished_while_the_watch_was_lost_is_deleted_by_a_complete_list(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    for name in ("a", "b", "c"):
        api.put(name, data={"v": "1"})
    reflector = reflect()
    await settled(reflector, api)
    api.always("watch", error(503))
    api.cut_watches()
    api.remove("b")
    api.put("c", data={"v": "2"})
    api.forget_history()
    api.behave()
    await until(lambda: names(reflector) == {"a", "c"}, "b is gone")
    assert seen.changes[3:] == [("c", "1", "2"), ("b", "1", None)]  # and nothing about a


async def test_an_expired_watch_is_listed_again_at_once_and_is_no_fault(
    reflect: Reflect, api: FakeApi, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    api.put("a")
    reflector = reflect()
    await settled(reflector, api)
    api.forget_history()
    api.cut_watches()
    await until(lambda: reflector.lists == 2, "a second list")
    await settled(reflector, api)
    assert seen.changes == [("a", None, "")]
    assert not [r for r in caplog.records if "Expired" in r.getMessage()]


@pytest.mark.parametrize(
    "answer",
    [stream(), error(500)],
    ids=["closed at once", "500"],
)
async def test_a_watch_that_does_not_stand_is_tried_ever_more_slowly(
    reflect: Reflect, api: FakeApi, seen: Seen, caplog: pytest.LogCaptureFixture, answer: Answer
) -> None:
    caplog.set_level(logging.INFO)
    api.put("a")
    reflector = reflect()
    await settled(reflector, api)
    api.always("watch", answer)
    before, began = len(api.seen), asyncio.get_running_loop().time()
    api.cut_watches()
    await until(lambda: reflector.failure, "the fault shows")
    await asyncio.sleep(0.6)  # or longer
    lasted = asyncio.get_running_loop().time() - began
    # Delays 0.02, 0.04, 0.08, 0.1, 0.1 … less jitter; every third try lists again.
    assert len(api.seen) - before < 10 + 25 * lasted
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert 1 <= len(told) <= 2, told  # the cut itself, then what followed
    assert seen.deleted == []
    api.behave()
    await settled(reflector, api)
    assert "works again" in caplog.text


async def test_a_silent_watch_is_found_out_and_what_it_hid_is_seen(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    api.script("watch", stream(bookmark(101), then="silence"))
    reflector = reflect()
    await until(lambda: reflector.synced, "all is listed", 60)
    api.put("a", data={"v": "2"})
    await until(lambda: seen.changes[-1] == ("a", "1", "2"), "the hidden change")
    await until(lambda: api.count("watch") == 2, "the next watch")
    # It is short, so that it has to prove itself soon.
    assert api.of("watch")[1].params["timeoutSeconds"] == str(int(QUICK.doubt))
    await settled(reflector, api)


async def test_a_suspected_watch_is_opened_anew_and_goes_on_from_where_it_was(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    api.script("watch", stream(bookmark(101), then="silence"))
    reflector = reflect(timing=replace(QUICK, silence=3600.0, suspects=0.0))
    await until(lambda: reflector.silent_for > QUICK.settled and api.count("watch"), "silence")
    api.put("a", data={"v": "2"})
    reflector.suspect()
    await until(lambda: seen.changes[-1] == ("a", "1", "2"), "the hidden change")
    assert api.count("list") == 1
    assert api.of("watch")[1].params["timeoutSeconds"] == str(int(QUICK.doubt))
    assert reflector.failure is None


async def test_a_watch_that_is_asked_to_end_while_it_ends_is_opened_anew_all_the_same(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    reflector = reflect(timing=replace(QUICK, settled=0.0, suspects=0.0))
    await until(lambda: seen.changes and api.watches, "a watch that stands")
    reflector.relist()
    await asyncio.sleep(0)  # the time limit expires, and the watch isn't told yet
    reflector.suspect()
    reflector.relist()
    await until(lambda: reflector.lists == 2 and api.watches == 1, "the second opinion")


async def test_a_server_without_bookmarks_is_not_taken_for_dead(
    reflect: Reflect, api: FakeApi
) -> None:
    api.put("a")
    api.bookmarks = None
    reflector = reflect()
    # The first silence is a doubt; the short stream that follows ends in order, without bookmark.
    await until(lambda: api.count("watch") >= 3, "a third watch")
    lists = api.count("list")
    await settled(reflector, api)
    await asyncio.sleep(3.0)  # three times the silence that would count as dead
    assert api.count("list") == lists
    assert api.count("watch") == 3


async def test_a_version_from_the_future_leads_to_a_list(reflect: Reflect, api: FakeApi) -> None:
    """After etcd was restored from a backup the server says so, for ever, to our old version."""
    too_large = error(504, "Timeout", "Too large resource version: 100, current: 5")
    reflector = reflect()
    await settled(reflector, api)
    api.script("watch", *[too_large] * 3)
    api.cut_watches()
    await until(lambda: reflector.lists == 2, "a second list")
    await settled(reflector, api)


async def test_a_hanging_list_is_given_up(reflect: Reflect, api: FakeApi) -> None:
    api.script("list", hang())
    async with KubeClient(Connection(Endpoint(host=api.url))) as impatient:
        impatient.list_timeout = 0.1
        await settled(reflect(by=impatient), api)
    assert api.count("list") >= 2  # a busy machine may be too slow for the next one, too


# --- order ---------------------------------------------------------------------------------------


async def test_duplicated_and_older_events_are_no_news(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    api.put("a", data={"v": "1"})
    api.script(
        "watch",
        stream(
            event("MODIFIED", "a", 300, data={"v": "3"}),
            event("MODIFIED", "a", 300, data={"v": "3"}),
            event("MODIFIED", "a", 200, data={"v": "2"}),
            event("ADDED", "b", 400, data={"v": "1"}),
            event("DELETED", "a", 500),
            event("DELETED", "a", 500),
            then="silence",
        ),
    )
    reflector = reflect()
    await until(lambda: seen.deleted == ["a"], "a is gone")
    assert seen.changes == [("a", None, "1"), ("a", "1", "3"), ("b", None, "1"), ("a", "3", None)]
    assert names(reflector) == {"b"}


async def test_an_event_that_comes_too_late_to_judge_leads_to_a_list(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    """Is it the late news of an object, or the ghost of a deleted one? Only a list can tell."""
    for name in ("lives", "dies"):
        api.put(name)
    api.remove("dies")
    api.script(
        "watch",
        stream(event("ADDED", "new", 300), event("ADDED", "dies", 102), then="silence"),
    )
    reflector = reflect()
    await until(lambda: reflector.lists == 2, "a second list")
    await settled(reflector, api)
    assert names(reflector) == {"lives"}
    assert "dies" not in [name for name, _, _ in seen.changes]


# --- what others rely on -------------------------------------------------------------------------


async def test_it_is_not_synced_while_it_may_not_look(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    reflector = reflect()
    await settled(reflector, api)
    for answer, kind in (
        (error(403, "Forbidden"), Forbidden),
        (raw(b"404 page not found", "text/plain", 404), NotFound),
    ):
        syncs = seen.syncs
        api.always("watch", answer)
        api.always("list", answer)
        api.cut_watches()
        await until(lambda kind=kind: isinstance(reflector.failure, kind), kind.__name__)
        assert not reflector.synced
        api.behave()
        await until(lambda: reflector.synced, "all is listed", 60)
        await settled(reflector, api)
        assert seen.syncs == syncs + 1  # those who waited with a decision are told


async def test_a_short_fault_leaves_it_synced_and_a_long_one_does_not(
    reflect: Reflect, api: FakeApi
) -> None:
    reflector = reflect()
    await settled(reflector, api)
    api.always("watch", error(500))
    api.always("list", error(500))
    api.cut_watches()
    await until(lambda: reflector.failure, "the fault shows")
    assert reflector.synced
    await until(lambda: not reflector.synced, "it has lasted too long")
    assert reflector.failing_for >= 0.5
    api.behave()
    await until(lambda: reflector.synced, "all is listed", 60)


async def test_one_object_that_can_not_be_read_does_not_delay_the_others(
    client: KubeClient, api: FakeApi, seen: Seen
) -> None:
    def decode(body: dict[str, Any]) -> dict[str, Any]:
        if body["metadata"]["name"] == "bad":
            raise ValueError("sentinel-value")
        return body

    api.put("bad")
    api.put("good")
    reflector: Reflector[Any] = Reflector(
        client, WatchSpec(CONFIGMAPS, decode=decode), on_change=seen.on_change, timing=QUICK
    )
    task = asyncio.create_task(reflector.run())
    await settled(reflector, api)
    api.put("bad")
    api.put("late")
    await until(lambda: names(reflector) == {"good", "late"}, "the others")
    task.cancel()


async def test_faults_and_changes_are_counted(reflect: Reflect, api: FakeApi, seen: Seen) -> None:
    metrics = Metrics()
    reflector = reflect(metrics=metrics)
    await settled(reflector, api)
    api.put("a")
    api.remove("a")
    await until(lambda: seen.deleted == ["a"], "both events")
    api.forget_history()
    api.cut_watches()
    await until(lambda: reflector.lists == 2, "a second list")

    def count(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"copyrator_{name}_total", labels)

    assert count("watch_events", resource="configmaps", type="added") == 1
    assert count("watch_events", resource="configmaps", type="deleted") == 1
    assert count("watch_restarts", resource="configmaps", reason="expired") == 1


async def test_a_watch_on_which_something_comes_is_above_suspicion(
    reflect: Reflect, api: FakeApi, seen: Seen
) -> None:
    reflector = reflect(timing=replace(QUICK, settled=3600.0, suspects=0.0))
    api.put("a", data={"v": "1"})
    await until(lambda: seen.changes and api.watches, "a watch that stands")
    reflector.suspect()
    api.put("a", data={"v": "2"})
    await until(lambda: seen.changes[-1] == ("a", "1", "2"), "the change")
    assert api.count("watch") == 1
