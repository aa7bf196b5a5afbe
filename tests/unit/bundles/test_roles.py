"""The Roles and bindings that grant what a status says is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_status import Attempted, BundleStatus, parse_status
from copyrator.api.plan_status import MissingPermission, PlanStatus
from copyrator.bundles.plan.rights import (
    VERBS,
    RequiredPermission,
    ServiceAccount,
    grants,
    list_missing,
    missing_of,
    split,
)

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


def test_what_is_granted_next_replaces_nothing() -> None:
    def name(*missing: MissingPermission) -> str:
        return str(grants(WERF, "shop", missing)[0]["metadata"]["name"])

    first, second = name(lacks("secrets", "list")), name(lacks("secrets", "list", "get"))
    assert first != second
    assert first == name(lacks("secrets", "list"))
    assert first.startswith("shop-werf-")
    assert name(lacks("nodes", "get", namespace=None)).startswith("team-shop-werf-")


def test_a_long_name_of_an_account_is_cut() -> None:
    account = ServiceAccount("team", "a" * 253)
    role, binding = grants(account, "shop", [lacks("secrets", "list")])
    assert role["metadata"]["name"].rpartition("-")[0] == f"shop-{'a' * 63}"
    assert binding["subjects"][0]["name"] == account.name


def test_what_the_plan_and_the_last_deploy_lack_is_granted_once() -> None:
    one, other = lacks("secrets", "list"), lacks("secrets", "get")
    status = BundleStatus(
        plan=PlanStatus(missing=(one,)), attempted=Attempted(missing=(one, other))
    )
    assert missing_of(status) == (one, other)
    (rule,) = grants(WERF, "shop", missing_of(status))[0]["rules"]
    assert rule["verbs"] == ["get", "list"]


PLANNED = PlanStatus(job="plan-2", missing=(lacks("secrets", "list"),))
BEFORE = Attempted(outcome="Failed", missing=(lacks("pods", "get"),))


@pytest.mark.parametrize(
    ("plan", "attempted", "wanted"),
    [
        (PLANNED, Attempted(), ["secrets"]),
        (PLANNED, replace(BEFORE, plan_job="plan-1"), ["secrets"]),  # made after it failed
        (PLANNED, BEFORE, ["secrets"]),
        (PLANNED, replace(BEFORE, plan_job="plan-2"), ["secrets", "pods"]),
        (PLANNED, Attempted(outcome="Running", plan_job="plan-2"), ["secrets"]),
        (PLANNED, Attempted(outcome="Succeeded", plan_job="plan-2"), []),
        (PLANNED, Attempted(outcome="Succeeded", plan_job="plan-1"), ["secrets"]),
        (PlanStatus(), BEFORE, ["pods"]),
        (PlanStatus(), Attempted(outcome="Succeeded"), []),
        (PlanStatus(), Attempted(), []),
    ],
)
def test_what_counts_is_what_was_found_last(
    plan: PlanStatus, attempted: Attempted, wanted: list[str]
) -> None:
    found = missing_of(BundleStatus(plan=plan, attempted=attempted))
    assert [one.resource for one in found] == wanted


@pytest.mark.parametrize(
    "entry",
    [
        {"verbs": ["*"], "resource": "secrets", "namespace": "app"},
        {"verbs": ["get", "escalate"], "resource": "roles", "namespace": "app"},
        {"verbs": [], "resource": "secrets", "namespace": "app"},
        {"verbs": ["get"], "resource": "*", "namespace": "app"},
        {"verbs": ["get"], "resource": "secrets.*", "namespace": "app"},
        {"verbs": ["get"], "resource": "secrets\n---\n", "namespace": "app"},
        {"verbs": ["get"], "resource": "pods/*", "namespace": "app"},
        {"verbs": ["get"], "resource": "secrets", "namespace": "*"},
        {"verbs": ["get"], "resource": "secrets", "namespace": ""},
        {"verbs": ["get"], "resource": "secrets", "namespace": "a\nb"},
        {"verbs": ["get"], "resource": None, "namespace": "app"},
        {"verbs": "get", "resource": "secrets"},
        {"resource": "secrets"},
        "get secrets",
    ],
)
def test_what_the_operator_never_writes_is_not_granted(entry: Any) -> None:
    status = parse_status({"status": {"plan": {"missing": [entry]}}})
    assert missing_of(status) == ()
    assert grants(WERF, "shop", status.plan.missing) == []


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
