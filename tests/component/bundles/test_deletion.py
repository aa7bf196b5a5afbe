"""Bundles that go: uninstalled, or let go with a word about what stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.component.bundles.conftest import Operator, eventually
from tests.component.bundles.fake_cluster import BundleCluster, path_of, succeed

Run = Callable[..., Any]
Make = Callable[..., dict[str, Any]]


async def deployed(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.reason() == "Deployed")


def delete(cluster: BundleCluster) -> None:
    cluster.drop(path_of("bundles", "shop"))


async def gone(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


def orphaned(operator: Operator) -> float:
    samples = operator.metrics.orphaned_releases.collect()[0].samples
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))


async def test_uninstalls_and_goes(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    operator = await run()
    bundle()
    await deployed(cluster)

    delete(cluster)

    await gone(cluster)
    (job,) = cluster.jobs("uninstall")
    assert "ownerReferences" not in job["metadata"]
    assert job["spec"]["ttlSecondsAfterFinished"] == 120
    assert orphaned(operator) == 0


async def test_waits_for_a_deploy_that_runs(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    cluster.ends = None
    await run()
    bundle()
    await eventually(lambda: cluster.runs)

    delete(cluster)
    await eventually(lambda: cluster.reason() == "Uninstalling")
    await asyncio.sleep(0.3)
    assert cluster.jobs("uninstall") == []

    cluster.ends = succeed
    cluster.end_job(cluster.runs[0])
    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 1


async def test_says_why_an_uninstall_failed_and_tries_again(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: Any
) -> None:
    monkeypatch.setattr("copyrator.reconcile.bundle_deletion._FIRST_RETRY", 0.5)
    await run()
    bundle()
    await deployed(cluster)
    cluster.ends = lambda _: (1, "Error: no rights")

    delete(cluster)
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "force-delete" in cluster.message()

    cluster.ends = succeed
    await gone(cluster)
    assert len(cluster.jobs("uninstall")) >= 2


@pytest.mark.parametrize("how", ["policy", "annotation"])
async def test_lets_go_without_uninstalling(
    cluster: BundleCluster, run: Run, bundle: Make, how: str
) -> None:
    operator = await run()
    bundle(**({"deletionPolicy": "Orphan"} if how == "policy" else {}))
    await deployed(cluster)

    if how == "annotation":
        annotations = {"operator.werf.dev/force-delete": "true"}
        cluster.change("bundles", "shop", metadata={"annotations": annotations})
    delete(cluster)

    await gone(cluster)
    assert cluster.jobs("uninstall") == []
    assert orphaned(operator) == 1


async def test_force_delete_frees_a_bundle_that_hangs(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run()
    bundle()
    await deployed(cluster)
    cluster.drop(path_of("serviceaccounts", "werf"))
    delete(cluster)
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "ServiceAccount team/werf" in cluster.message()

    annotations = {"operator.werf.dev/force-delete": "true"}
    cluster.change("bundles", "shop", metadata={"annotations": annotations})

    await gone(cluster)


async def test_a_namespace_that_goes_is_not_held_up(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle()
    await deployed(cluster)

    namespace = "/api/v1/namespaces/team"
    body = cluster.objects[namespace]
    body["metadata"]["finalizers"] = ["kubernetes"]
    cluster.drop(namespace)
    delete(cluster)

    await gone(cluster)
    assert cluster.jobs("uninstall") == []
    assert orphaned(operator) == 1


async def test_a_bundle_that_never_deployed_goes_at_once(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle(version="9.9.9")
    await eventually(lambda: cluster.reason() == "TagNotFound")

    delete(cluster)

    await gone(cluster)
    assert cluster.runs == []
    assert orphaned(operator) == 0


async def test_a_bundle_with_a_broken_spec_is_uninstalled_where_it_was_deployed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run()
    bundle(project_namespace="prod")
    await deployed(cluster)
    cluster.change("bundles", "shop", spec={"registry": "https://broken"})
    await eventually(lambda: cluster.reason() == "InvalidSpec")

    delete(cluster)

    await gone(cluster)
    (job,) = cluster.jobs("uninstall")
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "WERF_NAMESPACE", "value": "prod"} in env


async def test_a_deletion_while_the_operator_was_down_is_caught_up_with(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle()
    await deployed(cluster)
    await operator.stop()

    delete(cluster)
    await run()

    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 1


async def test_an_uninstall_waits_for_its_service_account_and_says_so(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.reconcile.bundle_deletion._LOOK_AGAIN", 0.1)
    await run()
    bundle()
    await deployed(cluster)
    cluster.drop(path_of("serviceaccounts", "werf"))

    delete(cluster)

    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "ServiceAccount team/werf" in cluster.message()
    assert cluster.jobs("uninstall") == []

    cluster.put_object("serviceaccounts", "werf")
    await gone(cluster)
    assert len(cluster.runs) == 2
