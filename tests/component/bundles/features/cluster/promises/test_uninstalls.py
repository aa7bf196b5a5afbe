"""An uninstall goes to the cluster that has the release."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    deployed,
    idle,
)
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, fail, path_of
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.kubeconfigs import SERVER, kubeconfig_data

KUBE_CONFIG = {"secretName": "other"}

THIRD = "https://third.example.com:6443"


def server_of(cluster: BundleCluster, werf: Werf, job: dict[str, Any]) -> str:
    """The API server that a Job goes to, by its kubeconfig; empty for the operator's own."""
    paths = [one for one in container(job)["command"] if one.endswith("kubeconfig/kubeconfig")]
    if not paths:
        assert "automountServiceAccountToken" not in job["spec"]["template"]["spec"]
        return ""
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    found = json.loads(werf.mounted(job, paths[0]))
    return str(found["clusters"][0]["cluster"]["server"])


def forget_it(cluster: BundleCluster) -> None:
    cluster.change("bundles", "shop", spec={"kubeConfig": None})


def other_server(cluster: BundleCluster) -> None:
    cluster.change("secrets", "other", data=kubeconfig_data(THIRD))


def other_secret(cluster: BundleCluster) -> None:
    cluster.put_object("secrets", "third", data=kubeconfig_data(THIRD))
    cluster.change("bundles", "shop", spec={"kubeConfig": {"secretName": "third"}})


def no_secret(cluster: BundleCluster) -> None:
    cluster.drop(path_of("secrets", "other", TEAM))


CHANGES = {
    "the spec names no kubeconfig any more": forget_it,
    "the kubeconfig names another server": other_server,
    "the spec names another kubeconfig": other_secret,
    "the kubeconfig is gone": no_secret,
}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "by the next process"])
@pytest.mark.parametrize("how", CHANGES)
async def test_an_uninstall_goes_to_the_server_that_the_release_went_to_or_nowhere(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, how: str, restarted: bool
) -> None:
    cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER))
    bundle(kubeConfig=KUBE_CONFIG)
    operator = await run(timer_interval=1e9)
    await deployed(cluster)
    werf.holds_deploys = True
    if restarted:
        await operator.stop()

    CHANGES[how](cluster)
    cluster.drop(path_of("bundles", "shop"))
    if restarted:
        operator = await run(timer_interval=1e9)

    await eventually(lambda: cluster.reason() == "UninstallFailed", cluster.message())
    await idle(operator)
    operator.let_pass(timedelta(minutes=10))
    await idle(operator)
    assert cluster.jobs("uninstall") == []

    # Once the kubeconfig is back it goes there.
    if cluster.look("secrets", "other") is None:
        cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER))
    cluster.change("secrets", "other", data=kubeconfig_data(SERVER))
    cluster.change("bundles", "shop", spec={"kubeConfig": KUBE_CONFIG})
    await idle(operator)
    operator.let_pass(timedelta(minutes=10))
    (job,) = await eventually(lambda: cluster.jobs("uninstall"))
    await eventually(lambda: cluster.look("secrets", f"{job['metadata']['name']}-kubeconfig"))
    assert server_of(cluster, werf, job) == SERVER


@pytest.mark.parametrize("restarted", [False, True], ids=["", "by the next process"])
async def test_a_release_in_this_cluster_is_uninstalled_here_whatever_the_spec_names_by_now(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, restarted: bool
) -> None:
    bundle()
    operator = await run()
    await deployed(cluster)
    werf.holds_deploys = True
    if restarted:
        await operator.stop()
    cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER))
    cluster.change("bundles", "shop", spec={"kubeConfig": KUBE_CONFIG})
    cluster.drop(path_of("bundles", "shop"))
    if restarted:
        await run()

    (job,) = await eventually(lambda: cluster.jobs("uninstall"))

    assert server_of(cluster, werf, job) == ""


async def test_a_failed_deploys_release_is_uninstalled_from_the_server_that_it_went_to(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.put_object("secrets", "other", data=kubeconfig_data(SERVER))
    werf.ends = fail
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0})
    operator = await run(timer_interval=1e9)
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")
    werf.holds_deploys = True
    forget_it(cluster)
    cluster.drop(path_of("bundles", "shop"))

    await eventually(lambda: cluster.reason() == "UninstallFailed", cluster.message())

    await idle(operator)
    assert cluster.jobs("uninstall") == []
