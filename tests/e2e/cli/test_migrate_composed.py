"""migrate, and the adoption of trust-manager's and secretgen's copies."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.cli.conftest import SENTINEL
from tests.e2e.installation import RULES
from tests.e2e.operator_process import until

from demo.chart import ROOT

EXAMPLE = ROOT / "examples" / "rules" / "ca-with-successor.yaml"
CA: str = next(yaml.safe_load_all(Path(EXAMPLE).read_text()))["data"]["ca.crt"]
TRUST, SECRETGEN = "trust.cert-manager.io", "secretgen.carvel.dev"
KINDS = (
    (TRUST, "bundles", "Bundle", "Cluster"),
    (SECRETGEN, "secretimports", "SecretImport", "Namespaced"),
    (SECRETGEN, "secretexports", "SecretExport", "Namespaced"),
)


def crd(group: str, plural: str, kind: str, scope: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": names, "versions": [version]},
    }


@pytest.fixture
def tools(stage):
    """The two tools' kinds."""
    crds = [crd(*kind) for kind in KINDS]
    stage.apply(*crds)
    for one in crds:
        name = one["metadata"]["name"]
        stage.cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}")
    yield
    stage.cluster.kubectl("delete", "crd", *(one["metadata"]["name"] for one in crds))


def custom(group: str, kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def owned(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The owner reference to an object, as both tools write it."""
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": name,
        "uid": body["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def names_in(stage, path: str) -> list[str]:
    return [one["metadata"]["name"] for one in stage.api.get(path)["items"]]


@pytest.mark.usefixtures("tools")
def test_the_rules_that_migrate_prints_adopt_the_copies_and_take_their_owners_off(
    stage, word, namespace
):
    team, other = namespace(f"{word}-team", labels={"t": word}), namespace(f"{word}-other")
    ca = {"name": f"{word}-ca", "namespace": stage.home}
    stage.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": ca, "data": {"ca.crt": CA}},
        custom(
            TRUST,
            "Bundle",
            word,
            sources=[{"useDefaultCAs": True}, {"configMap": {"name": ca["name"], "key": "ca.crt"}}],
            target={
                "configMap": {"key": "ca.pem"},
                "additionalFormats": {"jks": {"key": "ca.jks"}},
                "namespaceSelector": {"matchLabels": {"t": word}},
            },
        ),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": word, "namespace": other},
            "stringData": {"token": SENTINEL},
        },
        custom(SECRETGEN, "SecretExport", word, other, toNamespace="*"),
        custom(SECRETGEN, "SecretImport", word, team, fromNamespace=other),
    )
    bundle = stage.api.get(f"/apis/{TRUST}/v1alpha1/bundles/{word}")
    wanted = stage.api.get(f"/apis/{SECRETGEN}/v1alpha1/namespaces/{team}/secretimports/{word}")
    source = stage.api.get(f"/api/v1/namespaces/{other}/secrets/{word}")
    maps, secrets = (f"/api/v1/namespaces/{team}/{one}" for one in ("configmaps", "secrets"))
    marks = {
        "labels": {f"{TRUST}/bundle": word},
        "annotations": {f"{TRUST}/hash": "1234"},
        "ownerReferences": [owned(bundle, word)],
    }
    applied = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": word, "namespace": team, **marks},
        "data": {"ca.pem": "old"},
    }
    stage.cluster.kubectl(
        *("apply", "--server-side", "--field-manager=trust-manager", "-f", "-"),
        input=json.dumps(applied),
    )
    metadata = {"name": word, "ownerReferences": [owned(wanted, word)]}
    stage.api.create(secrets, {"metadata": metadata, "data": source["data"]})

    result = stage.result(f"migrate --trust-namespace {stage.home}")
    assert result.exit_code == 0, result.output
    assert "# NOTE: useDefaultCAs can't be carried over" in result.stdout
    assert "# NOTE: the JKS trust store can't be carried over" in result.stdout
    documents = [one for one in yaml.safe_load_all(result.stdout) if one]
    mine = [one for one in documents if word in json.dumps(one)]
    assert len(mine) == 2
    stage.apply(*mine)
    for one in mine:
        stage.wait_reason(RULES.format(stage.home), one["metadata"]["name"], "Synced")
    for path, data in ((maps, {"ca.pem": CA}), (secrets, source["data"])):
        found = stage.api.get(f"{path}/{word}")
        assert found["data"] == data
        assert "ownerReferences" not in found["metadata"]
        assert not any(key.startswith(TRUST) for key in found["metadata"]["labels"])
        assert not any(key.startswith(TRUST) for key in found["metadata"]["annotations"])
    stage.cluster.kubectl(
        "delete", "copyrator", "-n", stage.home, *(one["metadata"]["name"] for one in mine)
    )
    until(lambda: word not in names_in(stage, maps), "deleted with its rule")
