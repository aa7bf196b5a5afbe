"""The registry has nothing for a Bundle any more: what is deployed stays, edits and requests too.

A deleted tag leaves its manifest behind in most registries, so what is deployed can be deployed
again by its digest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import annotate
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry, digest_of

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.context import BundleTiming


@pytest.fixture
async def deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> Callable[..., Any]:
    """Deploys 1.0.1 under a range that 1.0.0 fits as well; returns its digest and the operator."""

    async def deploy(
        version: str = "1.0.*", values: str = "a: 1", timing: BundleTiming = TIMING
    ) -> tuple[str, Operator]:
        digest = registry.put("app", "1.0.1", "deployed")
        cluster.put_object("configmaps", "values", data={"a.yaml": values})
        bundle(version=version, values="values", retry={"backoff": "1s"})
        operator = await run(timing=timing, timer_interval=1.0)
        await eventually(lambda: cluster.reason() == "Deployed", cluster.message())
        return digest, operator

    return deploy


def edit_values(cluster: BundleCluster) -> None:
    cluster.change("configmaps", "values", data={"a.yaml": "a: 2"})


async def says(cluster: BundleCluster, reason: str, runs: int) -> None:
    await eventually(
        lambda: cluster.reason() == reason and len(cluster.runs) == runs,
        f"{reason} after {runs} runs; {cluster.reason()}: {cluster.message()}",
    )


def last_tag(cluster: BundleCluster) -> str:
    container = cluster.jobs()[-1]["spec"]["template"]["spec"]["containers"][0]
    return str({one["name"]: one.get("value") for one in container["env"]}["WERF_TAG"])


@pytest.mark.parametrize(
    ("version", "reason"), [("1.0.*", "WouldDowngrade"), ("1.0.1", "TagNotFound")]
)
async def test_edited_values_are_deployed_with_what_is_deployed(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any, version: str, reason: str
) -> None:
    digest, operator = await deployed(version)
    registry.untag("app", "1.0.1")
    await says(cluster, reason, 1)

    edit_values(cluster)

    await says(cluster, reason, 2)
    assert last_tag(cluster) == f"1.0.1@{digest}"
    assert "1.0.1" in cluster.message()
    status = cluster.status()
    assert status["deployed"]["valuesHash"] == status["attempted"]["valuesHash"]
    assert status["deployed"]["verified"] is True
    assert "version" not in status["available"]
    await polled(operator, registry)
    assert len(cluster.runs) == 2


async def test_edited_values_that_fail_are_tried_again_with_what_is_deployed(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    digest, _ = await deployed()
    registry.untag("app", "1.0.1")
    await says(cluster, "WouldDowngrade", 1)

    cluster.ends = fail
    edit_values(cluster)
    await eventually(lambda: cluster.reason() == "DeployFailed")
    cluster.ends = succeed

    await eventually(lambda: cluster.reason() == "WouldDowngrade", cluster.message())
    assert last_tag(cluster) == f"1.0.1@{digest}"


async def test_a_request_deploys_what_is_deployed_once_more(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    digest, _ = await deployed()
    registry.untag("app", "1.0.1")
    await says(cluster, "WouldDowngrade", 1)

    annotate(cluster, requestedAt="now")
    await says(cluster, "WouldDowngrade", 2)
    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    await says(cluster, "WouldDowngrade", 3)

    assert cluster.status()["lastHandledRequest"] == "now"
    await eventually(lambda: cluster.status()["forceUpdate"] == 0)
    assert last_tag(cluster) == f"1.0.1@{digest}"


async def test_a_request_has_its_answer_where_nothing_can_be_deployed(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    _, operator = await deployed()
    registry.manifests.pop(("app", "1.0.1"))
    await says(cluster, "WouldDowngrade", 1)
    assert "no longer has its manifest" in cluster.message()

    annotate(cluster, requestedAt="now", forceAt="now")
    cluster.change("bundles", "shop", status={"forceUpdate": 1})

    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    await eventually(lambda: cluster.status()["forceUpdate"] == 0)
    assert cluster.status()["lastHandledForce"] == "now"
    edit_values(cluster)
    await polled(operator, registry)
    await says(cluster, "WouldDowngrade", 1)


@pytest.mark.parametrize(
    ("version", "reason"), [("2.*", "NoMatchingVersion"), ("2.0.0", "TagNotFound")]
)
async def test_a_request_before_the_first_version_has_its_answer(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    version: str,
    reason: str,
) -> None:
    bundle(version=version)
    await run()
    await eventually(lambda: cluster.reason() == reason)
    registry.put("app", "3.0.0", "no match")

    annotate(cluster, requestedAt="now")

    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    assert cluster.reason() == reason
    assert cluster.runs == []
    registry.put("app", "2.0.0", "a match")
    annotate(cluster, requestedAt="again")
    await says(cluster, "Deployed", 1)
    assert cluster.status()["lastHandledRequest"] == "again"


async def test_a_version_that_the_spec_no_longer_takes_is_not_deployed_again(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    _, operator = await deployed()
    cluster.change("bundles", "shop", spec={"version": "2.*"})
    await says(cluster, "NoMatchingVersion", 1)

    edit_values(cluster)
    annotate(cluster, requestedAt="now")

    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    await polled(operator, registry)
    await says(cluster, "NoMatchingVersion", 1)


async def test_a_request_waits_for_a_registry_that_does_not_answer(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    _, operator = await deployed(timing=replace(TIMING, poll_retry=0.2, poll_error_sharing=0.0))

    async def down(_: web.Request) -> web.Response:
        return web.Response(status=503)

    registry.fault = down
    annotate(cluster, requestedAt="now")
    await eventually(lambda: cluster.reason() == "RegistryUnreachable")
    await polled(operator, registry)
    assert "lastHandledRequest" not in cluster.status()
    assert cluster.status()["lastFailedRequest"] == "now"
    annotate(cluster, requestedAt="again", forceAt="again")
    await eventually(lambda: cluster.status().get("lastFailedRequest") == "again")
    assert cluster.status()["lastFailedForce"] == "again"

    registry.fault = None
    await says(cluster, "Deployed", 2)
    assert cluster.status()["lastHandledRequest"] == "again"
    assert not {"lastFailedRequest", "lastFailedForce"} & set(cluster.status())


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"values": "none"}, "ValuesMissing"),
        ({"auth": "none"}, "AuthenticationFailed"),
    ],
)
async def test_a_request_has_its_answer_where_the_bundle_names_what_is_missing(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any, spec: Any, reason: str
) -> None:
    await deployed()
    cluster.change("bundles", "shop", spec=spec)
    await says(cluster, reason, 1)

    annotate(cluster, requestedAt="now")

    await eventually(lambda: cluster.status().get("lastFailedRequest") == "now")
    assert "lastHandledRequest" not in cluster.status()
    assert cluster.reason() == reason


async def test_a_request_waits_while_the_bundle_is_suspended(
    cluster: BundleCluster, registry: FakeRegistry, deployed: Any
) -> None:
    _, operator = await deployed()
    registry.manifests.pop(("app", "1.0.1"))
    cluster.change("bundles", "shop", spec={"suspend": True})
    await says(cluster, "Suspended", 1)

    annotate(cluster, requestedAt="now")
    await polled(operator, registry)
    assert "lastHandledRequest" not in cluster.status()

    cluster.change("bundles", "shop", spec={"suspend": False})
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")


async def test_a_request_is_answered_by_a_newer_poll_than_the_one_in_flight(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.0.0")
    operator = await run(timer_interval=1.0)
    await says(cluster, "Deployed", 1)
    gate, old = asyncio.Event(), digest_of(registry.manifests["app", "1.0.0"])

    async def slow(_: web.Request) -> web.Response:
        registry.fault = None  # the next request is answered at once
        await gate.wait()
        return web.Response(headers={"Docker-Content-Digest": old})

    registry.fault = slow
    await eventually(lambda: registry.fault is None, "a poll is in flight")
    digest = registry.put("app", "1.0.0", "pushed before the request")
    annotate(cluster, requestedAt="now")
    await eventually(lambda: operator.bundles.get(BundleKey("team", "shop")).request)
    gate.set()

    await says(cluster, "Deployed", 2)
    assert last_tag(cluster) == f"1.0.0@{digest}"
    assert cluster.status()["lastHandledRequest"] == "now"
