"""How many plans are made at once, whose turn it is, and what a plan that waits costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    PATIENT,
    annotate,
    approve,
    deployed,
    idle,
    lose,
    pending,
    plan,
)
from tests.component.bundles.fake_cluster import WRITES, BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.bundles.plans.queue import PlanTiming
from copyrator.oci.notifications import Push

pytestmark = pytest.mark.usefixtures("registry")

PLACES = 8
MOST = 4
"""As many of them as one namespace may have."""
NAMES = [f"shop{number:02}" for number in range(20 if LONG else 12)]
WAITING = 200 if LONG else 18


def running(cluster: BundleCluster) -> list[dict[str, Any]]:
    return [job for job in cluster.jobs("plan") if not job.get("status", {}).get("conditions")]


async def finish_all(cluster: BundleCluster, werf: Werf, names: list[str]) -> None:
    """Let one plan after the other end until all of these wait for approval."""
    while not all(pending(cluster, name) == "AwaitingApproval" for name in names):
        jobs = await eventually(lambda: running(cluster), "a plan runs")
        werf.finish(jobs[0])
        await asyncio.sleep(0)
        await eventually(
            lambda: running(cluster) or all(plan(cluster, name).get("id") for name in names),
            "the next one begins",
        )
        if not running(cluster):
            await eventually(lambda: all(pending(cluster, name) for name in names))


async def test_so_many_plans_run_at_once_and_all_get_their_turn(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_plans = True
    for name in NAMES:
        bundle(name, approval=ALWAYS)
    operator = await run(max_plan_jobs=PLACES)
    await eventually(lambda: len(running(cluster)) == MOST)
    await idle(operator)
    assert len(running(cluster)) == MOST

    await finish_all(cluster, werf, NAMES)

    assert cluster.most_running("plan") == MOST
    assert len(cluster.jobs("plan")) == len(NAMES)


async def test_a_push_is_polled_for_twice_while_a_plan_waits_and_keeps_nobody_busy(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_plans = True
    operator = await run(max_plan_jobs=1, timer_interval=3600.0)
    names = ("one", "two")
    for name in names:
        bundle(name, approval=ALWAYS)
    await eventually(lambda: all(pending(cluster, name) == "Planning" for name in names))
    await eventually(lambda: running(cluster))
    await idle(operator)

    operator.controller.pushed([Push("app")])
    await idle(operator)
    digest = registry.put("app", "1.0.0", "other")  # as CNCF distribution does
    operator.let_pass(timedelta(seconds=3))

    await eventually(
        lambda: {cluster.status(name)["target"]["digest"] for name in names} == {digest}
    )
    await idle(operator)
    reconciled = len(operator.reconciled)
    await idle(operator)
    assert len(operator.reconciled) == reconciled


LEAVES: dict[str, Callable[[BundleCluster, str], object]] = {
    "deleted": lambda cluster, name: lose(cluster, "bundles", name),
    "suspended": lambda cluster, name: cluster.change("bundles", name, spec={"suspend": True}),
    "invalid": lambda cluster, name: cluster.change("bundles", name, spec={"repo": "A B"}),
    "paused": lambda cluster, name: annotate(cluster, name, **{"disable-autoupdate": "true"}),
    "not asked for": lambda cluster, name: cluster.change("bundles", name, spec={"approval": None}),
    "edited": lambda cluster, name: cluster.change(
        "bundles", name, spec={"env": {"WERF_ENV": "b"}}
    ),
}


@pytest.mark.parametrize("why", list(LEAVES)[:: 1 if LONG else 2])
async def test_one_that_leaves_while_its_plan_runs_holds_up_no_other(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    why: str,
) -> None:
    """Those that wait are called at once, not when they look again."""
    names = NAMES[:3]
    operator, planned = await one_is_planned(cluster, run, bundle, werf, names)
    LEAVES[why](cluster, planned)
    await idle(operator)
    for job in running(cluster):  # as the Job controller does
        if "operator.werf.dev/given-up" in job["metadata"]["annotations"]:
            cluster.end_without_pod(job["metadata"]["name"])
    await finish_all(cluster, werf, [name for name in names if name != planned])


async def one_is_planned(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, names: list[str]
) -> tuple[Any, str]:
    """An operator with one place for plans; the name of the Bundle that has it."""
    werf.holds_plans = True
    for name in names:
        bundle(name, approval=ALWAYS)
    never = replace(TIMING, features=(PlanTiming(requeue=1e6),))  # those that wait are called
    operator = await run(max_plan_jobs=1, timing=never)
    await eventually(lambda: len(running(cluster)) == 1)
    await idle(operator)
    (job,) = running(cluster)
    return operator, job["metadata"]["labels"]["operator.werf.dev/bundle"]


async def test_plans_whose_jobs_are_lost_or_refused_hold_up_no_other(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_plans = True
    for name in NAMES[:6]:
        bundle(name, approval=ALWAYS, retry=PATIENT)
    refused = cluster.refuse("create", "/jobs", 403, "exceeded quota")
    operator = await run(max_plan_jobs=4)
    await eventually(lambda: all(plan(cluster, name).get("failures") for name in NAMES[:6]))
    refused.clear()
    await eventually(lambda: len(running(cluster)) == 2)
    for job in running(cluster):
        lose(cluster, "jobs", job["metadata"]["name"])
    await finish_all(cluster, werf, NAMES[:6])
    await idle(operator)


async def test_a_plan_that_waits_for_approval_costs_polls_only(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    for number in range(WAITING):
        bundle(f"shop{number}", approval=ALWAYS)
    operator = await run(max_plan_jobs=50, timer_interval=1.0)
    names = [f"shop{number}" for number in range(WAITING)]
    await eventually(lambda: all(pending(cluster, name) == "AwaitingApproval" for name in names))
    await idle(operator)
    seen, asked = len(cluster.seen), len(registry.asked)
    loop = asyncio.get_running_loop()
    started = loop.time()
    await eventually(lambda: len(registry.asked) >= asked + 5, "several intervals pass")
    await eventually(lambda: not operator.queue.working, "they are evaluated")
    since = [one for one in cluster.seen[seen:] if one.verb != "watch"]
    assert [(one.verb, one.path) for one in since] == []
    assert len(registry.asked) - asked <= (loop.time() - started) + 2  # all share one tag
    # And each of them is still seen to.
    approve(cluster, plan(cluster, "shop17"), name="shop17")
    await deployed(cluster, name="shop17")
    writes = [one for one in cluster.seen[seen:] if one.verb in WRITES]
    assert {one.path.split("/")[-1] for one in writes if "/bundles/" in one.path} <= {
        "status",
        "shop17",
    }


async def test_a_plan_whose_turn_comes_while_the_registry_is_asked_is_made_all_the_same(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, registry: FakeRegistry
) -> None:
    werf.holds_plans = True
    bundle(approval=ALWAYS)
    operator = await run(max_plan_jobs=2, timer_interval=0.2)
    await eventually(lambda: cluster.jobs("plan"), "the first is planned")
    bundle("other", approval=ALWAYS)
    await eventually(lambda: cluster.reason("other") == "Planning", "the other waits")
    await polled(operator, registry)  # nothing has changed for some time
    registry.gate = asyncio.Event()
    (first,) = cluster.jobs("plan")
    await eventually(lambda: registry.in_flight, "the registry is asked")
    werf.finish(first)
    await idle(operator)
    registry.gate.set()
    await eventually(lambda: len(cluster.jobs("plan")) == 2, "the other is planned")
