"""A rollback is of what a person saw."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.component.bundles.approvals import (
    annotate,
    deployed,
    idle,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.features.approval.promises.test_decisions import InFront
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.test_attempts import tags


async def deploy(cluster: BundleCluster, registry: FakeRegistry, *versions: str) -> list[str]:
    digests = []
    for version in versions:
        digests.append(registry.put("app", version, version))
        await deployed(cluster, digest=digests[-1])
    return digests


HAPPENS = ("it is deployed", "it is rolled back", "only its status is written")


@pytest.mark.parametrize("what", HAPPENS)
async def test_a_rollbacks_patch_carries_the_resource_version_that_it_was_decided_on(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    tmp_path: Path,
    what: str,
) -> None:
    """The version before the one that runs is another one if something is deployed meanwhile."""
    bundle(version="1.*")
    operator = await run(timer_interval=1.0)
    _, second, _ = await deploy(cluster, registry, "1.0.1", "1.0.2", "1.0.3")
    await idle(operator)
    await operator.stop()
    there = cluster.status()
    history = there["history"]

    def happens() -> None:
        status = dict(there)
        if what == "it is deployed":
            newer = {**history[0], "version": "1.0.4", "digest": "sha256:" + "4" * 64}
            status["history"] = [newer, *history]
            runs = {"version": "1.0.4", "digest": newer["digest"]}
            status |= {key: {**there[key], **runs} for key in ("deployed", "attempted")}
        if what == "it is rolled back":
            status["pin"] = {"version": "1.0.2", "digest": second, "requested": f"1.0.2@{second}"}
            runs = {"version": "1.0.2", "digest": second}
            status |= {key: {**there[key], **runs} for key in ("deployed", "attempted")}
            status["history"] = [history[1], *history]
        path = path_of("bundles", "shop")
        cluster.write(path, {**cluster.objects[path], "status": status})

    front = InFront(cluster, happens)
    words = ("rollback", "bundle", "shop", "-n", "team", "--timeout", "0")
    code, said = await front.typed(tmp_path, *words)

    annotations = (cluster.look("bundles", "shop") or {})["metadata"].get("annotations", {})
    if what == "only its status is written":
        assert code == 0, said
        assert annotations["operator.werf.dev/pin"] == f"1.0.2@{second}"
    else:
        assert code != 0, said
        assert "in the meantime" in said
        assert front.patches == 1
        assert "operator.werf.dev/pin" not in annotations


async def test_a_rollback_is_pinned_to_the_digest_that_was_deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first = registry.put("app", "1.0.0", "one")
    bundle()
    await run(timer_interval=1.0)
    await deployed(cluster, digest=first)
    second = registry.put("app", "1.0.0", "pushed again")
    await deployed(cluster, digest=second)

    annotate(cluster, pin=f"1.0.0@{first}")

    await eventually(lambda: cluster.status()["deployed"]["digest"] == first)
    assert tags(cluster, "deploy") == [f"1.0.0@{one}" for one in (first, second, first)]
