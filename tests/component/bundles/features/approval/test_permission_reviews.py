"""How access reviews of plans are made: how often, how many, and that nothing waits for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    approve,
    deployed,
    idle,
    lose,
    plan,
    refresh,
    waits,
)
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, fail
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.kube.fake_api import Answer, error
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.approval.permissions import ReviewTiming
from copyrator.bundles.jobs.checks import PERMISSION_KINDS
from copyrator.bundles.plans.operations import PLAN_OPERATIONS

pytestmark = pytest.mark.usefixtures("registry")


ONCE = {"limit": 0}
USER = "system:serviceaccount:team:werf"
RELEASE = 20
"""Reviews of what every release needs."""
DENIED = (
    'secrets is forbidden: User "system:serviceaccount:team:werf" cannot list resource "secrets" '
    'in API group "" in the namespace "team"'
)
SAID = "the service account team/werf cannot"


def everything(_: dict[str, str]) -> bool:
    return True


def all_but(*missing: str) -> Callable[[dict[str, str]], bool]:
    """A verb and a resource each."""

    def permits(asked: dict[str, str]) -> bool:
        return f"{asked['verb']} {asked['resource']}" not in missing

    return permits


async def reviewed(cluster: BundleCluster, name: str = "shop", **wanted: Any) -> dict[str, Any]:
    """The plan, once its permissions were reviewed."""

    def look() -> bool:
        found = plan(cluster, name)
        fits = all(found.get(key) == value for key, value in wanted.items())
        return "missingPermissions" in found and fits

    try:
        await eventually(look)
    except AssertionError:
        raise AssertionError(f"reviewed {wanted}; {cluster.status(name)}") from None
    return plan(cluster, name)


def open_reviews() -> int:
    """The plans of this process's operators that are being reviewed."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return sum(name.startswith("permissions of ") for name in names)


def held(cluster: BundleCluster, gate: asyncio.Event) -> Answer:
    """Answers no review before the test says so."""

    async def later(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await cluster.judge(request)

    return later


def answers(body: Any) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=201)

    return answer


NO_REVIEW: list[Any] = [[], {}, {"status": None}, {"status": {"allowed": "yes"}}, "true", None]


@pytest.fixture
def timing() -> BundleTiming:
    """A review that a test holds doesn't end by itself."""
    return replace(TIMING, features=(ReviewTiming(timeout=60.0, pause=600.0),))


async def test_each_permission_is_asked_about_once_for_a_plan(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = everything
    werf.todo = lambda _: [f"create ::ConfigMap:{number}" for number in range(20)]
    bundle(approval=ALWAYS)
    operator = await run(timer_interval=1.0)
    found = await reviewed(cluster, missingPermissions=0)
    assert "missing" not in found
    polls = len(cluster.asked)
    assert polls == RELEASE + 1  # delete configmaps
    counted = Counter(str(one["resourceAttributes"]) for one in cluster.asked)
    assert set(counted.values()) == {1}
    await idle(operator)
    assert len(cluster.asked) == polls
    refresh(cluster)  # a new plan is asked about anew
    await waits(cluster, number=2)
    await reviewed(cluster, number=2)
    assert len(cluster.asked) == 2 * polls


async def test_nothing_is_claimed_where_the_operator_may_not_ask(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One request says so for all plans, for a while."""
    caplog.set_level("INFO")
    bundle(approval=ALWAYS)
    operator = await run(timer_interval=1.0)
    await waits(cluster)
    await eventually(lambda: cluster.asked, "asked once")
    refresh(cluster)
    await waits(cluster, number=2)
    bundle("other", approval=ALWAYS)
    await waits(cluster, name="other")
    await idle(operator)
    assert len(cluster.asked) == 1
    assert not {"missing", "missingPermissions", "unreviewed"} & set(plan(cluster))
    said = [one.getMessage() for one in caplog.records if "permissionReviews" in one.getMessage()]
    assert len(said) == 1
    assert operator.client.outage is None
    approve(cluster, plan(cluster))
    await deployed(cluster)


FAULTS = [
    *(error(code, "Refused") for code in (403, 404, 422, 429, 500, 503)),
    *map(answers, NO_REVIEW),
]


async def test_a_review_that_fails_ends_the_others_and_is_tried_again_later(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    timing: BundleTiming,
) -> None:
    """Also about a plan that waits: its operations are in its Secret."""
    soon = replace(timing, features=(ReviewTiming(timeout=60.0, pause=0.2, longest_pause=0.2),))
    cluster.permits = all_but("get secrets")
    cluster.reviews_fault = FAULTS[0]
    bundle(approval=ALWAYS)
    operator = await run(timing=soon, timer_interval=1.0)
    await waits(cluster)

    def is_tried_again(after: int) -> bool:
        operator.let_pass(timedelta(seconds=1))
        return len(cluster.asked) >= after + 2

    for number, fault in enumerate(FAULTS):
        cluster.reviews_fault = fault
        again = partial(is_tried_again, len(cluster.asked))
        await eventually(again, f"tried again after fault {number}")
        assert "missingPermissions" not in plan(cluster), number
        assert operator.client.outage is None, number
    cluster.reviews_fault = None
    found = await reviewed(cluster, missingPermissions=1)
    assert found["number"] == 1
    assert cluster.jobs() == []


@pytest.mark.needs("charts")
async def test_reviews_that_hang_hold_nothing_up_and_end(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    """After the first that ends so, none of the others is sent."""
    cluster.reviews_fault = held(cluster, asyncio.Event())
    werf.ends = lambda _: (0, '{"status": "deployed"}')
    names = [f"shop-{number}" for number in range(6)]
    for name in names:
        bundle(name, approval=ON_RISK)
    operator = await run(timing=replace(TIMING, features=(ReviewTiming(timeout=0.5, pause=600.0),)))
    for name in names:
        await deployed(cluster, name)
        assert "missingPermissions" not in plan(cluster, name)
    await eventually(lambda: not open_reviews(), "reviews end")
    assert operator.client.outage is None
    asked = len(cluster.asked)
    assert 1 <= asked <= 2 * len(names)  # of a plan and of its baseline, which replaced it
    refresh(cluster, name="shop-0")
    await eventually(lambda: cluster.status("shop-0").get("lastHandledPlan") == "now")
    await eventually(lambda: plan(cluster, "shop-0")["outcome"] == "Planned")
    await idle(operator)
    assert len(cluster.asked) == asked


async def test_reviews_end_with_the_operator_and_with_the_bundle(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.reviews_fault = held(cluster, asyncio.Event())
    bundle(approval=ALWAYS)
    bundle("other", approval=ALWAYS)
    operator = await run()
    await eventually(lambda: len(cluster.asked) == 1, "one at a time for a namespace")
    await waits(cluster)
    await waits(cluster, name="other")
    assert open_reviews() == 2
    lose(cluster, "bundles", "other")
    await eventually(lambda: open_reviews() == 1, "the other one's end")
    await operator.stop()
    assert open_reviews() == 0


async def test_reviews_that_wait_for_one_that_fails_are_not_sent(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    gate = asyncio.Event()

    async def refuse_later(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await FAULTS[0](request)

    cluster.reviews_fault = refuse_later
    bundle(approval=ALWAYS)
    bundle("other", approval=ALWAYS)
    await run()
    await waits(cluster)
    await waits(cluster, name="other")
    await eventually(lambda: (open_reviews(), len(cluster.asked)) == (2, 1), "one waits")
    gate.set()
    await eventually(lambda: not open_reviews(), "both end")
    assert len(cluster.asked) == 1


async def test_after_a_restart_a_plan_that_waits_is_asked_about(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.reviews_fault = held(cluster, asyncio.Event())
    bundle(approval=ALWAYS)
    operator = await run()
    await waits(cluster)
    await eventually(lambda: cluster.asked)
    await operator.stop(0)
    cluster.reviews_fault, cluster.permits = None, all_but("get secrets")
    operator = await run()
    await reviewed(cluster, missingPermissions=1)
    asked = len(cluster.asked)
    await operator.stop()
    operator = await run(timer_interval=1.0)  # what is known isn't asked again
    await waits(cluster)
    await idle(operator)
    assert len(cluster.asked) == asked


async def test_a_plan_that_was_replaced_meanwhile_gets_no_findings_of_the_former(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    gate = asyncio.Event()
    cluster.reviews_fault = held(cluster, gate)
    cluster.permits = all_but("get secrets")
    bundle(approval=ALWAYS)
    operator = await run()
    await waits(cluster)
    await eventually(lambda: cluster.asked)
    cluster.permits = everything
    werf.holds_plans = True
    refresh(cluster)
    await eventually(lambda: plan(cluster)["outcome"] == "Running")
    gate.set()
    await idle(operator)
    assert "missingPermissions" not in plan(cluster)
    werf.finish(cluster.jobs("plan")[-1])
    await reviewed(cluster, number=2, missingPermissions=0)


async def test_a_huge_plan_costs_a_limited_number_of_reviews(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = lambda asked: False
    many = [f"create ns-{number}::ConfigMap:a" for number in range(PLAN_OPERATIONS)]
    werf.todo = lambda _: many
    bundle(approval=ALWAYS)
    await run()
    found = await reviewed(cluster)
    assert len(cluster.asked) == RELEASE + 7 * PERMISSION_KINDS
    assert len(found["missing"]) == 20
    assert found["missingPermissions"] == len(cluster.asked)
    assert found["unreviewed"] == PLAN_OPERATIONS - PERMISSION_KINDS


async def test_what_is_missing_is_in_the_status_of_a_plan_that_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = all_but("create configmaps", "patch configmaps", "list secrets")
    bundle(approval=ALWAYS)
    await run()
    await waits(cluster)
    found = await reviewed(cluster)
    assert found["missing"] == [
        {"verbs": ["create", "patch"], "resource": "configmaps", "namespace": TEAM},
        {"verbs": ["list"], "resource": "secrets", "namespace": TEAM},
    ]
    assert found["missingPermissions"] == 3
    assert "unreviewed" not in found
    assert {one["user"] for one in cluster.asked} == {USER}
    assert cluster.asked[0]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    ]
    waiting = await waits(cluster)  # it still does
    assert waiting["id"]


async def test_a_plan_that_fails_for_want_of_a_permission_says_so_and_what_else_is_missing(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = all_but("list secrets", "get configmaps")
    werf.says = lambda *_: (1, f"Error: get release history: {DENIED}\n")
    bundle(approval=ALWAYS, retry=ONCE)
    await run()
    found = await waits(cluster, "PlanUnstable")
    assert f"{SAID} list secrets in team" in found["message"]
    assert "system:serviceaccount" not in found["message"]
    found = await reviewed(cluster, missingPermissions=2)
    assert found["missing"] == [
        {"verbs": ["get"], "resource": "configmaps", "namespace": TEAM},
        {"verbs": ["list"], "resource": "secrets", "namespace": TEAM},
    ]


async def test_a_deploy_that_fails_for_want_of_a_permission_says_it_in_the_same_words(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    def ends(job: dict[str, Any]) -> tuple[int, str]:
        pod = f"{job['metadata']['name']}-pod"
        cluster.logs[pod] += f"Error: failed release: {DENIED}\n"
        return fail(job)

    cluster.ends = ends
    bundle(retry=ONCE)
    await run()
    await eventually(lambda: cluster.reason() == "Quarantined")
    attempted = cluster.status()["attempted"]
    assert attempted["message"] == f"create: Pod/bad failed: {SAID} list secrets in team"
    assert attempted["missing"] == [{"verbs": ["list"], "resource": "secrets", "namespace": TEAM}]
    assert DENIED in cluster.status()["lastError"]["logTail"]
    assert cluster.asked == []


async def test_operations_that_can_not_be_read_back_are_tried_once(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    await operator.stop()
    secret = f"{found['job']}-operations"
    lose(cluster, "secrets", secret)
    cluster.permits = everything
    cluster.asked.clear()
    operator = await run(timer_interval=1.0)
    reads = lambda: [one for one in cluster.seen if one.path.endswith(secret)]  # noqa: E731
    await eventually(lambda: len(reads()) >= 1)
    await polled(operator, registry)
    await idle(operator)
    assert len([one for one in reads() if one.verb == "get"]) == 1
    assert cluster.asked == []
