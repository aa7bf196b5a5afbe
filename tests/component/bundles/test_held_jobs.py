"""Jobs whose pods containers of others keep running, and those that a queue lets wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.component.bundles.fake_cluster import RUNNING, BundleCluster, path_of, succeed
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually

from copyrator.api.text import format_time
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.job_client import GRACE_OF_OTHERS
from copyrator.bundles.jobs.pod import LONG_TTL

ENDED = "operator.werf.dev/werf-ended"
DEPLOYED = '{"status": "deployed", "revision": 3}'


@pytest.fixture
def timing() -> BundleTiming:
    """Only the watch tells: pods are looked at after a minute."""
    return replace(TIMING, uninstall_retry=2.0, job_blocked=60.0, uninstall_recheck=60.0)


def hold(cluster: BundleCluster, job: str, code: int = 0, message: str = DEPLOYED) -> None:
    """Let werf end in a pod that another container keeps running."""
    body = cluster.objects[path_of("jobs", job)]
    cluster.put_pod(body, RUNNING)
    ended = {"exitCode": code, "message": message, "finishedAt": format_time(datetime.now(UTC))}
    statuses = [
        {"name": "werf", "state": {"terminated": ended}},
        {"name": "proxy", "state": {"running": {}}},
    ]
    labels = body["spec"]["template"]["metadata"]["labels"]
    status = {"phase": "Running", "containerStatuses": statuses}
    cluster.change("pods", f"{job}-pod", metadata={"labels": labels}, status=status)


def patches(cluster: BundleCluster, job: str) -> list[Any]:
    return [
        seen.body
        for seen in cluster.seen
        if (seen.verb, seen.path) == ("patch", path_of("jobs", job))
    ]


def lists_of_pods(cluster: BundleCluster, job: str) -> int:
    uid = cluster.objects[path_of("jobs", job)]["metadata"]["uid"]
    return sum(uid in str(seen.params.get("labelSelector")) for seen in cluster.seen)


@pytest.fixture
async def running(cluster: BundleCluster, run: Run, bundle: Make) -> str:
    """The name of the Job of a deploy that runs."""
    cluster.ends, cluster.pods = None, RUNNING
    bundle()
    await run()
    await eventually(lambda: cluster.runs)
    return cluster.runs[0]


async def test_a_held_deploy_costs_as_many_requests_as_another_one(
    cluster: BundleCluster, running: str, bundle: Make
) -> None:
    bundle("other")
    await eventually(lambda: len(cluster.runs) == 2)
    hold(cluster, running)
    cluster.end_job(cluster.runs[1], 0, DEPLOYED)
    await eventually(lambda: cluster.reason("other") == "Deployed", cluster.message())
    await eventually(lambda: patches(cluster, cluster.runs[1]))
    await eventually(lambda: cluster.reason() == "Deployed", cluster.message())
    assert cluster.status()["deployed"]["revision"] == 3

    await eventually(lambda: patches(cluster, running))
    (patch,) = patches(cluster, running)
    assert patch["spec"]["ttlSecondsAfterFinished"] < LONG_TTL
    assert patch["spec"]["activeDeadlineSeconds"] >= GRACE_OF_OTHERS
    assert ENDED in patch["metadata"]["annotations"]
    cluster.change("bundles", "shop", spec={"interval": "20s"})
    await eventually(lambda: cluster.status()["observedGeneration"] == 2)
    cluster.change("jobs", running, status={"conditions": [{"type": "Failed", "status": "True"}]})
    cluster.change("bundles", "shop", spec={"interval": "30s"})
    await eventually(lambda: cluster.status()["observedGeneration"] == 3)
    assert len(patches(cluster, running)) == 1
    assert lists_of_pods(cluster, running) == lists_of_pods(cluster, cluster.runs[1])
    assert len(cluster.runs) == 2


async def test_without_the_right_to_watch_pods_the_end_is_found_when_the_pod_is_looked_at(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    for verb in ("list", "watch"):
        cluster.refuse(verb, "/api/v1/pods", 403)
    cluster.ends, cluster.pods = None, RUNNING
    bundle()
    await run(timing=replace(TIMING, job_blocked=0.1, job_recheck=0.1))
    await eventually(lambda: cluster.runs)
    hold(cluster, cluster.runs[0])
    await eventually(lambda: cluster.reason() == "Deployed", cluster.message())


async def test_a_held_uninstall_that_failed_says_why_until_the_next_one(
    cluster: BundleCluster, running: str
) -> None:
    hold(cluster, running)
    await eventually(lambda: cluster.reason() == "Deployed")
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.jobs("uninstall"))
    first = cluster.jobs("uninstall")[0]["metadata"]["name"]
    hold(cluster, first, 1, "Error: no such release storage")
    await eventually(lambda: "no such release storage" in cluster.message(), cluster.message())
    assert cluster.reason() == "UninstallFailed"
    (patch,) = patches(cluster, first)
    assert list(patch["spec"]) == ["activeDeadlineSeconds"]
    kept = patch["spec"]["activeDeadlineSeconds"]
    assert kept >= LONG_TTL

    await eventually(lambda: len(cluster.jobs("uninstall")) == 2)
    ending = patches(cluster, first)[1]["spec"]["activeDeadlineSeconds"]
    assert GRACE_OF_OTHERS <= ending < kept - LONG_TTL / 2
    second = cluster.jobs("uninstall")[1]["metadata"]["name"]
    hold(cluster, second, 0, "")
    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


async def test_a_queued_job_that_is_given_up_gets_no_pod_when_it_is_resumed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = cluster.pods = None
    bundle()
    await run()
    await eventually(lambda: cluster.runs)
    job = cluster.runs[0]
    cluster.change("jobs", job, spec={"suspend": True})
    await eventually(lambda: "suspended by a queue" in cluster.message(), cluster.message())
    assert cluster.reason() == "Deploying"

    cluster.change("bundles", "shop", spec={"interval": "20s"})
    await eventually(lambda: patches(cluster, job), cluster.message())
    (patch,) = patches(cluster, job)
    assert patch["spec"] == {"activeDeadlineSeconds": 1, "parallelism": 0, "suspend": False}
    cluster.end_without_pod(job)
    await eventually(lambda: len(cluster.runs) == 2, cluster.message())


async def test_a_held_job_that_a_queue_takes_back_does_not_run_werf_again(
    cluster: BundleCluster, running: str
) -> None:
    hold(cluster, running)
    await eventually(lambda: patches(cluster, running))
    cluster.drop(path_of("pods", f"{running}-pod"))
    cluster.change("jobs", running, spec={"suspend": True})
    await eventually(lambda: len(patches(cluster, running)) == 2)
    spec = patches(cluster, running)[1]["spec"]
    assert spec == {"activeDeadlineSeconds": 1, "parallelism": 0, "suspend": False}
    assert cluster.reason() == "Deployed"


async def test_a_success_counts_though_the_pod_is_deleted_before_it_was_read(
    cluster: BundleCluster, running: str
) -> None:
    hold(cluster, running)
    cluster.drop(path_of("pods", f"{running}-pod"))
    await eventually(lambda: cluster.reason() == "Deployed", cluster.message())
    assert len(cluster.runs) == 1


async def test_a_job_that_may_not_be_changed_keeps_no_bundle_from_its_next_deploy(
    cluster: BundleCluster, running: str
) -> None:
    denied = 'admission webhook "policy.example.com" denied the request: Jobs may not be changed'
    cluster.refuse("patch", f"/jobs/{running}", 403, denied)
    cluster.ends = succeed
    cluster.end_job(running, 0, DEPLOYED)
    await eventually(lambda: cluster.status().get("deployed"))
    cluster.change("bundles", "shop", spec={"releasesHistoryMax": 3})
    await eventually(lambda: len(cluster.runs) == 2, "another deploy", 20.0)
