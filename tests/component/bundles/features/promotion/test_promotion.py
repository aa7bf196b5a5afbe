"""Which versions ``spec.promoteFrom`` lets be deployed, and what else it goes by."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import annotate, condition, idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import (
    CONSENT,
    deployed,
    digest_of,
    gate_of,
    held,
    promoted_from,
    soak_of,
    started,
    waits,
)
from tests.component.bundles.test_metrics import shown, shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.api.keys import BundleKey

MANY = 1_000 if LONG else 30
LATE = 600 if LONG else 120
"""Seconds in which they all have written on a loaded machine."""


async def soaks(operator: Operator, cluster: BundleCluster, name: str, version: str) -> None:
    """Let the time pass for which a Bundle waits; then it has the version."""
    await eventually(lambda: gate_of(cluster, name).get("until"), f"{name} knows the end")
    await idle(operator)
    until = datetime.fromisoformat(gate_of(cluster, name)["until"])
    operator.let_pass(max(until - operator.now(), timedelta()) + timedelta(seconds=1))
    await deployed(cluster, name, version)


async def test_a_chain_takes_a_version_from_one_to_the_next_when_each_soak_has_ended(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle("production", version="1.*", promoteFrom=promoted_from("staging", soak="1h"))
    bundle("staging", version="1.*", promoteFrom=promoted_from("dev", soak="30m"))
    bundle("dev", version="1.*")
    operator = await run(timer_interval=1.0)
    await deployed(cluster, "dev", "1.0.0")
    for name in ("staging", "production"):
        await soaks(operator, cluster, name, "1.0.0")
    registry.put("app", "1.1.0", "next")
    await deployed(cluster, "dev", "1.1.0")
    message = await waits(cluster, "NotPromoted")
    assert "hasn't been deployed in Bundle team/staging" in message
    assert condition(cluster, "Ready", "production") == ("True", "Deployed")
    (rejected,) = cluster.status("production")["available"]["rejected"]
    assert rejected == {"version": "1.1.0", "reason": "NotPromoted"}
    for before, name, minutes in (("dev", "staging", 30), ("staging", "production", 60)):
        await soaks(operator, cluster, name, "1.1.0")
        record = soak_of(cluster, before)[-1]
        assert record["version"] == "1.1.0"
        since = datetime.fromisoformat(record["since"])
        assert started(cluster, name) >= since + timedelta(minutes=minutes)
    assert gate_of(cluster) == {"name": "promotion", "state": "Passed"}
    assert [one["version"] for one in soak_of(cluster, "staging")] == ["1.0.0", "1.1.0"]
    assert "soak" not in cluster.status("production"), "nobody is promoted from it"


async def test_it_is_deployed_at_the_second_that_was_said_and_waiting_writes_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    month, minutes = 30 * 86400.0, 2  # between two polls, and of the soak
    bundle("staging")
    bundle("production", promoteFrom=promoted_from("staging", soak=f"{minutes}m"))
    operator = await run(timer_interval=month)
    await eventually(lambda: gate_of(cluster).get("until"), "the end is known")
    writes, asked = cluster.bundle_writes(), len(registry.asked)
    until = datetime.fromisoformat(gate_of(cluster)["until"])
    (record,) = soak_of(cluster, "staging")
    assert until == datetime.fromisoformat(record["since"]) + timedelta(minutes=minutes)
    assert cluster.reason("production") == "NotPromoted"
    assert condition(cluster, "Ready", "production") == ("Unknown", "NotPromoted")
    await idle(operator)
    assert cluster.bundle_writes() == writes
    due = operator.scheduler.due(BundleKey("team", "production"))
    assert due is not None
    left = (until - operator.now()).total_seconds()
    assert abs(due - operator.monotonic() - left) < 1, "it waits for that second"
    operator.let_pass(timedelta(seconds=left + 1))
    await eventually(lambda: cluster.jobs()[1:], "the Job of production")
    assert started(cluster, "production") >= until
    assert len(registry.asked) == asked, "the registry isn't asked for it"
    await deployed(cluster, "production", "1.0.0")


async def test_a_lower_version_whose_soak_is_done_is_deployed_while_a_newer_waits(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """Evidence stays when the source moves up."""
    bundle("staging", version="1.*")
    bundle("production", version="1.*", promoteFrom=promoted_from("staging", soak="1h"))
    operator = await run(timer_interval=1.0)
    await soaks(operator, cluster, "production", "1.0.0")
    cluster.change("bundles", "production", spec={"suspend": True})
    registry.put("app", "1.1.0", "next")
    await deployed(cluster, "staging", "1.1.0")
    await idle(operator)
    operator.let_pass(timedelta(minutes=61))
    registry.put("app", "1.2.0", "newest")
    await deployed(cluster, "staging", "1.2.0")
    assert soak_of(cluster, "staging")[1]["brokenBy"] == "a deploy of 1.2.0 began"
    cluster.change("bundles", "production", spec={"suspend": False})
    await deployed(cluster, "production", "1.1.0")
    await soaks(operator, cluster, "production", "1.2.0")


async def test_only_who_is_allowed_learns_anything_of_a_bundle_of_another_namespace(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace("production")
    account = {"metadata": {"name": "werf", "namespace": "production"}}
    cluster.write(path_of("serviceaccounts", "werf", "production"), account)
    spec = {
        **bundle("staging", version="1.*")["spec"],
        "promoteFrom": promoted_from("staging", "other", soak="1s"),
    }
    path = path_of("bundles", "shop", "production")
    metadata = {"name": "shop", "namespace": "production"}
    cluster.write(path, {"metadata": metadata, "spec": spec})

    def gate() -> dict[str, Any]:
        found = cluster.objects[path].get("status", {}).get("gates", [])
        return next((one for one in found if one["name"] == "promotion"), {})

    await run(timer_interval=1.0)
    await eventually(lambda: gate().get("reason") == "PromotionNotAllowed")
    refused = "doesn't exist, or doesn't allow the namespace production by the annotation"
    assert gate()["message"] == (
        f"Bundle team/staging {refused} operator.werf.dev/promote-to; "
        f"Bundle team/other {refused} operator.werf.dev/promote-to"
    )
    conditions = {one["type"]: one for one in cluster.objects[path]["status"]["conditions"]}
    assert (conditions["Ready"]["status"], conditions["Reconciling"]["status"]) == ("False", "True")
    await deployed(cluster, "staging", "1.0.0")
    assert soak_of(cluster, "staging") == [], "another namespace can't make it keep anything"
    version = cluster.objects[path]["metadata"]["resourceVersion"]
    annotate(cluster, "staging", hold="secret", promote_to="prod")
    await eventually(lambda: soak_of(cluster, "staging") == [] and held(cluster))
    assert cluster.objects[path]["metadata"]["resourceVersion"] == version
    annotate(cluster, "staging", hold=None, promote_to=" prod* ,x")
    await eventually(lambda: "team/staging" not in gate().get("message", ""))
    bundle("other", version="1.*", metadata={"annotations": CONSENT})
    deployed_at = path_of("bundles", "shop", "production")
    await eventually(
        lambda: cluster.objects[deployed_at]["status"].get("deployed", {}).get("version"), "", 20
    )


@pytest.mark.needs("dependencies")
async def test_a_cycle_with_depends_on_is_named_and_ends_for_all_when_one_edge_goes(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Nothing of it would ever be deployed: each waits for the first deploy of the next."""
    bundle("a", promoteFrom=promoted_from("b", soak="1s"))
    bundle("b", dependsOn=[{"name": "c"}])
    await run()
    await waits(cluster, "NotPromoted", "a")
    await eventually(lambda: cluster.reason("b") == "DependencyNotReady")
    bundle("c", promoteFrom=promoted_from("a", soak="1s"))
    for name in "abc":
        await eventually(lambda name=name: cluster.reason(name) == "InvalidSpec", name)
    way = (
        "team/b depends on team/c, team/c is promoted from team/a, team/a is promoted from team/b; "
        "remove one of these"
    )
    text = f"spec.dependsOn: is a cycle of dependsOn and promoteFrom: {way}"
    assert text in cluster.message("b")
    assert "spec.promoteFrom.bundles: is a cycle of dependsOn and" in cluster.message("a")
    assert cluster.jobs() == []
    cluster.change("bundles", "b", spec={"dependsOn": None})
    for name in "bac":
        await deployed(cluster, name, "1.0.0")


async def test_a_former_digest_of_a_tag_is_deployed_when_its_time_has_come(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """A stream of pushes to one tag doesn't starve the dependants."""
    first = registry.put("app", "latest", "0")
    bundle("staging", version="latest")
    bundle("production", version="latest", promoteFrom=promoted_from("staging", soak="2s"))
    await run(timer_interval=1.0)
    await eventually(lambda: digest_of(cluster, "production") == first)
    second = registry.put("app", "latest", "1")
    await eventually(lambda: digest_of(cluster, "staging") == second)
    cluster.change("bundles", "staging", spec={"suspend": True})
    await eventually(lambda: cluster.reason("staging") == "Suspended")
    third = registry.put("app", "latest", "2")
    await eventually(lambda: digest_of(cluster, "production") == second)
    assert third in [one["digest"] for one in cluster.status("production")["candidates"]]


async def test_a_thousand_bundles_are_promoted_from_one_without_a_request_each(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    count = MANY
    bundle("staging", suspend=True)
    for number in range(count):
        bundle(f"p{number}", promoteFrom=promoted_from("staging", soak="1h"), suspend=False)
    operator = await run()
    await eventually(lambda: operator.controller and waiting(cluster, count) == count, "", LATE)
    asked, writes = len(registry.asked), cluster.bundle_writes()
    cluster.change("bundles", "staging", spec={"suspend": False})
    await deployed(cluster, "staging", "1.0.0")
    await eventually(
        lambda: all(gate_of(cluster, f"p{n}").get("until") for n in range(count)), "", LATE
    )
    assert len(registry.asked) - asked <= 1, "the change of the spec asks, and nobody else"
    written = cluster.bundle_writes() - writes
    assert count <= written <= count + 10, "each says once until when it waits"
    assert len(cluster.jobs()) == 1


def waiting(cluster: BundleCluster, count: int) -> int:
    return sum(gate_of(cluster, f"p{n}").get("reason") == "NotPromoted" for n in range(count))


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
