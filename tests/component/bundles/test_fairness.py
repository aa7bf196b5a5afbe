"""One namespace's Bundles, however many and however slow, hold up no other's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from aiohttp import web
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import hang
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.references import REFERENCE_WATCHES
from copyrator.bundles.engine.registry import (
    TENANT_HOST_POLLS,
    TENANT_POLLS,
    RegistryPoller,
    TagListQuery,
    TagQuery,
)
from copyrator.bundles.tags import Criteria
from copyrator.metrics import Metrics
from copyrator.oci.exchange import Repository
from copyrator.workqueue.fairness import tenant

NOW = datetime(2026, 1, 1, tzinfo=UTC)

if TYPE_CHECKING:
    from copyrator.bundles.engine.context import Context


CROWD = "crowd"
PATIENT = 600.0
"""Seconds for an answer, where a registry is to have queries open for the length of a test."""


@pytest.fixture
async def slow() -> AsyncIterator[FakeRegistry]:
    """A registry that doesn't answer until its gate is open."""
    registry = FakeRegistry()
    await registry.start()
    registry.gate = asyncio.Event()
    yield registry
    registry.gate.set()
    await registry.stop()


def crowd_bundle(cluster: BundleCluster, name: str, host: str, **spec: Any) -> None:
    spec = {"registry": host, "repo": name, "version": "1.0.0", "insecure": True, **spec}
    body = {"metadata": {"name": name, "namespace": CROWD}, "spec": spec}
    cluster.write(path_of("bundles", name, CROWD), body)


async def test_a_namespaces_queries_leave_slots_of_a_registry_to_others(
    cluster: BundleCluster, slow: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace(CROWD)
    for number in range(40):
        crowd_bundle(cluster, f"crowd{number}", slow.host)
    await run(registry_seconds=PATIENT)
    await eventually(lambda: slow.in_flight == TENANT_HOST_POLLS)

    bundle(registry=slow.host, repo="app")

    await eventually(lambda: any("/app/" in path for _, path in slow.asked))
    assert slow.in_flight == TENANT_HOST_POLLS + 1


async def test_a_query_that_waits_in_a_long_line_is_sent_for_who_has_none(
    cluster: BundleCluster, slow: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace(CROWD)
    for number in range(40):
        crowd_bundle(cluster, f"crowd{number:02}", slow.host)
    operator = await run(registry_seconds=PATIENT)
    await eventually(lambda: slow.in_flight == TENANT_HOST_POLLS)
    await idle(operator)  # each has queued its query
    asked = {path for _, path in slow.asked}
    last = next(n for n in range(40) if not any(f"crowd{n:02}/" in path for path in asked))

    bundle(registry=slow.host, repo=f"crowd{last:02}")  # the same query as one that waits

    await eventually(lambda: any(f"crowd{last:02}/" in path for _, path in slow.asked))


class Registries:
    """Stands for a RegistryClient: all hosts but `quick` hang."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.lists_for: list[str | None] = []

    async def tags(self, *_: Any) -> None:
        self.lists_for.append(tenant())

    async def digest(self, repository: Repository, _tag: str, _credential: Any) -> str:
        self.asked.append(repository.registry)
        if repository.registry != "quick":
            await asyncio.Event().wait()
        return "sha256:" + "0" * 64


def poller(oci: Registries, answered: list[BundleKey]) -> RegistryPoller:
    context = SimpleNamespace(
        oci=oci,
        monotonic=lambda: 0.0,
        clock=lambda: NOW,
        metrics=Metrics(),
        timing=BundleTiming(),
        memories=Memories(),
    )
    return RegistryPoller(cast("Context", context), answered.append)


async def test_two_namespaces_with_the_same_query_send_it_once_also_when_both_have_a_slot() -> None:
    oci, answered = Registries(), list[BundleKey]()
    polls, query = poller(oci, answered), TagQuery(Repository("quick", "app"), "1.0.0")
    for namespace in ("one", "two"):
        polls.ask(BundleKey(namespace, "shop"), query, 0.0)

    await eventually(lambda: len(answered) == 2)

    assert len(oci.asked) == 1
    await polls.close()


async def test_a_tag_list_is_read_for_the_namespace_whose_bundle_asks_for_it() -> None:
    oci, answered = Registries(), list[BundleKey]()
    polls, versions = poller(oci, answered), parse_version("1.*")
    assert isinstance(versions, VersionRange)
    for namespace in ("one", "two"):
        listing = TagListQuery(Repository("quick", namespace))
        polls.choose(BundleKey(namespace, "shop"), listing, Criteria(versions), 0.0)

    await eventually(lambda: len(answered) == 2)

    assert sorted(map(str, oci.lists_for)) == ["one", "two"]
    await polls.close()


async def test_a_namespace_with_a_thousand_hosts_delays_no_others_poll() -> None:
    oci, answered = Registries(), list[BundleKey]()
    polls = poller(oci, answered)
    for number in range(1000):
        query = TagQuery(Repository(f"host{number}", "app"), "1.0.0")
        assert polls.ask(BundleKey(CROWD, f"crowd{number}"), query, 0.0) is None
    mine = BundleKey("team", "shop")
    assert polls.ask(mine, TagQuery(Repository("quick", "app"), "1.0.0"), 0.0) is None

    await eventually(lambda: answered == [mine])

    assert len(oci.asked) == TENANT_POLLS + 1
    await polls.close()


async def test_values_that_cannot_be_read_occupy_some_workers_only(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace(CROWD)
    for number in range(40):
        values = [{"kind": "Secret", "name": f"values{number}"}]
        crowd_bundle(cluster, f"crowd{number}", registry.host, valuesFrom=values)

    async def slow_for_the_crowd(request: web.Request) -> web.StreamResponse:
        if f"/namespaces/{CROWD}/secrets/" in request.path:
            return await hang()(request)
        return await cluster.serve(request)

    cluster.always("get", slow_for_the_crowd)
    operator = await run()
    reads = f"/namespaces/{CROWD}/secrets/"
    await eventually(lambda: any(reads in seen.path for seen in cluster.of("get")))

    bundle()

    await eventually(lambda: cluster.reason() == "Deployed")
    assert sum(reads in seen.path for seen in cluster.of("get")) <= 2
    await operator.stop(0.0)


async def test_a_namespaces_references_leave_watches_to_others(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace(CROWD)
    for number in range(REFERENCE_WATCHES + 8):
        name = f"crowd{number}"
        registry.put(name, "1.0.0", "one")
        cluster.write(
            path_of("configmaps", name, CROWD),
            {"metadata": {"name": name, "namespace": CROWD}, "data": {"a.yaml": "b: c"}},
        )
        values = [{"kind": "ConfigMap", "name": name}]
        crowd_bundle(cluster, name, registry.host, valuesFrom=values, suspend=True)
    operator = await run()

    def watched(namespace: str) -> int:
        return sum(spec.namespace == namespace for spec in operator.pool.specs())

    await eventually(lambda: watched(CROWD) == 1)
    cluster.put_object("configmaps", "values", data={"a.yaml": "b: c"})
    bundle(valuesFrom=[{"kind": "ConfigMap", "name": "values"}])
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: watched("team") == 1)
    assert watched(CROWD) == 1
