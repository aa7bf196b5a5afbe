"""ConfigMaps and Secrets that Bundles name: watched by name, and not too many of them."""

from __future__ import annotations

import pytest
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually


def edit(cluster: BundleCluster, name: str) -> None:
    cluster.change("configmaps", name, data={"a.yaml": "a: 2"})


def deploys(cluster: BundleCluster, name: str) -> int:
    return len(cluster.status(name).get("history", []))


@pytest.fixture
def one_watch(cluster: BundleCluster, bundle: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("copyrator.bundles.engine.references.REFERENCE_WATCHES", 1)
    for name in ("shared", "own"):
        cluster.put_object("configmaps", name, data={"a.yaml": "a: 1"})
    bundle("one", values="shared")


@pytest.mark.usefixtures("one_watch")
async def test_an_object_beyond_the_limit_is_read_at_each_poll(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run(timer_interval=1.0)
    await eventually(lambda: deploys(cluster, "one") == 1)
    bundle("two", values="own")
    await eventually(lambda: deploys(cluster, "two") == 1)

    edit(cluster, "own")

    await eventually(lambda: deploys(cluster, "two") == 2)
