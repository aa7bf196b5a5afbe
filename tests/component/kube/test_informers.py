"""Watches are shared: one connection for all who want to see the same objects."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.component.kube.fake_api import FakeApi, error, until
from tests.component.kube.test_reflector import QUICK

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import Forbidden
from copyrator.kube.resources import CONFIGMAPS, SECRETS
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.metrics import Metrics


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


async def test_all_are_told_when_the_list_is_complete(pool: InformerFactory, api: FakeApi) -> None:
    listeners = [Listener() for _ in range(2)]
    for listener in listeners:
        pool.acquire(SPEC, listener, on_synced=listener.on_synced)
    await until(lambda: all(listener.syncs == 1 for listener in listeners), "both are told")


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


async def test_a_listener_can_leave_and_join_while_it_is_told(
    pool: InformerFactory, api: FakeApi
) -> None:
    joined: list[str] = []

    def leave(name: ObjectName, old: Any, new: Any) -> None:
        first.release()
        pool.acquire(SPEC, lambda name, old, new: joined.append(name.name))

    first = pool.acquire(SPEC, leave)
    stays = Listener()
    pool.acquire(SPEC, stays)
    await until(lambda: api.watches == 1, "the watch stands")
    api.put("a")
    await until(lambda: stays.names == ["+a"] and joined == ["a"], "each hears it once")


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
