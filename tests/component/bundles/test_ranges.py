"""Wildcards and ranges: what they cost, what they take, and that nothing makes them go down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import deployed, idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.tagfilter import compile_filter
from copyrator.api.version_range import VersionRange, parse_version
from copyrator.bundles.engine.registry import GATHER, add_all
from copyrator.bundles.tags import TagSelection

LISTS = ("GET", "/tags/list")
JUNK = (
    "latest",
    "cleanup",
    "sync-server",
    "meta-3f5a9c1e",
    "managed-image-app1",
    "0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5-1700000000000",
)


async def test_a_wildcard_takes_what_is_pushed_into_it_and_says_what_it_passes_over(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.0.*")
    await run(timer_interval=1.0)
    await deployed(cluster, version="1.0.0")

    registry.put("app", "1.1.0", "too high")
    registry.put("app", "1.0.2-rc.1", "not ready")
    digest = registry.put("app", "1.0.1", "next")

    await deployed(cluster, version="1.0.1")
    status = cluster.status()
    assert status["target"] == {"version": "1.0.1", "digest": digest}
    assert status["deploy"] == status["target"] | {"shortDigest": digest[7:19]}
    assert (status["available"]["version"], status["available"]["digest"]) == ("1.0.1", digest)
    assert status["available"]["rejected"] == [
        {"version": "1.1.0", "reason": "OutOfRange"},
        {"version": "1.0.2-rc.1", "reason": "PreRelease"},
    ]
    env = cluster.jobs()[-1]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "WERF_TAG", "value": f"1.0.1@{digest}"} in env


async def test_a_poll_that_finds_nothing_new_is_a_list_and_a_head_and_junk_is_nothing_new(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.put("app", "1.1.0", "passed over")
    bundle(version="1.0.*")
    operator = await run(timer_interval=1.0)
    await deployed(cluster, version="1.0.0")
    await eventually(lambda: cluster.jobs()[0]["spec"]["ttlSecondsAfterFinished"] == 120)
    await polled(operator, registry)
    writes, asked = cluster.writes_seen, len(registry.asked)

    for tag in JUNK:
        registry.put("app", tag, "junk")
    await polled(operator, registry)

    assert cluster.writes_seen == writes
    heads = [path for method, path in registry.asked[asked:] if method == "HEAD"]
    lists = [path for method, path in registry.asked[asked:] if method == "GET"]
    assert abs(len(lists) - len(heads)) <= 1
    assert {path.rpartition("/")[2] for path in heads} == {"1.0.0"}


async def test_a_hundred_bundles_of_a_repository_share_its_list(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.put("app", "1.1.0", "two")
    ranges = ("1.0.*", "~1.0", "1.x", ">=1 <2")
    count = 100 if LONG else 30
    for i in range(count):
        bundle(f"shop{i}", version=ranges[i % 4], suspend=True)
    began = time.monotonic()
    operator = await run(timer_interval=600.0)

    await eventually(lambda: all(cluster.reason(f"shop{i}") == "Suspended" for i in range(count)))
    took = time.monotonic() - began  # the fake server takes seconds for a hundred first visits
    assert registry.count(*LISTS) <= 1 + took / GATHER
    assert cluster.status("shop0")["available"]["version"] == "1.0.0"
    assert cluster.status("shop2")["available"]["version"] == "1.1.0"

    polls = (cluster.status(f"shop{i}")["nextPollAt"] for i in range(count))
    slots = {datetime.fromisoformat(at).timestamp() % 600 for at in polls}
    assert len(slots) == 1  # all ranges of a repository come due together; one may have passed
    lists, heads = registry.count(*LISTS), registry.count("HEAD")
    operator.let_pass(timedelta(seconds=600))  # the slot comes
    await eventually(lambda: registry.count("HEAD") - heads == 2)
    await idle(operator)
    assert registry.count(*LISTS) - lists == 1
    assert registry.count("HEAD") - heads == 2


async def no_tags(_: web.Request) -> web.Response:
    return web.json_response({"name": "app", "tags": []})


async def null_tags(_: web.Request) -> web.Response:
    return web.json_response({"name": "app", "tags": None})


async def cut_off(_: web.Request) -> web.Response:
    return web.Response(text='{"name": "app", "tags": ["0.9.0", "1.0', content_type="text/json")


async def page_two_is_limited(request: web.Request) -> web.Response:
    if "last" in request.query:
        return web.Response(status=429, headers={"Retry-After": "1"})
    link = {"Link": '</v2/app/tags/list?last=1.0.0>; rel="next"'}
    return web.json_response({"name": "app", "tags": ["1.0.0"]}, headers=link)


async def page_two_fails(request: web.Request) -> web.Response:
    if "last" in request.query:
        return web.Response(status=500)
    return await page_two_is_limited(request)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page_two_is_limited, "RateLimited"),
        *([(page_two_fails, "RegistryUnreachable")] if LONG else []),
        (cut_off, "RegistryUnreachable"),
        *([(no_tags, "NoMatchingVersion")] if LONG else []),
        (null_tags, "NoMatchingVersion"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
async def test_half_a_list_and_an_empty_one_change_nothing(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    answer: Callable[[web.Request], Any],
    reason: str,
) -> None:
    digest = registry.put("app", "1.0.1", "newest")
    bundle(version="1.x")
    timing = replace(TIMING, poll_retry=0.2, poll_error_sharing=0.0)
    operator = await run(timing=timing, timer_interval=1.0)
    await deployed(cluster, version="1.0.1")
    registry.put("app", "1.0.2", "hidden by the fault")

    registry.fault, registry.fault_at = answer, "/tags/list"

    await eventually(lambda: cluster.reason() == reason, cluster.message())
    await polled(operator, registry)
    assert len(cluster.runs) == 1
    assert cluster.status()["deploy"]["digest"] == digest
    assert cluster.status()["target"] == {"version": "1.0.1", "digest": digest}
    registry.fault = None
    await deployed(cluster, version="1.0.2")
    assert "lastError" not in cluster.status()


# --- Tag lists as long as they may be, and what is chosen from them: no long step of the loop


TAGS = 20_000
SLOW = "(a?){60}" * 2 + ".*"
"""A filter near the bound, for which RE2 has no short way."""
ALTERNATIVES = " || ".join(f">={number}.1 <{number}.2" for number in range(14))


def selection(version: str, tag_filter: str | None = None) -> TagSelection:
    wanted = parse_version(version)
    assert isinstance(wanted, VersionRange)
    matches = compile_filter(tag_filter).matches if tag_filter else None
    return TagSelection(wanted, matches=matches)


@pytest.mark.parametrize(
    ("tags", "choosing"),
    [
        ([f"{n % 50}.{n % 7}.{n}" for n in range(TAGS)], selection(ALTERNATIVES)),
        (["a" * 120 + f".{n}" for n in range(TAGS)], selection("1.*", SLOW)),
        ([f"1.2.{n}-" + "ab" * 60 for n in range(TAGS)], selection("1.*", SLOW)),
        ([f"1.2.{n}." + "9" * 110 for n in range(TAGS)], selection(ALTERNATIVES, SLOW)),
        (["a-" * 60 + f"{n}" for n in range(TAGS)], selection(ALTERNATIVES)),
    ],
    ids=[
        *("many alternatives", "a slow filter on junk", "a slow filter on versions"),
        *("a slow filter on what looks like versions", "long words before a number"),
    ],
)
async def test_a_long_list_is_looked_through_in_short_steps(
    tags: list[str], choosing: TagSelection
) -> None:
    with measured_steps() as steps:
        await add_all(tags, [choosing])

    assert steps.longest < STEP_SECONDS, steps.where
    assert sum(choosing.result().counts.values()) > 0
