"""The key of secret values: named by the spec or in a variable, live or as planned with."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    deployed,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually

pytestmark = pytest.mark.usefixtures("registry")

KEY = {"secretName": "keys", "key": "werf"}


def put(cluster: BundleCluster, **keys: str) -> None:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in keys.items()}
    if cluster.look("secrets", "keys") is None:
        cluster.put_object("secrets", "keys", data=data)
    else:
        cluster.change("secrets", "keys", data=data)


def variable(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in container(job)["env"] if one["name"] == "WERF_SECRET_KEY"]


def deploys(cluster: BundleCluster) -> int:
    return len(cluster.status().get("history", []))


async def test_a_bundle_without_gates_gets_the_key_of_the_secret_and_a_deploy_when_it_changes(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    put(cluster, werf="c0ffee")
    bundle(secretKey=KEY)
    await run()
    first = await deployed(cluster)
    (job,) = cluster.jobs()
    reference = {"secretKeyRef": {"name": "keys", "key": "werf"}}
    assert variable(job) == [{"name": "WERF_SECRET_KEY", "valueFrom": reference}]
    assert container(job)["env"][-1] == variable(job)[0]
    assert first["deployed"]["valuesHash"].startswith("keyed:")
    plain = hashlib.sha256(b"c0ffee").hexdigest()
    assert plain[:12] not in str(cluster.status())

    put(cluster, werf="decade")
    await eventually(lambda: deploys(cluster) == 2, "the changed key is deployed")
    second = cluster.status()["deployed"]["valuesHash"]
    assert second != first["deployed"]["valuesHash"]

    put(cluster, other="decade")
    cluster.change("bundles", "shop", spec={"secretKey": {"key": "other"}})
    await eventually(lambda: deploys(cluster) == 3, "another key is deployed")
    assert cluster.status()["deployed"]["valuesHash"] != second


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (None, "Secret team/keys of spec.secretKey doesn't exist; create it"),
        ({"x": "y"}, "Secret team/keys of spec.secretKey has no key werf; add it"),
        ({"werf": "x" * 5000}, "Secret team/keys of spec.secretKey has more than 4096 bytes"),
    ],
)
async def test_a_key_that_is_not_there_is_named_and_waited_for(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    keys: dict[str, str] | None,
    message: str,
) -> None:
    if keys is not None:
        put(cluster, **keys)
    bundle(secretKey=KEY)
    await run()
    await eventually(lambda: cluster.reason() == "ValuesMissing", cluster.message())
    assert message in cluster.message()
    assert cluster.jobs() == []
    put(cluster, werf="c0ffee")
    await deployed(cluster)
