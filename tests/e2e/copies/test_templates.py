"""Whole objects rendered for each namespace, and the rights that RoleBindings take."""

import json
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.operator_process import until

from copyrator.api import names
from generate.kind_fields import TARGET, kind_fields

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/rules/namespace-provisioning.yaml"


def provisioning(word: str) -> dict[str, Any]:
    """The example's spec, for the namespaces of one test only."""
    spec: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())["spec"]
    return {**spec, "targets": {"namespaces": [f"{word}-*"]}}


def test_every_namespace_old_or_new_gets_a_binding_of_its_own_group_to_edit(
    wide, user, namespace, word
):
    old, prefix = namespace(f"{word}-old"), "ad-kubernetes"
    user.rule(wide.namespace, word, provisioning(word))
    new = namespace(f"{word}-new")
    for target in (old, new):
        until(lambda at=target: user.get("rolebindings", at, f"{prefix}-{at}"), f"one in {target}")
        found = user.get("rolebindings", target, f"{prefix}-{target}")
        group = "rbac.authorization.k8s.io"
        assert found["roleRef"] == {"apiGroup": group, "kind": "ClusterRole", "name": "edit"}
        assert found["subjects"] == [
            {"apiGroup": group, "kind": "Group", "name": f"{prefix}-{target}"}
        ]
        assert user.names("rolebindings", target) == [f"{prefix}-{target}"]
    user.delete("rolebindings", old, f"{prefix}-{old}")
    until(lambda: user.get("rolebindings", old, f"{prefix}-{old}"), "it is back")
    assert user.wait_ready(wide.namespace, word)["copies"]["ready"] == 2


def test_a_role_that_grants_more_than_the_operator_has_is_refused_with_what_is_missing(
    wide, user, namespace, word
):
    namespace(f"{word}-t")
    template = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": word},
        "rules": [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["delete"]}],
    }
    user.rule(
        wide.namespace, word, {"template": template, "targets": {"namespaces": [f"{word}-*"]}}
    )
    user.wait_failing(wide.namespace, word)
    (failure,) = user.get("copyrators", wide.namespace, word)["status"]["failures"]
    assert failure["reason"] == "Forbidden"
    assert "deployments" in failure["message"]


def test_a_rendered_secret_holds_what_string_data_says_and_is_then_left_in_peace(
    wide, user, namespace, word
):
    target = namespace(f"{word}-t")
    since = wide.cluster.audit_offset()
    template = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": word},
        "stringData": {"where": "{{ namespace.name }}"},
    }
    user.rule(
        wide.namespace, word, {"template": template, "targets": {"namespaces": [f"{word}-*"]}}
    )
    user.wait_ready(wide.namespace, word)
    found = user.get("secrets", target, word)
    assert found["metadata"]["labels"] == {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    user.patch("copyrators", wide.namespace, word, metadata={"labels": {"touched": "yes"}})
    user.wait_ready(wide.namespace, word)
    assert [event.verb for event in wide.writes(since) if event.namespace == target] == ["create"]


def test_numbers_and_booleans_reach_the_fields_that_want_them(wide, user, namespace, word):
    target = namespace(f"{word}-a", labels={"port": "9090"})
    template = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": word, "annotations": {"port": "{{ namespace.labels.port | int }}"}},
        "spec": {
            "podSelector": {},
            "ingress": [
                {
                    "ports": [
                        {
                            "port": "{{ namespace.labels.port | number }}",
                            "endPort": "{{ namespace.labels.port | int + 9 }}",
                        }
                    ]
                }
            ],
        },
    }
    user.rule(
        wide.namespace, word, {"template": template, "targets": {"namespaces": [f"{word}-*"]}}
    )
    assert user.wait_ready(wide.namespace, word)["copies"]["ready"] == 1
    found = user.get("networkpolicies", target, word)
    assert found["spec"]["ingress"][0]["ports"] == [
        {"port": 9090, "endPort": 9099, "protocol": "TCP"}
    ]
    assert found["metadata"]["annotations"]["port"] == "9090"


def test_the_known_fields_have_the_types_of_the_api_servers_own_document(api):
    """Of another version of Kubernetes: of the fields that both have."""
    known = json.loads(TARGET.read_text())
    served = kind_fields(api.get("/openapi/v2"))
    assert "v1/Service" in known["kinds"].keys() & served["kinds"].keys()
    for name, fields in known["types"].items():
        for field in fields.keys() & served["types"].get(name, {}).keys():
            assert served["types"][name][field] == fields[field], f"{name}.{field}"
    if api.get("/version")["minor"] == "34":
        assert known == served


def test_fields_that_the_api_server_drops_are_named_and_cost_no_request(
    wide, user, namespace, word
):
    target, plural = namespace(f"{word}-a"), "networkpolicies"
    fields = ["spec.Ingress", "spec.ingress[0].port"]
    template = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": word},
        "spec": {"podSelector": {}, "Ingress": ["hunter2"], "ingress": [{"port": 1}]},
    }
    since = wide.cluster.audit_offset()
    user.rule(
        wide.namespace, word, {"template": template, "targets": {"namespaces": [f"{word}-*"]}}
    )
    user.wait_ready(wide.namespace, word)
    writes = [(e.verb, e.resource) for e in wide.writes(since, at=[target])]
    assert [one for one in writes if one[1] != "events"] == [("create", plural)]

    def status():
        return user.get("copyrators", wide.namespace, word)["status"]

    until(lambda: (status().get("droppedFields") or []) == fields, f"{fields}: {status()}")
    conditions = {one["type"]: one for one in status()["conditions"]}
    assert conditions["Ready"]["reason"] == "Synced"
    assert conditions["FieldsDropped"]["reason"] == "UnknownField"
    assert all(field in conditions["FieldsDropped"]["message"] for field in fields)
    assert "hunter2" not in str(status())
