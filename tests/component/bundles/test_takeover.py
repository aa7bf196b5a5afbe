"""Bundles that the original werf operator deployed: taken over as they stand, without a Job."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import TIMING, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, digest_of

Inherit = Callable[..., None]

CONFIG = "sha256:" + "c" * 64


def put(registry: FakeRegistry, tag: str, text: str, config: str = CONFIG) -> str:
    """Push a manifest with a config digest."""
    content = {"schemaVersion": 2, "config": {"digest": config}, "text": text}
    manifest = json.dumps(content).encode()
    registry.manifests["app", tag] = manifest
    return digest_of(manifest)


@pytest.fixture
def inherit(cluster: BundleCluster, bundle: Callable[..., dict[str, Any]]) -> Inherit:
    """Makes a Bundle with the status that the original left."""

    def make(was: str = "1.0.0", force: int = 0, **spec: Any) -> None:
        ref = {"digest": CONFIG, "version": was}
        bundle(**spec)
        status = {"ready": 1, "forceUpdate": force, "target": ref, "deploy": ref}
        cluster.change("bundles", "shop", status=status)

    return make


async def unknown_for_now(_: web.Request) -> web.Response:
    return web.Response(status=503)


async def deployed(cluster: BundleCluster, digest: str) -> None:
    await eventually(
        lambda: (
            cluster.reason() == "Deployed"
            and cluster.status().get("deploy", {}).get("digest") == digest
        ),
        cluster.message(),
    )


async def test_the_same_config_is_the_baseline_and_the_next_push_is_deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, inherit: Inherit
) -> None:
    digest = put(registry, "1.0.0", "first")
    inherit(project_namespace="production")
    await run(timer_interval=1.0)

    await deployed(cluster, digest)
    there = cluster.status()["deployed"]
    assert (there["digest"], there["version"], there["verified"]) == (digest, "1.0.0", False)
    assert there["namespace"] == "production"
    assert cluster.runs == []

    second = put(registry, "1.0.0", "second")
    await deployed(cluster, second)
    assert len(cluster.runs) == 1


async def test_nothing_is_deployed_only_because_the_registry_is_down(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    inherit: Inherit,
) -> None:
    digest = put(registry, "1.0.0", "first")
    registry.fault = unknown_for_now
    inherit()
    await run(timing=replace(TIMING, poll_retry=0.2, poll_error_sharing=0.0))
    await eventually(lambda: cluster.reason() == "RegistryUnreachable")

    registry.fault = None

    await deployed(cluster, digest)
    assert cluster.runs == []


async def test_a_deleted_tag_is_not_gone_below(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, inherit: Inherit
) -> None:
    """Also where nothing tells what was deployed but its version."""
    put(registry, "1.0.0", "older")
    inherit("1.0.1", version="1.0.*")
    await run()

    await eventually(lambda: cluster.reason() == "WouldDowngrade")
    assert "1.0.0, which is lower than the deployed 1.0.1" in cluster.message()
    assert cluster.runs == []


async def test_no_registry_is_asked_while_updates_are_disabled(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, inherit: Inherit
) -> None:
    disabled = {"operator.werf.dev/disable-autoupdate": "true"}
    digest = put(registry, "1.0.0", "first")
    inherit(metadata={"annotations": disabled})
    await run()

    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    assert registry.asked == []
    cluster.change("bundles", "shop", metadata={"annotations": dict.fromkeys(disabled)})

    await deployed(cluster, digest)
    assert cluster.runs == []
