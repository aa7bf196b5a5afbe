"""What is deployed is what was approved: requests, retries, and edits that come between."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    PATIENT,
    annotate,
    approve,
    deployed,
    idle,
    lose,
    operations,
    plan,
    secrets,
    waits,
)
from tests.component.bundles.drifting import CORRECT, EDITED, Release
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fake_werf import CREATE, DELETE, UPDATE, Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.long import LONG

from copyrator.api.keys import BundleKey

pytestmark = pytest.mark.usefixtures("registry")


async def test_a_force_and_a_request_are_asked_for_although_the_same_was_approved_before(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    werf.todo = lambda _: [UPDATE]  # which an approved create would cover

    annotate(cluster, requestedAt="now")
    found = await waits(cluster)
    await idle(operator)
    assert "lastHandledRequest" not in cluster.status()
    assert len(werf.applied) == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    await deployed(cluster)

    annotate(cluster, forceAt="now")
    found = await waits(cluster)
    await idle(operator)
    assert len(werf.applied) == 2
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("lastHandledForce") == "now")
    await deployed(cluster)

    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    found = await waits(cluster)
    await idle(operator)
    assert cluster.status()["forceUpdate"] == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status()["forceUpdate"] == 0)
    await deployed(cluster)
    assert len(werf.applied) == 4


async def test_a_failed_apply_is_tried_again_as_far_as_it_was_approved(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    werf.todo = lambda _: [CREATE, "create ::Service:app"]
    werf.ends = fail
    first = await waits(cluster)
    approve(cluster, first)
    await eventually(lambda: cluster.reason() == "DeployFailed")
    # It did a half: the rest, and an update of what is there, was approved.
    werf.todo = lambda _: [UPDATE, "create ::Service:app"]
    await eventually(lambda: len(werf.applied) == 2)
    await eventually(lambda: cluster.reason() == "DeployFailed")
    second = cluster.status()["history"][0]
    assert (second["approvedBy"], second["outcome"]) == ("ann", "Failed")
    assert second["plan"] != first["id"]
    # Something else wasn't.
    werf.todo, werf.ends = lambda _: [UPDATE, DELETE], succeed
    found = await waits(cluster, operations=2)
    await idle(operator)
    assert len(werf.applied) == 2
    assert secrets(cluster) == operations(found, first)
    approve(cluster, found, "cleo")
    status = await deployed(cluster)
    assert status["history"][0]["approvedBy"] == "cleo"


async def test_a_first_install_into_a_missing_namespace_creates_it_as_approved(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.grant("prod")
    bundle(approval=ON_RISK, retry=PATIENT, project_namespace="prod")
    await run()
    werf.holds_deploys = True
    found = await waits(cluster)
    assert found["risky"] == ["create ::Namespace:prod"]
    assert found["counts"] == {"create": 2}
    approve(cluster, found)
    # An attempt that is lost before it creates the namespace needs no second approval.
    await eventually(lambda: len(cluster.jobs()) == 1)
    werf.holds_deploys = False
    lose(cluster, "jobs", cluster.runs[-1])
    await deployed(cluster)
    assert len(werf.applied) == 1


async def test_a_spec_edited_before_the_job_could_be_created_is_planned(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The same process tries to create the Job again: not one of another spec."""
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    found = await waits(cluster)
    refused = cluster.refuse("create", "/jobs", 500)
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Running")
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    key = BundleKey("team", "shop")

    def is_seen() -> bool:  # by the next try, too: none is under way with what was before
        return operator.bundles.get(key).generation == 2 and not operator.queue.working

    await eventually(is_seen)
    refused.clear()
    operator.let_pass(timedelta(minutes=1))
    again = await waits(cluster)
    assert again["id"] != found["id"]
    await idle(operator)
    assert werf.applied == []
    approve(cluster, again)
    await deployed(cluster)


@pytest.mark.parametrize(
    ("what", "how"),
    list(product(["operations", "values-000", "salt"], ["replaced", "deleted"]))
    if LONG
    else [("operations", "replaced"), ("values-000", "deleted"), ("salt", "replaced")],
)
async def test_a_secret_of_ours_that_is_not_as_planned_ends_the_deploy(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    what: str,
    how: str,
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(approval=ALWAYS, values="values", retry=PATIENT)
    await run(timing=replace(TIMING, job_blocked=0.1, job_recheck=0.2))
    found = await waits(cluster)
    werf.holds_deploys = True
    cluster.pods = {"waiting": {"reason": "ContainerCreating"}}
    approve(cluster, found)
    await eventually(lambda: len(cluster.jobs()) == 1)
    werf.holds_deploys = False
    (job,) = cluster.jobs()
    name = f"{found['job'] if what == 'operations' else job['metadata']['name']}-{what}"
    secret = cluster.look("secrets", name) or {}
    lose(cluster, "secrets", name)
    if how == "replaced":
        data = dict.fromkeys(secret["data"], "b3RoZXI=")
        cluster.write(path_of("secrets", name), {**secret, "data": data})
        werf.finish(job)
    else:  # the pod can't start; the Job controller ends what was given up
        given_up = "operator.werf.dev/given-up"
        await eventually(
            lambda: given_up in (cluster.jobs()[0]["metadata"]["annotations"]), "given up"
        )
        cluster.end_without_pod(job["metadata"]["name"])
    await eventually(lambda: cluster.status().get("history"))
    entry = cluster.status()["history"][0]
    assert (entry["outcome"], entry["reason"]) == ("Interrupted", "PlanChanged"), entry
    assert werf.applied == []


async def test_an_approval_outlasts_a_spec_that_is_refused_when_its_deploy_fails(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The retry's plan is compared with what was approved, whose Secret is still there."""
    bundle(approval=ALWAYS, retry=PATIENT)
    await run()
    werf.holds_deploys = True
    first = await waits(cluster)
    approve(cluster, first)
    await eventually(lambda: len(cluster.jobs()) == 1)
    cluster.change("bundles", "shop", spec={"version": "???"})
    await eventually(lambda: cluster.reason() == "InvalidSpec")
    werf.ends = fail
    werf.finish(cluster.jobs()[0])
    await eventually(lambda: cluster.status()["attempted"]["outcome"] == "Failed")
    await eventually(lambda: cluster.reason() == "InvalidSpec")
    assert secrets(cluster) == operations(first)
    werf.holds_deploys, werf.ends = False, succeed
    cluster.change("bundles", "shop", spec={"version": "1.0.0"})
    status = await deployed(cluster)
    assert status["history"][0]["approvedBy"] == "ann"


SOON = {"limit": 3, "backoff": "1s"}


def outcomes(cluster: BundleCluster) -> list[str]:
    """The reasons of the attempts, oldest first."""
    return [one["reason"] for one in reversed(cluster.status()["history"])]


async def test_the_retry_of_an_exact_plan_is_planned_anew_with_its_approval(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    def end(job: dict[str, Any]) -> tuple[int, str]:
        first = len(werf.applied) == 1
        return (1, "Error: the hook failed") if first else succeed(job)

    werf.ends = end
    werf.saves = lambda _: f"after {len(werf.applied)}"
    bundle(approval=ALWAYS, retry=SOON)
    await run(timer_interval=1.0)
    found = await waits(cluster)
    assert found["exact"] is True
    approve(cluster, found)

    await deployed(cluster)

    assert outcomes(cluster) == ["DeployFailed", "Deployed"]
    assert plan(cluster)["id"] != found["id"]
    assert plan(cluster)["exact"] is True


@pytest.mark.needs("charts")
async def test_a_file_that_keeps_differing_is_planned_without_it_after_two_deploys(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The chart is bound, so its approval carries over."""
    werf.saves = lambda job: job["metadata"]["name"]
    bundle(approval=ALWAYS, retry=SOON)
    await run(timer_interval=1.0)
    approve(cluster, await waits(cluster))

    await deployed(cluster)

    assert outcomes(cluster) == ["PlanChanged", "PlanChanged", "Deployed"]
    assert plan(cluster)["exact"] is False
    assert "keep changing" in plan(cluster)["inexact"]


@pytest.mark.parametrize("is_steady", [True, False])
@pytest.mark.needs("drift")
async def test_drift_is_corrected_by_the_file_of_its_check_or_at_last_without_one(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, is_steady: bool
) -> None:
    release = Release(cluster, werf)
    bundle(drift=CORRECT, retry=SOON)
    await run(timer_interval=1.0)
    await release.in_sync()
    state = "steady" if is_steady else None
    werf.saves = lambda job: state or job["metadata"]["name"]
    release.changed += EDITED

    await release.look()

    await eventually(lambda: outcomes(cluster)[-2:].count("Deployed") and not release.changed)
    await release.in_sync()
    changed = [] if is_steady else ["PlanChanged", "PlanChanged"]
    assert outcomes(cluster) == ["Deployed", *changed, "Deployed"]
