"""A copy's key names its cluster, and everything below the key is that cluster's."""

import time
from collections.abc import AsyncIterator

import pytest
from tests.component.copies.conftest import HOME, Operator, by_name, rule_body, serving
from tests.component.copies.fake_cluster import FakeCluster, path_of
from tests.component.kube.fake_api import until

from copyrator.copies.context import ClusterContext
from copyrator.copies.targets.kinds import Kinds
from copyrator.copies.targets.namespaces import NamespaceReader, Namespaces
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.connection import Connection, Endpoint
from copyrator.kube.resources import NAMESPACES, Discovery
from copyrator.kube.watch.informers import InformerFactory, WatchSpec


@pytest.fixture
async def other() -> AsyncIterator[FakeCluster]:
    async with serving(FakeCluster()) as fake:
        yield fake


@pytest.fixture
async def remote(operator: Operator, other: FakeCluster) -> AsyncIterator[ClusterContext]:
    """The other cluster, as the operator knows it: its namespace "team", and its ConfigMaps."""
    client = KubeClient(Connection(Endpoint(host=other.url)))
    pool = InformerFactory(client)
    context = operator.controller._context
    remote = ClusterContext(
        name="remote",
        client=client,
        informers=pool,
        discovery=Discovery(client),
        namespaces=Namespaces(),
        monotonic=time.monotonic,
        requeue=operator.queue.add_after,
        sealer=context.home.sealer,
    )
    other.namespace("team")
    spec = WatchSpec(resource=NAMESPACES, metadata_only=True, decode=NamespaceReader())
    remote.namespace_watch = pool.acquire(spec, lambda _name, _old, new: remote.namespaces.put(new))
    await until(lambda: remote.namespace_watch.synced)
    context.clusters[remote.name] = remote
    kinds = Kinds(context, remote)
    view = kinds.watch(await remote.discovery.resolve("ConfigMap", "v1"))
    await until(lambda: view.registration.synced)
    yield remote
    kinds.forget()
    await pool.close()
    await client.close()


async def test_a_copy_is_made_healed_and_deleted_in_the_cluster_of_its_key(
    cluster: FakeCluster, other: FakeCluster, operator: Operator, remote: ClusterContext
) -> None:
    cluster.namespace("team")
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    cluster.write(path_of("copyrators", HOME, "app"), rule_body("app", by_name("app")))
    await until(lambda: cluster.found("configmaps", "team", "app"), "the copy at home")
    assert other.found("configmaps", "team", "app") is None
    home = cluster.writes("configmaps")

    operator.queue.add(remote.key("configmaps", "team", "app"))
    await until(lambda: other.found("configmaps", "team", "app"), "the copy there")
    other.gone("configmaps", "team", "app")
    await until(lambda: other.found("configmaps", "team", "app"), "it is healed by its own watch")

    cluster.gone("copyrators", HOME, "app")
    await until(lambda: not cluster.found("copyrators", HOME, "app"), "the rule is gone")
    assert other.found("configmaps", "team", "app") is None
    assert [verb for verb, _ in cluster.writes("configmaps")[len(home) :]] == ["delete"]
