"""Bundles that go: uninstalled, or let go with a word about what stays behind."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import annotate, idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import (
    RUNNING,
    TEAM,
    BundleCluster,
    fail,
    path_of,
    succeed,
)
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually

PENDING = {"waiting": {"reason": "ImagePullBackOff"}}


async def deployed(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.reason() == "Deployed")


def delete(cluster: BundleCluster) -> None:
    cluster.drop(path_of("bundles", "shop"))


def install(cluster: BundleCluster, release: str = "shop", namespace: str = TEAM) -> None:
    """Let Helm know of a release, by what it goes by."""
    name = f"sh.helm.release.v1.{release}.v1"
    labels = {"owner": "helm", "name": release, "version": "1"}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    cluster.write(path_of("secrets", name, namespace), {"metadata": metadata})


async def gone(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


def orphaned(operator: Operator) -> float:
    samples = operator.metrics.orphaned_releases.collect()[0].samples
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))


@pytest.mark.promise
async def test_what_is_deleted_is_not_deployed_once_more(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Its attempt was recorded, and the Job couldn't be created."""
    cluster.refuse("create", "/jobs", 500, "etcd is away")
    await run()
    bundle()
    await eventually(lambda: cluster.status().get("attempted"), "the attempt")

    delete(cluster)

    await gone(cluster)  # nothing was ever installed, so no Job is needed


async def test_says_nothing_of_the_next_try_of_a_deploy_that_was_lost_meanwhile(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """A foreground deletion takes the Job along."""
    cluster.ends = None
    await run()
    bundle()
    await eventually(lambda: cluster.runs)
    install(cluster)
    told: list[str] = []
    cluster.ends = succeed

    delete(cluster)
    cluster.drop(path_of("jobs", cluster.runs[0]))
    await eventually(lambda: told.append(cluster.reason()) or not cluster.look("bundles", "shop"))

    assert set(told) <= {"Deploying", "Uninstalling", "None"}
    assert len(cluster.jobs("uninstall")) == 1


@pytest.mark.parametrize("blocked", [True, False])
async def test_keeping_the_release_means_letting_a_deploy_finish(
    cluster: BundleCluster, run: Run, bundle: Make, blocked: bool
) -> None:
    """The Job goes with its Bundle, and half an upgrade would stay. One that can't start ends."""
    cluster.ends, cluster.pods = None, PENDING if blocked else RUNNING
    await run()
    bundle(deletionPolicy="Orphan")
    await eventually(lambda: cluster.runs)

    delete(cluster)
    await eventually(lambda: cluster.reason() == "Uninstalling")
    job = cluster.jobs()[0]
    assert (job["spec"]["activeDeadlineSeconds"] == 1) is blocked
    cluster.end_job(cluster.runs[0])

    await gone(cluster)
    assert cluster.jobs("uninstall") == []


async def test_a_failing_uninstall_is_tried_ever_more_seldom(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    operator = await run(timing=replace(TIMING, uninstall_retry=60.0))
    bundle()
    await deployed(cluster)
    cluster.ends = lambda _: (1, "Error: no rights")
    delete(cluster)
    delays = []
    for times in ("once", "2 times", "3 times"):
        await eventually(lambda: f"failed {times}, " in cluster.message())  # noqa: B023
        await idle(operator)
        (said,) = re.findall(r"Next attempt at (\S+Z)", cluster.message())
        due = datetime.fromisoformat(said)
        delays.append(due - datetime.now(UTC))  # a Job ends by the machine's clock
        operator.let_pass(due - operator.now() + timedelta(seconds=1))

    minute = timedelta(minutes=1)
    assert delays[0] < minute < delays[1] < 2 * minute < delays[2]
    annotate(cluster, force_delete="true")
    await gone(cluster)


FORBIDDEN = (
    "Error: uninstall: Release not loaded: shop: query: failed to query with labels: secrets is "
    'forbidden: User "system:serviceaccount:team:werf" cannot list resource "secrets" in API group '
    '"" in the namespace "team"'
)


@pytest.mark.parametrize(
    ("said", "cause", "missing"),
    [
        (
            FORBIDDEN,
            "the service account team/werf cannot list secrets in team",
            [{"verbs": ["list"], "resource": "secrets", "namespace": "team"}],
        ),
        (None, "it was ended by its deadline, 15m for each uninstall. An object", None),
    ],
)
async def test_says_what_an_uninstall_lacks_and_when_it_is_tried_again(
    cluster: BundleCluster, run: Run, bundle: Make, said: str | None, cause: str, missing: Any
) -> None:
    """A deadline deletes the pod, too."""
    await run(timing=replace(TIMING, uninstall_retry=3.0))
    bundle()
    await deployed(cluster)
    cluster.ends = None
    delete(cluster)
    await eventually(lambda: cluster.jobs("uninstall"))
    (job,) = cluster.jobs("uninstall")
    assert job["spec"]["activeDeadlineSeconds"] == 900

    name = job["metadata"]["name"]
    if said is None:
        cluster.end_without_pod(name)
    else:
        cluster.end_job(name, 1, said)

    begins = f"Uninstalling failed once, the last time in Job {name}: {cause}"
    # A Job is without a pod before it has failed, which may be told first.
    await eventually(lambda: cluster.message().startswith(begins), begins)
    assert cluster.reason() == "UninstallFailed"
    assert ". Next attempt at 20" in cluster.message()
    assert "force-delete" in cluster.message()
    assert cluster.status()["attempted"].get("missing") == missing
    cluster.ends = succeed
    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 2


async def test_an_uninstall_has_its_own_time_and_says_when_it_is_ended(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run(timing=replace(TIMING, uninstall_recheck=0.1))
    bundle(timeout="2h")
    await deployed(cluster)
    cluster.ends = None

    delete(cluster)

    await eventually(lambda: cluster.jobs("uninstall"))
    (job,) = cluster.jobs("uninstall")
    name = job["metadata"]["name"]
    said = f"Uninstalling with Job {name}; it is ended after 15m"
    await eventually(lambda: cluster.message() == said)
    assert cluster.reason() == "Uninstalling"
    assert {"name": "WERF_TIMEOUT", "value": "600"} in env_of(job)
    cluster.end_job(name)
    await gone(cluster)


def env_of(job: dict[str, Any]) -> list[dict[str, Any]]:
    return list(job["spec"]["template"]["spec"]["containers"][0]["env"])


@pytest.mark.parametrize("how", ["policy", "policy of a broken spec", "annotation"])
async def test_lets_go_without_uninstalling(
    cluster: BundleCluster, run: Run, bundle: Make, how: str
) -> None:
    operator = await run()
    bundle(**({"deletionPolicy": "Orphan"} if "policy" in how else {}))
    await deployed(cluster)

    if "broken" in how:
        cluster.change("bundles", "shop", spec={"registry": "https://broken"})
    if how == "annotation":
        annotate(cluster, force_delete="true")
    delete(cluster)

    await gone(cluster)
    assert cluster.jobs("uninstall") == []
    assert orphaned(operator) == 1


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


@pytest.mark.parametrize("installed", [False, True])
async def test_a_deploy_that_never_came_to_a_release_leaves_nothing_to_uninstall(
    cluster: BundleCluster, run: Run, bundle: Make, installed: bool
) -> None:
    cluster.ends = fail
    install(cluster, "shop" if installed else "shop-two")
    await run()
    bundle(retry={"limit": 0})
    await eventually(lambda: cluster.reason() == "Quarantined")
    cluster.ends = succeed

    delete(cluster)

    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == installed
    looks = [seen for seen in cluster.of("list") if seen.path.endswith("/secrets")]
    assert installed or len(looks) == 1


@pytest.mark.promise
@pytest.mark.parametrize("where", ["in ConfigMaps", "in Secrets that may not be listed"])
async def test_what_a_failed_deploy_may_have_left_is_uninstalled_though_its_release_isnt_seen(
    cluster: BundleCluster, run: Run, bundle: Make, where: str
) -> None:
    cluster.ends = fail
    await run()
    bundle(retry={"limit": 0}, env={"HELM_DRIVER": "configmap"} if "Maps" in where else {})
    await eventually(lambda: cluster.reason() == "Quarantined")
    cluster.ends = succeed
    if "listed" in where:
        cluster.refuse("list", "/secrets", 403, "secrets is forbidden")

    delete(cluster)

    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 1


async def test_what_a_failed_deploy_left_is_uninstalled_where_it_is(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    install(cluster, namespace="first")
    cluster.ends = fail
    await run()
    cluster.grant("first", "second")
    bundle(retry={"limit": 0}, project_namespace="first")
    await eventually(lambda: cluster.reason() == "Quarantined")
    cluster.ends = succeed
    cluster.drop(path_of("serviceaccounts", "werf"))
    cluster.change("bundles", "shop", spec={"project_namespace": "second"})
    await eventually(lambda: cluster.reason() == "ServiceAccountMissing")

    delete(cluster)
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    cluster.put_object("serviceaccounts", "werf")
    annotate(cluster, look="again")

    await gone(cluster)
    env = cluster.jobs("uninstall")[0]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "WERF_NAMESPACE", "value": "first"} in env


@pytest.mark.parametrize(
    "spec", [{"serviceAccountName": "admin"}, {"werf": {"image": "evil.example.com/werf"}}]
)
async def test_no_uninstall_runs_as_somebody_or_something_that_is_not_allowed(
    cluster: BundleCluster, run: Run, bundle: Make, spec: dict[str, Any]
) -> None:
    cluster.put_object("serviceaccounts", "admin")
    await run()
    bundle()
    await deployed(cluster)
    cluster.change("bundles", "shop", spec=spec)

    delete(cluster)
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "isn't allowed" in cluster.message()
    assert cluster.jobs("uninstall") == []

    cluster.change("bundles", "shop", spec=dict.fromkeys(spec))
    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 1


async def test_an_uninstall_that_cannot_start_gives_way_to_an_edited_spec(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run()
    bundle(job={"nodeSelector": {"no": "where"}})
    await deployed(cluster)
    cluster.ends, cluster.pods = None, PENDING

    delete(cluster)
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    (job,) = cluster.jobs("uninstall")
    assert job["spec"]["activeDeadlineSeconds"] == 900
    cluster.ends, cluster.pods = succeed, RUNNING
    cluster.change("bundles", "shop", spec={"job": None})
    await eventually(lambda: cluster.jobs("uninstall")[0]["spec"]["activeDeadlineSeconds"] == 1)
    cluster.end_job(job["metadata"]["name"], 1)

    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == 2


async def test_a_bundle_with_a_broken_spec_is_uninstalled_where_it_was_deployed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run()
    cluster.grant("prod")
    bundle(project_namespace="prod")
    await deployed(cluster)
    cluster.change("bundles", "shop", spec={"registry": "https://broken"})
    await eventually(lambda: cluster.reason() == "InvalidSpec")

    delete(cluster)

    await gone(cluster)
    (job,) = cluster.jobs("uninstall")
    env = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "WERF_NAMESPACE", "value": "prod"} in env


async def test_an_uninstall_waits_for_its_service_account_and_says_so(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    await run(timing=replace(TIMING, uninstall_recheck=0.1))
    bundle()
    await deployed(cluster)
    cluster.drop(path_of("serviceaccounts", "werf"))
    delete(cluster)

    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "ServiceAccount team/werf" in cluster.message()
    assert cluster.jobs("uninstall") == []
    annotate(cluster, force_delete="true")
    await gone(cluster)
    assert cluster.jobs("uninstall") == []
