"""`helm upgrade` from an earlier chart, packed from the history and kept beside this file."""

import shlex
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import skip_before_1_30
from tests.e2e.documents import commands

from demo.chart import CHART
from localcluster import Cluster

EARLIER = Path(__file__).parent / "recorded" / "chart-before-monitoring.tgz"
HOME = ("--namespace", "copyrator")


@pytest.fixture
def fresh(tmp_path):
    """A cluster that nobody has installed anything on."""
    with Cluster.start(tmp_path / "cluster", process_node=False, registry=False) as cluster:
        yield cluster


@pytest.fixture
def upgraded(fresh):
    """Installed with values of its own by the earlier chart, then upgraded to this one."""
    skip_before_1_30(fresh.api(), "that chart's CRD can't be applied")
    chosen = ("--set=image.repository=registry.example.com/copyrator,log.level=debug,replicas=3",)
    fresh.helm("install", "copyrator", str(EARLIER), *HOME, "--create-namespace", *chosen)
    rule = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": "main-rule", "namespace": "copyrator"},
        "ruleType": "secret",
        "selector": {"copy": "me"},
    }
    fresh.kubectl("apply", "-f", "-", input=yaml.safe_dump(rule))
    before = uid(fresh)
    (told,) = commands("docs/installation.md")
    fresh.helm(*shlex.split(told.replace("charts/copyrator", str(CHART)))[1:])
    assert uid(fresh) == before, "the Deployment was made anew"
    return fresh


def uid(cluster: Cluster) -> str:
    path = "/apis/apps/v1/namespaces/copyrator/deployments/copyrator"
    found: str = cluster.api().get(path)["metadata"]["uid"]
    return found


def test_a_release_of_an_earlier_chart_is_upgraded_in_place(upgraded):
    api = upgraded.api()
    deployment = api.get("/apis/apps/v1/namespaces/copyrator/deployments/copyrator")
    assert deployment["spec"]["replicas"] == 3, "the chosen values stay"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/copyrator:")
    budget = "/apis/policy/v1/namespaces/copyrator/poddisruptionbudgets/copyrator"
    assert api.get(budget)["spec"]["maxUnavailable"] == 1, "what is new is there"
    rule = api.get("/apis/flant.com/v1/namespaces/copyrator/copyrators/main-rule")
    assert rule["selector"] == {"copy": "me"}
    for crd in (CHART / "files" / "crds").glob("*.yaml"):
        wanted = yaml.safe_load(crd.read_text())
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.stem}"
        versions = api.get(path)["spec"]["versions"]
        assert set(fields(versions)) == set(fields(wanted["spec"]["versions"]))


def fields(versions: list[dict]) -> list[str]:
    """The path of every property of a CRD's schemas."""

    def below(schema: dict, path: str) -> list[str]:
        found = [path]
        for name, inner in schema.get("properties", {}).items():
            found += below(inner, f"{path}.{name}")
        for kind in ("items", "additionalProperties"):
            if isinstance(schema.get(kind), dict):
                found += below(schema[kind], f"{path}.{kind}")
        return found

    return [
        path
        for version in versions
        for path in below(version["schema"]["openAPIV3Schema"], version["name"])
    ]
