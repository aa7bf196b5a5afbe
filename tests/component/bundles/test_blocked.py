"""Jobs that can't start: why, and that they go on when they can."""

from __future__ import annotations

import pytest
from tests.component.bundles.approvals import idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import RUNNING, WAITING, BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually


@pytest.fixture
async def stuck(cluster: BundleCluster, run: Run, bundle: Make) -> Operator:
    """A Bundle whose Job's pod never gets beyond ContainerCreating."""
    cluster.ends, cluster.pods = None, WAITING
    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    bundle(values="values")
    operator: Operator = await run()
    await eventually(lambda: cluster.runs and cluster.reason() == "Deploying")
    return operator


@pytest.mark.usefixtures("stuck")
async def test_values_that_vanish_before_the_pod_starts_are_missed_until_they_are_back(
    cluster: BundleCluster,
) -> None:
    cluster.drop(path_of("configmaps", "values"))
    await eventually(lambda: cluster.reason() == "ValuesMissing", cluster.message())
    assert "ConfigMap team/values" in cluster.message()
    assert cluster.status()["attempted"]["outcome"] == "Running"

    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    await eventually(lambda: cluster.reason() == "Deploying", cluster.message())
    cluster.end_job(cluster.runs[0])

    await eventually(lambda: cluster.reason() == "Deployed")
    assert len(cluster.runs) == 1


@pytest.mark.usefixtures("stuck")
async def test_values_that_vanish_after_the_start_change_nothing_for_the_job(
    cluster: BundleCluster,
) -> None:
    cluster.put_pod(cluster.jobs()[0], RUNNING)
    cluster.drop(path_of("configmaps", "values"))
    cluster.end_job(cluster.runs[0])

    await eventually(lambda: cluster.status().get("deploy"))
    await eventually(lambda: cluster.reason() == "ValuesMissing")
    assert "stays deployed" in cluster.message()


async def test_a_job_that_may_have_no_pod_says_where_to_look(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = cluster.pods = None
    bundle()
    await run()

    await eventually(lambda: cluster.reason() == "JobUnschedulable")
    assert f"kubectl -n team describe job {cluster.runs[0]}" in cluster.message()
    cluster.drop(path_of("serviceaccounts", "werf"))
    cluster.change("bundles", "shop", metadata={"labels": {"any": "event"}})
    await eventually(lambda: cluster.reason() == "ServiceAccountMissing")


async def test_a_job_that_is_ended_for_an_edited_spec_is_not_reported_without_a_pod(
    cluster: BundleCluster, stuck: Operator
) -> None:
    cluster.drop(path_of("configmaps", "values"))
    await eventually(lambda: cluster.reason() == "ValuesMissing", cluster.message())
    cluster.change("bundles", "shop", spec={"values": None})
    await eventually(lambda: cluster.jobs()[0]["spec"]["activeDeadlineSeconds"] == 1)
    written = len(cluster.statuses["shop"])

    cluster.drop(path_of("pods", f"{cluster.runs[0]}-pod"))
    for number in range(5):
        cluster.change("bundles", "shop", metadata={"labels": {"any": f"event-{number}"}})
        await idle(stuck)

    assert len(cluster.statuses["shop"]) == written
    assert cluster.reason() == "ValuesMissing"
