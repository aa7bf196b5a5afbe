"""In some namespaces only: many watches are heard as one, and nothing is asked cluster-wide."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from tests.component.kube.fake_api import FakeApi, error, until
from tests.component.kube.test_reflector import QUICK

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import CONFIGMAPS, NAMESPACES
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.metrics import Metrics

EVERYTHING = WatchSpec(CONFIGMAPS)
ALL_NAMESPACES = WatchSpec(NAMESPACES)


class Listener:
    """Remembers what it heard: +a/one, ~a/one, -a/one; and finds it in the store at that moment."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.syncs = 0
        self.registration: Registration | None = None

    def __call__(self, name: ObjectName, old: Any, new: Any) -> None:
        self.heard.append(f"{'-' if new is None else '+' if old is None else '~'}{name}")
        if self.registration is not None:
            assert self.registration.store.get(name) is new

    def on_synced(self) -> None:
        self.syncs += 1


def put_namespace(api: FakeApi, name: str, **labels: str) -> None:
    api._store("ADDED", f"/api/v1/namespaces/{name}", {"metadata": {"name": name, **labels}})


def deny(api: FakeApi, namespace: str) -> None:
    """Everything about a namespace is refused, as without its Role."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if f"/namespaces/{namespace}" in request.path:
            return await error(403, "Forbidden")(request)
        return await api.serve(request)

    for verb in ("get", "list", "watch"):
        api.always(verb, answer)


@pytest.fixture
async def pool(client: KubeClient, api: FakeApi) -> AsyncIterator[InformerFactory]:
    put_namespace(api, "a")
    put_namespace(api, "b")
    timing = replace(QUICK, namespaces=0.05)
    pool = InformerFactory(client, ("a", "b", "c"), metrics=Metrics(), timing=timing)
    yield pool
    await pool.close()


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
async def everything(pool: InformerFactory, api: FakeApi, listener: Listener) -> Registration:
    api.put("one", "a")
    api.put("two", "b")
    api.put("outside", "z")
    found = pool.acquire(EVERYTHING, listener, on_synced=listener.on_synced)
    listener.registration = found
    assert not found.seen
    await until(lambda: found.synced, "all is seen")
    return found


async def test_all_namespaces_that_are_there_are_seen_as_one(
    everything: Registration, api: FakeApi, listener: Listener
) -> None:
    assert sorted(listener.heard) == ["+a/one", "+b/two"]
    assert sorted(map(str, everything.store)) == ["a/one", "b/two"]
    assert len(everything.store) == 2
    assert listener.syncs
    api.put("two", "b")
    api.remove("one", "a")
    api.put("outside", "z")
    await until(lambda: sorted(listener.heard[2:]) == ["-a/one", "~b/two"], str(listener.heard))


async def test_nothing_is_asked_cluster_wide(
    everything: Registration, pool: InformerFactory, api: FakeApi
) -> None:
    pool.acquire(ALL_NAMESPACES, Listener())
    await until(lambda: api.watches == 2, "a watch for each")
    assert {seen.path for seen in api.seen} <= {
        *(f"/api/v1/namespaces/{name}" for name in ("a", "b", "c")),
        *(f"/api/v1/namespaces/{name}/configmaps" for name in ("a", "b")),
    }


async def test_a_namespace_that_appears_is_joined_and_one_that_goes_takes_its_objects_along(
    everything: Registration, api: FakeApi, listener: Listener
) -> None:
    api.put("three", "c")
    put_namespace(api, "c")
    await until(lambda: "+c/three" in listener.heard, "it is joined")
    del api.objects["/api/v1/namespaces/a"]
    await until(lambda: "-a/one" in listener.heard, "its objects are gone")
    await until(lambda: everything.synced, "nobody waits for it")
    assert sorted(map(str, everything.store)) == ["b/two", "c/three"]


async def test_a_namespace_that_may_not_be_read_holds_up_nobody_and_is_not_gone(
    everything: Registration, pool: InformerFactory, api: FakeApi, listener: Listener
) -> None:
    places = Listener()
    pool.acquire(ALL_NAMESPACES, places)
    deny(api, "a")
    api.cut_watches()
    await until(lambda: "-/a" in places.heard or "-a" in places.heard, "no place to copy to")
    api.put("two", "b")
    await until(lambda: "~b/two" in listener.heard, "the others go on")
    await until(lambda: everything.synced, "and count as seen")
    assert "-a/one" not in listener.heard
    api.behave()
    await until(lambda: places.heard[-1] in ("+a", "+/a"), "it may be read again")
    await until(lambda: everything.synced, "all is seen")


async def test_a_fault_in_a_namespace_that_is_there_is_a_fault_of_all(
    everything: Registration, api: FakeApi
) -> None:
    api.always("list", error(403, "Forbidden"))
    api.always("watch", error(403, "Forbidden"))
    api.cut_watches()
    await until(lambda: not everything.synced, "not all is seen")
    assert everything.failure is not None
    assert "configmaps" in str(everything.reflector)
    api.behave()
    await until(lambda: everything.synced, "all is seen")


async def test_a_second_opinion_asks_everywhere(
    everything: Registration, pool: InformerFactory, api: FakeApi
) -> None:
    places = pool.acquire(ALL_NAMESPACES, Listener())
    await until(lambda: places.seen and api.watches == 2, "all stands")
    before, lists = everything.reflector.lists, api.count("list")
    everything.reflector.relist()
    await until(lambda: everything.reflector.lists > before, "listed again")
    assert api.count("list") == lists + 2
    put_namespace(api, "c")
    await until(lambda: api.watches == 3, "a namespace more")
    assert everything.reflector.lists > before, "it holds no count back"


async def test_who_leaves_hears_no_more_and_the_watches_end(
    everything: Registration, api: FakeApi, listener: Listener
) -> None:
    everything.release()
    everything.release()
    await until(lambda: api.watches == 0, "the watches end")
    heard = len(listener.heard)
    put_namespace(api, "c")
    api.put("one", "a")
    api.put("three", "c")
    await until(lambda: api.count("get") > 20, "some looks later")
    assert len(listener.heard) == heard


async def test_namespaces_are_told_when_they_change_and_only_then(
    pool: InformerFactory, api: FakeApi
) -> None:
    places = Listener()
    found = pool.acquire(ALL_NAMESPACES, places, on_synced=places.on_synced)
    await until(lambda: found.seen, "all were looked at")
    await until(lambda: api.count("get") > 12, "some looks later")
    assert places.syncs == 1
    assert len(places.heard) == 2
    put_namespace(api, "a", labels="changed")
    await until(lambda: len(places.heard) == 3, "a change")
    assert places.heard[2].startswith("~")
    found.reflector.relist()
    await until(lambda: places.syncs == 2, "what was asked for is told")
