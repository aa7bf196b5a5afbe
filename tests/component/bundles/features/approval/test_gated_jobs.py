"""Which settings of a Bundle reach its plans, and its Jobs where it needs an approval."""

from __future__ import annotations

import base64
import json

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    plan,
    refresh,
    secrets,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of, succeed
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_gated_jobs import (
    ACTING,
    HARMLESS,
    JOB,
    LOGIN,
    assert_restricted,
    give_credentials,
    pods,
    spec,
    uninstalled,
)
from tests.component.bundles.test_job_credentials import Logins, give, several
from tests.component.bundles.test_secret_key import KEY, put, variable
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.identity import hash_of
from copyrator.bundles.jobs.job import build_deploy_job
from copyrator.bundles.plans.orders import plan_order

pytestmark = pytest.mark.usefixtures("registry")


async def test_the_jobs_of_a_bundle_with_approval_get_nothing_that_acts_before_it(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    give_credentials(cluster)
    bundle(approval=ALWAYS, **spec(**LOGIN))
    await run()
    waiting = await waits(cluster)
    assert_restricted(cluster, "plan")
    assert pods(cluster, "plan")[0]["spec"]["initContainers"]
    approve(cluster, waiting)
    await deployed(cluster)
    cluster.ends = succeed
    await uninstalled(cluster)
    assert_restricted(cluster, "plan", "deploy", "uninstall")


async def test_the_floor_of_the_operator_makes_a_bundle_gated(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run(require_approval=(("*", "Always"),))
    await waits(cluster)
    assert_restricted(cluster, "plan")


async def test_a_plan_that_is_asked_for_without_approval_is_restricted_too(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run()
    await deployed(cluster)
    refresh(cluster)
    await eventually(lambda: cluster.status().get("plan", {}).get("outcome") == "Planned")
    assert_restricted(cluster, "plan")


async def test_the_condition_names_what_is_withheld_until_it_is_removed(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, **spec())
    await run()
    await waits(cluster)
    assert condition(cluster, "SettingsWithheld") == ("True", "NotKnownHarmless")
    found = {one["type"]: one["message"] for one in cluster.status()["conditions"]}
    for name in ACTING:
        assert f"spec.env.{name}" in found["SettingsWithheld"]
    for name in HARMLESS:
        assert name not in found["SettingsWithheld"]
    for value in ACTING.values():
        assert value not in found["SettingsWithheld"].replace("spec.env.", "")
    cluster.change("bundles", "shop", spec={"env": dict.fromkeys(ACTING), "job": None})
    await eventually(
        lambda: "podLabels" not in str(cluster.status()["conditions"]),
        "the pods' metadata are gone",
    )


async def test_the_operators_settings_let_metadata_of_pods_pass(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, job=JOB)
    allowed = ("team", "inject=false", "sidecar.istio.io/inject=true")
    await run(allowed_pod_metadata=allowed, job_pod_labels=(("sidecar.istio.io/inject", "no"),))
    await waits(cluster)
    (pod,) = pods(cluster, "plan")
    labels = pod["metadata"]["labels"]
    assert (labels["team"], labels["sidecar.istio.io/inject"]) == ("a", "true")
    assert "inject" not in labels


@pytest.mark.needs("previews")
async def test_plans_their_deploys_previews_and_uninstalls_have_no_other_credential(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    give(cluster, several(registry))
    logins = Logins(cluster, registry)
    bundle(auth="creds", approval=ALWAYS)
    await run()
    waiting = await waits(cluster)
    assert not [name for name in secrets(cluster) if name.endswith("-login")]
    approve(cluster, waiting)
    await deployed(cluster)
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    await eventually(lambda: not [one for one in secrets(cluster) if one.endswith("-login")])
    logins._ends = succeed
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.look("bundles", "shop") is None)

    assert {kind: len(names) for kind, names in logins.by_kind.items()} == {
        "plan": 2,
        "deploy": 1,
        "uninstall": 1,
    }


FLOOR = (("team", "Always"),)


async def test_where_approval_is_required_a_password_goes_only_to_the_host_that_its_secret_names(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
) -> None:
    registry.auth, registry.users = "basic", {"alice": "good"}
    cluster.put_object("secrets", "creds", data={"username": "YWxpY2U=", "password": "Z29vZA=="})
    bundle(auth="creds")
    operator = await run(require_approval=FLOOR)
    for named in (None, "other.example", f"{registry.host}.example"):
        if named:
            cluster.change(
                "secrets", "creds", metadata={"annotations": {"operator.werf.dev/registry": named}}
            )
        await eventually(lambda: cluster.reason() == "AuthenticationFailed")
        await idle(operator)
        assert registry.asked == []
        assert cluster.runs == []
    assert (
        f"Secret team/creds of spec.auth isn't sent to {registry.host}: bundles.requireApproval"
    ) in cluster.message()
    assert f"operator.werf.dev/registry={registry.host}" in cluster.message()

    host = {"operator.werf.dev/registry": registry.host.upper()}
    cluster.change("secrets", "creds", metadata={"annotations": host})

    await eventually(lambda: cluster.jobs("plan"))
    (login,) = cluster.jobs("plan")[0]["spec"]["template"]["spec"]["initContainers"]
    assert login["command"][-1] == registry.host


async def test_where_approval_is_required_a_secret_that_names_its_hosts_needs_no_annotation(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.auth, registry.users = "basic", {"alice": "good"}
    config = {
        "auths": {
            registry.host: {"username": "alice", "password": "good"},
            "other.example": {"username": "bob", "password": "else"},
        }
    }
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    cluster.put_object("secrets", "creds", data=data)
    bundle(auth="creds")

    await run(require_approval=FLOOR)

    await eventually(lambda: cluster.jobs("plan"))


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
