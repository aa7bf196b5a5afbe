"""Uninstalls where not all plans of the release are known: what is deployed is rendered."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, deployed, idle, waits
from tests.component.bundles.crashing import die_after, sampled
from tests.component.bundles.fake_cluster import GUARD, GUARD_POLICY, HOME, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf, block
from tests.component.bundles.features.approval.test_guard import lists
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.waiting import eventually

from copyrator.bundles.plans.guard.lists import GuardTiming
from copyrator.bundles.plans.script import PlanExit

RETRY = 0.5
VALUES = [{"kind": "ConfigMap", "name": "values"}]


@pytest.fixture
def start(cluster: BundleCluster, run: Run) -> Run:
    """Starts operators with a guard."""
    timing = replace(
        TIMING, features=(GuardTiming(kept=60.0),), job_handover=0.5, uninstall_retry=RETRY
    )
    return partial(run, guard_policy=GUARD, lease_namespace=HOME, timing=timing)


async def from_before(
    cluster: BundleCluster, start: Run, bundle: Make, **spec: Any
) -> tuple[Any, Told]:
    """A Bundle with an approval whose release was deployed without one."""
    recorder = Told()
    operator = await start(recorder=recorder)
    bundle(**spec)
    await deployed(cluster)
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    await idle(operator)
    return operator, recorder


def delete(cluster: BundleCluster) -> None:
    cluster.drop(path_of("bundles", "shop"))


async def gone(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


def secrets(cluster: BundleCluster) -> list[str]:
    """Names of the Secrets that the operator wrote."""
    return [
        body["metadata"]["name"]
        for path, body in cluster.objects.items()
        if "/secrets/" in path and "operator.werf.dev/seal" in body["metadata"].get("labels", {})
    ]


def list_of(cluster: BundleCluster, job: dict[str, Any]) -> list[str]:
    """What a Job may write."""
    _account, _namespace, *lines = lists(cluster)[job["metadata"]["name"]]
    return [line for line in lines if line]


async def test_it_may_delete_what_the_deployed_version_has_and_make_its_hooks_and_nothing_else(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    await from_before(cluster, start, bundle)
    there = ["create ::ConfigMap:app", "create :apps:Deployment:web"]
    hooks = ("at uninstall: create :batch:Job:bye",)
    werf.says = lambda _, nonce: (0, block(nonce, 2, there, objects=hooks))
    plans = len(cluster.jobs("plan"))

    delete(cluster)

    await gone(cluster)
    (rendered,) = cluster.jobs("plan")[plans:]
    (uninstall,) = cluster.jobs("uninstall")
    assert "ownerReferences" not in rendered["metadata"]
    assert rendered["spec"]["ttlSecondsAfterFinished"] == 120, "as the Job that uninstalls"
    assert list_of(cluster, uninstall) == [
        "CU//ConfigMap//werf-synchronization",
        "CUD//Secret//sh.helm.release.v1.shop.v/",
        "CUD/batch/Job//bye",
        "D//ConfigMap//app",
        "D/apps/Deployment//web",
    ]
    script = uninstall["spec"]["template"]["spec"]["containers"][0]["command"][2]
    assert "require_guard\n" in script
    assert secrets(cluster) == []


async def test_nothing_of_plans_is_read_for_a_bundle_that_never_had_one(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    recorder = Told()
    await start(recorder=recorder)
    bundle()
    await deployed(cluster)

    delete(cluster)

    await gone(cluster)
    (uninstall,) = cluster.jobs("uninstall")
    assert "require_guard" not in str(uninstall)
    assert cluster.jobs("plan") == []
    assert "UninstallNotEnforced" not in recorder.said
    assert not [seen.path for seen in cluster.seen if "-release-objects-" in seen.path]
    assert lists(cluster) == {}


async def test_its_copies_of_values_have_no_owner_and_go_with_the_bundle(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    """A foreground deletion would delete what the Bundle owns."""
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    await from_before(cluster, start, bundle, valuesFrom=VALUES)
    werf.holds_plans = True

    delete(cluster)

    await eventually(lambda: cluster.jobs("plan"), "the render")
    await eventually(lambda: cluster.reason() == "Uninstalling")
    assert "no plan tells all that version 1.0.0 has: Job " in cluster.message()
    owned = [
        cluster.look("secrets", one)["metadata"]["ownerReferences"] for one in secrets(cluster)
    ]
    assert owned == [[], []]
    annotate(cluster, **{"force-delete": "true"})
    await gone(cluster)
    assert secrets(cluster) == []
    assert cluster.jobs("uninstall") == []
    (job,) = cluster.jobs("plan")
    assert "operator.werf.dev/given-up" in job["metadata"]["annotations"]


async def test_what_cannot_be_rendered_is_not_uninstalled_until_it_can(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    await from_before(cluster, start, bundle)
    werf.says = lambda job, nonce: (PlanExit.FAILED, "Error: execution error at (x: 1): no")

    delete(cluster)

    await eventually(lambda: cluster.reason() == "UninstallFailed")
    told = cluster.message()
    assert "no plan tells all that version 1.0.0 has, and it can't be rendered: Job " in told
    assert "Next attempt at " in told
    assert "spec.deletionPolicy: Orphan" in told
    assert "operator.werf.dev/force-delete" in told
    assert cluster.jobs("uninstall") == []
    werf.says = lambda job, nonce: None
    await gone(cluster)
    assert len(cluster.jobs("plan")) >= 2
    assert len(cluster.jobs("uninstall")) == 1


@pytest.mark.parametrize("way", ["force-delete", "Orphan", "values"])
async def test_nobodys_release_is_left_that_cannot_be_deleted(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, way: str
) -> None:
    """Its values were deleted together with the Bundle."""
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    await from_before(cluster, start, bundle, valuesFrom=VALUES)
    cluster.drop(path_of("configmaps", "values"))

    delete(cluster)

    await eventually(lambda: cluster.reason() == "UninstallFailed")
    assert "ConfigMap team/values" in cluster.message()
    assert cluster.jobs("plan") == []
    if way == "force-delete":
        annotate(cluster, **{"force-delete": "true"})
    elif way == "Orphan":
        cluster.change("bundles", "shop", spec={"deletionPolicy": "Orphan"})
    else:
        cluster.put_object("configmaps", "values", data={"values.yaml": "a: 2"})
    await gone(cluster)
    assert len(cluster.jobs("uninstall")) == (way == "values")


async def test_what_a_plan_named_that_was_attempted_since_may_be_deleted_too(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    await from_before(cluster, start, bundle)
    werf.todo = lambda _: ["create :batch:Job:new"]
    werf.ends = lambda job: (1, '{"status": "failed", "revision": 2, "failedOperations": ["x"]}')
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "b"}, "retry": {"limit": 0}})
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.status()["attempted"]["outcome"] == "Failed")
    werf.todo = lambda _: ["update ::ConfigMap:app"]

    delete(cluster)

    await gone(cluster)
    (uninstall,) = cluster.jobs("uninstall")
    assert [one for one in list_of(cluster, uninstall) if one.startswith("D/")] == [
        "D//ConfigMap//app",
        "D/batch/Job//new",
    ]


async def test_where_it_cannot_be_enforced_that_is_said(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    _, recorder = await from_before(cluster, start, bundle)
    cluster.drop(GUARD_POLICY)

    delete(cluster)

    await gone(cluster)
    told = recorder.said["UninstallNotEnforced"][-1]
    assert "isn't held to what plans had: there is no ValidatingAdmissionPolicy" in told
    assert cluster.jobs("plan") == []
    assert "require_guard" not in str(cluster.jobs("uninstall")[0])


WRITES = 12
"""Copies of values and their salt, the render's Job, that it runs, the deletion of the copies, the
list, that the uninstall runs, its Job, the TTL of both, the deletion of what no Bundle owns, and
the finalizer."""


@pytest.mark.parametrize("number", sampled(range(1, WRITES + 1)))
async def test_a_process_that_dies_at_any_write_renders_once_and_leaves_nothing(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make, number: int
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    operator, _ = await from_before(cluster, start, bundle, valuesFrom=VALUES)
    await operator.stop()
    delete(cluster)
    await die_after(cluster, start, number)

    await start()

    await gone(cluster)
    assert len(cluster.jobs("plan")) == len(cluster.jobs("uninstall")) == 1
    assert secrets(cluster) == []


async def test_an_uninstall_that_renders_first_makes_these_writes(
    cluster: BundleCluster, werf: Werf, start: Run, bundle: Make
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    operator, _ = await from_before(cluster, start, bundle, valuesFrom=VALUES)
    await operator.stop()
    delete(cluster)
    before = cluster.writes_seen
    await start()
    await gone(cluster)
    assert cluster.writes_seen - before == WRITES
