"""Every example is applied, and the operator takes it for what its comment says."""

from pathlib import Path

import pytest
import yaml
from tests.e2e.cli.conftest import BUNDLES, RULES, staged
from tests.e2e.operator_process import until

from demo.chart import ROOT

EXAMPLES = sorted(
    path
    for folder in ("rules", "bundles", "migration")
    for path in (ROOT / "examples" / folder).glob("*.yaml")
)
KINDS = "ConfigMap,Secret,ServiceAccount,ResourceQuota,RoleBinding.rbac.authorization.k8s.io,"
SETTINGS = {
    "COPYRATOR_TENANT_RULES": "true",
    "COPYRATOR_KINDS": f"{KINDS}NetworkPolicy.networking.k8s.io",
}
WITHOUT_SOURCE = ("old-form.yaml", "from-copy-operator.yaml")
"""Rules whose sources the example doesn't bring: their users have them."""


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    values = {"rules.tenantRules": True, "rules.bindClusterRoles": ["edit"]}
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with staged(cluster, log, values, SETTINGS) as found:
        yield found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_is_applied_and_understood(stage, word, path: Path):
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one]
    homes = {"copyrator": stage.home, "default": "default"}
    for document in documents:
        metadata = document["metadata"]
        if document["kind"] == "Namespace":
            continue
        if metadata["namespace"] in homes:
            metadata["namespace"] = homes[metadata["namespace"]]
        elif not any(one["kind"] == "Namespace" for one in documents):
            _make(stage, metadata["namespace"])
    try:
        stage.apply(*documents)
        for document in documents:
            name, namespace = document["metadata"]["name"], document["metadata"].get("namespace")
            if document["kind"] == "CopyratorRule":
                _wait(stage, RULES.format(namespace), name, _expected(path, document))
            elif document["kind"] == "Bundle":
                _wait(stage, BUNDLES.format(namespace), name, set())
    finally:
        ours = ("CopyratorRule", "Bundle", "Secret", "ConfigMap")
        mine = [one for one in documents if one["kind"] in ours]
        for document in mine:
            if document["kind"] == "Bundle":
                document["metadata"].setdefault("annotations", {})[
                    "operator.werf.dev/force-delete"
                ] = "true"
        stage.apply(*mine)
        stage.cluster.kubectl("delete", "--timeout=60s", "-f", "-", input=yaml.safe_dump_all(mine))


def _expected(path, rule):
    """Reasons of a rule that is understood and does what it can here."""
    if (rule.get("spec") or {}).get("suspend"):
        return {"Suspended"}
    return {"SourceNotFound"} if path.name in WITHOUT_SOURCE else {"Synced"}


def _wait(stage, path, name, reasons):
    """Without reasons: whatever a registry that doesn't exist brings about, the spec is good."""

    def seen():
        reason = stage.ready(path, name).get("reason")
        return reason in reasons if reasons else reason and reason != "Polling"

    until(seen, lambda: f"{name} says {reasons}; {stage.ready(path, name)}", 60)
    assert stage.ready(path, name)["reason"] not in ("InvalidSpec", "NotTrusted")


def _make(stage, namespace):
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    stage.apply(manifest)
