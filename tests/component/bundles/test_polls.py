"""What polls cost, and how the operator bears a registry that is slow, gone, or says no."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.test_failed_polls import settled
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey
from copyrator.api.text import parse_time


async def test_a_poll_that_finds_nothing_new_reads_no_status(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A status takes as long to parse as its HEAD to send."""
    operator = await run(timer_interval=1.0)
    bundle()
    await eventually(lambda: cluster.jobs() and cluster.reason() == "Deployed")
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    asked = len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 2)  # the first one settles it
    await idle(operator)
    read: list[object] = []
    monkeypatch.setattr("copyrator.bundles.engine.bundle.parse_status", read.append)

    await eventually(lambda: len(registry.asked) >= asked + 4)

    assert read == []


async def test_a_restart_changes_no_time_of_a_poll(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    names = [f"shop{i}" for i in range(5)]
    for name in names:
        registry.put(name, "1.0.0", "one")
        bundle(name, repo=name)
    day = 86400.0
    operator = await run(timer_interval=day)
    await eventually(lambda: all(cluster.reason(name) == "Deployed" for name in names))
    await idle(operator)
    await operator.stop()
    asked = len(registry.asked)

    second = await run(timer_interval=day)
    await eventually(lambda: len(second.scheduler) == len(names))

    assert len(registry.asked) == asked
    for name in names:
        due = second.scheduler.due(BundleKey("team", name))
        announced = parse_time(cluster.status(name)["nextPollAt"])
        assert due is not None
        assert announced is not None
        moment = second.now() + timedelta(seconds=due - second.monotonic())
        late = (moment - announced).total_seconds()
        assert (late + 0.1) % day < 1.2, "the time that was announced, or the next if it has passed"


async def test_a_registry_that_stalls_holds_up_only_its_own_bundles(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    slow = FakeRegistry()
    await slow.start()
    slow.gate = asyncio.Event()
    slow.put("app", "1.0.0", "one")
    for i in range(20):  # many more than there are workers
        bundle(f"slow{i}", registry=slow.host, repo=f"app{i}")
    await run(registry_seconds=600.0)  # nobody is freed by a time-out
    await eventually(lambda: slow.in_flight)

    bundle("quick")

    await eventually(lambda: cluster.reason("quick") == "Deployed")
    slow.gate.set()
    await slow.stop()


async def test_a_registry_that_takes_its_time_is_mentioned(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.gate = asyncio.Event()
    bundle()
    await run(timing=replace(TIMING, poll_report=0.2))

    await eventually(lambda: cluster.reason() == "Polling")
    registry.gate.set()
    await eventually(lambda: cluster.reason() == "Deployed")


async def test_an_error_that_stays_is_written_a_few_times_and_then_no_more(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="2.0.0")
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "TagNotFound")
    await eventually(lambda: len(registry.asked) >= 2)
    writes, asked = cluster.writes_seen, len(registry.asked)

    await eventually(lambda: len(registry.asked) >= asked + 2)

    assert cluster.writes_seen == writes


async def test_an_edit_during_a_poll_is_answered_for_the_new_spec(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.gate = asyncio.Event()
    digest = registry.put("app", "2.0.0", "two")
    bundle()
    await run(registry_seconds=600.0)
    await eventually(lambda: registry.in_flight)

    cluster.change("bundles", "shop", spec={"version": "2.0.0"})
    await eventually(lambda: registry.in_flight == 2)
    registry.gate.set()

    await eventually(lambda: cluster.reason() == "Deployed")
    assert cluster.status()["deploy"]["digest"] == digest
    assert len(cluster.runs) == 1


async def test_a_poll_that_was_pending_when_the_spec_was_refused_is_made_anew(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.gate = asyncio.Event()
    bundle()
    operator = await run(registry_seconds=600.0)
    await eventually(lambda: registry.in_flight)
    cluster.change("bundles", "shop", spec={"version": "neither a tag nor a range"})
    await eventually(lambda: cluster.reason() == "InvalidSpec")
    registry.gate.set()
    await eventually(lambda: not registry.in_flight)
    await idle(operator)
    digest = registry.put("app", "1.0.0", "another")
    operator.let_pass(timedelta(minutes=1))

    cluster.change("bundles", "shop", spec={"version": "1.0.0"})

    await eventually(lambda: cluster.reason() == "Deployed")
    assert cluster.status()["deploy"]["digest"] == digest
    assert len(cluster.runs) == 1, "not by the answer from before, and then by a new one"


async def test_regular_polls_wait_until_nobody_edits_the_bundle_any_more(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle()
    operator = await run(timer_interval=60.0, timer_idle=600.0)
    await eventually(lambda: cluster.reason() == "Deployed")

    async def polls(minutes: int) -> int:
        """How many there are in the next minutes."""
        before = len(registry.asked)
        for _ in range(minutes):
            await settled(operator)
            operator.let_pass(timedelta(minutes=1))
        await settled(operator)
        return len(registry.asked) - before

    await polls(11)
    assert await polls(3) == 3

    cluster.change("bundles", "shop", spec={"retry": {"limit": 3}})
    await eventually(lambda: cluster.status()["observedGeneration"] == 2)
    await settled(operator)
    assert await polls(9) == 0
    await polls(2)
    assert await polls(3) == 3


async def test_an_answer_alone_is_no_reason_to_read_again_what_the_poll_was_begun_with(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    """No watch of the Secret is granted, so each of its reads is a request."""
    registry.gate = asyncio.Event()
    cluster.put_object("secrets", "creds", data={"username": "YWxpY2U=", "password": "Z29vZA=="})
    cluster.refuse("list", "/secrets", 403)
    bundle(auth="creds")
    operator = await run()
    await eventually(lambda: registry.in_flight)
    await idle(operator)
    before = reads(cluster, "/secrets/creds")

    registry.gate.set()
    await eventually(lambda: cluster.runs)

    assert reads(cluster, "/secrets/creds") == before + 1, "for the Job"


def reads(cluster: BundleCluster, ending: str) -> int:
    return sum(seen.verb == "get" and seen.path.endswith(ending) for seen in cluster.seen)


async def test_values_that_change_while_the_registry_is_asked_are_read_before_its_answer_counts(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.gate = asyncio.Event()
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(valuesFrom=[{"kind": "ConfigMap", "name": "values"}])
    operator = await run()
    watch = "/namespaces/team/configmaps"
    await eventually(lambda: any(s.verb == "watch" and watch in s.path for s in cluster.seen))
    await eventually(lambda: registry.in_flight)
    await idle(operator)

    cluster.change("configmaps", "values", data={"values.yaml": "a: 2"})
    before = reads(cluster, "/configmaps/values")
    await eventually(lambda: reads(cluster, "/configmaps/values") > before)
    await idle(operator)
    registry.gate.set()

    await eventually(lambda: cluster.reason() == "Deployed")
    await idle(operator)
    assert len(cluster.runs) == 1, "not of the old values, and then of the new ones"


async def test_values_beyond_the_limit_of_watches_are_read_at_each_poll(
    cluster: BundleCluster, run: Run, bundle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.bundles.engine.references.REFERENCE_WATCHES", 1)
    for name in ("one", "two"):
        cluster.put_object("configmaps", name, data={"a.yaml": "a: 1"})
    operator = await run(timer_interval=60.0)
    for number, name in enumerate(("one", "two"), 1):
        bundle(name, values=name)
        await eventually(lambda: len(cluster.runs) == number)  # noqa: B023
        await eventually(lambda: cluster.reason(name) == "Deployed")  # noqa: B023

    cluster.change("configmaps", "two", data={"a.yaml": "a: 2"})
    await idle(operator)
    operator.let_pass(timedelta(minutes=1))

    await eventually(lambda: len(cluster.runs) == 3)
