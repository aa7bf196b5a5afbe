"""Places for watches of others' objects: nobody takes those of all, and none is lost."""

from dataclasses import dataclass, field

import pytest

from copyrator.api.keys import CopyKey, ObjectName
from copyrator.copies.targets.unmanaged import (
    TENANTS_UNMANAGED_WATCHES,
    TRUSTED_UNMANAGED_WATCHES,
    UNMANAGED_WATCHES,
    UnmanagedWatches,
)
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory, WatchSpec
from copyrator.kube.watch.store import Seen

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
def watches(pool, news):
    return UnmanagedWatches(pool, lambda key, version: news.append((key, version)))


def follow(watches, number, namespace="team", tenant=None):
    key = CopyKey("configmaps", namespace, f"app-{number}")
    watches.follow(key, CONFIGMAPS, tenant)
    return key


def test_one_target_namespace_gets_so_many_and_another_still_gets_its_own(watches):
    for number in range(EACH + 3):
        follow(watches, number)
    assert len(watches) == EACH
    follow(watches, 0, "other")
    assert len(watches) == EACH + 1


def test_a_tenant_pays_for_its_rules_wherever_they_point(watches):
    for number in range(EACH + 3):
        follow(watches, 0, f"team-{number}", "greedy")
    assert len(watches) == EACH
    follow(watches, 0, "team", "modest")
    assert len(watches) == EACH + 1


def test_all_tenants_together_take_none_of_the_trusted_rules_places(watches):
    for number in range(1_000):
        follow(watches, number, f"a-{number}", f"tenant-{number}")
    assert len(watches) == TENANTS_UNMANAGED_WATCHES
    for number in range(1_000):
        follow(watches, number, f"b-{number}")
    both = TENANTS_UNMANAGED_WATCHES + TRUSTED_UNMANAGED_WATCHES
    assert len(watches) == both


def test_a_place_is_taken_once_and_given_back_once(watches, pool):
    keys = [follow(watches, number) for number in range(EACH)]
    follow(watches, 0)
    assert len(pool.handed_out) == EACH
    for _ in range(2):
        watches.release(keys[0])
    assert pool.handed_out[0].released == 1
    follow(watches, "next"), follow(watches, "one too many")
    assert len(pool.handed_out) == EACH + 1
    watches.close()
    follow(watches, "too late")
    assert [one.released for one in pool.handed_out] == [1] * (EACH + 1)
    assert len(watches) == 0


def test_the_version_is_known_only_while_the_watch_is_complete(watches, pool, news):
    key = follow(watches, 1)
    name = ObjectName("team", "app-1")
    (registration,) = pool.handed_out
    assert (registration.spec.name, registration.spec.metadata_only) == ("app-1", True)
    assert watches.version(key) is None
    registration.store[name] = Seen("7")
    assert watches.version(key) is None
    registration.synced = True
    assert watches.version(key) == "7"
    pool.on_synced()
    assert news == []
    pool.listener(name, None, Seen("8"))
    del registration.store[name]
    pool.listener(name, Seen("8"), None)
    assert watches.version(key) == ""
    pool.on_synced()
    assert news == [(key, "8"), (key, ""), (key, "")]
    watches.release(key)
    assert watches.version(key) is None


def test_what_only_looks_watches_nothing():
    watches = UnmanagedWatches(None, lambda *_: None)
    assert watches.version(follow(watches, 1)) is None
    assert len(watches) == 0
