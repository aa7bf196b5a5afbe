"""Commands for coming and going: migrate, install, uninstall, version."""

import json
from typing import Any

import pytest
import yaml
from tests.e2e.cli.conftest import SENTINEL, copying, secret
from tests.e2e.installation import RULES, delete_crds
from tests.e2e.operator_process import until

from localcluster.api import ApiStatusError

KR = "replicator.v1.mittwald.de/"
RBAC = "rbac.authorization.k8s.io/v1"
PATHS = {
    "Secret": "/api/v1/namespaces/{}/secrets/{}",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts/{}",
    "Role": f"/apis/{RBAC}/namespaces/{{}}/roles/{{}}",
    "RoleBinding": f"/apis/{RBAC}/namespaces/{{}}/rolebindings/{{}}",
}


def marked(kind: str, namespace: str, name: str, **annotations: str) -> dict:
    """What kubernetes-replicator copies, beside Secrets and ConfigMaps."""
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    core = kind == "ServiceAccount"
    body = {"apiVersion": "v1" if core else RBAC, "kind": kind, "metadata": metadata}
    if kind == "Role":
        body["rules"] = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    if kind == "RoleBinding":
        body["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        body["subjects"] = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    return body


def owner(stage, kind: str, namespace: str, name: str) -> str | None:
    """The rule whose copy an object is; empty for an object without one, None for no object."""
    try:
        metadata = stage.api.get(PATHS[kind].format(namespace, name))["metadata"]
    except ApiStatusError as error:
        if error.code != 404:
            raise
        return None
    return metadata.get("annotations", {}).get("copyrator.flant.com/rule", "")


def test_the_rules_that_migrate_prints_make_every_copy_that_the_tools_made(stage, word, namespace):
    # kubernetes-replicator and config-syncer, on one Secret in three ways.
    listed, red, blue = (
        namespace(f"{word}-list"),
        namespace(f"{word}-red", labels={"team": word}),
        namespace(f"{word}-blue", labels={"tier": word}),
    )
    other = namespace(f"{word[::-1]}-other")
    source = secret(stage.home, word, "user")
    source["metadata"]["annotations"] = {
        f"{KR}replicate-to": f"{word}-list.*",
        f"{KR}replicate-to-matching": f"team={word}",
        "kubed.appscode.com/sync": f"tier={word}",
    }
    made = secret(red, word, "user")
    made["metadata"]["annotations"] = {f"{KR}replicated-from-version": "1"}
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    stage.apply(
        source,
        made,
        *(marked(kind, stage.home, word, **{f"{KR}replicate-to": listed}) for kind in kinds),
    )
    before = stage.api.get(PATHS["Secret"].format(red, word))["metadata"]["uid"]

    result = stage.result("migrate")
    assert result.exit_code == 0
    assert "Stop the old tool first" in result.stderr
    assert SENTINEL not in result.output
    documents = [one for one in yaml.safe_load_all(result.stdout) if one]
    mine = [one for one in documents if one["spec"].get("source", {}).get("name") == word]
    names = [f"copyratorrule.flant.com/{one['metadata']['name']}" for one in mine]
    assert set(names) <= set(stage.result("migrate -o name").stdout.split())
    assert [one for one in json.loads(stage.result("migrate -o json").stdout)["items"]
            if one in mine] == mine  # fmt: skip
    stage.apply(*mine)

    copies = {("Secret", place) for place in (listed, red, blue)}
    copies |= {(kind, listed) for kind in kinds}
    for kind, place in copies:
        until(
            lambda kind=kind, place=place: owner(stage, kind, place, word),
            lambda kind=kind, place=place: f"a copy {kind} {place}; {stage.operator.log[-2000:]}",
        )
    for one in mine:
        stage.wait_reason(RULES.format(stage.home), one["metadata"]["name"], "Synced")
    there = {
        (kind, place)
        for kind in PATHS
        for place in (listed, red, blue, other)
        if owner(stage, kind, place, word) is not None
    }
    assert there == copies
    taken = stage.api.get(PATHS["Secret"].format(red, word))["metadata"]
    assert taken["uid"] == before, "never a moment without"
    assert f"{KR}replicated-from-version" not in taken["annotations"]


def test_uninstall_says_what_would_go_and_stay_and_refuses_while_the_operator_leads(
    stage, word, namespace
):
    there = namespace(f"{word}-team")
    stage.apply(
        secret(stage.home, word, "user"),
        copying(stage.home, word, there),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    said = stage.types("uninstall --dry-run")
    assert f"CopyratorRule {stage.home}/{word} would lose its finalizer.\n" in said
    assert "Nothing has been changed (--dry-run)." in said
    said = stage.types("uninstall", code=1)
    assert "the operator copyrator-0 is running and would add its finalizers again: stop it" in said
    assert stage.api.get(f"{RULES.format(stage.home)}/{word}")["metadata"]["finalizers"]


def test_what_install_prints_is_taken_by_the_api_server(stage):
    printed = stage.types(f"install --print --no-crds -n {stage.home} --image r.example.com/c:1")
    stage.cluster.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-", input=printed
    )


# Copies of trust-manager and secretgen

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
    delete_crds(stage.api, *(one["metadata"]["name"] for one in crds))


def custom(group: str, kind: str, name: str, namespace: str = "", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


@pytest.mark.usefixtures("tools")
def test_migrate_prints_rules_for_what_trust_manager_and_secretgen_copy(stage, word, namespace):
    team, other = namespace(f"{word}-team"), namespace(f"{word}-other")
    stage.apply(
        custom(
            TRUST,
            "Bundle",
            word,
            sources=[{"useDefaultCAs": True}, {"configMap": {"name": word, "key": "ca.crt"}}],
            target={"configMap": {"key": "ca.pem"}, "additionalFormats": {"jks": {"key": "j"}}},
        ),
        custom(SECRETGEN, "SecretExport", word, other, toNamespace="*"),
        custom(SECRETGEN, "SecretImport", word, team, fromNamespace=other),
    )
    result = stage.result(f"migrate --trust-namespace {stage.home}")
    assert result.exit_code == 0, result.output
    assert "can't be carried over" not in result.stdout
    documents = [one for one in yaml.safe_load_all(result.stdout) if one]
    composed, copied = sorted(
        (one["spec"] for one in documents if word in json.dumps(one)),
        key=lambda one: "source" in one,
    )
    public, entry = composed["sources"]
    assert public["defaultCAs"] is True
    assert "| jks" in json.dumps(composed["template"])
    assert (entry["kind"], entry["namespace"], entry["name"]) == ("ConfigMap", stage.home, word)
    assert copied["source"] == {"kind": "Secret", "namespace": other, "name": word}
    assert copied["targets"] == {"namespaces": [team]}


def test_leaving_takes_the_finalizers_off_and_keeps_the_copies(stage, word, namespace):
    # Last of this file: it stops the operator.
    there = namespace(f"{word}-team")
    stage.apply(
        secret(stage.home, word, "user"),
        copying(stage.home, word, there),
    )
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    assert stage.operator.stop() == 0
    said = stage.types("uninstall")
    assert f"CopyratorRule {stage.home}/{word} lost its finalizer.\n" in said
    stage.cluster.kubectl("delete", "copyrator", word, "-n", stage.home, "--timeout=120s")
    assert stage.api.get(f"/api/v1/namespaces/{there}/secrets/{word}")


def test_the_job_of_helm_uninstall_refuses_where_helm_uninstalls_nothing(stage):
    path = f"/apis/apps/v1/namespaces/{stage.home}/deployments/copyrator"
    before = stage.api.get(path)["spec"]
    command = f"uninstall --operator-namespace {stage.home} --stop copyrator --helm-release mine"
    said = stage.types(command, code=1)
    assert f"Helm isn't uninstalling the release mine in {stage.home}: nothing is changed" in said
    assert "uninstall.hook=false" in said
    assert stage.api.get(path)["spec"] == before
