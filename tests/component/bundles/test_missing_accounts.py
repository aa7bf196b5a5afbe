"""A Bundle that can't deploy for want of its service account costs what a deployed one costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from aiohttp import web
from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import error
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG
from tests.replacing import replace

from copyrator.api.keys import BundleKey
from copyrator.api.text import parse_time

Lacking = Callable[..., Awaitable[list[str]]]

COUNT = 20 if LONG else 10
INTERVAL = 1.5
INTERVAL_OF_POLLS = 3600.0
MINUTE = timedelta(minutes=1)


@pytest.fixture
def lacking(cluster: BundleCluster, run: Run, bundle: Make) -> Lacking:
    """Makes Bundles that wait for their account; returns their names."""

    async def make(count: int, **timing: float) -> list[str]:
        cluster.drop(path_of("serviceaccounts", "werf"))
        names = [f"shop{number}" for number in range(count)]
        for name in names:
            bundle(name)
        await run(timing=replace(TIMING, **timing), timer_interval=INTERVAL_OF_POLLS)
        await eventually(lambda: all(cluster.reason(n) == "ServiceAccountMissing" for n in names))
        return names

    return make


def asked_of(registry: FakeRegistry, prefix: str) -> int:
    return sum(f"/{prefix}" in str(request) for request in registry.asked)


async def rounds(registry: FakeRegistry, prefix: str, count: int) -> None:
    """Wait until each of the Bundles' repositories was asked for so many times more."""
    before = asked_of(registry, prefix)
    await eventually(lambda: asked_of(registry, prefix) - before >= count * COUNT)


async def test_bundles_without_their_account_cost_no_more_than_deployed_ones(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
) -> None:
    timing = replace(TIMING, account_recheck=INTERVAL)
    for number in range(COUNT):
        for kind, account in (("whole", "werf"), ("lacks", "nobody")):
            name = f"{kind}{number}"
            registry.put(name, "1.0.0", "one")
            bundle(name, repo=name, serviceAccountName=account)
    accounts = ("werf", "nobody")
    operator = await run(timing=timing, timer_interval=INTERVAL, allowed_service_accounts=accounts)
    await eventually(
        lambda: all(
            cluster.reason(f"whole{n}") == "Deployed"
            and cluster.reason(f"lacks{n}") == "ServiceAccountMissing"
            for n in range(COUNT)
        ),
        seconds=60,
    )
    await rounds(registry, "whole", 2)  # each has found its slot
    await eventually(lambda: not len(operator.queue) and not operator.queue.working)
    registry.asked.clear()
    cluster.seen.clear()

    await rounds(registry, "whole", 4)

    whole, lacks = asked_of(registry, "whole"), asked_of(registry, "lacks")
    assert lacks <= whole + COUNT  # one round may have begun
    requests = [seen for seen in cluster.seen if seen.verb != "watch"]
    looks = [seen for seen in requests if "/serviceaccounts/" in seen.path]
    assert len(looks) <= 6, "one look an interval for all Bundles of the account"
    assert [seen.path for seen in requests if seen not in looks] == []


async def test_all_bundles_of_an_account_deploy_when_it_has_come(
    cluster: BundleCluster, registry: FakeRegistry, lacking: Lacking
) -> None:
    names = await lacking(COUNT, account_recheck=0.3)
    await asyncio.sleep(0)
    asked = len(registry.asked)

    cluster.put_object("serviceaccounts", "werf")

    await eventually(lambda: all(cluster.reason(n) == "Deployed" for n in names))
    assert len(registry.asked) == asked, "what the registry said an hour ago at most is enough"


async def test_a_bundle_whose_look_another_one_took_waits_for_its_next_poll(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.drop(path_of("serviceaccounts", "werf"))
    for name in ("first", "second"):
        bundle(name)
        if name == "first":
            timing = replace(TIMING, account_recheck=MINUTE.total_seconds() / 2)
            operator = await run(timing=timing, timer_interval=INTERVAL_OF_POLLS)
        await eventually(lambda: cluster.reason(name) == "ServiceAccountMissing")  # noqa: B023
    await idle(operator)
    operator.passed += MINUTE
    cluster.change("bundles", "second", spec={"version": "1.0.*"})
    await eventually(lambda: cluster.status("second").get("observedGeneration") == 2)
    await idle(operator)

    first = BundleKey(TEAM, "first")
    operator.queue.add(first)  # its time has come, too
    await idle(operator)

    due = operator.scheduler.due(first)
    announced = parse_time(cluster.status("first")["nextPollAt"])
    assert due is not None
    assert announced is not None
    moment = operator.now() + timedelta(seconds=due - operator.monotonic())
    # The two clocks are read one after the other, and the status has whole seconds.
    late = ((moment - announced).total_seconds() + 0.1) % INTERVAL_OF_POLLS
    assert late < 1.2, "the other one looks"


async def test_where_accounts_may_not_be_read_any_more_each_bundle_says_so(
    cluster: BundleCluster, lacking: Lacking
) -> None:
    names = await lacking(5, account_recheck=0.5)

    async def refuse_accounts(request: web.Request) -> web.StreamResponse:
        if "/serviceaccounts/" in request.path:
            return await error(403, "Forbidden")(request)
        return await cluster.serve(request)

    cluster.always("get", refuse_accounts)

    await eventually(lambda: all(cluster.reason(n) == "Forbidden" for n in names))
