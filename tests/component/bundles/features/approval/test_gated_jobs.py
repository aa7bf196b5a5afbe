"""Which settings of a Bundle reach its plans, and its Jobs where it needs an approval."""

from __future__ import annotations

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    condition,
    deployed,
    refresh,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, succeed
from tests.component.bundles.fake_werf import Werf
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
from tests.component.bundles.waiting import eventually

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
