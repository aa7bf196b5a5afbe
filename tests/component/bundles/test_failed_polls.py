"""Which failed polls make Ready False at once, which only when they go on, and after what time.

``status.lastError``, requests and dependants see each failed poll at once. Hours pass in moments: a
test moves the operator's clock to the next time at which something is due.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import annotate, condition, idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.test_metrics import shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.choose import PollMemory

SHOP = BundleKey("team", "shop")
DEPLOYED = ("True", "Deployed")
UNREACHABLE = ("False", "RegistryUnreachable")


async def stalls(request: web.Request) -> web.Response:
    """No answer as long as the client waits for one."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.01)
    return web.Response()


async def cuts_off(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


BAD_GATEWAY = answering(502)


async def next_due(operator: Operator) -> None:
    """Move the clock to when the Bundle is due; what is due then is done."""
    await settled(operator)
    leap(operator)
    await settled(operator)


def leap(operator: Operator) -> None:
    due = operator.scheduler.due(SHOP)
    assert due is not None
    operator.let_pass(timedelta(seconds=max(due - operator.monotonic(), 0) + 0.01))


async def next_poll(operator: Operator) -> None:
    """The same until the registry was polled once more: an answer may serve two polls.

    By chance the poll is due before the clock is moved: then that is the one.
    """
    before = polls(operator)
    await settled(operator)
    while polls(operator) == before:
        leap(operator)
        await settled(operator)


def polls(operator: Operator) -> float:
    families = operator.metrics.polls.collect()
    return sum(one.value for family in families for one in family.samples if "total" in one.name)


async def settled(operator: Operator) -> None:
    """No poll is pending, and nothing is left to do."""
    memories, is_at_rest = operator.controller._context.memories, False
    while not is_at_rest:
        await eventually(lambda: memories.of(SHOP, PollMemory).polling.poll is None, "an answer")
        await idle(operator)  # in which a poll may begin
        is_at_rest = memories.of(SHOP, PollMemory).polling.poll is None


async def deployed(cluster: BundleCluster, operator: Operator) -> None:
    await eventually(lambda: cluster.reason() == "Deployed", cluster.message())
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    await settled(operator)


@pytest.fixture
async def operator(cluster: BundleCluster, run: Run, bundle: Make) -> Operator:
    """One that has deployed its Bundle."""
    bundle()
    found = await run()
    await deployed(cluster, found)
    return found


def failed(cluster: BundleCluster) -> int:
    """How many polls failed in a row."""
    return int((cluster.status().get("failedPolls") or {}).get("count", 0))


@pytest.mark.parametrize(
    ("fault", "reason", "version"),
    [
        pytest.param(stalls, "RegistryUnreachable", "1.0.0", id="no answer in time"),
        pytest.param(BAD_GATEWAY, "RegistryUnreachable", "1.*", id="502, range"),
        pytest.param(
            answering(403, Retry_After="3600"), "RateLimited", "1.0.0", id="403 with a pause"
        ),
        pytest.param(answering(401), "AuthenticationFailed", "1.0.0", id="401"),
        pytest.param(answering(404), "RepositoryNotFound", "1.*", id="no repository"),
    ],
)
async def test_one_failed_poll_is_told_at_once_unless_it_may_pass_by_itself(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    fault: Any,
    reason: str,
    version: str,
) -> None:
    bundle(version=version)
    operator = await run(registry_seconds=1.0)
    await deployed(cluster, operator)
    before = cluster.status()

    registry.fault = fault
    await next_poll(operator)

    status = cluster.status()
    assert status["lastError"]["reason"] == reason
    if reason in ("AuthenticationFailed", "RepositoryNotFound"):
        assert condition(cluster, "Ready") == ("False", reason)
        return
    assert status["conditions"] == before["conditions"]
    assert status["observedGeneration"] == before["observedGeneration"]
    assert status["failedPolls"]["count"] == 1


@pytest.mark.parametrize(
    ("interval", "fault", "seconds"),
    [
        # After two intervals, where the third failure is before: retries are made sooner.
        ("10m", BAD_GATEWAY, 1200),
        # At most 30 minutes, also where the host gets no request meanwhile.
        ("1h", answering(503, Retry_After="3600"), 1800),
    ],
)
async def test_failures_that_go_on_make_ready_false_after_some_time(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    interval: str,
    fault: Any,
    seconds: int,
) -> None:
    told = Told()
    bundle(interval=interval)
    operator = await run(recorder=told)
    await deployed(cluster, operator)
    registry.fault = fault
    await next_poll(operator)
    began, began_at, told[:] = operator.passed, operator.monotonic(), []
    assert failed(cluster) == 1

    while condition(cluster, "Ready") == DEPLOYED:
        assert told == []
        assert operator.passed - began < timedelta(hours=1)
        await next_due(operator)

    # A busy machine takes time, too, by which the clock is moved less.
    tolerance = max(6, seconds / 10)
    assert operator.monotonic() - began_at >= seconds - tolerance
    assert (operator.passed - began).total_seconds() <= seconds + tolerance
    status = cluster.status()
    assert status["conditions"][0]["reason"] == status["lastError"]["reason"]
    assert status["conditions"][0]["message"].startswith(status["lastError"]["message"])
    assert told == [("Warning", status["lastError"]["reason"])]
    since = datetime.fromisoformat(status["failedPolls"]["since"])
    assert operator.now() - since >= timedelta(seconds=seconds * 0.9)


async def test_different_errors_are_one_row_and_each_is_told_at_once(
    cluster: BundleCluster, registry: FakeRegistry, operator: Operator
) -> None:
    found, messages = [], set()
    for fault in (BAD_GATEWAY, cuts_off, answering(200, "<html>")):
        registry.fault = fault
        await next_poll(operator)
        status = cluster.status()
        found.append(status["failedPolls"])
        messages.add(status["lastError"]["message"])

    since = found[0]["since"]
    assert found == [{"count": count, "since": since} for count in (1, 2, 3)]
    assert len(messages) == 3
    assert condition(cluster, "Ready") == DEPLOYED
    while condition(cluster, "Ready") == DEPLOYED:
        await next_due(operator)
    registry.fault = None
    await next_poll(operator)
    assert condition(cluster, "Ready") == DEPLOYED
    assert not {"failedPolls", "lastError"} & set(cluster.status())


@pytest.mark.parametrize("what", ["credentials", "resumed"])
async def test_a_first_poll_that_fails_is_told_at_once(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, what: str
) -> None:
    cluster.put_object("secrets", "creds", data={"username": "YQ==", "password": "YQ=="})
    bundle(auth="creds")
    operator = await run()
    await deployed(cluster, operator)
    if what == "resumed":
        annotate(cluster, disable_autoupdate="")
        await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    registry.fault = BAD_GATEWAY
    operator.let_pass(timedelta(seconds=5))  # the last answer counts for a second
    if what == "credentials":
        cluster.change("secrets", "creds", data={"password": "Yg=="})
    else:
        annotate(cluster, disable_autoupdate=None)

    await eventually(lambda: condition(cluster, "Ready") == UNREACHABLE, cluster.message())


async def test_a_restart_does_not_begin_the_count_anew(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle()
    first = await run()
    await deployed(cluster, first)
    registry.fault = BAD_GATEWAY
    await next_poll(first)
    since = cluster.status()["failedPolls"]["since"]
    passed = first.passed
    await first.stop()

    second = await run(ahead=passed)
    await eventually(lambda: failed(cluster) == 2, "what failed is polled for at once")
    assert condition(cluster, "Ready") == DEPLOYED
    while condition(cluster, "Ready") == DEPLOYED:
        await next_due(second)

    assert cluster.status()["failedPolls"] == {"count": 3, "since": since}
    assert second.now() - datetime.fromisoformat(since) >= timedelta(seconds=1200)
    assert second.passed < timedelta(seconds=1260), "without the time that a busy machine takes"


@pytest.mark.parametrize(
    ("fault", "ready"), [(None, [DEPLOYED]), (BAD_GATEWAY, [DEPLOYED, UNREACHABLE])]
)
async def test_after_hours_without_an_operator_the_registry_is_asked_first(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
    fault: Any,
    ready: list[tuple[str, str]],
) -> None:
    bundle()
    first = await run()
    await deployed(cluster, first)
    registry.fault = BAD_GATEWAY
    await next_poll(first)
    await first.stop()
    registry.fault = fault
    seen, store = [condition(cluster, "Ready")], cluster._store

    def record(kind: str, path: str, body: dict[str, Any]) -> int:
        number = store(kind, path, body)
        if (now := condition(cluster, "Ready")) != seen[-1]:
            seen.append(now)
        return number

    monkeypatch.setattr(cluster, "_store", record)
    second = await run(ahead=first.passed + timedelta(hours=5))
    await eventually(lambda: failed(cluster) == (2 if fault else 0), "an answer")
    await settled(second)

    assert seen == ready


@pytest.mark.parametrize("what", ["InvalidSpec", "AutoupdateDisabled"])
async def test_what_ends_the_polls_ends_their_record(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, what: str
) -> None:
    cluster.put_object("configmaps", "values", data={"a.yaml": "a: 1"})
    bundle(values="values")
    operator = await run()
    await deployed(cluster, operator)
    registry.fault = BAD_GATEWAY
    await next_poll(operator)
    assert failed(cluster) == 1

    if what == "InvalidSpec":
        cluster.change("bundles", "shop", spec={"registry": "http://no"})
    else:
        annotate(cluster, disable_autoupdate="")

    await eventually(lambda: cluster.reason() == what)
    assert "failedPolls" not in cluster.status()


async def test_with_an_older_crd_that_keeps_no_record_each_failure_is_told_at_once(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = cluster._store

    def drop(kind: str, path: str, body: dict[str, Any]) -> int:
        (body.get("status") or {}).pop("failedPolls", None)
        return store(kind, path, body)

    monkeypatch.setattr(cluster, "_store", drop)
    bundle()
    operator = await run()
    await deployed(cluster, operator)
    registry.fault = BAD_GATEWAY
    await next_poll(operator)
    assert condition(cluster, "Ready") == UNREACHABLE

    registry.fault = None
    await next_poll(operator)
    assert condition(cluster, "Ready") == DEPLOYED


async def test_metrics_count_it_at_once(
    cluster: BundleCluster, registry: FakeRegistry, operator: Operator
) -> None:
    registry.fault = BAD_GATEWAY
    await next_poll(operator)

    await shows(
        operator,
        {
            'copyrator_polls_total{result="RegistryUnreachable"}': 1,
            "copyrator_bundles_poll_failed": 1,
            'copyrator_bundles{reason="Deployed"}': 1,
        },
    )
    cluster.refuse("create", "/jobs", 403, "exceeded quota")  # so that its deletion takes long
    cluster.change("bundles", "shop", metadata={"deletionTimestamp": "2026-05-04T12:00:00Z"})
    await eventually(lambda: cluster.reason() == "UninstallFailed")
    await shows(operator, {"copyrator_bundles_poll_failed": 0})
