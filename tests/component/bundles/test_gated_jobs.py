"""Which settings of a gated Bundle reach its Jobs, of each kind, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    deployed,
    refresh,
    waits,
)
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import BundleCluster, path_of, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.jobs.job import UNINSTALL_TIMEOUT

pytestmark = pytest.mark.usefixtures("registry")

HARMLESS = {"WERF_SET_A": "a=1", "WERF_TIMEOUT": "9", "WERF_SET_B": "b=$(WERF_NAMESPACE)"}
ACTING = {
    "WERF_KUBE_CONFIG_BASE64": "ZXhlYw==",
    "WERF_VALUES_ZZZ": "http://values.example.com/v.yaml",
    "WERF_SET_FILE_1": "v=/var/run/secrets/kubernetes.io/serviceaccount/token",
    "WERF_ADD_ANNOTATION_1": "werf.io/sensitive=true",
    "PATH": "/tmp",
    "NOBODY_READS_IT": "x",
    "WERF_SET_C": "c=$(KUBERNETES_SERVICE_HOST)",
}
JOB = {
    "podLabels": {"team": "a", "inject": "true", "sidecar.istio.io/inject": "true"},
    "podAnnotations": {"vault.hashicorp.com/agent-inject": "true"},
}
LOGIN = {"auth": "creds"}


def spec(**more: Any) -> dict[str, Any]:
    return {"env": HARMLESS | ACTING, "job": JOB, **more}


def pods(cluster: BundleCluster, kind: str) -> list[dict[str, Any]]:
    return [one["spec"]["template"] for one in cluster.jobs(kind)]


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """Those of all its containers, the login's too."""
    containers = (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    return {one["name"]: one.get("value", "") for each in containers for one in each["env"]}


def assert_restricted(cluster: BundleCluster, *kinds: str) -> None:
    for kind in kinds:
        assert pods(cluster, kind), kind
        for pod in pods(cluster, kind):
            found = variables(pod)
            assert found.items() >= HARMLESS.items() or kind == "uninstall", kind
            assert not found.keys() & ACTING.keys(), kind
            metadata = pod["metadata"]
            assert not (JOB["podLabels"].items() & metadata["labels"].items()), kind
            assert not (JOB["podAnnotations"].items() & metadata["annotations"].items()), kind
            assert metadata["labels"]["sidecar.istio.io/inject"] == "false", kind
            assert metadata["annotations"]["vault.hashicorp.com/agent-inject"] == "false", kind
            assert pod["spec"]["enableServiceLinks"] is False, kind


def give_credentials(cluster: BundleCluster) -> None:
    data = {"username": "dQ==", "password": "cA=="}
    cluster.put_object("secrets", "creds", data=data)


async def uninstalled(cluster: BundleCluster) -> None:
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.look("bundles", "shop") is None, cluster.message())


@pytest.mark.needs("approval")
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


@pytest.mark.needs("approval")
async def test_the_floor_of_the_operator_makes_a_bundle_gated(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run(require_approval=(("*", "Always"),))
    await waits(cluster)
    assert_restricted(cluster, "plan")


@pytest.mark.needs("drift")
async def test_checks_for_drift_and_the_deploys_that_they_are_of(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    bundle(drift=DETECT, **spec())
    await run()
    await release.in_sync()
    assert_restricted(cluster, "drift", "deploy")


@pytest.mark.needs("signatures")
async def test_a_bundle_that_the_signature_policy_concerns(
    cluster: BundleCluster, run: Run, bundle: Make, registry: FakeRegistry
) -> None:
    """Before and after: the policy may come when the Bundle is deployed already."""
    bundle(**spec())
    await run()
    await deployed(cluster)
    assert variables(pods(cluster, "deploy")[0]).items() >= ACTING.items()
    entry = {
        "repositories": [f"{registry.host}/*"],
        "anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}],
    }
    data = {"policy.yaml": yaml.safe_dump({"entries": [entry]})}
    cluster.write(
        path_of("configmaps", "copyrator-signature-policy", "default"),
        {
            "metadata": {"name": "copyrator-signature-policy", "namespace": "default"},
            "data": data,
        },
    )
    await eventually(lambda: condition(cluster, "SettingsWithheld")[0] == "True")
    await uninstalled(cluster)
    assert_restricted(cluster, "uninstall")


@pytest.mark.parametrize(
    "gate",
    [
        {"verify": {"anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]}},
        {"promoteFrom": {"bundles": [{"name": "staging"}], "soak": "1h"}},
    ],
    ids=lambda gate: next(iter(gate)),
)
async def test_version_gates_withhold_settings_from_the_uninstall_as_well(
    cluster: BundleCluster, run: Run, bundle: Make, gate: dict[str, Any]
) -> None:
    bundle(**spec())
    await run()
    await deployed(cluster)
    cluster.change("bundles", "shop", spec=gate)
    await eventually(lambda: condition(cluster, "SettingsWithheld")[0] == "True")
    await uninstalled(cluster)
    assert_restricted(cluster, "uninstall")


async def test_a_bundle_without_gates_keeps_all_that_it_sets(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    give_credentials(cluster)
    bundle(**spec(**LOGIN))
    await run()
    await deployed(cluster)
    await uninstalled(cluster)
    for kind, own in (("deploy", {}), ("uninstall", {"WERF_TIMEOUT": str(UNINSTALL_TIMEOUT)})):
        (pod,) = pods(cluster, kind)
        assert variables(pod).items() >= (HARMLESS | ACTING | own).items()
        assert pod["metadata"]["labels"].items() >= JOB["podLabels"].items()
        assert pod["metadata"]["annotations"].items() >= JOB["podAnnotations"].items()
        assert "enableServiceLinks" not in pod["spec"]


@pytest.mark.needs("previews")
async def test_previews_of_any_bundle_are_restricted_and_say_what_the_deploy_has(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run()
    status = await deployed(cluster)
    assert condition(cluster, "SettingsWithheld") == ("", "")
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    assert_restricted(cluster, "plan")
    message = cluster.status()["preview"]["message"]
    assert message.startswith("planned without spec.env[NOBODY_READS_IT], spec.env[PATH], ")
    assert message.endswith(
        "spec.job.podAnnotations[vault.hashicorp.com/agent-inject], which the deploy gets"
    )
    assert cluster.status()["deployed"] == status["deployed"]


@pytest.mark.needs("approval")
async def test_a_plan_that_is_asked_for_without_approval_is_restricted_too(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run()
    await deployed(cluster)
    refresh(cluster)
    await eventually(lambda: cluster.status().get("plan", {}).get("outcome") == "Planned")
    assert_restricted(cluster, "plan")


@pytest.mark.needs("approval")
async def test_the_condition_names_what_is_withheld_until_it_is_removed(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, **spec())
    await run()
    await waits(cluster)
    assert condition(cluster, "SettingsWithheld") == ("True", "NotKnownHarmless")
    found = {one["type"]: one["message"] for one in cluster.status()["conditions"]}
    for name in ACTING:
        assert f"spec.env[{name}]" in found["SettingsWithheld"]
    for name in HARMLESS:
        assert name not in found["SettingsWithheld"]
    for value in ACTING.values():
        assert value not in found["SettingsWithheld"].replace("spec.env[", "")
    cluster.change("bundles", "shop", spec={"env": dict.fromkeys(ACTING), "job": None})
    await eventually(
        lambda: "podLabels" not in str(cluster.status()["conditions"]),
        "the pods' metadata are gone",
    )


@pytest.mark.needs("approval")
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
