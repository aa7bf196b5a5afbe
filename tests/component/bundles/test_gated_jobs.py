"""Which settings of a gated Bundle reach its Jobs, of each kind, and what is said of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.bundles.approvals import (
    condition,
    deployed,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually

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


@pytest.mark.parametrize(
    "gate",
    [
        pytest.param(
            {
                "verify": {
                    "anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}]
                }
            },
            marks=pytest.mark.needs("signatures"),
            id="verify",
        ),
        pytest.param(
            {"promoteFrom": {"bundles": [{"name": "staging"}], "soak": "1h"}},
            marks=pytest.mark.needs("promotion"),
            id="promoteFrom",
        ),
    ],
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
