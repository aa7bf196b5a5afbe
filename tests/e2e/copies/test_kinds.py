"""Any namespaced kind that the operator is allowed, and what others rightly own of it."""

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest
from tests.e2e.copies.conftest import GIZMO_GROUP, GIZMOS, copying, encoded, restart
from tests.e2e.operator_process import until

from copyrator.api import names
from localcluster.api import ApiStatusError

RBAC = "rbac.authorization.k8s.io"
INGRESS = {"podSelector": {}, "policyTypes": ["Ingress"]}


@dataclass(frozen=True)
class Case:
    """A kind: two contents of a source, and an edit of a copy that has to be undone."""

    kind: str
    plural: str
    first: dict[str, Any]
    second: dict[str, Any]
    edit: dict[str, Any]


def rules(*resources: str) -> dict[str, Any]:
    return {"rules": [{"apiGroups": [""], "resources": list(resources), "verbs": ["get"]}]}


def binding(*users: str) -> dict[str, Any]:
    return {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user} for user in users],
    }


def limits(cpu: str) -> dict[str, Any]:
    return {"spec": {"limits": [{"type": "Container", "max": {"cpu": cpu}}]}}


CASES = [
    Case(
        "ConfigMap",
        "configmaps",
        {"data": {"a": "1"}},
        {"data": {"a": "2"}},
        {"data": {"a": "x"}},
    ),
    Case(
        "Secret",
        "secrets",
        {"data": encoded(a="1"), "type": "example.com/own"},
        {"data": encoded(a="2"), "type": "example.com/own"},
        {"data": encoded(a="x")},
    ),
    Case("Role", "roles", rules("secrets"), rules("secrets", "configmaps"), rules("limitranges")),
    Case(
        "RoleBinding",
        "rolebindings",
        binding("ann"),
        binding("ann", "bob"),
        {"subjects": binding("eve")["subjects"]},
    ),
    Case(
        "ServiceAccount",
        "serviceaccounts",
        {"imagePullSecrets": [{"name": "one"}], "automountServiceAccountToken": False},
        {"imagePullSecrets": [{"name": "two"}], "automountServiceAccountToken": False},
        {"automountServiceAccountToken": True},
    ),
    Case(
        "NetworkPolicy",
        "networkpolicies",
        {"spec": INGRESS},
        {"spec": {**INGRESS, "ingress": [{"ports": [{"protocol": "TCP", "port": 80}]}]}},
        {"spec": {"podSelector": {"matchLabels": {"app": "edited"}}}},
    ),
    Case(
        "ResourceQuota",
        "resourcequotas",
        {"spec": {"hard": {"pods": "1"}}},
        {"spec": {"hard": {"pods": "2", "configmaps": "99"}}},
        {"spec": {"hard": {"pods": "50"}}},
    ),
    Case("LimitRange", "limitranges", limits("1"), limits("2"), limits("3")),
]

_NOT_CONTENT = ("metadata", "status", "apiVersion", "kind", "secrets")


def content(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return found and {key: value for key, value in found.items() if key not in _NOT_CONTENT}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_a_kind_of_the_default_is_copied_updated_and_healed_and_then_left_in_peace(
    wide, user, namespace, word, case
):
    source, target = namespace("source"), namespace(f"{word}-t")
    since = wide.cluster.audit_offset()
    user.create(case.plural, source, word, **case.first)

    def is_as_the_source() -> bool:
        wanted = content(user.get(case.plural, source, word))
        return content(user.get(case.plural, target, word)) == wanted

    wanted = copying(source, word, kind=case.kind)
    user.rule(wide.namespace, word, wanted)
    until(is_as_the_source, "copied")
    user.replace(case.plural, source, word, **case.second)
    until(is_as_the_source, "updated")
    user.wait_ready(wide.namespace, word)
    user.patch(case.plural, target, word, **case.edit)
    until(is_as_the_source, "healed")
    user.wait_ready(wide.namespace, word)
    # A quota's controller writes too: a write of ours may be refused for that, and is made again.
    made = [e.verb for e in wide.writes(since) if e.namespace == target and e.code < 300]
    assert made == ["create", "update", "update"]
    user.delete(case.plural, target, word)
    until(is_as_the_source, "made again")
    user.delete("copyrators", wide.namespace, word)
    user.wait_gone(case.plural, target, word)
    assert user.get(case.plural, source, word) is not None


def test_what_others_add_to_a_service_account_is_theirs_and_no_drift(wide, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("serviceaccounts", source, word, imagePullSecrets=[{"name": "ours"}])
    user.rule(wide.namespace, word, copying(source, word, kind="ServiceAccount"))
    user.wait_ready(wide.namespace, word)
    user.patch(
        "serviceaccounts",
        target,
        word,
        secrets=[{"name": "their-token"}],
        imagePullSecrets=[{"name": "theirs"}, {"name": "ours"}],
    )
    user.replace("serviceaccounts", source, word, imagePullSecrets=[{"name": "newer"}])

    def pull_secrets() -> list[str]:
        found = user.get("serviceaccounts", target, word)
        return [one["name"] for one in found.get("imagePullSecrets", [])]

    until(lambda: sorted(pull_secrets()) == ["newer", "theirs"], f"{pull_secrets()}")
    assert user.get("serviceaccounts", target, word)["secrets"] == [{"name": "their-token"}]


def test_a_restart_over_right_copies_of_every_kind_writes_nothing(wide, user, namespace, word):
    source = namespace("source")
    targets = [namespace(f"{word}-{number}") for number in range(2)]
    for case in CASES:
        user.create(case.plural, source, word, **case.second)
        user.rule(wide.namespace, f"{word}-{case.plural}", copying(source, word, kind=case.kind))
    for case in CASES:
        user.wait_ready(wide.namespace, f"{word}-{case.plural}")
    assert wide.stop() == 0
    since = restart(wide, user, f"{word}-roles")
    late = namespace(f"{word}-late")
    for case in CASES:
        until(lambda case=case: user.get(case.plural, late, word), f"{case.plural} in {late}")
    assert [event for event in wide.writes(since) if event.namespace in targets] == []


@pytest.fixture
def gizmo_crd(user):
    body = {
        "metadata": {"name": f"{GIZMOS}.{GIZMO_GROUP}"},
        "spec": {
            "group": GIZMO_GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Gizmo", "plural": GIZMOS, "singular": "gizmo"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {
                                    "type": "object",
                                    "x-kubernetes-preserve-unknown-fields": True,
                                }
                            },
                        }
                    },
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    user.api.create(path, body)
    yield f"{path}/{body['metadata']['name']}"
    with contextlib.suppress(ApiStatusError):  # maybe the test did it
        user.api.delete(f"{path}/{body['metadata']['name']}")


def test_a_custom_kind_that_appears_after_its_rule_is_copied_and_holds_nothing_up_when_it_goes(
    wide, user, namespace, word, request
):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.rule(wide.namespace, word, copying(source, word, kind="Gizmo"))
    condition = user.wait_reason(wide.namespace, word, "KindUnavailable")
    assert "Gizmo" in condition["message"]
    crd = request.getfixturevalue("gizmo_crd")
    said = {"apiVersion": f"{GIZMO_GROUP}/v1", "kind": "Gizmo"}
    user.retry_create(GIZMOS, source, word, **said, spec={"size": 1})
    until(lambda: user.get(GIZMOS, target, word), "the custom resource is copied")
    user.wait_ready(wide.namespace, word)
    assert user.get(GIZMOS, target, word)["spec"] == {"size": 1}
    user.patch(GIZMOS, source, word, spec={"size": 2, "colour": "red"})
    until(
        lambda: user.get(GIZMOS, target, word)["spec"] == {"size": 2, "colour": "red"},
        "the custom resource is updated",
    )
    labels = user.get(GIZMOS, target, word)["metadata"]["labels"]
    assert labels == {names.LABEL_MANAGED_BY: names.MANAGED_BY}
    user.api.delete(crd)
    user.wait_reason(wide.namespace, word, "KindUnavailable")
    user.delete("copyrators", wide.namespace, word)
    user.wait_gone("copyrators", wide.namespace, word)
