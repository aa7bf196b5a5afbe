"""What was there before: another version of a CRD, and both originals.

With the commands of docs/installation.md and docs/adoption.md, on one cluster, one after the other.
"""

import json
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from tests.e2e.documents import commands
from tests.e2e.installation import CRDS, delete_crds
from tests.e2e.test_readme import Reader

from demo.chart import ROOT
from localcluster import Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import build, push
from localcluster.errors import CommandFailedError
from localcluster.waiting import eventually

HELLO = ROOT / "examples" / "charts" / "hello"
LABELS = {"copyrator": "true"}
HOME = ("--namespace", "copyrator")
OTHER_VERSIONS = "A CRD of our name with other versions"
"""A section of docs/adoption.md for which there is a test of its own."""


def crd(plural: str, group: str, kind: str) -> dict:
    """A CRD as both had it: any field goes, and no status of its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }


def secret(namespace: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-creds", "namespace": namespace, "labels": LABELS},
        "stringData": {"password": "hunter2"},
    }


RULE = {
    "apiVersion": "flant.com/v1",
    "kind": "CopyratorRule",
    "metadata": {"name": "main-rule", "namespace": "default"},
    "ruleType": "secret",
    "selector": LABELS,
    "namespace": "default",
}


def program(namespace: str, name: str) -> dict:
    """An original's Deployment; what it would run is of no interest here."""
    labels = {"app": name}
    pod = {"containers": [{"name": "operator", "image": "original", "command": ["true"]}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def bundle(cluster: Cluster) -> dict:
    """A deployed Bundle of the original: its finalizer, kopf's annotation, a config's digest."""
    config = json.loads(build(HELLO, "1.0.0").manifest)["config"]["digest"]
    found = {"digest": config, "version": "1.0.0"}
    return {
        "apiVersion": "operator.werf.dev/v1",
        "kind": "Bundle",
        "metadata": {
            "name": "hello",
            "namespace": "apps",
            "finalizers": ["kopf.zalando.org/KopfFinalizerMarker"],
            "annotations": {"kopf.zalando.org/last-handled-configuration": '{"spec": {}}'},
        },
        "spec": {
            "registry": cluster.registry,
            "insecure": True,
            "repo": "team/hello",
            "version": "1.0.0",
        },
        "status": {"ready": 1, "forceUpdate": 0, "target": found, "deploy": found},
    }


@pytest.fixture
def fresh(disposable: Cluster) -> Iterator[Cluster]:
    """A cluster that nobody has installed anything on, and that is so again afterwards."""
    yield disposable
    disposable.helm("uninstall", "copyrator", *HOME, "--no-hooks", "--ignore-not-found")
    api = disposable.api()
    delete_crds(api, *(one["name"] for one in api.metadata(CRDS)))


@pytest.mark.timeout(300)
def test_a_crd_of_our_name_with_another_version_gets_ours_without_losing_an_object(fresh):
    cluster = fresh
    old = crd("bundles", "operator.werf.dev", "Bundle")
    old["spec"]["versions"][0]["name"] = "v1alpha1"
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(old))
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established")
    body = {
        "apiVersion": "operator.werf.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "hello", "namespace": "default"},
        "spec": {"registry": "registry.example.com", "repo": "team/hello"},
        "status": {"ready": 1},
    }
    eventually(lambda: _created(cluster, body), "the old version is served")
    uid = _bundle(cluster, "v1alpha1")["metadata"]["uid"]
    ours = (ROOT / "crds" / "bundles.operator.werf.dev.yaml").read_text()
    with pytest.raises(CommandFailedError, match="storedVersions"):
        cluster.kubectl("apply", "--dry-run=server", "-f", "-", input=ours)

    for command in commands("docs/adoption.md", OTHER_VERSIONS):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            env=cluster.environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    cluster.helm(
        *("install", "copyrator", str(ROOT / "charts" / "copyrator"), "--take-ownership"),
        *("--namespace", "copyrator", "--create-namespace"),
        *("--set", "image.repository=registry.example.com/copyrator"),
    )

    there = cluster.api().get(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundles.operator.werf.dev"
    )
    assert [version["name"] for version in there["spec"]["versions"]] == ["v1"]
    assert there["status"]["storedVersions"] == ["v1"]
    found = _bundle(cluster, "v1")
    assert found["metadata"]["uid"] == uid
    assert found["spec"]["repo"] == "team/hello"
    assert found["status"] == {"ready": 1}


def _created(cluster: Cluster, body: dict) -> bool:
    """False while the API server doesn't serve a kind that it has just been told of."""
    try:
        cluster.api().create("/apis/operator.werf.dev/v1alpha1/namespaces/default/bundles", body)
    except ApiStatusError:
        return False
    return True


def _bundle(cluster: Cluster, version: str) -> dict:
    path = f"/apis/operator.werf.dev/{version}/namespaces/default/bundles/hello"
    return cluster.api().get(path)


@pytest.fixture
def as_left(disposable: Cluster) -> Cluster:
    """A cluster on which both originals have worked."""
    cluster = disposable
    crds = [
        crd("copyrator", "flant.com", "CopyratorRule"),
        crd("bundles", "operator.werf.dev", "Bundle"),
    ]
    cluster.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(crds))
    cluster.kubectl("wait", "crd", "--all", "--for=condition=Established")
    for name in ("team-a", "apps", "werf-operator"):
        cluster.kubectl("create", "namespace", name)
    programs = [program("default", "copyrator"), program("werf-operator", "werf-operator")]
    push(HELLO, cluster.registry, "team/hello", "1.0.0")
    cluster.helm("install", "hello", str(HELLO), "--namespace", "apps")
    left = [*programs, RULE, secret("default"), secret("team-a"), bundle(cluster)]
    cluster.kubectl("create", "-f", "-", input=yaml.safe_dump_all(left))
    return cluster


@pytest.mark.timeout(600)
def test_the_move_from_both_originals_step_by_step(as_left, tmp_path):
    api = as_left.api()
    path = "/api/v1/namespaces/team-a/secrets/registry-creds"
    before = api.get(path)
    with Reader(as_left, tmp_path) as reader:
        aside = commands("docs/adoption.md", OTHER_VERSIONS)
        for command in commands("docs/adoption.md"):
            if command in aside or command.startswith("kubectl annotate "):
                continue
            reader.types(command)
        eventually(
            lambda: "managed-by" in str(api.get(path)["metadata"]["labels"]),
            "the adopted copy",
        )
        at = "/apis/operator.werf.dev/v1/namespaces/apps/bundles/hello"
        eventually(lambda: api.get(at).get("status", {}).get("deployed"), "the taken over Bundle")
        assert api.get(path)["metadata"]["uid"] == before["metadata"]["uid"], (
            "never a moment without"
        )
        assert api.get(path)["data"] == before["data"]
        taken = api.get(at)
        assert taken["metadata"]["finalizers"] == ["operator.werf.dev/uninstall"]
        assert not taken["metadata"].get("annotations")
        assert taken["status"]["deployed"]["verified"] is False
        assert api.get("/apis/batch/v1/namespaces/apps/jobs")["items"] == []
        assert "hello" in as_left.helm("list", "--namespace", "apps", "--short")
