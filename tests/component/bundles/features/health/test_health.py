"""The condition Healthy follows the objects of a release, by few watches and few writes."""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from tests.component.bundles.approvals import condition
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.health.watching import (
    SOON,
    health_watches,
    healthy,
    said,
    timing_of,
)
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_gitops import gitops_health, gitops_message
from tests.component.bundles.test_metrics import shown
from tests.component.bundles.test_suspension import BYS, is_paused, pause
from tests.component.bundles.waiting import eventually
from tests.component.bundles.workloads import deployment, owned
from tests.long import LONG

from copyrator.bundles.engine.context import BundleTiming
from copyrator.kube.resources import DEPLOYMENTS

pytestmark = pytest.mark.usefixtures("registry")

KINDS = ("deployments", "statefulsets", "daemonsets", "jobs")
GOOD = ("True", "Healthy")
BAD = ("False", "Unhealthy")
BETWEEN = ("Unknown", "Progressing")


@pytest.fixture
def timing() -> BundleTiming:
    return timing_of()


def writes_of(cluster: BundleCluster, name: str = "shop") -> int:
    return len(cluster.statuses[name])


async def test_a_release_is_healthy_unhealthy_and_healthy_again(
    cluster: BundleCluster, run: Run, bundle: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    bundle(health="Watch")
    deployment(cluster)
    operator = await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: healthy(cluster) == GOOD)
    assert "objects elsewhere aren't seen" in said(cluster)

    deployment(cluster, ready=0)
    await eventually(lambda: healthy(cluster) == BETWEEN)
    assert "Deployment/web (Available: 0/1)" in said(cluster)
    deployment(cluster, ready=0, late=True)
    await eventually(lambda: healthy(cluster) == BAD)
    assert "Deployment/web (Progress deadline exceeded)" in said(cluster)
    assert f"kubectl describe -n {TEAM} deployment/web" in said(cluster)
    # The answer to the write of the status, from which it is counted, may still be under way.
    await eventually(lambda: shown(operator)['copyrator_bundles_health{healthy="False"}'] == 1)

    deployment(cluster, ready=0)  # the controller tries again
    await eventually(lambda: "Available: 0/1" in said(cluster))
    assert healthy(cluster) == BAD, "until it is current"
    deployment(cluster)
    await eventually(lambda: healthy(cluster) == GOOD)

    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(cluster.jobs()) == 1, "it never triggers a deploy"
    await eventually(lambda: shown(operator)['copyrator_bundles_health{healthy="True"}'] == 1)
    assert shown(operator)['copyrator_bundles_health{healthy="False"}'] == 0
    await eventually(lambda: told(caplog) == ["Unhealthy", "Healthy"])


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The reasons of the Events about health, which are logged, too."""
    events = [one for one in caplog.records if one.name.endswith("engine.context")]
    reasons = [one.getMessage().split(": ")[1] for one in events]
    return [reason for reason in reasons if reason in ("Healthy", "Unhealthy")]


def dict_of(status: dict[str, Any]) -> tuple[str, str]:
    found = {one["type"]: one for one in status.get("conditions", [])}.get("Healthy", {})
    return found.get("status", ""), found.get("reason", "")


async def test_all_four_kinds_are_watched(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    bundle(health="Watch")
    operator = await run()
    await eventually(lambda: healthy(cluster) == GOOD)
    assert "the release has no Deployment" in said(cluster)
    assert set(health_watches(operator)) == {(kind, TEAM) for kind in KINDS}
    for kind in KINDS[1:3]:
        cluster.put_object(kind, "one", metadata=owned("shop"), spec={"replicas": 1}, status={})
    failed = {"conditions": [{"type": "Failed", "status": "True"}]}
    cluster.put_object("jobs", "one", metadata=owned("shop"), spec={}, status=failed)
    await eventually(lambda: healthy(cluster) == BAD)
    for kind in ("StatefulSet", "DaemonSet", "Job"):
        assert f"{kind}/one (" in said(cluster)


async def test_watches_are_shared_and_end_with_the_last_bundle(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    for name in ("a", "b"):
        bundle(name, health="Watch")
        deployment(cluster, name, release=name)
    bundle("c")
    operator = await run()
    for name in ("a", "b"):
        await eventually(lambda name=name: healthy(cluster, name) == GOOD)
    assert len(health_watches(operator)) == 4
    assert healthy(cluster, "c") == ("", "")
    deployment(cluster, "a", 0, release="a", late=True)
    await eventually(lambda: healthy(cluster, "a") == BAD)
    assert healthy(cluster, "b") == GOOD

    cluster.change("bundles", "a", spec={"health": "Off"})
    await eventually(lambda: healthy(cluster, "a") == ("", ""))
    assert len(health_watches(operator)) == 4
    cluster.change("bundles", "b", spec={"health": None})
    await eventually(lambda: health_watches(operator) == [])
    await eventually(lambda: healthy(cluster, "b") == ("", ""))


@pytest.mark.needs("consent")
async def test_many_namespaces_have_one_watch_of_each_kind(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.bundles.features.health.judge.HEALTH_NAMESPACES", 3)
    spaces = [f"team-{number}" for number in range(5)]
    cluster.grant(*spaces)
    for space in spaces[:2]:
        bundle(space, health="Watch", project_namespace=space)
        deployment(cluster, release=space, namespace=space)
    operator = await run()
    for space in spaces[:2]:
        await eventually(lambda space=space: healthy(cluster, space) == GOOD)
    narrow = [(kind, space) for kind in KINDS for space in spaces[:2]]
    assert set(health_watches(operator)) == set(narrow)

    for space in spaces[2:]:
        bundle(space, health="Watch", project_namespace=space)
        deployment(cluster, release=space, namespace=space)
    await eventually(lambda: set(health_watches(operator)) == {(kind, None) for kind in KINDS})
    deployment(cluster, ready=0, release=spaces[0], namespace=spaces[0], late=True)
    await eventually(lambda: healthy(cluster, spaces[0]) == BAD)
    for space in spaces[1:]:
        await eventually(lambda space=space: healthy(cluster, space) == GOOD)

    for space in spaces[1:]:
        cluster.change("bundles", space, spec={"health": "Off"})
    await eventually(lambda: {space for _, space in health_watches(operator)} == {spaces[0]})
    deployment(cluster, release=spaces[0], namespace=spaces[0])
    await eventually(lambda: healthy(cluster, spaces[0]) == GOOD)
    reasons = {dict_of(one)[1] for space in spaces for one in cluster.statuses[space]}
    assert reasons <= {"", "NotDeployed", "Unchecked", "Healthy", "Unhealthy"}


async def test_what_may_not_be_watched_is_said_and_watched_once_it_is_granted(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.by_name_only = {(kind, place) for kind in KINDS[:3] for place in ("", TEAM)}
    bundle(health="Watch")
    deployment(cluster)
    operator = await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: healthy(cluster) == ("Unknown", "Forbidden"))
    assert "the operator cannot list deployments.apps in team" in said(cluster)
    assert "set bundles.health.enabled in the chart" in said(cluster)
    assert health_watches(operator) == []

    def lists_sent() -> int:
        return sum(one.path.endswith("/deployments") for one in cluster.of("list"))

    assert lists_sent() == 0, "what isn't granted isn't tried"

    cluster.by_name_only = set()
    await eventually(lambda: healthy(cluster) == GOOD)

    cluster.by_name_only = {(kind, place) for kind in KINDS[:3] for place in ("", TEAM)}
    cluster.cut_watches()
    await eventually(lambda: healthy(cluster) == ("Unknown", "Forbidden"))
    lists, reviews = lists_sent(), cluster.reviews
    await eventually(lambda: cluster.reviews > reviews + 16)
    assert lists_sent() == lists, "what was granted once is reviewed before it is tried again"


@pytest.mark.needs("consent")
async def test_an_operator_of_some_namespaces_watches_these_and_says_so_of_others(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(health="Watch")
    deployment(cluster)
    cluster.grant("elsewhere")
    bundle("far", health="Watch", project_namespace="elsewhere")
    operator = await run(watch_namespaces=(TEAM,))
    await eventually(lambda: healthy(cluster) == GOOD)
    await eventually(lambda: healthy(cluster, "far") == ("Unknown", "Forbidden"))
    assert "doesn't serve namespace elsewhere" in said(cluster, "far")
    assert {space for _, space in health_watches(operator)} == {TEAM}
    assert cluster.reviews == 8


async def test_a_rollout_takes_few_writes(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    bundle(health="Watch")
    deployment(cluster, of=50, ready=50)
    await run(timing=timing_of(replace(SOON, status=1.0, message=60.0)))
    await eventually(lambda: healthy(cluster) == GOOD)
    before, loop = writes_of(cluster), asyncio.get_running_loop()
    started = loop.time()
    for ready in range(50):
        deployment(cluster, of=50, ready=ready)
        await asyncio.sleep(0.01)
    deployment(cluster, of=50, ready=0, late=True)  # the last write
    await eventually(lambda: healthy(cluster) == BAD)
    assert writes_of(cluster) - before <= 2 * (loop.time() - started) + 2


async def test_nothing_is_written_when_nothing_changes_also_after_a_restart(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(health="Watch")
    deployment(cluster, ready=0, late=True)
    first = await run(timer_interval=1.0)
    await eventually(lambda: healthy(cluster) == BAD)
    await first.stop()
    writes = writes_of(cluster)
    second = await run(timer_interval=1.0)
    await eventually(lambda: len(health_watches(second)) == 4)
    deployment(cluster, "more", ready=1)
    deployment(cluster, ready=0, late=True)  # the same in a newer version
    await eventually(lambda: len(cluster.of("list")) > 8)
    deployment(cluster, ready=1)
    await eventually(lambda: healthy(cluster) == GOOD)
    assert writes_of(cluster) == writes + 1


@pytest.mark.needs("consent")
async def test_a_bundle_that_doesnt_own_the_release_sees_nothing_of_it(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(health="Watch")
    deployment(cluster, ready=0, late=True)
    await run()
    await eventually(lambda: healthy(cluster) == BAD)
    cluster.namespace("other")
    cluster.accept(TEAM, "other")
    thief = cluster.look("bundles", "shop") or {}
    spec = {**thief["spec"], "project_namespace": TEAM}
    earlier = {**cluster.status()["deployed"], "time": "2020-01-01T00:00:00Z"}
    body = {
        "metadata": {"name": "shop", "namespace": "other"},
        "spec": spec,
        "status": {"deployed": earlier},  # it was its owner once
    }
    cluster.write(path_of("bundles", "shop", "other"), body)
    await eventually(
        lambda: "ReleaseConflict" in str(cluster.objects[path_of("bundles", "shop", "other")])
    )
    body = cluster.objects[path_of("bundles", "shop", "other")]
    found = {one["type"]: one for one in body["status"]["conditions"]}["Healthy"]
    assert (found["status"], found["reason"]) == ("Unknown", "NotDeployed")
    assert "web" not in found["message"]


# --- cost ---------------------------------------------------------------------------------------


def deployed(bundle: Make, cluster: BundleCluster, name: str) -> None:
    """A Bundle that was deployed before the operator starts, and stays as it is."""
    bundle(name, health="Watch", suspend=True)
    there = {"version": "1.0.0", "digest": "sha256:" + "0" * 64, "namespace": TEAM}
    cluster.change("bundles", name, status={"deployed": there})


async def test_hundreds_of_releases_have_four_watches_and_a_write_for_each_change(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    names = [f"shop{number}" for number in range(1000 if LONG else 25)]
    for name in names:
        deployed(bundle, cluster, name)
        deployment(cluster, name, release=name)
    operator = await run()

    def all_are(what: tuple[str, str]) -> bool:
        return all(healthy(cluster, name) == what for name in names)

    await eventually(lambda: all_are(GOOD))
    await eventually(lambda: not len(operator.queue) and not operator.queue.working)
    assert len(health_watches(operator)) == 4
    assert cluster.reviews == 8
    before = {name: writes_of(cluster, name) for name in names}
    asked = len(cluster.of("list")) + len(cluster.of("get"))

    for name in names:
        deployment(cluster, name, 0, release=name, late=True)
    await eventually(lambda: all_are(BAD))
    await eventually(lambda: not len(operator.queue) and not operator.queue.working)

    assert {name: writes_of(cluster, name) - before[name] for name in names} == dict.fromkeys(
        names, 1
    )
    assert len(cluster.of("list")) + len(cluster.of("get")) == asked


@pytest.mark.needs("consent")
async def test_where_nothing_is_granted_few_reviews_are_sent(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.bundles.features.health.judge.HEALTH_NAMESPACES", 3)
    monkeypatch.setattr("copyrator.bundles.features.health.judge.ALL_HEALTH_NAMESPACES", 5)
    spaces = [f"team-{number:02}" for number in range(20)]
    places = ["", *spaces]
    cluster.by_name_only = {("deployments", place) for place in places}
    for space in spaces:
        deployed(bundle, cluster, space)
        cluster.change("bundles", space, spec={"project_namespace": space})
        cluster.change("bundles", space, status={"deployed": {"namespace": space}})
    cluster.review_gate = asyncio.Event()
    await run(timing=timing_of(replace(SOON, watches=replace(SOON.watches, retry=600.0))))
    # Which namespaces are the first five is known when all are: a Bundle that is reconciled before
    # the operator has listed everything comes a second later.
    for space in spaces:
        await eventually(lambda space=space: healthy(cluster, space) == ("Unknown", "Unchecked"))
    await eventually(lambda: cluster.reviews == 8)
    cluster.review_gate.set()
    for space in spaces:
        await eventually(lambda space=space: healthy(cluster, space) == ("Unknown", "Forbidden"))
    assert "watches 5 namespaces at most" in said(cluster, spaces[-1])
    assert cluster.reviews <= 8 * (5 + 1)


OURS = tracemalloc.Filter(inclusive=True, filename_pattern="*/operator/copyrator/*")


async def test_an_object_more_keeps_a_few_hundred_bytes(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """However large the object itself is."""
    deployed(bundle, cluster, "shop")
    operator = await run()
    await eventually(lambda: healthy(cluster) == GOOD)
    large = owned("shop", note="x" * (20_000 if LONG else 3_000))

    def seen() -> int:
        """Objects in the caches of the watches of releases."""
        found = [one for one in operator.pool.statuses() if one.spec.resource == DEPLOYMENTS]
        return sum(one.objects for one in found)

    async def grow(numbers: range) -> int:
        for number in numbers:
            deployment(cluster, f"web-{number}", 0, metadata=large)
        await eventually(lambda: seen() == sum("/deployments/" in path for path in cluster.objects))
        gc.collect()
        found = tracemalloc.take_snapshot().filter_traces([OURS]).statistics("filename")
        return sum(each.size for each in found)

    names = [sys.intern(f"web-{number}") for number in range(1100)]  # their table grows in leaps
    tracemalloc.start()
    try:
        before = await grow(range(100))
        each = (await grow(range(100, 1100)) - before) / 1000
    finally:
        tracemalloc.stop()
    assert 100 < each <= 600, f"{each:.0f} bytes for each of {len(names)}"


async def test_gitops_tools_see_that_a_release_is_degraded(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(health="Watch")
    deployment(cluster, ready=0)
    await run()
    await eventually(lambda: condition(cluster, "Healthy") == ("Unknown", "Progressing"))
    await eventually(lambda: cluster.reason() == "Deployed")
    assert gitops_health(cluster) == ("Progressing", "Current", "InProgress")
    deployment(cluster, ready=0, late=True)
    await eventually(lambda: condition(cluster, "Healthy") == ("False", "Unhealthy"))
    assert gitops_health(cluster) == ("Degraded", "Current", "Failed")
    assert "Deployment/web" in gitops_message(cluster)
    deployment(cluster)
    await eventually(lambda: gitops_health(cluster) == ("Healthy", "Current", "Current"))


@pytest.mark.needs("drift")
@pytest.mark.parametrize("by", BYS)
async def test_drift_and_health_are_told_beside_a_suspension(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, by: str
) -> None:
    bundle(drift={"mode": "Detect"}, health="Watch")
    await run(timer_interval=1.0)
    await eventually(lambda: condition(cluster, "Drifted")[0] == "False", "there is a baseline")
    await eventually(lambda: condition(cluster, "Healthy")[0] == "True")
    pause(cluster, by)
    await is_paused(cluster, "True", by, "Deployed: 1.0.0")
    await eventually(lambda: condition(cluster, "Drifted") == ("Unknown", by))
    assert condition(cluster, "Healthy") == ("True", "Healthy")


async def test_it_is_kept_after_a_restart_without_the_permission_to_watch_jobs(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Then a status is written before anything is watched for the Bundle."""
    bundle(health="Watch")
    deployment(cluster, ready=0, late=True)
    operator = await run()
    await eventually(lambda: healthy(cluster) == BAD)
    await operator.stop()
    cluster.refuse("list", "/jobs", 403, "you may not")
    await run()
    await eventually(lambda: cluster.reason() == "Forbidden")
    assert healthy(cluster) == BAD
