"""What becomes of plans that werf 3 saves: retries, drift, and objects that change all the time."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, approve, deployed, plan, waits
from tests.component.bundles.drifting import CORRECT, EDITED, Release
from tests.component.bundles.fake_cluster import BundleCluster, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually

pytestmark = pytest.mark.usefixtures("registry")
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
