"""A preview and a plan of one Bundle: neither takes what is the other's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    deployed,
    idle,
    plan,
    refresh,
    secrets,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.previews.test_previews import ask, preview
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, reconciled
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = pytest.mark.needs("approval")

GIVEN_UP = "operator.werf.dev/given-up"
PROMPT = {"limit": 3, "backoff": "1s"}


async def both(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> Any:
    """Both are being made; the Jobs of neither have ended."""
    registry.put("app", "2.0.0", "two")
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    werf.holds_plans = True
    bundle(approval=ALWAYS, values="values", retry=PROMPT)
    operator = await run(max_plan_jobs=8)
    await eventually(lambda: plan(cluster).get("job") and len(cluster.jobs("plan")) == 1)
    ask(cluster, "2.0.0")
    await eventually(lambda: preview(cluster).get("job") and len(cluster.jobs("plan")) == 2)
    await idle(operator)
    return operator


def of(cluster: BundleCluster, job: str) -> set[str]:
    """Names of the Secrets of a plan's Job."""
    every = secrets(cluster) | secrets(cluster, inputs=True)
    return {name for name in every if name.startswith(f"{job}-")}


def end(cluster: BundleCluster, werf: Werf, job: str, how: str) -> None:
    if how == "fails":
        cluster.logs[f"{job}-pod"] = "Error: no\n"
        cluster.end_job(job, 1)
    elif how == "is deleted":
        cluster.drop(f"/apis/batch/v1/namespaces/team/jobs/{job}")
    else:
        werf.finish(cluster.look("jobs", job) or {})


ENDS = ("succeeds", "fails", "is deleted")


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the operator restarts"])
@pytest.mark.parametrize("how", ENDS)
async def test_the_end_of_a_preview_takes_nothing_of_the_plans(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    how: str,
    restarted: bool,
) -> None:
    operator = await both(cluster, registry, run, bundle, werf)
    job, mine = plan(cluster)["job"], of(cluster, plan(cluster)["job"])
    assert len(mine) >= 2

    end(cluster, werf, preview(cluster)["job"], how)
    await eventually(lambda: preview(cluster).get("outcome") in ("Planned", "Failed"))
    await idle(operator)
    if restarted:
        await operator.stop()
        operator = await run(max_plan_jobs=8)
        await idle(operator)

    assert plan(cluster)["job"] == job
    assert of(cluster, job) == mine
    there = cluster.look("jobs", job) or {}
    assert GIVEN_UP not in there["metadata"]["annotations"]
    werf.finish(there)
    found = await waits(cluster, version="1.0.0")
    werf.holds_plans = False
    approve(cluster, found)
    await deployed(cluster, version="1.0.0")


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the operator restarts"])
@pytest.mark.parametrize("how", ["succeeds", "is replaced", "is deployed"])
async def test_the_end_of_a_plan_takes_nothing_of_the_previews(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    how: str,
    restarted: bool,
) -> None:
    operator = await both(cluster, registry, run, bundle, werf)
    job, its = preview(cluster)["job"], of(cluster, preview(cluster)["job"])
    assert len(its) >= 2

    end(cluster, werf, plan(cluster)["job"], "succeeds")
    found = await waits(cluster, version="1.0.0")
    if how == "is replaced":
        cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
        await eventually(lambda: plan(cluster).get("number") == 2)
    if how == "is deployed":
        approve(cluster, found)
        await deployed(cluster)
    await idle(operator)
    if restarted:
        await operator.stop()
        operator = await run(max_plan_jobs=8)
        await idle(operator)

    if how != "is replaced":
        assert of(cluster, job) == its
        there = cluster.look("jobs", job) or {}
        assert GIVEN_UP not in there["metadata"]["annotations"]
        werf.finish(there)
        await eventually(lambda: preview(cluster).get("outcome") == "Planned")
        assert preview(cluster)["version"] == "2.0.0"
    await eventually(lambda: plan(cluster).get("job") is not None)


def asked_for_results(cluster: BundleCluster, since: int) -> list[str]:
    """Requests for pods and their logs, beside the list that the watch of all begins with."""
    return [
        seen.path
        for seen in cluster.seen[since:]
        if "/namespaces/" in seen.path and "/pods" in seen.path and seen.verb in ("get", "list")
    ]


@pytest.mark.needs("charts")
@pytest.mark.parametrize("which", ["a plan", "a preview"])
async def test_what_hasnt_begun_is_never_asked_for_its_result(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf, which: str
) -> None:
    registry.put("app", "2.0.0", "two")
    refused = cluster.refuse("create", "/jobs", 500)
    since = len(cluster.seen)
    bundle(suspend=which == "a preview", approval=ALWAYS)
    if which != "a plan":
        ask(cluster, "2.0.0")
    operator = await run()
    name = "preview" if which == "a preview" else "plan"
    await eventually(lambda: cluster.status().get(name, {}).get("outcome") == "Running")
    await reconciled(operator)

    assert asked_for_results(cluster, since) == []
    for one in ("plan", "preview"):
        assert cluster.status().get(one, {}).get("outcome") in (None, "Running")

    refused.clear()
    operator.let_pass(timedelta(minutes=1))
    if which != "a plan":
        await eventually(lambda: preview(cluster).get("outcome") == "Planned")
    if which != "a preview":
        await eventually(lambda: plan(cluster).get("outcome") == "Planned")


async def test_what_waits_for_its_turn_is_never_asked_for_its_result(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put("app", "2.0.0", "two")
    werf.holds_plans = True
    bundle("first", approval=ALWAYS)
    operator = await run(max_plan_jobs=1)
    await eventually(lambda: len(cluster.jobs("plan")) == 1)
    since = len(cluster.seen)
    bundle(approval=ALWAYS)
    ask(cluster, "2.0.0")
    refresh(cluster, "again", name="first")
    count = len(operator.reconciled)
    await eventually(lambda: len(operator.reconciled) > count + 3)
    await idle(operator)

    assert [path for path in asked_for_results(cluster, since) if "shop" in path] == []
    assert preview(cluster).get("outcome") in (None, "Running")
