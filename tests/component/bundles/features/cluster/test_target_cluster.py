"""Bundles whose release is in another cluster, with the team's own credential (spec.kubeConfig)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    PATIENT,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    pending,
    plan,
    secrets,
    waits,
)
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import (
    TEAM,
    WAITING,
    BundleCluster,
    fail,
    path_of,
    succeed,
)
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.kubeconfigs import SERVER, TOKEN, ca, kubeconfig_data, secret_data, token_until

pytestmark = pytest.mark.usefixtures("registry")

KUBE_CONFIG = {"secretName": "other"}
OTHER_SERVER = "https://third.example.com:6443"
SELDOM = 1e9
"""Seconds between two polls: none is due in a test that lets hours pass."""
REFUSED = f'Error: Kubernetes cluster unreachable: Get "{SERVER}/version": dial tcp: refused'


def put(cluster: BundleCluster, server: str = SERVER, token: str = TOKEN, **more: Any) -> None:
    data = kubeconfig_data(server, token, **more)
    if cluster.look("secrets", "other") is None:
        cluster.put_object("secrets", "other", data=data)
    else:
        cluster.change("secrets", "other", data=data)


def copy_of(werf: Werf, job: dict[str, Any]) -> dict[str, Any]:
    """The kubeconfig that a Job was given, as its script accepts it."""
    command = container(job)["command"]
    path = next(one for one in command if one.endswith("kubeconfig/kubeconfig"))
    found: dict[str, Any] = json.loads(werf.mounted(job, path))
    return found


def put_of_mates(
    cluster: BundleCluster, spec: dict[str, Any], token: str = "of-nobody", **metadata: str
) -> str:
    """Another team's Bundle of this spec, with a credential of its own; returns its path."""
    cluster.namespace("mates")
    bodies = {"serviceaccounts": ("werf", {}), "secrets": ("theirs", kubeconfig_data(token=token))}
    for plural, (name, data) in bodies.items():
        body = {"metadata": {"name": name, "namespace": "mates"}, "data": data}
        cluster.write(path_of(plural, name, "mates"), body)
    path = path_of("bundles", "shop", "mates")
    spec = {**spec, "kubeConfig": {"secretName": "theirs"}}
    cluster.write(
        path, {"metadata": {"name": "shop", "namespace": "mates", **metadata}, "spec": spec}
    )
    return path


def token_of(werf: Werf, job: dict[str, Any]) -> str:
    return str(copy_of(werf, job)["users"][0]["user"]["token"])


def copies(cluster: BundleCluster) -> list[str]:
    return sorted(name for name in secrets(cluster) if name.endswith("-kubeconfig"))


def held(cluster: BundleCluster) -> str:
    """All that the operator has written, but Secrets: pods have what the test lets them say."""
    of_others = "/secrets/", "/pods/"
    found = [body for path, body in cluster.objects.items() if not any(map(path.count, of_others))]
    return json.dumps(found)


def delete(cluster: BundleCluster) -> None:
    cluster.drop(path_of("bundles", "shop"))


async def reports(cluster: BundleCluster, reason: str) -> str:
    await eventually(lambda: cluster.reason() == reason, f"{reason}; {cluster.status()}")
    return cluster.message()


@pytest.mark.needs("charts")
async def test_a_deploy_gets_a_copy_of_what_was_checked_and_no_token_of_this_cluster(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, project_namespace="prod", env={"WERF_KUBE_TOKEN": "x"})
    werf.holds_deploys = True
    operator = await run()
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    (job,) = cluster.jobs()
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert job["metadata"]["annotations"]["operator.werf.dev/server"] == SERVER
    assert token_of(werf, job) == TOKEN
    assert "WERF_KUBE_TOKEN" not in str(container(job)["env"])
    name = f"{job['metadata']['name']}-kubeconfig"
    assert copies(cluster) == [name]
    there = cluster.look("secrets", name)
    assert there is not None
    assert there["immutable"] is True
    assert there["metadata"]["ownerReferences"][0]["kind"] == "Bundle"

    werf.finish(job)
    status = await deployed(cluster)
    await idle(operator)
    assert (status["server"], status["deployed"]["server"]) == (SERVER, SERVER)
    assert status["deployed"]["namespace"] == "prod"
    assert "consent" not in status
    assert (copies(cluster), cluster.consents_asked, cluster.asked) == ([], [], [])
    assert condition(cluster, "SettingsWithheld")[0] == "True"
    assert TOKEN not in held(cluster)
    assert base64.b64encode(TOKEN.encode()).decode() not in held(cluster)


@pytest.mark.needs("charts")
async def test_a_copy_that_somebody_replaces_ends_the_deploy(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, retry=PATIENT)
    werf.holds_deploys = True
    await run()
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    (job,) = cluster.jobs()
    name = copies(cluster)[0]
    there = cluster.look("secrets", name)
    assert there is not None
    cluster.write(
        path_of("secrets", name), there | {"data": {**there["data"], "kubeconfig": "eA=="}}
    )
    werf.finish(job)
    await eventually(lambda: cluster.status()["attempted"].get("reason") == "PlanChanged")
    assert (werf.applied, cluster.status()["attempted"]["failures"]) == ([], 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "Secret team/other of spec.kubeConfig doesn't exist; create it"),
        (secret_data("x", "other"), "has no key value"),
        (secret_data("x" * 1_000_000), "more than 64 KiB"),
        (kubeconfig_data(user_exec={"command": "sh"}), "exec: runs a command"),
        (
            kubeconfig_data(token=token_until(datetime(2020, 1, 2, tzinfo=UTC))),
            "expired at 2020-01",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_kubeconfig_that_may_not_be_used_is_named_and_waited_for(
    cluster: BundleCluster, run: Run, bundle: Make, data: dict[str, str] | None, words: str
) -> None:
    if data is not None:
        cluster.put_object("secrets", "other", data=data)
    bundle(kubeConfig=KUBE_CONFIG)
    await run()
    message = await reports(cluster, "KubeConfigInvalid")
    assert words in message
    assert "Secret team/other of spec.kubeConfig" in message
    assert (cluster.jobs(), cluster.status()["ready"]) == ([], 0)
    put(cluster)
    await deployed(cluster)


@pytest.mark.parametrize("server", ["https://kubernetes.default.svc", "https://10.96.0.1"])
async def test_the_operators_own_cluster_is_no_other_one(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
    server: str,
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    put(cluster, server)
    bundle(kubeConfig=KUBE_CONFIG)
    await run()
    assert "names the operator's own cluster" in await reports(cluster, "InvalidSpec")
    assert cluster.jobs() == []
    put(cluster)
    await deployed(cluster)


async def test_the_end_of_a_credential_is_warned_of(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    told = Told()
    put(cluster, token=token_until(datetime.now(UTC) + timedelta(days=15)))
    bundle(kubeConfig=KUBE_CONFIG)
    operator = await run(timer_interval=SELDOM, recorder=told)
    await deployed(cluster)
    await idle(operator)
    assert condition(cluster, "CertificateExpiring") == ("", "")
    operator.let_pass(timedelta(days=1, minutes=1))
    await eventually(lambda: condition(cluster, "CertificateExpiring")[0] == "True", "a warning")
    assert cluster.reason() == "Deployed"
    found = {one["type"]: one["message"] for one in cluster.status()["conditions"]}
    assert "(Secret other, key value) expires at" in found["CertificateExpiring"]
    await idle(operator)
    operator.let_pass(timedelta(days=14))
    assert "has expired at" in await reports(cluster, "KubeConfigInvalid")
    assert condition(cluster, "CertificateExpiring")[0] == "True", "it isn't renewed"
    await idle(operator)
    put(cluster, token=token_until(operator.now() + timedelta(days=15)))
    await eventually(lambda: condition(cluster, "CertificateExpiring") == ("", ""), "a new one")
    assert told.count(("Warning", "CertificateExpiring")) == 1
    assert len(cluster.jobs()) == 1, "nothing of it is deployed anew"


@pytest.mark.needs("approval")
async def test_a_plan_is_of_a_cluster_and_not_of_a_credential(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster, token="first")
    bundle(kubeConfig=KUBE_CONFIG, approval=ALWAYS)
    werf.holds_deploys = True
    operator = await run()
    first = await waits(cluster)
    (planned,) = cluster.jobs("plan")
    assert copies(cluster) == [], "the plan has its outcome"
    assert planned["spec"]["template"]["spec"]["automountServiceAccountToken"] is False

    put(cluster, token="second")
    await idle(operator)
    assert plan(cluster)["id"] == first["id"]
    approve(cluster, first)
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    (job,) = cluster.jobs()
    assert token_of(werf, job) == "second"
    werf.finish(job)
    await deployed(cluster)
    assert "second" not in held(cluster)


@pytest.mark.needs("approval")
@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: put(cluster, OTHER_SERVER),
        lambda cluster: put(cluster, authority=ca("another")),
        lambda cluster: put(cluster, cluster_tls_server_name="other.example.com"),
    ],
    ids=["server", "CA", "tls-server-name"],
)
async def test_another_cluster_takes_another_plan(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    change: Callable[[BundleCluster], None],
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, approval=ALWAYS)
    operator = await run()
    first = await waits(cluster)
    change(cluster)
    await eventually(lambda: plan(cluster).get("id") not in (None, first["id"]), "a new plan")
    second = await waits(cluster)
    approve(cluster, first)
    await idle(operator)
    assert (cluster.jobs(), werf.applied) == ([], [])
    approve(cluster, second)
    await deployed(cluster)


async def test_a_release_does_not_go_to_another_cluster(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG)
    operator = await run()
    await deployed(cluster)
    put(cluster, OTHER_SERVER)
    message = await reports(cluster, "NamespaceChanged")
    assert SERVER in message
    assert OTHER_SERVER in message
    (third,) = kubeconfig_data(OTHER_SERVER).values()
    cluster.change("secrets", "other", data={**kubeconfig_data(token="rotated"), "third": third})
    await deployed(cluster)
    await idle(operator)
    cluster.change("bundles", "shop", spec={"kubeConfig": {**KUBE_CONFIG, "key": "third"}})
    assert OTHER_SERVER in await reports(cluster, "NamespaceChanged")
    cluster.change("bundles", "shop", spec={"kubeConfig": None})
    await eventually(lambda: "the operator's own cluster" in cluster.message())
    assert cluster.reason() == "NamespaceChanged"
    assert (len(cluster.jobs()), cluster.status()["attempted"]["attempt"]) == (1, 1)


async def test_a_failed_version_is_tried_anew_in_another_cluster(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster)
    cluster.ends = fail
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0})
    await run()
    await reports(cluster, "Quarantined")
    cluster.ends = succeed
    put(cluster, OTHER_SERVER)
    status = await deployed(cluster)
    assert status["deployed"]["server"] == OTHER_SERVER


@pytest.mark.promise
async def test_an_attempt_is_made_in_the_cluster_that_is_on_record_or_not_at_all(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """The kubeconfig was replaced before its Job could be created."""
    put(cluster)
    refusals = cluster.refuse("create", "/jobs", 500, "etcd is away")
    bundle(kubeConfig=KUBE_CONFIG)
    operator = await run()
    await eventually(lambda: cluster.status().get("attempted", {}).get("server") == SERVER)
    await idle(operator)
    put(cluster, OTHER_SERVER)
    refusals.clear()

    status = await deployed(cluster)

    (job,) = cluster.jobs()
    assert job["metadata"]["annotations"]["operator.werf.dev/server"] == OTHER_SERVER
    assert status["deployed"]["server"] == OTHER_SERVER


async def test_one_release_has_one_bundle_in_each_cluster(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.grant("prod")
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, project_namespace="prod")
    await run()
    await deployed(cluster)
    theirs = put_of_mates(cluster, (cluster.look("bundles", "shop") or {})["spec"], "theirs")

    def ready() -> dict[str, Any]:
        status = cluster.objects[theirs].get("status") or {}
        return dict((status.get("conditions") or [{}])[0])

    await eventually(lambda: ready().get("reason") == "ReleaseConflict", "one of them waits")
    assert f"release prod/shop in {SERVER}" in ready()["message"]
    metadata = {"name": "theirs", "namespace": "mates"}
    secret = {"metadata": metadata, "data": kubeconfig_data(OTHER_SERVER)}
    cluster.write(path_of("secrets", "theirs", "mates"), secret)
    await eventually(lambda: ready().get("reason") == "Deployed", "another cluster is free")


async def test_a_bundle_that_has_no_access_there_keeps_nobody_from_deploying(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Anybody may write a kubeconfig with a server's address and a credential without rights."""
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, project_namespace="prod", retry={"backoff": "1h"})
    spec = (cluster.look("bundles", "shop") or {})["spec"]
    cluster.change("bundles", "shop", spec={"suspend": True})
    theirs = put_of_mates(cluster, spec, creationTimestamp="2020-01-01T00:00:00Z")
    cluster.ends = lambda job: (1, "Error: lock release: Unauthorized")
    operator = await run(timer_interval=SELDOM)

    def their_status() -> dict[str, Any]:
        return dict(cluster.objects[theirs].get("status") or {})

    await eventually(
        lambda: their_status().get("attempted", {}).get("reason") == "ClusterUnreachable",
        "an attempt of the older one",
    )
    cluster.ends = succeed
    cluster.change("bundles", "shop", spec={"suspend": False})
    status = await deployed(cluster)
    assert status["deployed"]["server"] == SERVER
    await idle(operator)
    operator.let_pass(timedelta(hours=2))
    await eventually(
        lambda: their_status()["conditions"][0].get("reason") == "ReleaseConflict",
        "who has deployed owns the release",
    )


async def test_a_server_that_refuses_is_not_the_versions_fault(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster)
    cluster.ends = lambda job: (1, REFUSED)
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0, "backoff": "1s"})
    operator = await run(timer_interval=SELDOM)
    for attempt in range(1, 4):
        await eventually(
            lambda attempt=attempt: (
                cluster.status().get("attempted", {}).get("attempt") == attempt  # type: ignore[misc]
                and cluster.reason() == "ClusterUnreachable"
            ),
            f"attempt {attempt}",
        )
        assert cluster.status()["attempted"]["failures"] == 0
        await idle(operator)
        operator.let_pass(timedelta(minutes=20))
    assert SERVER in cluster.message()
    cluster.ends = succeed
    await idle(operator)
    operator.let_pass(timedelta(minutes=20))
    await deployed(cluster)


async def test_what_a_server_sends_back_of_the_credential_is_not_told(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster)
    cluster.ends = lambda job: (1, f"Error: the server said: Bearer {TOKEN} is bad at {SERVER}")
    bundle(kubeConfig=KUBE_CONFIG, retry={"limit": 0})
    await run()
    message = await reports(cluster, "Quarantined")
    assert f"Bearer <redacted> is bad at {SERVER}" in message
    assert TOKEN not in held(cluster)


@pytest.mark.needs("approval")
async def test_a_plan_is_made_once_its_server_answers_however_long_that_takes(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, approval=ALWAYS, retry={"limit": 1, "backoff": "1s"})
    werf.says = lambda job, nonce: (11, f"werf bundle plan ended with exit code 1\n{REFUSED}\n")
    operator = await run(timer_interval=SELDOM)
    for number in range(1, 5):
        await eventually(
            lambda number=number: (
                plan(cluster).get("number") == number  # type: ignore[misc]
                and plan(cluster).get("outcome") == "Failed"
            ),
            f"plan {number}",
        )
        assert plan(cluster)["reason"] == pending(cluster) == "ClusterUnreachable"
        await eventually(lambda: not copies(cluster), "the plan has its outcome")
        await idle(operator)
        operator.let_pass(timedelta(minutes=20))
    werf.says = lambda job, nonce: None
    await idle(operator)
    operator.let_pass(timedelta(minutes=20))
    await waits(cluster)


@pytest.mark.needs("drift")
async def test_drift_is_unknown_without_access_and_is_checked_with_it(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, drift={**DETECT, "interval": "1h"})
    operator = await run(timer_interval=SELDOM)
    await release.in_sync()
    werf.says = lambda job, nonce: (11, f"werf bundle plan ended with exit code 1\n{REFUSED}\n")
    await idle(operator)
    operator.let_pass(timedelta(hours=1))
    await release.judged("Unknown", "ClusterUnreachable")
    werf.says = lambda job, nonce: None
    await idle(operator)
    operator.let_pass(timedelta(hours=1))
    await release.in_sync()
    cluster.drop(path_of("secrets", "other"))
    await reports(cluster, "KubeConfigInvalid")
    assert condition(cluster, "Drifted")[0] == "Unknown"
    put(cluster)
    await release.in_sync()
    assert len(cluster.jobs()) == 1


async def test_an_uninstall_gets_a_copy_that_goes_with_its_job(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG)
    await run()
    await deployed(cluster)
    cluster.ends = None
    delete(cluster)
    await eventually(lambda: cluster.jobs("uninstall") and copies(cluster), "the uninstall")
    (job,) = cluster.jobs("uninstall")
    assert "ownerReferences" not in job["metadata"]
    (name,) = copies(cluster)
    (owner,) = (cluster.look("secrets", name) or {})["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Job", job["metadata"]["uid"])
    assert token_of(werf, job) == TOKEN
    assert job["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    cluster.end_job(job["metadata"]["name"])
    await eventually(lambda: cluster.look("bundles", "shop") is None)


async def test_a_copy_that_could_not_be_written_with_its_uninstall_is_written_later(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """Also by another process: the Job has begun, and its pod waits for the copy."""
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG)
    first = await run()
    await deployed(cluster)
    cluster.ends, cluster.pods = None, WAITING
    refusals = cluster.refuse("create", "/secrets", 500)
    delete(cluster)
    await eventually(lambda: cluster.jobs("uninstall"), "the uninstall")
    await first.stop(0.0)
    assert copies(cluster) == []
    refusals.clear()
    await run()
    await eventually(lambda: copies(cluster), "the copy")
    (job,) = cluster.jobs("uninstall")
    assert token_of(werf, job) == TOKEN
    (owner,) = (cluster.look("secrets", copies(cluster)[0]) or {})["metadata"]["ownerReferences"]
    assert owner["uid"] == job["metadata"]["uid"]


async def delete_failed(cluster: BundleCluster, run: Run) -> None:
    """Delete the Bundle after its deploy has failed; its uninstall succeeds."""
    cluster.ends = lambda job: (1, "Error: it failed")
    await run(timer_interval=SELDOM)
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")
    cluster.ends = succeed

    delete(cluster)

    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


@pytest.mark.promise
async def test_what_failed_in_another_cluster_is_uninstalled_there_though_nothing_is_stored_here(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """The operator can't see there whether Helm has stored a release."""
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, retry=PATIENT)

    await delete_failed(cluster, run)

    (job,) = cluster.jobs("uninstall")
    assert job["metadata"]["annotations"]["operator.werf.dev/server"] == SERVER


@pytest.mark.promise
async def test_a_bundle_that_has_no_access_there_keeps_nobody_from_uninstalling(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, project_namespace="prod", retry=PATIENT)
    put_of_mates(cluster, {**(cluster.look("bundles", "shop") or {})["spec"], "suspend": True})

    await delete_failed(cluster, run)

    assert len(cluster.jobs("uninstall")) == 1


@pytest.mark.parametrize("by", ["force-delete", "namespace"])
async def test_a_release_out_of_reach_is_let_go(
    cluster: BundleCluster, run: Run, bundle: Make, by: str
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG)
    operator = await run(timer_interval=SELDOM)
    await deployed(cluster)
    cluster.drop(path_of("secrets", "other"))
    delete(cluster)
    await reports(cluster, "UninstallFailed")
    if by == "namespace":
        namespace = f"/api/v1/namespaces/{TEAM}"
        metadata = cluster.objects[namespace]["metadata"]
        gone = {**metadata, "deletionTimestamp": "2026-01-01T00:00:00Z"}
        cluster.write(namespace, {**cluster.objects[namespace], "metadata": gone})
    else:
        annotate(cluster, force_delete="true")
    await idle(operator)
    operator.let_pass(timedelta(minutes=1))
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    samples = operator.metrics.orphaned_releases.collect()[0].samples
    assert sum(one.value for one in samples if one.name.endswith("_total")) == 1


async def test_a_new_process_goes_on_with_what_an_earlier_one_began(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, registry: FakeRegistry
) -> None:
    put(cluster)
    bundle(kubeConfig=KUBE_CONFIG, version="1.*")
    werf.holds_deploys = True
    first = await run()
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    await first.stop(0.0)
    cluster.drop(path_of("secrets", "other"))
    (job,) = cluster.jobs()
    werf.finish(job)
    second = await run()
    await reports(cluster, "KubeConfigInvalid")
    assert cluster.status()["deployed"]["server"] == SERVER
    put(cluster)
    werf.holds_deploys = False
    registry.put("app", "1.1.0", "two")
    annotate(cluster, requestedAt="now")
    await deployed(cluster, version="1.1.0")
    await idle(second)
    assert copies(cluster) == []
