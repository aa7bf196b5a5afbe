"""Places for watches of others' objects: nobody takes those of all, and none is lost."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from copyrator.api.keys import CopyKey, ObjectName
from copyrator.copies.targets.unmanaged import (
    TENANTS_UNMANAGED_WATCHES,
    TRUSTED_UNMANAGED_WATCHES,
    UNMANAGED_WATCHES,
    UnmanagedObjects,
)
from copyrator.copies.timing import DEFAULT_TIMING
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Seen, WatchSpec

EACH = UNMANAGED_WATCHES


@dataclass
class FakeRegistration:
    """What the pool hands out, driven by the test."""

    spec: WatchSpec
    synced: bool = False
    store: dict[ObjectName, Seen] = field(default_factory=dict)
    released: int = 0

    def release(self) -> None:
        self.released += 1


class Pool(InformerFactory):
    """Opens no connection."""

    def __init__(self) -> None:
        self.handed_out: list[FakeRegistration] = []

    def acquire(self, spec, listener, *, on_synced=None):
        self.listener, self.on_synced = listener, on_synced
        self.handed_out.append(FakeRegistration(spec))
        return self.handed_out[-1]


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def news():
    return []


@pytest.fixture
def objects(pool, news):
    return UnmanagedObjects(pool, lambda key, *_: news.append(key), lambda: 0.0, DEFAULT_TIMING)


def find(objects, number, namespace="team", tenant=None):
    """An object is found at the target of a rule."""
    key = CopyKey("configmaps", namespace, f"app-{number}")
    compiled = SimpleNamespace(targets=SimpleNamespace(tenant=tenant))
    winner = SimpleNamespace(owner="rule", binding=SimpleNamespace(compiled=compiled))
    objects.record(key, CONFIGMAPS, SimpleNamespace(resource_version="7"), winner)
    return key


def watched(pool):
    return sum(not one.released for one in pool.handed_out)


def test_one_target_namespace_gets_so_many_and_another_still_gets_its_own(objects, pool):
    for number in range(EACH + 3):
        find(objects, number)
    assert watched(pool) == EACH
    find(objects, 0, "other")
    assert watched(pool) == EACH + 1


def test_a_tenant_pays_for_its_rules_wherever_they_point(objects, pool):
    for number in range(EACH + 3):
        find(objects, 0, f"team-{number}", "greedy")
    assert watched(pool) == EACH
    find(objects, 0, "team", "modest")
    assert watched(pool) == EACH + 1


def test_all_tenants_together_take_none_of_the_trusted_rules_places(objects, pool):
    for number in range(1_000):
        find(objects, number, f"a-{number}", f"tenant-{number}")
    assert watched(pool) == TENANTS_UNMANAGED_WATCHES
    for number in range(1_000):
        find(objects, number, f"b-{number}")
    both = TENANTS_UNMANAGED_WATCHES + TRUSTED_UNMANAGED_WATCHES
    assert watched(pool) == both


def test_a_place_is_taken_once_and_given_back_once(objects, pool):
    find(objects, 0)
    keys = [find(objects, number) for number in range(EACH)]
    assert len(pool.handed_out) == EACH
    for _ in range(2):
        objects.forget(keys[0])
    assert pool.handed_out[0].released == 1
    find(objects, "next"), find(objects, "one too many")
    assert len(pool.handed_out) == EACH + 1
    objects.close()
    find(objects, "too late")
    assert [one.released for one in pool.handed_out] == [1] * (EACH + 1)


def test_the_version_is_known_only_while_the_watch_is_complete(objects, pool, news):
    key = find(objects, 1)
    name, known = ObjectName("team", "app-1"), objects.get(key)
    (registration,) = pool.handed_out
    assert (registration.spec.name, registration.spec.metadata_only) == ("app-1", True)
    assert known.live_version is None
    registration.store[name] = Seen("7")
    assert known.live_version is None
    registration.synced = True
    assert known.live_version == "7"
    assert not objects.is_gone(key)
    pool.on_synced()
    pool.listener(name, None, Seen("7"))
    assert news == []
    pool.listener(name, None, Seen("8"))
    assert news == [key]
    del registration.store[name]
    pool.listener(name, Seen("8"), None)
    assert objects.is_gone(key)
    pool.on_synced()
    assert news == [key] * 3
    objects.forget(key)
    assert not objects.is_gone(key)


def test_another_object_that_the_watch_delivers_is_not_taken_for_it(objects, pool, news):
    """An aggregated API server may ignore the selector of the name."""
    key = find(objects, 1)
    (registration,) = pool.handed_out
    other = ObjectName("team", "app-0")
    registration.store = {other: Seen("9"), ObjectName("team", "app-1"): Seen("7")}
    registration.synced = True
    assert objects.get(key).live_version == "7"
    pool.listener(other, None, Seen("9"))
    assert news == []
    registration.store = {other: Seen("9")}
    assert objects.is_gone(key)


def test_what_only_looks_watches_nothing():
    objects = UnmanagedObjects(None, lambda *_: None, lambda: 0.0, DEFAULT_TIMING)
    assert objects.get(find(objects, 1)).live_version is None
