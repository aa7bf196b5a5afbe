"""Watches are shared: by all who want to see the same objects, and of many namespaces as of one."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import generate_latest
from tests.component.kube.fake_api import FakeApi, error, until
from tests.component.kube.test_reflector import QUICK

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import Forbidden
from copyrator.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.metrics import Metrics

# --- Watches are shared: one connection for all who want to see the same objects ------------------


class Listener:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.syncs = 0

    def __call__(self, name: ObjectName, old: Any, new: Any) -> None:
        self.names.append(f"{'-' if new is None else '+' if old is None else '~'}{name.name}")

    def on_synced(self) -> None:
        self.syncs += 1


@pytest.fixture
async def pool(client: KubeClient) -> AsyncIterator[InformerFactory]:
    pool = InformerFactory(client, metrics=Metrics(), timing=QUICK)
    yield pool
    await pool.close()


@pytest.fixture
async def patient(client: KubeClient) -> AsyncIterator[InformerFactory]:
    """For tests that count lists: with QUICK, one that was silent for a second is listed again."""
    pool = InformerFactory(client)
    yield pool
    await pool.close()


SPEC = WatchSpec(CONFIGMAPS, namespace="ns")


async def test_equal_wishes_share_one_watch(patient: InformerFactory, api: FakeApi) -> None:
    listeners = [Listener() for _ in range(3)]
    for listener in listeners:
        patient.acquire(WatchSpec(CONFIGMAPS, namespace="ns"), listener)
    patient.acquire(WatchSpec(CONFIGMAPS, namespace="ns", label_selector="a=b"), Listener())
    await until(lambda: api.watches == 2, "two watches stand")
    assert len(patient) == 2
    api.put("a")
    await until(lambda: all(listener.names == ["+a"] for listener in listeners), "all hear of it")
    assert api.count("list") == 2


async def test_who_comes_late_hears_first_what_is_known(
    patient: InformerFactory, api: FakeApi
) -> None:
    api.put("a")
    api.put("b")
    first = patient.acquire(SPEC, Listener())
    await until(lambda: first.synced, "all is listed")
    late = Listener()
    registration = patient.acquire(SPEC, late, on_synced=late.on_synced)
    assert late.names == ["+a", "+b"]
    assert late.syncs == 1
    assert set(registration.store) == {ObjectName("ns", "a"), ObjectName("ns", "b")}
    api.remove("a")
    await until(lambda: late.names[-1] == "-a", "and then what changes")
    assert api.count("list") == 1


async def test_the_last_to_leave_ends_the_watch(patient: InformerFactory, api: FakeApi) -> None:
    listeners = [Listener(), Listener()]
    registrations = [patient.acquire(SPEC, listener) for listener in listeners]
    await until(lambda: api.watches == 1, "the watch stands")
    registrations[0].release()
    registrations[0].release()  # twice does no harm
    api.put("a")
    await until(lambda: listeners[1].names == ["+a"], "the other hears on")
    assert listeners[0].names == []
    registrations[1].release()
    await until(lambda: api.watches == 0, "the connection is closed")
    assert len(patient) == 0
    again = patient.acquire(SPEC, Listener())
    await until(lambda: again.synced, "all is listed")
    assert api.count("list") == 2


async def test_a_listener_that_fails_harms_nobody(pool: InformerFactory, api: FakeApi) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a mistake")

    good = Listener()
    pool.acquire(SPEC, fail)
    registration = pool.acquire(SPEC, good, on_synced=good.on_synced)
    await until(lambda: registration.synced, "all is listed")
    api.put("a")
    await until(lambda: good.names == ["+a"], "the good one hears it")
    assert registration.failure is None


async def test_a_watch_whose_task_has_ended_is_named(pool: InformerFactory, api: FakeApi) -> None:
    registration = pool.acquire(SPEC, Listener())
    await until(lambda: registration.synced, "all is listed")
    assert pool.dead() == []
    pool._tasks[SPEC].cancel()
    await until(lambda: pool.dead() == [SPEC], "it is found out")


async def test_states_and_gauges_tell_what_each_watch_knows(
    pool: InformerFactory, api: FakeApi
) -> None:
    api.put("a")
    seen = pool.acquire(SPEC, Listener())
    await until(lambda: seen.synced, "all is listed")
    api.always("list", error(403, "Forbidden"))
    denied = pool.acquire(WatchSpec(SECRETS), Listener())
    await until(lambda: denied.failure, "the fault shows")
    states = {status.spec.resource.key: status for status in pool.statuses()}
    assert (states["configmaps"].synced, states["configmaps"].objects) == (True, 1)
    assert not states["secrets"].synced
    assert isinstance(states["secrets"].failure, Forbidden)
    assert states["secrets"].failing_for > 0
    pool.publish()
    assert pool.metrics
    shown = generate_latest(pool.metrics.registry).decode()
    assert 'copyrator_watches{resource="configmaps"} 1.0' in shown
    assert 'copyrator_watches_synced{resource="secrets"} 0.0' in shown
    assert 'copyrator_watch_objects{resource="configmaps"} 1.0' in shown


async def test_what_is_kept_of_an_object_leaves_managed_fields_out(
    pool: InformerFactory, api: FakeApi
) -> None:
    api.put("a", data={"k": "v"})
    path = "/api/v1/namespaces/ns/configmaps/a"
    api.objects[path]["metadata"]["managedFields"] = [{"manager": "x"}]
    registration = pool.acquire(SPEC, Listener())
    await until(lambda: registration.synced, "all is listed")
    kept = registration.store[ObjectName("ns", "a")]
    assert kept["data"] == {"k": "v"}
    assert "managedFields" not in kept["metadata"]


# --- In some namespaces only: many watches are heard as one, and nothing is asked cluster-wide ----


EVERYTHING = WatchSpec(CONFIGMAPS)
ALL_NAMESPACES = WatchSpec(NAMESPACES)


class ScopedListener:
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
async def scoped(client: KubeClient, api: FakeApi) -> AsyncIterator[InformerFactory]:
    put_namespace(api, "a")
    put_namespace(api, "b")
    timing = replace(QUICK, namespaces=0.05)
    pool = InformerFactory(client, ("a", "b", "c"), metrics=Metrics(), timing=timing)
    yield pool
    await pool.close()


@pytest.fixture
def heard() -> ScopedListener:
    return ScopedListener()


@pytest.fixture
async def everything(scoped: InformerFactory, api: FakeApi, heard: ScopedListener) -> Registration:
    api.put("one", "a")
    api.put("two", "b")
    api.put("outside", "z")
    found = scoped.acquire(EVERYTHING, heard, on_synced=heard.on_synced)
    heard.registration = found
    assert not found.seen
    await until(lambda: found.synced, "all is seen")
    return found


async def test_all_namespaces_that_are_there_are_seen_as_one(
    everything: Registration, api: FakeApi, heard: ScopedListener
) -> None:
    assert sorted(heard.heard) == ["+a/one", "+b/two"]
    assert sorted(map(str, everything.store)) == ["a/one", "b/two"]
    assert len(everything.store) == 2
    assert heard.syncs
    api.put("two", "b")
    api.remove("one", "a")
    api.put("outside", "z")
    await until(lambda: sorted(heard.heard[2:]) == ["-a/one", "~b/two"], str(heard.heard))


async def test_nothing_is_asked_cluster_wide(
    everything: Registration, scoped: InformerFactory, api: FakeApi
) -> None:
    scoped.acquire(ALL_NAMESPACES, ScopedListener())
    await until(lambda: api.watches == 2, "a watch for each")
    assert {seen.path for seen in api.seen} <= {
        *(f"/api/v1/namespaces/{name}" for name in ("a", "b", "c")),
        *(f"/api/v1/namespaces/{name}/configmaps" for name in ("a", "b")),
    }


async def test_a_namespace_that_appears_is_joined_and_one_that_goes_takes_its_objects_along(
    everything: Registration, api: FakeApi, heard: ScopedListener
) -> None:
    api.put("three", "c")
    put_namespace(api, "c")
    await until(lambda: "+c/three" in heard.heard, "it is joined")
    del api.objects["/api/v1/namespaces/a"]
    await until(lambda: "-a/one" in heard.heard, "its objects are gone")
    await until(lambda: everything.synced, "nobody waits for it")
    assert sorted(map(str, everything.store)) == ["b/two", "c/three"]


async def test_a_namespace_that_may_not_be_read_holds_up_nobody_and_is_not_gone(
    everything: Registration, scoped: InformerFactory, api: FakeApi, heard: ScopedListener
) -> None:
    places = ScopedListener()
    scoped.acquire(ALL_NAMESPACES, places)
    deny(api, "a")
    api.cut_watches()
    await until(lambda: "-/a" in places.heard or "-a" in places.heard, "no place to copy to")
    api.put("two", "b")
    await until(lambda: "~b/two" in heard.heard, "the others go on")
    await until(lambda: everything.synced, "and count as seen")
    assert "-a/one" not in heard.heard
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
    everything: Registration, scoped: InformerFactory, api: FakeApi
) -> None:
    places = scoped.acquire(ALL_NAMESPACES, ScopedListener())
    await until(lambda: places.seen and api.watches == 2, "all stands")
    before, lists = everything.reflector.lists, api.count("list")
    everything.reflector.relist()
    await until(lambda: everything.reflector.lists > before, "listed again")
    assert api.count("list") == lists + 2
    put_namespace(api, "c")
    await until(lambda: api.watches == 3, "a namespace more")
    assert everything.reflector.lists > before, "it holds no count back"


async def test_namespaces_are_told_when_they_change_and_only_then(
    scoped: InformerFactory, api: FakeApi
) -> None:
    places = ScopedListener()
    found = scoped.acquire(ALL_NAMESPACES, places, on_synced=places.on_synced)
    await until(lambda: found.seen, "all were looked at")
    await until(lambda: api.count("get") > 12, "some looks later")
    assert places.syncs == 1
    assert len(places.heard) == 2
    put_namespace(api, "a", labels="changed")
    await until(lambda: len(places.heard) == 3, "a change")
    assert places.heard[2].startswith("~")
    found.reflector.relist()
    await until(lambda: places.syncs == 2, "what was asked for is told")
