"""Every example of a rule is applied, and makes the copies that its comment promises.

Those of Bundles are applied in tests/e2e/bundles/test_examples.py.
"""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.e2e.cli.conftest import staged
from tests.e2e.installation import RULES, delete
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish
from tests.unit.copies.test_keystores import der, read_jks, read_pkcs12

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
def public(tmp_path_factory):
    """The file with the public CAs, which the operator reads once, and each command."""
    return tmp_path_factory.mktemp("cas") / "public.crt"


@pytest.fixture(scope="module")
def stage(cluster, tmp_path_factory, public):
    values = {"rules.tenantRules": True, "rules.bindClusterRoles": ["edit"]}
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    public.write_text(PUBLIC)
    values["rules.defaultCAsFile"] = str(public)
    with staged(
        cluster, log, values, {**SETTINGS, "COPYRATOR_DEFAULT_CAS_FILE": str(public)}
    ) as found:
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


@pytest.mark.usefixtures("targets")
def test_the_commands_say_which_public_cas_the_copies_have(stage, public):
    path = ROOT / "examples" / "rules" / "public-cas.yaml"
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one]
    for one in documents:
        one["metadata"]["namespace"] = stage.home
    company, rule = documents
    file = public.with_name("rule.yaml")
    file.write_text(yaml.safe_dump_all(documents))

    def types(command, code=0):
        return " ".join(stage.types(command, code=code).split())

    name = f"{stage.home}/all-cas"
    known = "public (1 public CA, sha256:"
    elsewhere = f"this machine doesn't have the public CAs of the operator ({public})"
    try:
        assert f"From {known}" in types(f"plan -f {file}", code=2)
        stage.apply(company, rule)
        stage.wait_reason(RULES.format(stage.home), "all-cas", "Synced")
        copy = stage.api.get("/api/v1/namespaces/team-a/configmaps/all-cas")
        trusted = [der(PUBLIC), der(company["data"]["ca.crt"])]
        stores = {key: base64.b64decode(text) for key, text in copy["binaryData"].items()}
        assert [one for *_, one in read_jks(stores["truststore.jks"], "changeit")] == trusted
        assert [one for _, one in read_pkcs12(stores["truststore.p12"], "")] == trusted
        assert "No changes:" in types(f"plan rule {name}")
        assert f"It is made from {known}" in types("why team-a/all-cas")
        said = types(f"describe rule {name}")
        assert "Source: public: the public CAs Source: company" in said
        assert f"Made from: {known}" in said
        public.write_text(PUBLIC + company["data"]["ca.crt"])  # another machine than the operator's
        for command in (f"plan rule {name}", f"plan -f {file}"):
            said = types(command, code=1)
            assert f"{elsewhere}; the operator reported Synced" in said
        said = types("why team-a/all-cas")
        assert "can't be read here; see below." in said
        assert f"{elsewhere}; the operator reported Synced" in said
        assert known not in said
        assert f"Made from: {known}" in types(f"why {name} --kind rule")
    finally:
        public.write_text(PUBLIC)
        delete(stage.api, documents)
