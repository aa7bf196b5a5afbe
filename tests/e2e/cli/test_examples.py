"""Every example of a rule is applied, and makes the copies that its comment promises.

Those of Bundles are applied in tests/e2e/bundles/test_examples.py.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.e2e.cli.conftest import staged
from tests.e2e.installation import RULES, delete
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish

from demo.chart import ROOT
from localcluster.signing import self_signed

EXAMPLES = sorted(
    path
    for folder in ("rules", "migration")
    for path in (ROOT / "examples" / folder).glob("*.yaml")
    if "kind: CopyratorRule" in path.read_text()
    if "kubeConfig:" not in path.read_text()  # tests/e2e/copies/test_remote_sources.py
)
CA = "Example Company CA"
KINDS = "ConfigMap,Secret,ServiceAccount,ResourceQuota,RoleBinding.rbac.authorization.k8s.io,"
SETTINGS = {
    "COPYRATOR_TENANT_RULES": "true",
    "COPYRATOR_KINDS": f"{KINDS}NetworkPolicy.networking.k8s.io",
}
_NOW = datetime.now(UTC)
PUBLIC = self_signed("Public CA", begins=_NOW - timedelta(1), ends=_NOW + timedelta(1))
THEIR_SOURCES = {
    "old-form.yaml": ("ConfigMap", {"copyrator": "true"}),
    "from-copy-operator.yaml": ("Secret", {"app": "shared"}),
}
"""Sources that the example doesn't bring, because its users have them: kind and labels."""
TARGET_LABELS = {"team": "shop", "app": "shop", "pull-secrets": "default"}
"""What the examples' selectors ask for."""
CERTIFICATES = {
    "wildcard-tls": ["*.example.com"],
    "company-cas": [f"{CA} 2024", f"{CA} 2029"],
    "company-cas-configmap": [f"{CA} 2024"],
    "all-cas": [f"{CA} 2024"],
}
"""Common names of the certificates in the copies of the examples' rules, but the public CAs."""


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory):
    values = {"rules.tenantRules": True, "rules.bindClusterRoles": ["edit"]}
    folder = tmp_path_factory.mktemp("operator")
    public = folder / "public.crt"
    public.write_text(PUBLIC)
    settings = {**SETTINGS, "COPYRATOR_DEFAULT_CAS_FILE": str(public)}
    with staged(cluster, folder / "operator.log", values, settings) as found:
        yield found


@pytest.fixture(scope="module")
def targets(stage):
    """Namespaces that the examples mean."""
    for name in ("team-a", "team-b"):
        metadata = {"name": name, "labels": TARGET_LABELS}
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    yield
    vanish(stage.cluster, ["team-a", "team-b"])


@pytest.mark.usefixtures("targets")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_makes_the_copies_that_it_promises(stage, path: Path):
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one]
    for document in documents:
        if document["metadata"].get("namespace") == "copyrator":
            document["metadata"]["namespace"] = stage.home
        if document.get("namespace") in ("copyrator", ["copyrator"]):
            document["namespace"] = stage.home
    if path.name in THEIR_SOURCES:
        kind, labels = THEIR_SOURCES[path.name]
        metadata = {"name": "theirs", "namespace": stage.home, "labels": labels}
        documents.insert(0, {"apiVersion": "v1", "kind": kind, "metadata": metadata})
    rules = [one for one in documents if one["kind"] == "CopyratorRule"]
    try:
        stage.apply(*documents)
        for rule in rules:
            _does_as_promised(stage, rule)
    finally:
        mine = [one for one in documents if one["kind"] != "Namespace"]
        delete(stage.api, mine)


def _does_as_promised(stage, rule):
    """One that is suspended makes nothing; any other one makes all its copies, at least one."""
    path = RULES.format(rule["metadata"]["namespace"])
    name = rule["metadata"]["name"]
    suspended = (rule.get("spec") or {}).get("suspend")
    stage.wait_reason(path, name, "Suspended" if suspended else "Synced")

    def status():
        return stage.api.get(f"{path}/{name}").get("status") or {}

    def copies():
        return status().get("copies") or {}

    if suspended:
        assert copies().get("ready", 0) == 0
    else:
        until(
            lambda: copies().get("ready", 0) == copies().get("desired") > 0,
            lambda: f"{name} makes its copies: {copies()}",
        )
    found = [one["commonName"] for one in status().get("certificates") or ()]
    assert found == CERTIFICATES.get(name, [])


@pytest.mark.usefixtures("targets")
def test_a_company_ca_is_replaced_by_its_successor_step_by_step(stage):
    """docs/composed.md: at each step every namespace trusts what it has to."""
    path = ROOT / "examples" / "rules" / "ca-with-successor.yaml"
    present, successor, rule = (one for one in yaml.safe_load_all(path.read_text()) if one)
    for one in (present, successor, rule):
        one["metadata"]["namespace"] = stage.home
    first, second = (one["data"]["ca.crt"].strip() for one in (present, successor))
    copies = [f"/api/v1/namespaces/{name}/configmaps/company-cas" for name in ("team-a", "team-b")]

    def trusted():
        return [stage.api.get(copy)["data"]["ca.crt"] for copy in copies]

    def trusts(*certificates):
        text = "".join(f"{one}\n" for one in certificates)
        until(lambda: trusted() == [text, text], lambda: f"{text} is trusted: {trusted()}")

    try:
        stage.apply(present, rule)
        stage.wait_reason(RULES.format(stage.home), "company-cas", "Synced")
        trusts(first)
        stage.apply(successor)
        trusts(first, second)
        spec = rule["spec"]
        spec["sources"] = [one for one in spec["sources"] if one["as"] == "next"]
        spec["template"]["data"]["ca.crt"] = (
            "{{ sources.next | pem_bundle(drop_expired=true, key='ca.crt') }}"
        )
        stage.apply(rule)
        delete(stage.api, [present])
        trusts(second)
    finally:
        delete(stage.api, [rule, present, successor])
