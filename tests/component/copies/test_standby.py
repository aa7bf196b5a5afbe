"""The copy job of a replica that stands by: it watches, writes nothing, and is warm."""

from tests.component.copies.conftest import HOME, Operator, synced
from tests.component.kube.fake_api import until

from copyrator.copies.timing import CopyTiming

KEY = f"/api/v1/namespaces/{HOME}/secrets/copyrator-hash-key"


def watches_copies(operator):
    return any(spec.label_selector for spec in operator.pool.specs())


async def test_a_standby_watches_and_writes_nothing_not_even_the_hash_key(cluster):
    standby = Operator(cluster)
    await standby.controller.prepare()
    await until(lambda: standby.namespaces.get(HOME))
    assert KEY not in cluster.objects
    assert {seen.verb for seen in cluster.seen} <= {"get", "list", "watch"}
    await standby.stop()


async def test_a_standby_watches_the_copies_as_soon_as_there_is_a_hash_key(cluster, operator):
    key = cluster.objects[KEY]
    cluster.drop(KEY)
    standby = Operator(cluster, timing=CopyTiming(health=0.01, stale=0.0))
    await standby.controller.prepare()
    assert not watches_copies(standby)
    cluster.write(KEY, key)
    await until(lambda: watches_copies(standby))
    await standby.stop()


async def test_a_hash_key_that_changed_meanwhile_is_taken_over_and_no_copy_written(
    cluster, operator
):
    await synced(cluster, "team")
    await operator.stop()
    standby = Operator(cluster)
    await standby.controller.prepare()
    cluster.drop(KEY)
    leader = Operator(cluster)
    await leader.start()  # makes another key, and stamps the copy anew
    await leader.settled()
    await leader.stop()
    before = len(cluster.seen)
    await standby.start()
    await standby.settled()
    assert {seen.verb for seen in cluster.seen[before:]} <= {"get", "list", "watch"}
    await standby.stop()
