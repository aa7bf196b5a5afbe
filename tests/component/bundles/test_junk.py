"""Bundles, their status, Secrets, values, Jobs, reports and registries gone bad: others go on."""

import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from tests.component.bundles.fake_cluster import succeed
from tests.component.bundles.malformed import BAD
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import merge
from tests.component.oci.fake_registry import FakeRegistry
from tests.junk import LIVING, complaints
from tests.long import LONG

pytestmark = pytest.mark.timeout(3600 if LONG else 300)

numbers = itertools.count()


@pytest.fixture
async def evil() -> AsyncIterator[FakeRegistry]:
    registry = FakeRegistry()
    await registry.start()
    yield registry
    await registry.stop()


@LIVING
@given(bad=BAD)
async def test_nothing_bad_delays_a_good_bundle(cluster, registry, evil, run, bundle, caplog, bad):
    number = next(numbers)
    if number == 0:
        cluster.operator = await run()
        cluster.left = []
        bundle("good")

    def ends(job):
        return succeed(job) if job["metadata"]["name"].startswith("good-") else bad.ending

    cluster.ends = ends
    paths = bad.begin(cluster, evil)
    digest = registry.put("app", "1.0.0", f"{number}")
    wish = {"annotations": {"operator.werf.dev/requestedAt": f"{number}"}}
    cluster.change("bundles", "good", metadata=wish)

    def deployed() -> bool:
        return cluster.status("good").get("deploy", {}).get("digest") == digest

    await eventually(deployed, "the good Bundle is deployed")
    for path in cluster.left:  # what couldn't be uninstalled may go now
        if path in cluster.objects and "/bundles/" in path:
            marks = {"annotations": {"operator.werf.dev/force-delete": "true"}}
            cluster.write(path, merge(cluster.objects[path], {"metadata": marks}))
    for path in paths:
        if path in cluster.objects:
            cluster.drop(path)
    cluster.left = paths
    assert complaints(caplog) == []
    assert cluster.operator.workers.restarts == 0
