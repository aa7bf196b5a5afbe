"""A correction of drift deploys nothing that a deploy wouldn't: its gates, and a bound baseline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    condition,
    deployed,
    idle,
    lose,
    waits,
)
from tests.component.bundles.drifting import CORRECT, DETECT, EDITED, OTHER, Release, history
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.previews.promises.test_plans import asked_for_results
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, reconciled
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.test_attempts import tags
from tests.packed_charts import CHART_YAML, chart, pack

VENDORED = chart("a: b")
LACKS = pack({"Chart.yaml": CHART_YAML + "dependencies: [{name: db}]"})
PROMPT = {"limit": 2, "backoff": "1s"}


@pytest.fixture
def release(cluster: BundleCluster, werf: Werf) -> Release:
    return Release(cluster, werf)


async def judged(release: Release) -> None:
    await eventually(lambda: release.drift.get("objects"), "drift is found")


@pytest.mark.needs("dependencies", "charts")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a newer version"])
async def test_a_correction_of_drift_asks_the_vendored_gate(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    beside: bool,
) -> None:
    """Also where that gate passes the newer version, which waits for another Bundle."""
    registry.put_chart("app", "1.0.0", LACKS)
    bundle("base", suspend=True)
    bundle(version="1.*")
    operator = await run(timer_interval=1.0)
    await deployed(cluster)
    base = [{"namespace": "team", "name": "base"}]
    cluster.change("bundles", "shop", spec={"drift": CORRECT, "dependsOn": base})
    await eventually(lambda: "seal" in cluster.status().get("baseline", {}))
    if beside:
        registry.put_chart("app", "1.0.1", VENDORED)
        await waits(cluster, "DependencyNotReady")

    await release.check_now(*EDITED)

    await judged(release)
    await idle(operator)
    assert len(cluster.jobs()) == 1
    assert "Deployed" in cluster.reason() or "DependenciesNotVendored" in cluster.reason()


def replaced(cluster: BundleCluster, name: str) -> None:
    there = cluster.look("secrets", name) or {}
    lose(cluster, "secrets", name)
    data = dict.fromkeys(there["data"], "b3RoZXI=")
    cluster.write(path_of("secrets", name), {**there, "data": data})


WAYS: dict[str, Any] = {
    "deleted": lambda cluster, name: lose(cluster, "secrets", name),
    "replaced": replaced,
}


@pytest.mark.needs("approval", "charts")
@pytest.mark.parametrize("by", ["the same process", "the next process"])
@pytest.mark.parametrize("how", WAYS)
async def test_a_bound_baseline_whose_secret_vanished_isnt_a_bound_baseline(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    how: str,
    by: str,
) -> None:
    """The plan after it has whatever was changed meanwhile, so nothing is put back unasked."""
    registry.put_chart("app", "1.0.0", VENDORED)
    bundle(drift=CORRECT, approval=ALWAYS, retry=PROMPT)
    operator = await run(timer_interval=1.0)
    approve(cluster, await waits(cluster, bound=True))
    await deployed(cluster)
    await release.in_sync()
    first = cluster.status()["baseline"]
    assert first["bound"] is True
    if by == "the next process":
        await operator.stop()

    WAYS[how](cluster, f"{first['job']}-operations")
    if by == "the next process":
        operator = await run(timer_interval=1.0)
    await release.check_now()
    await eventually(lambda: cluster.status()["baseline"]["job"] != first["job"], "another one")

    assert not cluster.status()["baseline"].get("bound")
    await release.check_now(OTHER)
    await release.judged("True", "RenderedDifferently")
    await waits(cluster, outcome="Planned")
    await idle(operator)
    assert len(cluster.jobs()) == 1
    assert condition(cluster, "Ready") == ("True", "Deployed")


@pytest.mark.needs("approval", "charts")
async def test_with_its_secret_a_bound_baseline_is_put_back_unasked(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, release: Release
) -> None:
    registry.put_chart("app", "1.0.0", VENDORED)
    bundle(drift=CORRECT, approval=ALWAYS, retry=PROMPT)
    await run(timer_interval=1.0)
    approve(cluster, await waits(cluster, bound=True))
    await deployed(cluster)
    await release.in_sync()

    await release.check_now(*EDITED)

    await eventually(lambda: history(cluster)[0] == ("Succeeded", True), "it is corrected")


@pytest.mark.parametrize("corrections", [1, 2])
async def test_a_fight_with_another_controller_is_remembered_across_a_change_of_leader(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, corrections: int
) -> None:
    """What drifts again after two corrections is left alone, whoever made them."""
    release.is_fought = True
    bundle(drift=CORRECT)
    operator = await run(timer_interval=1.0)
    await release.in_sync()
    await release.check_now(*EDITED)
    await eventually(lambda: len(history(cluster)) > corrections)
    await operator.stop()

    for _ in range(3):
        operator = await run(timer_interval=1.0)
        await release.judged("True", "DriftRecurring")
        await release.check_now()
        await idle(operator)
        await operator.stop()

    assert release.drift["corrections"] == 2
    assert len(cluster.jobs()) == 3


@pytest.mark.needs("charts")
async def test_a_check_that_hasnt_begun_is_never_asked_for_its_result(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    bundle(drift={"mode": "Detect", "interval": "1h"})
    operator = await run(timer_interval=1e9)
    await release.in_sync()
    await idle(operator)
    refused = cluster.refuse("create", "/jobs", 500)
    checks, since = release.checks, len(cluster.seen)

    operator.let_pass(timedelta(hours=1))

    await eventually(lambda: release.drift.get("check", {}).get("outcome") == "Running")
    await reconciled(operator)
    assert asked_for_results(cluster, since) == []
    refused.clear()
    operator.let_pass(timedelta(minutes=1))
    await eventually(lambda: release.checks > checks)


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
