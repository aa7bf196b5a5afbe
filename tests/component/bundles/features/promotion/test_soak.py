"""The soak of a version in a Bundle: what counts, what ends it, and what is shown."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.component.bundles.approvals import annotate, idle
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import (
    CONSENT,
    deployed,
    gate_of,
    promoted_from,
    soak_of,
    started,
    waits,
    waits_for_text,
)
from tests.component.bundles.test_metrics import shown, shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.seen_time import Gap, SeenTime


async def test_a_hold_breaks_the_soak_and_its_text_is_shown_until_it_ends(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle("staging")
    bundle("production", promoteFrom=promoted_from("staging", soak="1h"))
    operator = await run()
    await eventually(lambda: gate_of(cluster).get("until"))
    annotate(cluster, "staging", hold="load test failed\n\x1b[31m" + "!" * 500)
    message = await waits(cluster, "PromotionHeld")
    assert "Bundle team/staging is held: load test failed [31m!!" in message
    assert len(message) < 400
    assert "until" not in gate_of(cluster)
    (record,) = soak_of(cluster, "staging")
    assert record["brokenBy"].startswith("it was held: load test failed")
    assert "longest" not in record
    assert [job for job in cluster.jobs() if "production" in job["metadata"]["name"]] == []
    annotate(cluster, "staging", hold="looked into")  # which writes nothing on staging
    await eventually(lambda: "is held: looked into" in gate_of(cluster)["message"])
    annotate(cluster, "staging", hold=None)
    await eventually(lambda: gate_of(cluster).get("until"), "a new soak has begun")
    (record,) = soak_of(cluster, "staging")
    assert "brokenBy" not in record
    operator.let_pass(timedelta(hours=1))
    await deployed(cluster, "production", "1.0.0")
    since = datetime.fromisoformat(record["since"])
    assert started(cluster, "production") >= since + timedelta(hours=1)


async def test_a_bundle_that_is_being_deleted_promotes_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """Its deletion may take any time, and what stood in it before stays on record."""
    bundle("staging", metadata={"annotations": CONSENT})
    operator = await run()
    await deployed(cluster, "staging", "1.0.0")
    operator.let_pass(timedelta(hours=2))
    cluster.ends = None
    cluster.drop(path_of("bundles", "staging"))
    await eventually(lambda: "until" in soak_of(cluster, "staging")[0])
    assert "longest" in soak_of(cluster, "staging")[0]

    bundle("production", promoteFrom=promoted_from("staging", soak="1h"))

    assert "Bundle team/staging doesn't exist" in await waits(cluster, "NotPromoted")
    await idle(operator)
    assert gate_of(cluster)["reason"] == "NotPromoted"


async def test_what_is_older_than_the_bundle_promotes_nothing_even_while_it_cant_be_removed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """As after a restore of a backup that has the status."""
    digest = registry.put("app", "1.0.0", "one")
    long_ago = {"digest": digest, "version": "1.0.0", "since": "2020-01-01T00:00:00Z"}
    soak = [{**long_ago, "until": "2020-02-01T00:00:00Z", "longest": "744h"}]
    bundle("staging", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    cluster.change("bundles", "staging", status={"soak": soak})
    cluster.refuse("patch", "/bundles/staging/status", 500)
    bundle("production", promoteFrom=promoted_from("staging", soak="1h"))

    operator = await run()

    assert "hasn't been deployed in Bundle team/staging" in await waits(cluster, "NotPromoted")
    await idle(operator)
    assert soak_of(cluster, "staging") == soak
    assert cluster.jobs() == []


async def test_time_that_no_operator_saw_does_not_count_and_is_said(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle("staging")
    bundle("production", promoteFrom=promoted_from("staging", soak="1h"))
    gaps: list[Gap] = []
    seen = lambda: SeenTime(gaps=tuple(gaps))  # noqa: E731
    operator = await run(seen_time=seen)
    await eventually(lambda: gate_of(cluster).get("until"))
    writes = len(cluster.statuses["staging"])
    await operator.stop()
    since = datetime.fromisoformat(soak_of(cluster, "staging")[0]["since"])
    minute = timedelta(minutes=1)
    gaps.append(Gap(since + minute, since + 3 * minute))
    operator = await run(seen_time=seen, ahead=30 * minute)
    await waits_for_text(cluster, "(2m without an operator don't count)")
    operator.let_pass(33 * minute)
    await deployed(cluster, "production", "1.0.0")
    assert started(cluster, "production") >= since + 62 * minute
    assert len(cluster.statuses["staging"]) == writes, "a gap costs its source no write"


async def test_a_clock_that_is_set_back_deploys_nothing_early_and_nothing_twice(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle("staging")
    bundle("production", promoteFrom=promoted_from("staging", soak="1h"))
    operator = await run(ahead=timedelta(hours=3))
    await eventually(lambda: gate_of(cluster).get("until"))
    since = datetime.fromisoformat(soak_of(cluster, "staging")[0]["since"])
    operator.ahead = timedelta()
    operator.let_pass(timedelta(hours=2))
    await idle(operator)
    assert not cluster.jobs()[1:]
    operator.let_pass(timedelta(hours=2))
    await eventually(lambda: cluster.jobs()[1:], "the Job of production")
    assert operator.now() >= since + timedelta(hours=1)
    await deployed(cluster, "production", "1.0.0")
    assert len(cluster.jobs()) == 2


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


FORCE = {"operator.werf.dev/forceAt": "now"}
