"""The key of secret values: named by the spec or in a variable, live or as planned with."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    deployed,
    idle,
    plan,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.features.approval.orders import plan_order
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.jobs.job import build_deploy_job

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


@pytest.mark.needs("approval")
async def test_a_planned_deploy_gets_the_key_that_its_plan_had(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster, werf="c0ffee")
    bundle(approval=ALWAYS, secretKey=KEY)
    werf.holds_plans = werf.holds_deploys = True
    operator = await run()
    await eventually(lambda: cluster.jobs("plan"), "the first plan")
    (job,) = cluster.jobs("plan")
    assert variable(job) == []
    assert "WERF_VALUES" not in str(container(job)["env"])
    path = next(
        one for one in container(job)["command"] if one.startswith("/") and one.endswith("/werf")
    )
    assert werf.mounted(job, path) == b"c0ffee"
    assert "/tmp/secret-key" in container(job)["command"]
    werf.holds_plans = False
    werf.finish(job)
    first = await waits(cluster)

    put(cluster, werf="decade")
    await eventually(lambda: plan(cluster).get("id") not in (None, first["id"]), "a new plan")
    second = await waits(cluster)
    approve(cluster, first)
    await idle(operator)
    assert cluster.jobs() == []
    approve(cluster, second)
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    (job,) = cluster.jobs()
    path = next(
        one for one in container(job)["command"] if one.startswith("/") and one.endswith("/werf")
    )
    assert werf.mounted(job, path) == b"decade"
    werf.finish(job)
    await deployed(cluster)


@pytest.mark.needs("approval")
async def test_a_copy_of_the_key_that_is_not_as_planned_ends_the_deploy(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    put(cluster, werf="c0ffee")
    bundle(approval=ALWAYS, secretKey=KEY)
    werf.holds_deploys = True
    await run()
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.jobs(), "the deploy")  # noqa: PLW0108 - it is looked at anew
    (job,) = cluster.jobs()
    name = f"{job['metadata']['name']}-values-000"
    there = cluster.look("secrets", name)
    assert there is not None
    forged = {"data": {"werf": base64.b64encode(b"forged").decode()}}
    cluster.write(path_of("secrets", name), there | forged)
    werf.finish(job)
    await eventually(lambda: cluster.status()["attempted"].get("reason") == "PlanChanged")
    assert werf.applied == []


@pytest.mark.needs("approval")
async def test_the_variable_is_in_the_plans_hash_by_a_keyed_hash(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, env={"WERF_SECRET_KEY": "c0ffee"})
    await run()
    first = await waits(cluster)
    (job,) = cluster.jobs("plan")
    assert variable(job) == [{"name": "WERF_SECRET_KEY", "value": "c0ffee"}]
    body = cluster.look("bundles", "shop")
    assert body is not None
    spec, entry = parse_bundle(body, BundleDefaults()), read_entry(body, BundleDefaults())
    assert isinstance(spec, BundleSpec)
    order = plan_order(entry, spec, first["version"], first["digest"])
    assert first["jobHash"] != hash_of(build_deploy_job(order)), "by its content alone"

    cluster.change("bundles", "shop", spec={"env": {"WERF_SECRET_KEY": "decade"}})
    await eventually(lambda: plan(cluster).get("id") not in (None, first["id"]), "a new plan")
    assert plan(cluster)["jobHash"] != first["jobHash"]
