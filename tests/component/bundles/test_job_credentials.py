"""What a Job can read of the Secret of spec.auth: the registry's credential, and no other one."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, deployed, secrets
from tests.component.bundles.fake_cluster import NOT_ALLOWED, BundleCluster, path_of, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, given_up
from tests.component.oci.fake_registry import FakeRegistry


@pytest.fixture(autouse=True)
def _private(registry: FakeRegistry) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def pair(user: str, password: str = "s3cret") -> dict[str, str]:
    return {"auth": encoded(f"{user}:{password}")}


def give(cluster: BundleCluster, auths: dict[str, Any], key: str = ".dockerconfigjson") -> None:
    config = auths if key == ".dockercfg" else {"auths": auths}
    cluster.put_object("secrets", "creds", data={key: encoded(json.dumps(config))})


def several(registry: FakeRegistry) -> dict[str, Any]:
    return {
        registry.host: {},
        f"{registry.host}/app": pair("alice"),
        "other.example.com": pair("bob", "other-s3cret"),
    }


def mounted(job: dict[str, Any]) -> set[str]:
    """Names of all Secrets that a Job's pod can read."""
    pod = job["spec"]["template"]["spec"]
    found = {one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
    containers = (*pod.get("initContainers", ()), *pod["containers"])
    for variable in (one for each in containers for one in each["env"]):
        if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
            found.add(reference["name"])
    return found


class Logins:
    """Each Job's configuration, as it was when the Job was created."""

    def __init__(self, cluster: BundleCluster, registry: FakeRegistry) -> None:
        self.by_kind: dict[str, list[str]] = {}
        self._cluster, self._registry = cluster, registry
        self._ends, cluster.ends = cluster.ends, self.ends

    def ends(self, job: dict[str, Any]) -> tuple[int, str] | None:
        kind, name = job["metadata"]["labels"]["operator.werf.dev/job"], job["metadata"]["name"]
        self.by_kind.setdefault(kind, []).append(name)
        if kind != "uninstall":
            self.check(job, f"{name}-login")
        assert "creds" not in mounted(job), kind
        assert self._ends is not None
        return self._ends(job)

    def check(self, job: dict[str, Any], name: str) -> None:
        pod = job["spec"]["template"]["spec"]
        (volume,) = [one for one in pod["volumes"] if one["name"] == "docker"]
        items = [{"key": ".dockerconfigjson", "path": "config.json"}]
        assert volume["secret"] == {"secretName": name, "items": items}
        env = {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}
        (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "docker"]
        assert env["WERF_DOCKER_CONFIG"] == mount["mountPath"]
        written = self._cluster.look("secrets", name)
        assert written is not None
        assert written["immutable"]
        (owner,) = written["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("Bundle", "shop")
        entry = {**pair("alice"), "username": "alice", "password": "s3cret"}
        text = base64.b64decode(written["data"][".dockerconfigjson"])
        assert json.loads(text) == {"auths": {self._registry.host: entry}}


@pytest.mark.parametrize("form", ["several", "older"])
async def test_a_deploy_gets_the_registrys_credential_alone_for_as_long_as_it_runs(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, form: str
) -> None:
    """Which entry it is: tests/unit/oci/test_docker_configs.py."""
    forms = {"several": several(registry), "older": {registry.host: pair("alice")}}
    give(cluster, forms[form], ".dockercfg" if form == "older" else ".dockerconfigjson")
    logins = Logins(cluster, registry)
    bundle(auth="creds")
    await run()

    await deployed(cluster)

    assert list(logins.by_kind) == ["deploy"]
    await eventually(lambda: not secrets(cluster), "its Secret is deleted")


async def test_a_secret_with_that_credential_alone_is_mounted_without_another_request(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    give(cluster, {f"https://{registry.host}/v2/": pair("alice")})
    bundle(auth="creds")
    await run()

    await deployed(cluster)

    (job,) = cluster.jobs()
    assert mounted(job) == {"creds"}
    verbs = {seen.verb for seen in cluster.seen if "/secrets" in seen.path}
    assert verbs <= {"get", "list", "watch"}


async def test_without_the_permission_nothing_is_deployed_and_the_status_says_what_helps(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    give(cluster, several(registry))
    cluster.refuse("create", "/secrets", 403, NOT_ALLOWED)
    bundle(auth="creds")
    await run()

    await eventually(lambda: cluster.reason() == "Forbidden", cluster.message())
    assert cluster.message() == (
        "Secret team/creds of spec.auth isn't mounted, as a Job gets the credential of "
        f"{registry.host} alone, and the operator may not write a Secret with that: {NOT_ALLOWED}. "
        f"Set bundles.plans.enabled of the chart, or leave one entry, {registry.host}, in the "
        "Secret of spec.auth"
    )
    assert not cluster.jobs()

    give(cluster, {registry.host: pair("alice")})
    await deployed(cluster)
    assert mounted(cluster.jobs()[0]) == {"creds"}


async def test_a_deleted_secret_ends_the_job_and_the_next_attempt_has_its_own(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    give(cluster, several(registry))
    cluster.ends, cluster.pods = None, {"waiting": {"reason": "ContainerCreating"}}
    bundle(auth="creds", retry={"limit": 3, "backoff": "1s"})
    operator = await run()
    (job,) = await eventually(cluster.jobs)
    name = job["metadata"]["name"]
    cluster.drop(path_of("secrets", f"{name}-login"))

    assert await given_up(cluster, operator, name) == "PlanChanged"
    cluster.ends = succeed
    cluster.end_without_pod(name)
    await eventually(lambda: len(cluster.jobs()) == 2)
    assert mounted(cluster.jobs()[1]) == {f"{cluster.jobs()[1]['metadata']['name']}-login"}
    await deployed(cluster)


async def test_a_failed_deploys_message_is_redacted_by_the_secret_that_the_operator_may_read(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """``bundles.allowedSecrets`` of the chart may have spec.auth, and no name of a Job's Secret."""
    give(cluster, several(registry))

    def fail(job: dict[str, Any]) -> tuple[int, str]:
        name = job["metadata"]["name"]
        cluster.refuse("get", f"{name}-login", 403, NOT_ALLOWED)
        return 1, f"Error: release install: {encoded('alice:s3cret')} is wrong"

    cluster.ends = fail
    bundle(auth="creds")
    await run()

    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Failed")
    message = cluster.status()["attempted"]["message"]
    assert message.endswith("<redacted> is wrong")


async def test_a_job_that_vanished_leaves_no_secret(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    give(cluster, several(registry))
    cluster.ends = None
    bundle(auth="creds", retry={"limit": 2, "backoff": "1s"})
    await run()
    (job,) = await eventually(cluster.jobs)
    name = job["metadata"]["name"]
    cluster.ends = succeed
    cluster.drop(path_of("jobs", name))
    await eventually(lambda: f"{name}-login" not in secrets(cluster), "its Secret is deleted")
    await deployed(cluster)
    await eventually(lambda: not secrets(cluster))


@pytest.mark.parametrize(
    "edit",
    [{"auth": "others"}, {"repo": None}],
    ids=["another auth", "an invalid spec"],
)
async def test_a_message_is_redacted_by_what_the_job_had_whatever_the_spec_and_the_secret_are_now(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, edit: dict[str, Any]
) -> None:
    name = await begin(cluster, registry, run, bundle)
    cluster.change("bundles", "shop", spec=edit)
    give(cluster, {registry.host: pair("alice", "rotated")})
    if "repo" in edit:  # its Job isn't observed before the spec is valid, or the Bundle is deleted
        cluster.drop(path_of("bundles", "shop"))
    cluster.end_job(name, 1, "Error: login failed: s3cret is wrong")

    assert "login failed: <redacted> is wrong" in await failed(cluster)
    await eventually(lambda: not secrets(cluster), "its Secret is deleted")


async def test_of_an_edited_spec_a_secret_that_cant_be_read_withholds_the_message(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """What is now in spec.auth needn't be what the Job had."""
    name = await begin(cluster, registry, run, bundle)
    cluster.refuse("get", f"{name}-login", 403, NOT_ALLOWED)
    cluster.change("bundles", "shop", spec={"auth": "others"})
    cluster.end_job(name, 1, "Error: login failed: s3cret is wrong")

    message = await failed(cluster)
    assert message.startswith(f"<withheld: Secret {name}-login, which the log may contain, can't")


async def failed(cluster: BundleCluster) -> str:
    """The message of the attempt that failed; another may have begun since."""

    def look() -> str:
        attempts = [one.get("attempted", {}) for one in cluster.statuses["shop"]]
        return next((one["message"] for one in attempts if one.get("outcome") == "Failed"), "")

    return str(await eventually(look))


async def begin(cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make) -> str:
    """A deploy that runs, by a Secret with several credentials; its Job."""
    give(cluster, several(registry))
    other = {"username": encoded("alice"), "password": encoded("s3cret")}
    cluster.put_object("secrets", "others", data=other)
    cluster.ends = None
    bundle(auth="creds", retry={"limit": 0})
    await run()
    await eventually(lambda: cluster.runs)
    return str(cluster.runs[0])


@pytest.mark.parametrize("status", [500, 403])
async def test_its_secret_is_deleted_however_often_that_fails_and_deploys_go_on(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, status: int
) -> None:
    give(cluster, several(registry))
    refusals = cluster.refuse("delete", "/secrets", status)
    bundle(auth="creds")
    operator = await run()
    await deployed(cluster)
    registry.put("app", "1.0.0", "two")
    annotate(cluster, requestedAt="now")
    await eventually(lambda: len(cluster.jobs()) == 2)
    await deployed(cluster)
    left = {f"{job['metadata']['name']}-login" for job in cluster.jobs()}
    assert secrets(cluster) == left

    refusals.clear()
    if status == 403:  # without the permission they are deleted by the next outcome
        registry.put("app", "1.0.0", "three")
        annotate(cluster, requestedAt="then")
    operator.let_pass(timedelta(seconds=30))
    await eventually(lambda: not secrets(cluster), "its Secrets are deleted")


@pytest.mark.parametrize("by", ["its owner", "somebody else"])
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="deploy"),
        pytest.param({"approval": ALWAYS}, marks=pytest.mark.needs("approval"), id="plan"),
    ],
)
async def test_a_job_gets_the_present_credential_although_its_secret_was_written_before(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    spec: dict[str, Any],
    by: str,
) -> None:
    """The Job couldn't be created at first; meanwhile the Secret of spec.auth or its was edited."""
    registry.users["alice"] = "old-s3cret"
    give(cluster, {registry.host: pair("alice", "old-s3cret"), "other.example.com": {}})
    refusals = cluster.refuse("create", "/jobs", 500)
    bundle(auth="creds", **spec)
    await run()
    (name,) = await eventually(lambda: [n for n in secrets(cluster) if n.endswith("-login")])
    registry.users["alice"] = "s3cret"
    if by == "its owner":
        give(cluster, several(registry))
    else:
        give(cluster, {registry.host: pair("alice"), "other.example.com": {}})
        config = json.dumps({"auths": {registry.host: pair("mallory")}})
        cluster.put_object("secrets", name, data={".dockerconfigjson": encoded(config)})
    entry = {**pair("alice"), "username": "alice", "password": "s3cret"}

    def look() -> bool:
        there = cluster.look("secrets", name) or {"data": {".dockerconfigjson": encoded("{}")}}
        text = base64.b64decode(there["data"][".dockerconfigjson"])
        return bool(json.loads(text) == {"auths": {registry.host: entry}})

    await eventually(look, "it is written anew")
    found: list[bool] = []

    def ends(job: dict[str, Any]) -> None:
        found.append(name in mounted(job) and look())

    cluster.ends = ends
    refusals.clear()
    await eventually(lambda: found)
    assert found == [True]
