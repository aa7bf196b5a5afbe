"""What an attempt is made of: the values that were planned, a digest, and the release's server."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    deployed,
    idle,
    plan,
    waits,
)
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, fail, path_of
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.kubeconfigs import SERVER, kubeconfig_data

PROMPT = {"limit": 3, "backoff": "1s"}
VALUES = [{"kind": "ConfigMap", "name": "plain"}, {"kind": "Secret", "name": "hidden"}]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def edit_config_map(cluster: BundleCluster) -> None:
    cluster.change("configmaps", "plain", data={"values.yaml": "a: 2"})


def edit_secret(cluster: BundleCluster) -> None:
    cluster.change("secrets", "hidden", data={"values.yaml": encoded("b: 2")})


def add_file(cluster: BundleCluster) -> None:
    cluster.change("configmaps", "plain", data={"more.yaml": "c: 1"})


def edit_spec(cluster: BundleCluster) -> None:
    cluster.change("bundles", "shop", spec={"valuesFrom": VALUES[:1]})


def set_variable(cluster: BundleCluster) -> None:
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})


EDITS = {
    "a ConfigMap is edited": edit_config_map,
    "a Secret is edited": edit_secret,
    "a file comes": add_file,
    "the spec names less": edit_spec,
    "the spec sets a variable": set_variable,
}


class Story:
    """A Bundle whose plan waits, and what then happens to it."""

    def __init__(self, cluster: BundleCluster, run: Run, werf: Werf) -> None:
        self.cluster, self.run, self.werf = cluster, run, werf
        self.operator: Any = None
        self.found: dict[str, Any] = {}

    async def begin(self) -> None:
        self.operator = await self.run()
        self.found = await waits(self.cluster)

    async def edited_first(self, edit: Callable[[BundleCluster], None]) -> None:
        edit(self.cluster)
        approve(self.cluster, self.found)

    async def approved_first(self, edit: Callable[[BundleCluster], None]) -> None:
        approve(self.cluster, self.found)
        edit(self.cluster)

    async def before_the_job(self, edit: Callable[[BundleCluster], None]) -> None:
        """The attempt is on record, and its Job can't be created yet."""
        await self._between(edit, "/jobs")

    async def before_the_values(self, edit: Callable[[BundleCluster], None]) -> None:
        """The attempt is on record, and its copies of the values can't be written yet."""
        await self._between(edit, "/secrets")

    async def _between(self, edit: Callable[[BundleCluster], None], ending: str) -> None:
        refused = self.cluster.refuse("create", ending, 500)
        approve(self.cluster, self.found)
        await eventually(lambda: self.cluster.status().get("attempted", {}).get("outcome"))
        edit(self.cluster)
        count = len(self.operator.reconciled)
        await eventually(lambda: len(self.operator.reconciled) > count + 2)
        refused.clear()

    async def while_it_is_down(self, edit: Callable[[BundleCluster], None]) -> None:
        await self.operator.stop()
        approve(self.cluster, self.found)
        edit(self.cluster)
        self.operator = await self.run()

    async def after_it_died(self, edit: Callable[[BundleCluster], None]) -> None:
        """The process ends once the attempt is on record; the next one takes it over."""
        refused = self.cluster.refuse("create", "/jobs", 500)
        approve(self.cluster, self.found)
        await eventually(lambda: self.cluster.status().get("attempted", {}).get("outcome"))
        await self.operator.stop(0.0)
        edit(self.cluster)
        refused.clear()
        self.operator = await self.run()
        self.operator.let_pass(timedelta(minutes=1))


ORDERS: dict[str, Callable[..., Awaitable[None]]] = {
    "the edit comes first": Story.edited_first,
    "the approval comes first": Story.approved_first,
    "the edit comes before the Job": Story.before_the_job,
    "the edit comes before the copies of values": Story.before_the_values,
    "both come while no operator runs": Story.while_it_is_down,
    "the edit comes after the operator died": Story.after_it_died,
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("order", ORDERS)
async def test_an_attempt_whose_values_differ_from_those_planned_isnt_made(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    order: str,
    edit: str,
) -> None:
    cluster.put_object("configmaps", "plain", data={"values.yaml": "a: 1"})
    cluster.put_object("secrets", "hidden", data={"values.yaml": encoded("b: 1")})
    bundle(approval=ALWAYS, valuesFrom=VALUES, retry=PROMPT)
    story = Story(cluster, run, werf)
    await story.begin()

    await ORDERS[order](story, EDITS[edit])

    await eventually(lambda: plan(cluster).get("id") not in (None, story.found["id"]))
    await waits(cluster, outcome="Planned")
    await idle(story.operator)
    assert werf.applied == []
    approve(cluster, plan(cluster))
    status = await deployed(cluster)
    assert status["deployed"]["valuesHash"] == plan(cluster)["valuesHash"]
    assert len(werf.applied) == 1


@pytest.mark.parametrize("edit", list(EDITS)[:3])
async def test_a_deploy_is_on_record_with_the_values_that_its_job_had(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, edit: str
) -> None:
    """Without an approval too, where drift is looked for: the baseline is made of the same."""
    cluster.put_object("configmaps", "plain", data={"values.yaml": "a: 1"})
    cluster.put_object("secrets", "hidden", data={"values.yaml": encoded("b: 1")})
    refused = cluster.refuse("create", "/jobs", 500)
    bundle(drift=DETECT, valuesFrom=VALUES, retry=PROMPT)
    operator = await run()
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome"))
    first = cluster.status()["attempted"]["valuesHash"]

    EDITS[edit](cluster)
    count = len(operator.reconciled)
    await eventually(lambda: len(operator.reconciled) > count + 2)
    refused.clear()

    status = await deployed(cluster)
    assert status["deployed"]["valuesHash"] != first
    outcomes = [(one["outcome"], one["reason"]) for one in status["history"]]
    assert outcomes[-1] == ("Interrupted", "PlanChanged")
    assert len(werf.applied) == 1


# --- the digest -----------------------------------------------------------------------------------


def tags(cluster: BundleCluster, kind: str) -> list[str]:
    """What each Job of this kind deploys or plans."""
    found = [container(job)["env"] for job in cluster.jobs(kind)]
    return [next(one["value"] for one in env if one["name"] == "WERF_TAG") for env in found]


async def test_a_planned_deploys_job_is_pinned_to_the_plans_digest_and_not_to_a_tag(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    first = registry.put("app", "1.0.0", "one")
    bundle(approval=ALWAYS)
    await run(timer_interval=1.0)
    found = await waits(cluster)

    second = registry.put("app", "1.0.0", "pushed again")
    await waits(cluster, newer="1.0.0")
    approve(cluster, found)

    await eventually(lambda: werf.applied)
    assert werf.applied[0][0] == first
    assert tags(cluster, "deploy") == [f"1.0.0@{first}"]
    assert tags(cluster, "plan")[0] == f"1.0.0@{first}"
    again = await waits(cluster, digest=second)
    assert tags(cluster, "plan")[-1] == f"1.0.0@{second}"
    assert again["id"] != found["id"]


@pytest.mark.parametrize("spec", [{}, {"drift": DETECT}], ids=["plain", "with drift"])
async def test_a_deploys_job_and_its_retry_are_pinned_to_a_digest_while_the_tag_moves(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    spec: dict[str, Any],
) -> None:
    first = registry.put("app", "1.0.0", "one")
    werf.ends = fail
    refused = cluster.refuse("create", "/jobs", 500)
    bundle(retry=PROMPT, **spec)
    await run()
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome"))
    registry.put("app", "1.0.0", "pushed again")
    refused.clear()

    await eventually(lambda: len(cluster.jobs()) >= 2)

    assert set(tags(cluster, "deploy")[:2]) == {f"1.0.0@{first}"}


async def test_a_check_for_drift_is_of_the_deployed_digest_and_not_of_the_tag(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    first = registry.put("app", "1.0.0", "one")
    bundle(drift=DETECT, suspend=False)
    operator = await run(timer_interval=1e9)
    await release.in_sync()
    registry.put("app", "1.0.0", "pushed again")

    operator.let_pass(timedelta(hours=1))

    await eventually(lambda: release.checks >= 2)
    assert set(tags(cluster, "drift")) == {f"1.0.0@{first}"}


async def test_a_rollback_is_pinned_to_the_digest_that_was_deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first = registry.put("app", "1.0.0", "one")
    bundle()
    await run(timer_interval=1.0)
    await deployed(cluster, digest=first)
    second = registry.put("app", "1.0.0", "pushed again")
    await deployed(cluster, digest=second)

    annotate(cluster, pin=f"1.0.0@{first}")

    await eventually(lambda: cluster.status()["deployed"]["digest"] == first)
    assert tags(cluster, "deploy") == [f"1.0.0@{one}" for one in (first, second, first)]


# --- the server -----------------------------------------------------------------------------------

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
