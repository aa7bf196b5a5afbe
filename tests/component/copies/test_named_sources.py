"""Many rules that name their sources in one namespace share a watch, and read what changed."""

from collections import Counter

from tests.component.copies.conftest import HOME, by_name, make_rule, reason
from tests.component.kube.fake_api import error, until

from copyrator.copies.sources.watches import ALONE

MANY = 12
ONE_TARGET = {"targets": {"namespaces": ["team"]}}


def names_of(many=MANY):
    return [f"app-{number:02}" for number in range(many)]


async def served(cluster, many=MANY):
    """A rule for each of many sources, and their copies."""
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "nobodys", data={})
    for name in names_of(many):
        cluster.object("configmaps", HOME, name, data={"of": name})
        make_rule(cluster, name, by_name(name, **ONE_TARGET))
    for name in names_of(many):
        await until(lambda name=name: reason(cluster, name) == "Synced", f"{name} is synced")


def copy(cluster, name):
    found = cluster.found("configmaps", "team", name)
    return found and found["data"]


def source_watches(operator):
    return [s for s in operator.pool.specs() if s.namespace == HOME]


async def test_the_number_of_watches_is_bounded(cluster, operator):
    await served(cluster)
    watches = source_watches(operator)
    assert len([w for w in watches if w.name]) == ALONE
    (shared,) = [w for w in watches if not w.name]
    assert shared.metadata_only
    operator.pool.metrics = operator.metrics
    operator.pool.publish()
    labels = {"resource": "configmaps"}
    value = operator.metrics.registry.get_sample_value("copyrator_watches", labels)
    assert value == ALONE + 1 + 1, "and the watch of our copies"


async def test_only_what_changed_is_read(cluster, operator):
    await served(cluster)
    reads = Counter(s.path.rsplit("/", 1)[-1] for s in cluster.of("get"))
    read = {name: count for name, count in reads.items() if name.startswith("app-")}
    assert set(read.values()) == {1}
    assert len(read) == MANY
    last = names_of()[-1]
    cluster.seen.clear()
    cluster.object("configmaps", HOME, "nobodys", data={"changed": "yes"})
    cluster.object("configmaps", HOME, last, data={"of": "newer"})
    await until(lambda: copy(cluster, last) == {"of": "newer"})
    await operator.settled()
    assert [s.path.rsplit("/", 1)[-1] for s in cluster.of("get")] == [last]
    assert [verb for verb, _ in cluster.writes("configmaps")] == ["update"]


async def test_sources_of_a_shared_watch_come_go_and_come_back(cluster, operator):
    await served(cluster)
    last = names_of()[-1]
    cluster.gone("configmaps", HOME, last)
    await until(lambda: copy(cluster, last) is None)
    await until(lambda: reason(cluster, last) == "SourceNotFound")
    cluster.object("configmaps", HOME, last, data={"of": "again"})
    await until(lambda: copy(cluster, last) == {"of": "again"})
    await until(lambda: reason(cluster, last) == "Synced")


async def test_a_source_that_cannot_be_read_now_is_not_gone(cluster, operator):
    await served(cluster)
    last = names_of()[-1]
    cluster.always("get", error(403, "Forbidden"))
    cluster.object("configmaps", HOME, last, data={"of": "newer"})
    await until(lambda: len([s for s in cluster.of("get") if s.path.endswith(last)]) > 2)
    assert copy(cluster, last) == {"of": last}
    assert [s for s in cluster.of("delete") if "/configmaps/" in s.path] == []
    cluster.behave()
    await until(lambda: copy(cluster, last) == {"of": "newer"})


async def test_the_shared_watch_ends_with_its_last_rule(cluster, operator):
    await served(cluster)
    for name in names_of():
        cluster.gone("copyrators", HOME, name)
    await until(lambda: source_watches(operator) == [], "no watch is left")
