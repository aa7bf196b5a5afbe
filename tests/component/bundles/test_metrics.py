"""What the metrics say of Bundles, polls and deploys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import generate_latest
from tests.component.bundles.approvals import ALWAYS, approve, deployed, pending, waits
from tests.component.bundles.fake_cluster import BundleCluster, fail
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_deletion import delete
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry


def shown(operator: Any) -> dict[str, float]:
    """The samples as a scrape has them."""
    operator.controller.publish()
    lines = generate_latest(operator.metrics.registry).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


async def shows(operator: Any, samples: Mapping[str, float]) -> dict[str, float]:
    """Wait for them: the API server knows what was written before the operator has its answer."""
    await eventually(lambda: samples.items() <= shown(operator).items(), f"{samples}")
    return shown(operator)


async def test_bundles_are_counted_by_reason(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle("good")
    bundle("lost", version="9.9.9")
    await eventually(lambda: cluster.reason("good") == "Deployed")
    await eventually(lambda: cluster.reason("lost") == "TagNotFound")

    deployed, missing = (
        f'copyrator_bundles{{reason="{one}"}}' for one in ("Deployed", "TagNotFound")
    )
    deploys = 'copyrator_deploys_total{action="deploy",result="succeeded"}'
    found = await shows(operator, {deployed: 1, missing: 1, deploys: 1})
    assert found['copyrator_polls_total{result="Answered"}'] == 1
    assert found['copyrator_polls_total{result="TagNotFound"}'] >= 1
    host = registry.host
    requests = f'copyrator_registry_requests_total{{code="200",host="{host}",method="HEAD"}}'
    assert found[requests] == 1
    assert found[requests.replace("200", "404")] >= 1
    assert found['copyrator_deploy_seconds_count{action="deploy"}'] == 1

    cluster.change("bundles", "lost", spec={"version": "1.0.0"})
    await eventually(lambda: cluster.reason("lost") == "Deployed")
    found = await shows(operator, {'copyrator_bundles{reason="Deployed"}': 2})
    assert 'copyrator_bundles{reason="TagNotFound"}' not in found


async def test_the_age_of_the_last_good_poll_grows_while_polls_fail(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run(timer_interval=1.0)
    bundle()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] < 1.5)

    registry.manifests.clear()
    await eventually(lambda: cluster.reason() == "TagNotFound")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] > 2.0)

    registry.put("app", "1.0.0", "one")
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: shown(operator)["copyrator_oldest_poll_seconds"] < 1.5)


async def test_quarantined_bundles_are_counted(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.ends = fail
    operator = await run()
    bundle(retry={"limit": 0})
    await eventually(lambda: cluster.reason() == "Quarantined")

    failed = 'copyrator_deploys_total{action="deploy",result="failed"}'
    await shows(operator, {"copyrator_bundles_quarantined": 1, failed: 1})


@pytest.mark.needs("approval")
async def test_what_updates_wait_for_is_counted_also_where_an_older_version_runs(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    operator = await run(timer_interval=1.0)
    bundle(version="1.*", approval=ALWAYS, retry={"limit": 0})
    found = await waits(cluster)
    waiting, failing = (
        f'copyrator_updates_pending{{reason="{one}"}}'
        for one in ("AwaitingApproval", "PlanUnstable")
    )
    await shows(operator, {waiting: 1})
    approve(cluster, found)
    await deployed(cluster)
    assert not [name for name in shown(operator) if "updates_pending{" in name]
    werf.says = lambda *_: (1, "Error: no\n")
    registry.put("app", "1.1.0", "next")
    await eventually(lambda: pending(cluster) == "PlanUnstable")
    await shows(operator, {failing: 1, 'copyrator_bundles{reason="Deployed"}': 1})


async def test_uninstalls_are_counted(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle()
    await eventually(lambda: cluster.reason() == "Deployed")

    delete(cluster)
    await eventually(lambda: cluster.look("bundles", "shop") is None)

    await shows(operator, {'copyrator_deploys_total{action="uninstall",result="succeeded"}': 1})


@pytest.mark.needs("promotion")
async def test_bundles_that_wait_are_counted_by_gate_and_the_time_of_a_soak_is_shown(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    operator = await run()
    source = {"bundles": [{"name": "staging"}], "soak": "1h"}
    bundle("production", promoteFrom=source)
    await shows(operator, {'copyrator_bundles_waiting{gate="promotion"}': 1})
    await shows(operator, {"copyrator_soak_remaining_seconds": 0})
    bundle("staging")
    await eventually(lambda: 3500 < shown(operator)["copyrator_soak_remaining_seconds"] <= 3600)
    assert 0 <= shown(operator)["copyrator_oldest_wait_seconds"] < 100
    cluster.change("bundles", "production", metadata={"annotations": FORCE})
    await eventually(lambda: cluster.reason("production") == "Deployed")
    await shows(operator, {"copyrator_soak_remaining_seconds": 0})
    assert shown(operator)["copyrator_oldest_wait_seconds"] == 0
    assert 'copyrator_bundles_waiting{gate="promotion"}' not in shown(operator)


@pytest.mark.needs("dependencies")
async def test_suspended_bundles_are_counted_apart(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Neither as quarantined, nor as one that waits for a gate."""
    operator = await run()
    bundle("waits", dependsOn=[{"name": "nothing"}])
    await shows(operator, {'copyrator_bundles_waiting{gate="dependsOn"}': 1})
    cluster.ends = fail
    bundle("fails", retry={"limit": 0})
    await shows(operator, {"copyrator_bundles_quarantined": 1})
    for name in ("waits", "fails"):
        cluster.change("bundles", name, spec={"suspend": True})
    paused = {'copyrator_bundles{reason="Suspended"}': 2, "copyrator_bundles_quarantined": 0}
    found = await shows(operator, paused | {"copyrator_oldest_wait_seconds": 0})
    assert not [name for name in found if name.startswith("copyrator_bundles_waiting{")]
    assert not [name for name in found if 'copyrator_bundles{reason="Quarantined' in name]


FORCE = {"operator.werf.dev/forceAt": "now"}
