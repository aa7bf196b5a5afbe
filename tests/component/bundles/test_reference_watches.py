"""Edits of what Bundles name are told at once, while watches widen, narrow, are refused and end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import Answer

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine import references as watches
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.references import Ref, WatchScope
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory, PlacementTiming
from copyrator.kube.watch.reflector import Seen, Timing, WatchSpec, seen
from copyrator.settings.config import Settings

ALL = WatchScope(CONFIGMAPS)
SOON = BundleTiming(
    reference_watches=PlacementTiming(check=0.02, settle=0.005, retry=0.2, longest_retry=0.4),
)
TIMING = Timing(first_delay=0.02, longest_delay=0.1, settled=0.02, tolerance=1.0)


class Reader:
    """Bundles that name one ConfigMap each, and read it whenever they are called, never else."""

    def __init__(self, cluster: BundleCluster, *served: str) -> None:
        self.cluster = cluster
        self.client = KubeClient(Connection(Endpoint(host=cluster.url)))
        self.pool = InformerFactory(self.client, served, timing=TIMING)
        self.read: dict[BundleKey, str] = {}
        self.calls: asyncio.Queue[BundleKey] = asyncio.Queue()
        context = SimpleNamespace(
            client=self.client,
            informers=self.pool,
            memories=Memories(),
            schedule=SimpleNamespace(changed=lambda key, _why: self.calls.put_nowait(key)),
            settings=Settings(watch_namespaces=served),
            monotonic=asyncio.get_running_loop().time,
            timing=SOON,
        )
        self.watches = watches.ReferenceWatcher(cast("Any", context), self._has_read)
        self._task = asyncio.create_task(self._visit_for_ever())

    def follow(self, *spaces: str, name: str = "values") -> None:
        for namespace in spaces:
            key = BundleKey(namespace, name)
            self.watches.follow(key, frozenset({ref_of(namespace, name)}))
            self.calls.put_nowait(key)

    def leave(self, *spaces: str, name: str = "values") -> None:
        for namespace in spaces:
            self.watches.follow(BundleKey(namespace, name), frozenset())
            self.read.pop(BundleKey(namespace, name), None)

    def scopes(self) -> set[WatchScope]:
        """What is watched now, as the API server sees it."""
        specs = self.pool.specs()
        return {WatchScope(spec.resource, spec.namespace, spec.name) for spec in specs}

    def knows(self, *spaces: str, name: str = "values") -> bool:
        """Whether what was read is what stands there, and is known to be so."""
        return all(
            self.read.get(BundleKey(namespace, name)) == version_of(self.cluster, namespace, name)
            and self.watches.is_current(
                ref_of(namespace, name), version_of(self.cluster, namespace, name)
            )
            for namespace in spaces
        )

    async def close(self) -> None:
        self._task.cancel()
        self.watches.close()
        await self.pool.close()
        await self.client.close()

    def _has_read(self, key: BundleKey, _ref: Ref, version: str | None) -> bool:
        return self.read.get(key) == version

    async def _visit_for_ever(self) -> None:
        while True:
            key = await self.calls.get()
            ref = ref_of(key.namespace, key.name)
            if self.watches.is_current(ref, self.read.get(key, "unread")):
                continue
            begun = self.watches.begin_read(ref)
            try:
                body = await self.client.get(CONFIGMAPS, key.namespace, key.name)
                version = str(body["metadata"]["resourceVersion"])
            except NotFound:
                version = ""
            self.read[key] = version
            self.watches.was_read(ref, version, begun)


def ref_of(namespace: str, name: str = "values") -> Ref:
    return Ref(CONFIGMAPS, namespace, name)


def version_of(cluster: BundleCluster, namespace: str, name: str = "values") -> str:
    found = cluster.found("configmaps", namespace, name)
    return str(found["metadata"]["resourceVersion"]) if found else ""


def teams(count: int) -> list[str]:
    return [f"team-{number:02}" for number in range(count)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with few objects."""
    for name, value in (
        ("REFERENCES_BY_NAME", 2),
        ("KIND_REFERENCE_WATCHES", 4),
        ("REFERENCE_WATCHES", 3),
        ("ALL_REFERENCE_WATCHES", 6),
    ):
        monkeypatch.setattr(watches, name, value)


@pytest.fixture
async def reader(cluster: BundleCluster) -> AsyncIterator[Reader]:
    reader = Reader(cluster)
    yield reader
    await reader.close()


@pytest.fixture
def edit(cluster: BundleCluster) -> Callable[..., None]:
    count = iter(range(1_000_000))

    def write(*spaces: str, name: str = "values") -> None:
        for namespace in spaces:
            cluster.object("configmaps", namespace, name, data={"a.yaml": f"a: {next(count)}"})

    return write


async def test_scopes_widen_with_the_names_and_narrow_again(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces[:2])
    await eventually(lambda: reader.knows(*spaces[:2]))
    assert reader.scopes() == {WatchScope(CONFIGMAPS, one, "values") for one in spaces[:2]}

    edit(*[spaces[0]], name="b")
    edit(*[spaces[0]], name="c")
    reader.follow(spaces[0], name="b")
    reader.follow(spaces[0], name="c")
    narrow = WatchScope(CONFIGMAPS, spaces[1], "values")
    await eventually(lambda: reader.scopes() == {WatchScope(CONFIGMAPS, spaces[0]), narrow})
    edit(spaces[0], name="c")
    await eventually(lambda: reader.knows(spaces[0], name="c"))

    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL})
    edit(*spaces)
    await eventually(lambda: reader.knows(*spaces))
    assert reader.watches.count() == {"all": 12, "name": 0, "namespace": 0, "poll": 0}

    reader.leave(*spaces[1:])
    await eventually(lambda: reader.scopes() == {WatchScope(CONFIGMAPS, spaces[0])})
    edit(spaces[0])
    await eventually(lambda: reader.knows(spaces[0]))


async def test_the_old_watch_ends_when_the_new_one_has_shown_everything(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces[:4])
    await eventually(lambda: reader.knows(*spaces[:4]))
    go_on = asyncio.Event()

    async def slow_list(request: Any) -> Any:
        await go_on.wait()
        return await cluster.serve(request)

    cluster.always("list", cast("Answer", slow_list))
    reader.follow(*spaces)
    await eventually(lambda: ALL in reader.scopes())
    edit(*spaces[:4])
    await eventually(lambda: reader.knows(*spaces[:4]), "the old ones still tell")
    assert not reader.knows(spaces[5])

    go_on.set()
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))


async def test_the_word_of_a_watch_that_was_replaced_counts_no_more(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces[:4])
    await eventually(lambda: reader.knows(*spaces[:4]))
    ref, old = ref_of(spaces[0]), version_of(cluster, spaces[0])
    named = reader.watches.opened[WatchScope(CONFIGMAPS, spaces[0], "values")]
    edit(spaces[0])
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))

    reader.watches._take(named, ref, Seen(old))  # an event that was long on its way

    assert not reader.watches.is_current(ref, old)
    assert reader.knows(spaces[0])


async def test_a_name_that_comes_late_is_known_by_what_was_read(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces, "late", "gone")
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))
    lists = len(wide_lists(cluster))

    reader.follow("late", "gone", "missing")
    await eventually(lambda: reader.knows("late", "gone", "missing"))
    cluster.gone("configmaps", "gone", "values")
    await eventually(lambda: reader.read[BundleKey("gone", "values")] == "")
    edit("missing", "late")
    await eventually(lambda: reader.knows("late", "gone", "missing"))
    assert len(wide_lists(cluster)) == lists, "nothing was listed anew"


async def test_what_was_deleted_while_no_watch_stood_is_noticed_though_no_watch_ever_showed_it(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces, "late")
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))
    reader.follow("late")
    await eventually(lambda: reader.knows("late"))

    cluster.gone("configmaps", "late", "values")
    cluster.forget_history()  # the event is lost: the watch has to list anew
    cluster.cut_watches()

    await eventually(lambda: reader.read[BundleKey("late", "values")] == "")
    await eventually(lambda: reader.knows("late", *spaces))


async def test_what_is_read_while_an_event_comes_is_read_again(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))
    ref, old = ref_of(spaces[0]), version_of(cluster, spaces[0])
    begun = reader.watches.begin_read(ref)
    edit(spaces[0])
    await eventually(lambda: reader.knows(spaces[0]))

    reader.watches.was_read(ref, old, begun)  # an answer that was long on its way

    assert not reader.watches.is_current(ref, old)
    assert reader.knows(spaces[0])


async def test_where_only_names_are_granted_they_are_shared_until_more_is_granted(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    cluster.by_name_only = {("configmaps", "")}
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces)
    await eventually(lambda: len(reader.scopes()) == watches.ALL_REFERENCE_WATCHES)
    await eventually(lambda: reader.knows(*spaces[:6]))
    assert not reader.knows(spaces[6]), "it has no watch, so it is read at each poll"
    assert reader.watches.count() == {"all": 0, "name": 6, "namespace": 0, "poll": 4}
    asked = cluster.reviews
    await eventually(lambda: cluster.reviews >= asked + 2, "it is asked for again and again")
    assert wide_lists(cluster) == [], "what isn't granted isn't tried"

    edit(spaces[9])  # while nobody looks
    cluster.by_name_only = set()

    await eventually(lambda: reader.scopes() == {ALL})
    await eventually(lambda: reader.knows(*spaces))


async def test_a_wide_watch_that_is_refused_is_replaced_by_names(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    spaces = teams(6)
    edit(*spaces)
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))

    cluster.by_name_only = {("configmaps", "")}
    cluster.cut_watches()

    await eventually(lambda: len(reader.scopes()) == 6 and ALL not in reader.scopes())
    edit(*spaces)
    await eventually(lambda: reader.knows(*spaces))


async def test_a_watch_that_another_has_opened_is_joined_and_used_at_once(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    """As of an object at the target of a copy, which is watched by its name, too."""
    edit("team")
    spec = WatchSpec(CONFIGMAPS, "team", None, "values", True, decode=seen, reserved=True)
    other = reader.pool.acquire(spec, lambda *_: None)
    await eventually(lambda: other.seen)

    reader.follow("team")
    await eventually(lambda: reader.knows("team"))
    edit("team")
    await eventually(lambda: reader.knows("team"))
    assert len(cluster.of("watch")) == 1


async def test_one_namespaces_many_leave_the_others_their_watches(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    cluster.by_name_only = {("configmaps", ""), ("configmaps", "crowd")}
    for number in range(20):
        edit("crowd", name=f"values-{number:02}")
        reader.follow("crowd", name=f"values-{number:02}")
    await eventually(lambda: len(reader.scopes()) == watches.REFERENCE_WATCHES)
    spaces = teams(5)
    edit(*spaces)
    reader.follow(*spaces)
    await eventually(lambda: reader.knows(*spaces))
    # Watches that give way are closed after those that replace them have listed.
    await eventually(lambda: len(reader.scopes()) == watches.ALL_REFERENCE_WATCHES)


async def test_no_edit_is_lost_while_scopes_change(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    """Edits, deletions and changes of scope at random, with lists that take their time."""
    choose = random.Random(17)
    spaces = teams(12)
    seen = set[int]()

    async def slow_list(request: Any) -> Any:
        answer = await cluster.serve(request)
        await asyncio.sleep(choose.random() * 0.03)
        return answer

    cluster.always("list", cast("Answer", slow_list))
    followed = set[str]()
    for _ in range(40):
        count = choose.choice([1, 3, 4, 5, 8, 12])
        for namespace in spaces[:count]:
            if namespace not in followed:
                reader.follow(namespace)
        reader.leave(*(followed - set(spaces[:count])))
        followed = set(spaces[:count])
        if choose.random() < 0.2:
            cluster.by_name_only = set() if cluster.by_name_only else {("configmaps", "")}
        for _ in range(choose.randrange(6)):
            namespace = choose.choice(spaces[:count])
            if choose.random() < 0.2 and version_of(cluster, namespace):
                cluster.gone("configmaps", namespace, "values")
            else:
                edit(namespace)
            await asyncio.sleep(choose.random() * 0.02)
        seen.add(len(reader.scopes()))
        if choose.random() < 0.3:
            cluster.by_name_only = set()
            now = tuple(followed)
            await eventually(lambda now=now: reader.knows(*now), f"{now} are known")
    assert len(seen) > 3, "scopes did change"


async def test_an_operator_of_some_namespaces_watches_these_and_no_others(
    cluster: BundleCluster, edit: Callable[..., None]
) -> None:
    spaces = teams(8)
    for namespace in spaces:
        cluster.namespace(namespace)
    edit(*spaces)
    reader = Reader(cluster, *spaces)
    try:
        reader.follow(*spaces)
        await eventually(lambda: reader.scopes() == {WatchScope(CONFIGMAPS, one) for one in spaces})
        await eventually(lambda: reader.knows(*spaces))
        edit(*spaces)
        edit(spaces[0], name="of-nobody")
        await eventually(lambda: reader.knows(*spaces))
        assert sum(status.objects for status in reader.pool.statuses()) == 2 * len(spaces)
    finally:
        await reader.close()
    assert wide_lists(cluster) == []


async def test_what_nobody_names_is_not_held(
    cluster: BundleCluster, reader: Reader, edit: Callable[..., None]
) -> None:
    """And nobody is called for that."""
    for number in range(20):
        edit("strangers", name=f"other-{number}")
    spaces = teams(10)
    edit(*spaces)
    reader.follow(*spaces)
    await eventually(lambda: reader.scopes() == {ALL} and reader.knows(*spaces))
    called = list[BundleKey]()
    await eventually(reader.calls.empty)
    reader.calls.put_nowait = called.append  # type: ignore[method-assign]

    edit(spaces[3])
    edit("strangers", name="other-1")
    edit(spaces[5], name="of-nobody")
    reader.leave(spaces[9])
    edit(spaces[9], spaces[7])

    await eventually(lambda: len(called) >= 2)
    assert [key.namespace for key in called] == [spaces[3], spaces[7]]
    (status,) = reader.pool.statuses()
    assert status.objects == 9


def wide_lists(cluster: BundleCluster) -> list[Any]:
    path = path_of("configmaps").replace("/namespaces/team", "")
    return [seen for seen in cluster.of("list") if seen.path == path]
