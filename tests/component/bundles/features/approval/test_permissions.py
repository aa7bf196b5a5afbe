"""What the account of a plan's deploy lacks, and where that is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    idle,
    lose,
    waits,
)
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, fail
from tests.component.bundles.fake_werf import CREATE, Werf
from tests.component.bundles.features.approval.reviewing import (
    DENIED,
    ONCE,
    SAID,
    USER,
    all_but,
    everything,
    reviewed,
)
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.approval.permissions import ReviewTiming

pytestmark = pytest.mark.usefixtures("registry")


@pytest.fixture
def timing() -> BundleTiming:
    """A review that a test holds doesn't end by itself."""
    return replace(TIMING, features=(ReviewTiming(timeout=60.0, pause=600.0),))


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


async def test_kinds_that_are_not_served_are_counted_and_not_claimed(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """A CustomResourceDefinition of the same plan, for example."""
    cluster.permits = everything
    werf.todo = lambda _: [CREATE, "create :example.com:Thing:a", "create :example.com:Thing:b"]
    bundle(approval=ALWAYS)
    await run()
    found = await reviewed(cluster, missingPermissions=0)
    assert found["unreviewed"] == 1


async def test_a_release_whose_namespace_is_missing_needs_to_create_it(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = all_but("create namespaces", "patch namespaces")
    cluster.grant("elsewhere")
    bundle(approval=ALWAYS, project_namespace="elsewhere")
    await run()
    found = await reviewed(cluster)
    assert found["missing"] == [{"verbs": ["create", "patch"], "resource": "namespaces"}]


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


async def test_a_plan_that_fails_so_names_it_where_nothing_may_be_asked(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.says = lambda *_: (1, f"Error: get release history: {DENIED}\n")
    bundle(approval=ALWAYS, retry=ONCE)
    await run()
    found = await waits(cluster, "PlanUnstable")
    assert found["missing"] == [{"verbs": ["list"], "resource": "secrets", "namespace": TEAM}]
    assert "missingPermissions" not in found


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


async def test_an_account_that_does_not_exist_is_said_to_be_missing_and_not_asked_about(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.permits = everything
    lose(cluster, "serviceaccounts", "werf")
    bundle(approval=ALWAYS)
    operator = await run()
    await eventually(lambda: cluster.reason() == "ServiceAccountMissing")
    await idle(operator)
    assert cluster.asked == []
