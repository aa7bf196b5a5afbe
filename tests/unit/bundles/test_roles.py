"""The Roles and bindings that grant what a status says is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conditions import conditions
from tests.replacing import replace

from copyrator.api.bundle_status import Attempted, BundleStatus, MissingPermission
from copyrator.bundles.features.approval.fields import PlanStatus
from copyrator.bundles.features.approval.rights import KindIn, missing_of, read_needs
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.rights import (
    PERMISSION_KINDS,
    VERBS,
    RequiredPermission,
    ServiceAccount,
    add_rules,
    grants,
    list_missing,
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


def test_the_kinds_of_a_chart_are_read_from_the_log_of_a_plan_that_failed() -> None:
    log = (
        "needs v1 ConfigMap \nneeds apps/v1 Deployment app\nneeds v1 Se/cret \n needs v1 Pod \n"
        "needs example.com/v1beta1 Thing \nwerf bundle plan ended with exit code 1\nError: no\n"
    )
    assert read_needs(log) == (
        KindIn("", "", "ConfigMap"),
        KindIn("", "example.com", "Thing"),
        KindIn("app", "apps", "Deployment"),
    )
    many = "".join(f"needs v1 Kind{number} \n" for number in range(2 * PERMISSION_KINDS))
    assert len(read_needs(many)) == PERMISSION_KINDS


def test_a_long_name_of_an_account_is_cut() -> None:
    account = ServiceAccount("team", "a" * 253)
    role, binding = grants(account, "shop", [lacks("secrets", "list")])
    assert role["metadata"]["name"] == f"shop-{'a' * 63}"
    assert binding["subjects"][0]["name"] == account.name


def test_what_the_plan_and_the_last_deploy_lack_is_granted_once() -> None:
    one, other = lacks("secrets", "list"), lacks("secrets", "get")
    status = BundleStatus(attempted=Attempted(missing=(one, other))).with_part(
        PlanStatus(missing=(one,))
    )
    assert missing_of(status) == (one, other)
    (rule,) = grants(WERF, "shop", missing_of(status))[0]["rules"]
    assert rule["verbs"] == ["get", "list"]


PLANNED = PlanStatus(job="plan-2", missing=(lacks("secrets", "list"),))
REVIEWED = replace(PLANNED, missing_permissions=1)
BEFORE = Attempted(outcome="Failed", missing=(lacks("pods", "get"),))


@pytest.mark.parametrize(
    ("plan", "attempted", "wanted"),
    [
        (PLANNED, Attempted(), ["secrets"]),
        # Made after it failed: by reviews all is known, else both.
        (REVIEWED, replace(BEFORE, plan_job="plan-1"), ["secrets"]),
        (PLANNED, replace(BEFORE, plan_job="plan-1"), ["secrets", "pods"]),
        (PLANNED, BEFORE, ["secrets", "pods"]),
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
    found = missing_of(BundleStatus(attempted=attempted).with_part(plan))
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
    assert grants(WERF, "shop", status.part(PlanStatus).missing) == []


@pytest.mark.parametrize("reason", ["Uninstalling", "UninstallFailed", "DeployFailed"])
def test_of_a_release_that_is_uninstalled_only_what_that_lacked_counts(reason: str) -> None:
    forged = MissingPermission(verbs=("*",), resource="secrets", namespace="app")
    status = BundleStatus(
        attempted=replace(BEFORE, missing=(*BEFORE.missing, forged)),
        conditions=conditions({"type": "Ready", "status": "False", "reason": reason}),
    ).with_part(PLANNED)
    found = [one.resource for one in missing_of(status)]
    assert found == (["secrets", "pods"] if reason == "DeployFailed" else ["pods"])


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
