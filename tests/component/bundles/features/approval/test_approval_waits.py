"""What becomes of a plan that waits, and of Bundles whose approval is switched on or off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
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
    pending,
    plan,
    refresh,
    reject,
    secrets,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fake_werf import CREATE, DELETE, UPDATE, Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = pytest.mark.usefixtures("registry")

A_MINUTE = timedelta(minutes=1)
SELDOM = 1e9
"""Seconds between two polls: none is due in a test that lets minutes pass."""


async def test_a_stream_of_pushes_replaces_no_plan_that_waits(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    operator = await run(timer_interval=1.0)
    found = await waits(cluster)
    for number in range(1, 6):
        registry.put("app", f"1.{number}.0", f"{number}")
        registry.put("app", "1.0.0", f"pushed again {number}")
        annotate(cluster, requestedAt=f"{number}")  # polls at once
        await waits(cluster, newer=f"1.{number}.0", id=found["id"])
    await idle(operator)
    assert len(cluster.jobs("plan")) == 1
    approve(cluster, found)
    await eventually(lambda: werf.applied)
    assert werf.applied[0][0] == found["digest"]
    await waits(cluster, version="1.5.0")


@pytest.mark.parametrize("restart", [False, True])
async def test_a_plan_that_nobody_decides_about_is_made_anew_when_it_expires(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    restart: bool,
) -> None:
    bundle(approval={"mode": "Always", "expires": "1m"})
    operator = await run()
    found = await waits(cluster)
    if restart:
        await operator.stop()
        operator = await run()
        await idle(operator)
    werf.todo = lambda _: [CREATE, DELETE]
    operator.let_pass(A_MINUTE)
    again = await waits(cluster, number=2)
    assert again["startedAt"] >= found["expiresAt"]
    assert datetime.fromisoformat(again["startedAt"]) <= operator.now()
    assert again["id"] != found["id"]


async def test_an_approval_does_not_expire(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval={"mode": "Always", "expires": "1m"}, suspend=True)
    operator = await run()
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    found = plan(cluster)
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    operator.let_pass(A_MINUTE)
    assert operator.now() > datetime.fromisoformat(found["expiresAt"])
    cluster.change("bundles", "shop", spec={"suspend": None})
    status = await deployed(cluster)
    assert status["plan"]["job"] == found["job"]


async def test_a_suspended_bundle_is_planned_on_request_only(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, suspend=True)
    operator = await run()
    await eventually(lambda: cluster.reason() == "Suspended")
    await idle(operator)
    assert cluster.runs == []
    assert pending(cluster) == "Suspended"
    werf.holds_plans = True
    refresh(cluster)
    await eventually(lambda: cluster.jobs("plan"))
    await waits(cluster, "Planning", outcome="Running")
    werf.holds_plans = False
    werf.finish(cluster.jobs("plan")[0])
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    assert cluster.status()["lastHandledPlan"] == "now"
    await waits(cluster)
    approve(cluster, plan(cluster))
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    await idle(operator)
    assert cluster.jobs() == []


async def test_a_paused_bundle_is_not_planned_nor_deployed_and_a_decision_is_kept(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, metadata={"annotations": {"operator.werf.dev/plan-at": "1"}})
    annotate(cluster, **{"disable-autoupdate": "true"})
    operator = await run()
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert cluster.runs == []
    assert registry.asked == []
    annotate(cluster, **{"disable-autoupdate": None})
    found = await waits(cluster)
    annotate(cluster, **{"disable-autoupdate": "true"})
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    asked = len(registry.asked)
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    annotate(cluster, **{"approved-plan": None, "approved-by": None})
    await idle(operator)
    assert cluster.jobs() == []
    assert len(registry.asked) == asked
    annotate(cluster, **{"disable-autoupdate": None})
    await deployed(cluster)


@pytest.mark.parametrize(
    "is_preview",
    [
        pytest.param(False, id="plan"),
        pytest.param(True, id="preview", marks=pytest.mark.needs("previews")),
    ],
)
async def test_a_plan_without_a_job_is_made_when_its_bundle_is_not_paused_any_more(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, is_preview: bool
) -> None:
    """The process died between the record and the Job, and then the Bundle was paused."""

    def record() -> dict[str, Any]:
        found: dict[str, Any] = cluster.status().get("preview" if is_preview else "plan", {})
        return found

    refused = cluster.refuse("create", "/jobs", 500)
    bundle(approval=None if is_preview else ALWAYS, suspend=is_preview)
    if is_preview:
        annotate(cluster, **{"plan-at": "now", "plan-version": "1.*"})
    operator = await run()
    await eventually(lambda: record().get("outcome") == "Running")
    await operator.stop()
    annotate(cluster, **{"disable-autoupdate": "true"})
    refused.clear()

    operator = await run()
    await eventually(lambda: "isn't created until the annotation" in record().get("message", ""))
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert cluster.runs == []
    assert pending(cluster) != "Planning"

    annotate(cluster, **{"disable-autoupdate": None})
    await eventually(lambda: record()["outcome"] == "Planned")
    assert (record()["number"], "message" in record()) == (1, False)
    assert len(cluster.jobs("plan")) == 1


async def test_what_waits_is_deployed_when_approval_is_no_longer_asked_for(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    await waits(cluster)
    cluster.change("bundles", "shop", spec={"approval": None})
    status = await deployed(cluster)
    assert "plan" not in status["history"][0]
    assert [made for _, made in werf.applied] == [""]
    await idle(operator)
    assert secrets(cluster) == set()
    # What was planned then is worth nothing later.
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    werf.revision = 1
    annotate(cluster, forceAt="now")
    await waits(cluster, number=2)


async def test_an_approval_ends_with_a_deploy_that_needed_none(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "60s"})
    operator = await run()
    werf.ends = fail
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.reason() == "DeployFailed")
    werf.ends = succeed
    cluster.change("bundles", "shop", spec={"approval": None})
    await deployed(cluster)
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    werf.todo = lambda _: [UPDATE]
    annotate(cluster, forceAt="now")
    await waits(cluster)
    await idle(operator)
    assert len(werf.applied) == 2


async def test_a_deploy_that_runs_when_approval_is_asked_for_ends_and_its_retry_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_deploys = True
    bundle(retry=PATIENT)
    operator = await run()
    await eventually(lambda: len(cluster.jobs()) == 1)
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    await idle(operator)
    cluster.end_job(cluster.runs[0], *fail({}))
    found = await waits(cluster)
    await idle(operator)
    assert len(cluster.jobs()) == 1
    werf.holds_deploys = False
    approve(cluster, found)
    await deployed(cluster)


@pytest.mark.needs("charts")
async def test_a_risky_retry_of_a_plan_that_passed_by_itself_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK, retry=PATIENT)
    operator = await run()
    werf.ends = fail
    await eventually(lambda: cluster.reason() == "DeployFailed")
    werf.todo = lambda _: [UPDATE, DELETE]
    found = await waits(cluster)
    assert found["risky"] == [DELETE]
    await idle(operator)
    assert len(werf.applied) == 1
    assert pending(cluster) == "AwaitingApproval"


def ttl(cluster: BundleCluster, number: int = 0) -> int | None:
    found: int | None = cluster.jobs("plan")[number]["spec"].get("ttlSecondsAfterFinished")
    return found


@pytest.mark.parametrize("decide", [approve, reject], ids=["approved", "rejected"])
async def test_the_job_of_a_plan_is_kept_as_long_as_it_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, decide: Callable[..., None]
) -> None:
    """Not by a timer of the Job: nobody may be there for longer than that."""
    bundle(approval={"mode": "Always", "expires": "720h"})
    operator = await run()
    found = await waits(cluster)
    await idle(operator)
    assert ttl(cluster) is None
    await operator.stop()
    await run()
    decide(cluster, found)
    await eventually(lambda: ttl(cluster) == 3 * 24 * 3600)


@pytest.mark.parametrize("annotation", ["", "disable-autoupdate"], ids=["", "paused"])
async def test_the_job_of_a_plan_that_was_only_shown_is_kept_until_it_expires(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    annotation: str,
) -> None:
    """Long before the next poll, and also where none follows."""
    bundle(suspend=True, approval={"mode": "Never", "expires": "1m"})
    operator = await run(timer_interval=SELDOM)
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    assert ttl(cluster) is None
    if annotation:
        annotate(cluster, **{annotation: "true"})
        await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert ttl(cluster) is None
    operator.let_pass(A_MINUTE)
    assert operator.now() >= datetime.fromisoformat(plan(cluster)["expiresAt"])
    await eventually(lambda: ttl(cluster) == 3 * 24 * 3600, "its TTL is set")


async def test_the_job_of_a_plan_that_was_replaced_goes(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, job={"ttlSecondsAfterFinished": 77})
    await run()
    await waits(cluster)
    refresh(cluster)
    await waits(cluster, number=2)
    await eventually(lambda: ttl(cluster) == 77)
    assert ttl(cluster, 1) is None
