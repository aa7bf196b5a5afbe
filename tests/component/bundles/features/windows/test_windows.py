"""Deploys begin only in ``spec.windows``, at the moment when one opens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.component.bundles.approvals import condition, idle
from tests.component.bundles.fake_cluster import BundleCluster, fail
from tests.component.bundles.features.windows.office_hours import (
    MONDAY,
    OFFICE_HOURS,
    ahead_of,
)
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.names import ANN_FORCE_AT

pytestmark = pytest.mark.usefixtures("registry")


async def test_a_first_install_waits_for_the_window_and_begins_when_it_opens(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(windows=OFFICE_HOURS)
    operator = await run(ahead=ahead_of(MONDAY - timedelta(hours=1)))
    await eventually(lambda: cluster.reason() == "OutsideWindow")
    assert condition(cluster, "Ready")[0] == "Unknown"
    assert condition(cluster, "UpdatePending") == ("True", "OutsideWindow")
    (gate,) = cluster.status()["gates"]
    assert (gate["name"], gate["state"], gate["until"]) == (
        "window",
        "Waiting",
        "2026-11-30T09:00:00Z",
    )
    assert "Mon 2026-11-30 09:00 UTC" in cluster.message()
    await operator.stop()
    assert cluster.jobs() == []

    ahead = ahead_of(MONDAY - timedelta(seconds=1))
    await run(ahead=ahead)

    await eventually(lambda: cluster.reason() == "Deployed")
    assert datetime.now(UTC) + ahead >= MONDAY
    assert condition(cluster, "UpdatePending") == ("False", "UpToDate")


async def test_a_deploy_that_runs_when_the_window_closes_goes_on_and_its_retry_waits(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    ends = cluster.ends
    cluster.ends = None
    bundle(version="1.*", windows=OFFICE_HOURS, retry={"limit": 3, "backoff": "1s"})
    operator = await run(ahead=ahead_of(MONDAY + timedelta(minutes=58)), timer_interval=1.0)
    await eventually(cluster.jobs)
    operator.let_pass(timedelta(minutes=3))
    await idle(operator)
    assert cluster.reason() == "Deploying"
    cluster.end_job(cluster.runs[0], 1, "Error: no")
    await eventually(lambda: cluster.reason() == "OutsideWindow")
    assert cluster.status()["gates"][0]["until"] == "2026-12-07T09:00:00Z"
    assert len(cluster.jobs()) == 1
    cluster.ends = ends

    cluster.change("bundles", "shop", metadata={"annotations": {ANN_FORCE_AT: "now"}})

    await eventually(lambda: cluster.reason() == "Deployed")


async def test_while_it_is_closed_nothing_is_written(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.*", windows=OFFICE_HOURS)
    await run(ahead=ahead_of(MONDAY - timedelta(hours=1)), timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "OutsideWindow")
    writes, asked = cluster.bundle_writes(), len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 3, "polls")
    assert cluster.bundle_writes() == writes


async def test_no_time_of_a_retry_is_promised_when_the_window_will_be_closed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    ends, cluster.ends = cluster.ends, fail
    bundle(windows=OFFICE_HOURS, retry={"limit": 3, "backoff": "20m"})
    operator = await run(ahead=ahead_of(MONDAY + timedelta(minutes=10)))
    await eventually(lambda: "Next attempt at" in cluster.message())
    assert condition(cluster, "UpdatePending") == ("False", "DeployFailed")

    operator.let_pass(timedelta(minutes=40))  # the next one is tried
    await eventually(lambda: "Next attempt when a window opens" in cluster.message())
    assert cluster.reason() == "DeployFailed"
    assert condition(cluster, "UpdatePending") == ("True", "OutsideWindow")
    (gate,) = cluster.status()["gates"]
    assert gate["until"] == "2026-12-07T09:00:00Z"
    assert len(cluster.runs) == 2

    cluster.ends = ends
    operator.let_pass(timedelta(days=7) - timedelta(minutes=50))
    await eventually(lambda: cluster.reason() == "Deployed")
    assert len(cluster.runs) == 3
