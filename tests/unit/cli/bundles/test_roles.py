"""The Roles and bindings that grant what a status says is missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_status import MissingPermission
from copyrator.bundles.jobs.rights import (
    VERBS,
    RequiredPermission,
    ServiceAccount,
    list_missing,
)
from copyrator.cli.bundles.roles import add_rules, grants, split

WERF = ServiceAccount("team", "werf")


def lacks(resource: str, *verbs: str, namespace: str | None = "app") -> MissingPermission:
    return MissingPermission(verbs=verbs, resource=resource, namespace=namespace)


def test_one_pair_for_each_namespace_and_one_for_all() -> None:
    found = grants(
        WERF,
        "shop",
        [
            lacks("deployments.apps", "create", "patch"),
            lacks("replicasets.apps", "patch", "create"),
            lacks("pods/log", "get"),
            lacks("secrets", "list", namespace="other"),
            lacks("clusterroles.rbac.authorization.k8s.io", "get", namespace=None),
        ],
    )
    assert [(one["kind"], one["metadata"].get("namespace")) for one in found] == [
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "app"),
        ("RoleBinding", "app"),
        ("Role", "other"),
        ("RoleBinding", "other"),
    ]
    assert found[2]["rules"] == [
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
        {
            "apiGroups": ["apps"],
            "resources": ["deployments", "replicasets"],
            "verbs": ["create", "patch"],
        },
    ]
    assert {one["apiVersion"] for one in found} == {"rbac.authorization.k8s.io/v1"}
    for role, binding in zip(found[::2], found[1::2], strict=True):
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": role["kind"],
            "name": role["metadata"]["name"],
        }
        assert binding["metadata"] == role["metadata"]
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "werf", "namespace": "team"}
        ]


def test_the_role_of_a_bundle_in_a_namespace_has_one_name_and_keeps_what_it_granted() -> None:
    role = grants(WERF, "shop", [lacks("secrets", "list")])[0]
    assert role["metadata"]["name"] == "shop-werf"
    cluster_role, _ = grants(WERF, "shop", [lacks("nodes", "get", namespace=None)])
    assert cluster_role["metadata"]["name"] == "team-shop-werf"

    before = grants(WERF, "shop", [lacks("secrets", "get"), lacks("pods", "list")])[0]["rules"]
    wider = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    named = {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}
    assert add_rules(role, [*before, wider, named])["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
        wider,
        named,
    ]


def test_a_rule_of_another_group_stays_one_of_that() -> None:
    role = grants(WERF, "shop", [lacks("deployments.apps", "list")])[0]
    there = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}
    assert add_rules(role, [there])["rules"] == [there | {"verbs": ["get", "list"]}]


def test_a_dot_in_a_resource_of_a_role_names_no_other_group() -> None:
    role = grants(WERF, "shop", [lacks("secrets", "list")])[0]
    name = "roles.rbac.authorization.k8s.io"
    there = {"apiGroups": [""], "resources": [name], "verbs": ["create"]}
    assert add_rules(role, [there])["rules"] == [*role["rules"], there]


def test_a_long_name_of_an_account_is_cut() -> None:
    account = ServiceAccount("team", "a" * 253)
    role, binding = grants(account, "shop", [lacks("secrets", "list")])
    assert role["metadata"]["name"] == f"shop-{'a' * 63}"
    assert binding["subjects"][0]["name"] == account.name


RESOURCES = st.sampled_from(["secrets", "pods/log", "deployments.apps", "things.example.com"])
MISSING = st.builds(
    MissingPermission,
    verbs=st.lists(st.sampled_from(VERBS), min_size=1, unique=True).map(tuple),
    resource=RESOURCES,
    namespace=st.sampled_from([None, "app", "other"]),
)


@given(st.lists(MISSING, max_size=20))
def test_everything_that_is_missing_is_granted_and_nothing_else(
    missing: list[MissingPermission],
) -> None:
    granted = {
        (role["metadata"].get("namespace"), group, resource, verb)
        for role in grants(WERF, "shop", missing)[::2]
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {
        (one.namespace, *reversed(split(one.resource or "")), verb)
        for one in missing
        for verb in one.verbs
    }


def test_what_reviews_list_is_what_is_granted() -> None:
    need = RequiredPermission("app", "example.com", "things", ("create",))
    (rule,) = grants(WERF, "shop", list_missing([need]))[0]["rules"]
    assert rule == {"apiGroups": ["example.com"], "resources": ["things"], "verbs": ["create"]}
