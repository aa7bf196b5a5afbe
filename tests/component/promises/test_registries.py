"""What was read of a registry is for whoever may read it, and a registry's pause is its own."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import ALWAYS, deployed, idle, waits
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.signatures.test_signatures import VERIFY, Signed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering
from tests.packed_charts import chart
from tests.unit.signatures.making import key, public_pem

from copyrator.oci.auth import Credential
from copyrator.oci.errors import RateLimited, RegistryError

ALICE = "Basic " + base64.b64encode(b"alice:s3cret").decode()
PLACES = {
    "a tag": ("/manifests/1.0.0", {}),
    "the list of tags": ("/tags/list", {"version": "1.*"}),
    "a chart": ("/blobs/", {"approval": ALWAYS}),
    "signatures": (".sig", {"verify": VERIFY}),
}
"""What only alice may read, and a Bundle that wants it."""


@pytest.fixture
async def registry() -> AsyncIterator[Signed]:
    async with Signed() as registry:
        registry.sign(registry.put_chart("app", "1.0.0", chart("a: b")))
        yield registry


def only_for_alice(registry: FakeRegistry, place: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") == ALICE:
            return await registry.respond(request)
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r"'})

    registry.fault, registry.fault_at = answer, place


def login(
    cluster: BundleCluster, registry: FakeRegistry, user: str, namespace: str, password: str
) -> None:
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    config = json.dumps({"auths": {registry.host: {"auth": auth}}})
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    metadata = {
        "name": user,
        "namespace": namespace,
        "annotations": {"operator.werf.dev/registry": registry.host},
    }
    cluster.write(path_of("secrets", user, namespace), {"metadata": metadata, "data": data})


OTHERS: dict[str, dict[str, Any]] = {
    "with none": {},
    "with another": {"auth": "bob"},
    "with another password": {"auth": "alice"},
}


def other(cluster: BundleCluster, registry: FakeRegistry, made: dict[str, Any], who: str) -> None:
    """The same Bundle in another namespace, with another credential."""
    cluster.namespace("other")
    account = {"metadata": {"name": "werf", "namespace": "other"}}
    cluster.write(path_of("serviceaccounts", "werf", "other"), account)
    keys = {"a.pub": public_pem(key("P-256")).decode()}
    metadata = {"name": "keys", "namespace": "other"}
    cluster.write(path_of("configmaps", "keys", "other"), {"metadata": metadata, "data": keys})
    login(cluster, registry, "bob", "other", "s3cret")
    login(cluster, registry, "alice", "other", "not hers")
    spec = {name: one for name, one in made["spec"].items() if name != "auth"} | OTHERS[who]
    metadata = {"name": "poor", "namespace": "other"}
    cluster.write(path_of("bundles", "poor", "other"), {"metadata": metadata, "spec": spec})


def status_of(cluster: BundleCluster) -> dict[str, Any]:
    body = cluster.objects.get(path_of("bundles", "poor", "other")) or {}
    return dict(body.get("status") or {})


@pytest.mark.parametrize("order", ["alice first", "alice last", "both at once"])
@pytest.mark.parametrize("who", OTHERS)
@pytest.mark.parametrize("what", PLACES)
async def test_what_was_read_with_one_credential_is_never_given_to_a_reader_with_another(
    cluster: BundleCluster,
    registry: Signed,
    run: Run,
    bundle: Make,
    werf: Werf,
    what: str,
    who: str,
    order: str,
) -> None:
    place, spec = PLACES[what]
    only_for_alice(registry, place)
    login(cluster, registry, "alice", "team", "s3cret")
    keys = {"a.pub": public_pem(key("P-256")).decode()}
    cluster.put_object("configmaps", "keys", data=keys)
    made = bundle(auth="alice", **spec)
    if order == "both at once":
        other(cluster, registry, made, who)
    operator = await run(timer_interval=1.0)
    if order == "both at once":
        await waits(cluster) if "approval" in spec else await deployed(cluster)
    elif order == "alice first":
        await waits(cluster) if "approval" in spec else await deployed(cluster)
        other(cluster, registry, made, who)
    else:
        cluster.drop(path_of("bundles", "shop"))
        other(cluster, registry, made, who)
        await eventually(lambda: "gates" in status_of(cluster) or status_of(cluster))
        cluster.put_object("bundles", "shop", spec=made["spec"])
        await waits(cluster) if "approval" in spec else await deployed(cluster)

    await eventually(lambda: "lastError" in status_of(cluster) or status_of(cluster).get("gates"))
    polls = len(registry.asked)
    await eventually(lambda: len(registry.asked) > polls + 4, "it polls on")
    await idle(operator)

    assert not [name for name in cluster.runs if name.startswith("poor")], status_of(cluster)
    assert "deployed" not in status_of(cluster)
    assert "plan" not in status_of(cluster)


async def test_what_was_read_is_never_given_to_readers_of_another_registry_with_an_equal_path(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make, werf: Werf
) -> None:
    """Path, tag and credential are equal; the contents aren't."""
    async with FakeRegistry() as second:
        digests = {
            "one": registry.put_chart("app", "1.2.0", chart("a: {{ now }}")),
            "two": second.put_chart("app", "1.2.0", chart("a: c")),
        }
        second.put_chart("app", "1.3.0", chart("a: d"))
        bundle("one", version="1.2.0", approval=ALWAYS)
        bundle("two", version="1.2.0", approval=ALWAYS, registry=second.host)
        bundle("all-of-one", version="1.*")
        bundle("all-of-two", version="1.*", registry=second.host)
        await run(max_plan_jobs=8)

        plans = {name: await waits(cluster, name=name) for name in digests}
        for name, version in (("all-of-one", "1.2.0"), ("all-of-two", "1.3.0")):
            await deployed(cluster, name, version=version)

    assert {name: plan["digest"] for name, plan in plans.items()} == digests
    assert {name: plan["bound"] for name, plan in plans.items()} == {"one": False, "two": True}


# --- Retry-After ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
async def test_a_retry_after_holds_back_that_host_only_and_for_that_long(status: int) -> None:
    async with FakeRegistry() as busy, FakeRegistry() as free:
        digest = busy.put("app", "1.0.0", "one")
        free.put("app", "1.0.0", "one")
        mine, other_of_it, others = busy.repo("app"), busy.repo("other"), free.repo("app")
        client = busy.client
        assert await client.digest(others, "1.0.0", None), "both are known"
        busy.fault = answering(status, Retry_After="2")
        with pytest.raises(RegistryError):
            await client.digest(mine, "1.0.0", None)
        answered, asked = time.monotonic(), len(busy.asked)
        busy.fault = None

        found = None
        while found is None:
            if len(busy.asked) > asked:
                assert time.monotonic() > answered + 1.5
            with suppress(RegistryError):
                found = await client.digest(mine, "1.0.0", Credential("a", "b"))
            assert await client.digest(others, "1.0.0", Credential("a", "b"))
            await asyncio.sleep(0.02)
        assert time.monotonic() > answered + 1.5
        assert found == digest

        busy.fault = answering(status, Retry_After="1800")
        with pytest.raises(RegistryError):
            await client.digest(mine, "1.0.0", None)
        busy.fault, asked = None, len(busy.asked)
        for repository in (mine, other_of_it):
            with pytest.raises(RegistryError) as caught:
                await client.digest(repository, "1.0.0", None)
            assert isinstance(caught.value, RateLimited) is (status == 429)
            assert 1500 < (caught.value.retry_after or 0) <= 1800
        assert len(busy.asked) == asked, "nothing is sent there"


async def test_bundles_of_other_registries_are_deployed_while_one_asks_for_a_pause(
    cluster: BundleCluster, registry: Signed, run: Run, bundle: Make
) -> None:
    async with FakeRegistry() as second:
        second.put("app", "1.0.0", "one")
        registry.fault = answering(429, Retry_After="3600")
        bundle("held")
        bundle("free", registry=second.host)
        operator = await run(timer_interval=1.0)
        await deployed(cluster, "free")
        await eventually(lambda: cluster.reason("held") == "RateLimited")
        asked = len(registry.asked)
        newer = second.put("app", "1.0.0", "two")
        await deployed(cluster, "free", digest=newer)
        await idle(operator)
        assert len(registry.asked) == asked
