"""The key of secret values: a deploy gets the one that its plan had."""

from __future__ import annotations

import base64

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
from tests.component.bundles.test_secret_key import KEY, put, variable
from tests.component.bundles.waiting import eventually

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.jobs.job import build_deploy_job
from copyrator.bundles.plans.orders import plan_order

pytestmark = pytest.mark.usefixtures("registry")


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
