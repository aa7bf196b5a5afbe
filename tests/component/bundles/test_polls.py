"""What polls cost, and how the operator bears a registry that is slow, gone, or says no."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from aiohttp import web
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey
from copyrator.api.text import parse_time

DISABLED = {"operator.werf.dev/disable-autoupdate": ""}


async def test_a_poll_that_finds_nothing_new_is_one_head_and_writes_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    await run(timer_interval=1.0)
    bundle()
    await eventually(lambda: cluster.jobs() and cluster.reason() == "Deployed")
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    writes, asked = cluster.writes_seen, len(registry.asked)
    requests = len(cluster.seen)

    await eventually(lambda: len(registry.asked) >= asked + 3)

    assert {method for method, _ in registry.asked} == {"HEAD"}
    assert cluster.writes_seen == writes
    assert len(cluster.seen) == requests


async def test_a_poll_that_finds_nothing_new_reads_no_status(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A status takes as long to parse as its HEAD to send."""
    await run(timer_interval=1.0)
    bundle()
    await eventually(lambda: cluster.jobs() and cluster.reason() == "Deployed")
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    asked = len(registry.asked)
    await eventually(lambda: len(registry.asked) >= asked + 2)  # the first one settles it
    await asyncio.sleep(0.3)
    read: list[object] = []
    monkeypatch.setattr("copyrator.bundles.engine.bundle.parse_status", read.append)

    await eventually(lambda: len(registry.asked) >= asked + 4)

    assert read == []


async def test_bundles_of_one_tag_share_each_poll(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    for i in range(10):
        bundle(f"shop{i}")
    await run(timer_interval=2.0)
    await eventually(
        lambda: all(cluster.reason(f"shop{i}") == "Deployed" for i in range(10)), seconds=30
    )
    await asyncio.sleep(0.5)
    before, loop = len(registry.asked), asyncio.get_running_loop()
    started = loop.time()

    await eventually(lambda: len(registry.asked) >= before + 3)

    assert loop.time() - started > 2.0  # one each two seconds, however many Bundles there are


async def test_a_restart_polls_nothing_that_has_its_answer(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    operator = await run()
    bundle()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    await operator.stop()
    writes, asked = cluster.writes_seen, len(registry.asked)

    second = await run()
    await eventually(lambda: second.scheduler.next_due() is not None)

    assert len(registry.asked) == asked
    assert cluster.writes_seen == writes


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


async def test_while_autoupdate_is_disabled_the_registry_is_not_asked(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(metadata={"annotations": DISABLED})
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")

    cluster.change("bundles", "shop", spec={"version": "2.0.0"})
    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    await eventually(lambda: cluster.status()["observedGeneration"] == 2)

    assert registry.asked == []
    assert operator.scheduler.next_due() is None
    assert cluster.status()["forceUpdate"] == 1  # it waits

    registry.put("app", "2.0.0", "two")
    cluster.change("bundles", "shop", metadata={"annotations": dict.fromkeys(DISABLED)})
    await eventually(lambda: cluster.reason() == "Deployed")
    assert cluster.status()["forceUpdate"] == 0


async def test_a_suspended_bundle_is_polled_and_shows_what_there_is(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    digest = registry.put("app", "1.0.0", "one")
    bundle(suspend=True)
    await run()

    await eventually(lambda: cluster.reason() == "Suspended")
    assert cluster.status()["available"]["digest"] == digest
    assert cluster.runs == []

    cluster.change("bundles", "shop", spec={"suspend": False})
    await eventually(lambda: cluster.reason() == "Deployed")


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


async def test_a_tag_that_appears_later_is_found(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="2.0.0")
    await run(timing=replace(TIMING, poll_retry=0.2, poll_error_sharing=0.0))
    await eventually(lambda: cluster.reason() == "TagNotFound")
    assert "2.0.0" in cluster.message()

    registry.put("app", "2.0.0", "two")

    await eventually(lambda: cluster.reason() == "Deployed")
    assert "lastError" not in cluster.status()


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


async def test_a_rotated_secret_is_used_at_once(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.auth, registry.users = "basic", {"alice": "good"}
    cluster.put_object("secrets", "creds", data={"username": "YWxpY2U=", "password": "YmFk"})
    bundle(auth="creds")
    await run()
    await eventually(lambda: cluster.reason() == "AuthenticationFailed")
    assert cluster.status()["ready"] == 0

    cluster.change("secrets", "creds", data={"password": "Z29vZA=="})

    await eventually(lambda: cluster.reason() == "Deployed")
    assert cluster.status()["ready"] == 1
    init = cluster.jobs()[0]["spec"]["template"]["spec"]["initContainers"][0]
    assert init["command"][-1] == registry.host


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


async def test_a_rate_limit_is_obeyed_for_every_repository_of_the_host(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    async def enough(_: web.Request) -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "2"})

    registry.fault = enough
    bundle("one")
    bundle("two", repo="other")
    registry.put("other", "1.0.0", "x")
    await run(timing=replace(TIMING, poll_retry=0.2))
    await eventually(lambda: cluster.reason("one") == cluster.reason("two") == "RateLimited")
    asked = len(registry.asked)
    assert asked <= 2
    registry.fault = None

    await eventually(lambda: cluster.reason("one") == cluster.reason("two") == "Deployed")


async def test_regular_polls_wait_until_nobody_edits_the_bundle_any_more(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    loop, moments = asyncio.get_running_loop(), list[float]()

    def asked(count: int) -> bool:
        moments.extend([loop.time()] * (len(registry.asked) - len(moments)))
        return len(moments) >= count

    bundle()
    await run(timer_interval=1.0, timer_idle=4.0)
    await eventually(lambda: cluster.reason() == "Deployed" and asked(3))

    before = len(moments)
    cluster.change("bundles", "shop", spec={"retry": {"limit": 3}})
    edited = loop.time()
    await eventually(lambda: asked(before + 4) and moments[-1] - moments[-2] < 2.0, "each second")

    new = moments[before:]
    # One for the edit, and one that it may have met.
    assert len([at for at in new if at - edited < 3.9]) <= 2


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
