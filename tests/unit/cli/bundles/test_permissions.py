"""Permissions that a Bundle's service account lacks: what is said of them, and what grants them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import known

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MissingPermission
from copyrator.bundles.features.approval.words import permission_summary
from copyrator.bundles.jobs.rights import (
    VERBS,
    ServiceAccount,
)
from copyrator.cli.bundles.permissions import explain_permissions, manifest, roles_of
from copyrator.cli.bundles.plan_log import with_refusals_of
from copyrator.cli.bundles.roles import add_rules, grants, split
from copyrator.cli.view.bundle import BundleView
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
ONE = {"verbs": ["create", "patch"], "resource": "deployments.apps", "namespace": "live"}
SPACE = {"verbs": ["create", "patch"], "resource": "namespaces"}
PLAN = {
    "job": "shop-plan-1",
    "outcome": "Planned",
    "madeAt": "2026-01-02T11:55:00Z",
    "missingPermissions": 2,
    "missing": [ONE],
}


def bundle(plan: Any = PLAN, **status: Any) -> dict[str, Any]:
    return known({"project_namespace": "live"}, plan=plan, **status)


def view_of(body: Mapping[str, Any]) -> BundleView:
    return BundleView(body, NOW)


def spec_of(body: Mapping[str, Any]) -> BundleSpec:
    spec = view_of(body).spec
    assert isinstance(spec, BundleSpec)
    return spec


def says(body: dict[str, Any]) -> list[str]:
    return list(explain_permissions(view_of(body), spec_of(body)))


def test_why_names_each_permission_and_the_commands() -> None:
    lines = says(bundle({**PLAN, "missingPermissions": 3, "unreviewed": 1}))
    assert "  and 1 more permission that the status doesn't list." in lines
    assert "  What 1 more kind needs isn't reviewed." in lines
    assert says(bundle()) == [
        "The service account apps/werf lacked permissions 5m ago; it cannot",
        "  create, patch deployments.apps in live",
        "To grant them: copyrator why apps/shop --kind bundle --roles | kubectl apply -f -",
        "Then: copyrator plan bundle apps/shop --refresh",
    ]


FAILED = {"outcome": "Failed", "missing": [ONE], "finishedAt": "2026-01-02T11:59:00Z"}
EVENTS = {"verbs": ["list", "watch"], "resource": "events", "namespace": "default"}
ALL_THE_SAME = "  Without events in default it deploys, but werf shows no Events."


@pytest.mark.parametrize(
    ("missing", "namespace", "said"),
    [
        ([EVENTS], "live", True),
        ([ONE, EVENTS], "live", True),
        ([EVENTS], "default", False),  # of the release's own namespace: they are needed
        ([{**EVENTS, "namespace": "live"}], "live", False),
        ([{**EVENTS, "resource": "pods"}], "live", False),
    ],
)
def test_why_says_that_events_of_objects_in_no_namespace_are_not_needed(
    missing: list[dict[str, Any]], namespace: str, said: bool
) -> None:
    body = bundle({**PLAN, "missing": missing})
    body["spec"]["project_namespace"] = namespace
    assert (ALL_THE_SAME in says(body)) is said
    failed = {**FAILED, "missing": [EVENTS]}
    assert ALL_THE_SAME not in says(bundle(None, attempted=failed))  # it failed for want of them


def test_after_a_deploy_that_failed_so_it_is_asked_for_again() -> None:
    lines = says(bundle(None, attempted=FAILED))
    assert lines[0] == "The service account apps/werf lacked permissions 60s ago; it cannot"
    names_all = "a plan names all: copyrator plan bundle apps/shop --refresh"
    assert lines[2] == f"werf names one permission at a time; {names_all}"
    assert lines[-1] == "Then: copyrator reconcile bundle apps/shop"
    lines = says(bundle({**PLAN, "missing": []}, attempted={**FAILED, "planJob": "shop-plan-1"}))
    assert lines[2].startswith("  and 2 more permissions")
    assert lines[3].startswith("To grant them")


SECRETS = {"verbs": ["list"], "resource": "secrets", "namespace": "live"}


def uninstalled(reason: str = "UninstallFailed") -> dict[str, Any]:
    ready = {"type": "Ready", "status": "False", "reason": reason}
    return bundle(attempted={"outcome": "Succeeded", "missing": [SECRETS]}, conditions=[ready])


@pytest.mark.parametrize("reason", ["UninstallFailed", "Uninstalling"])
def test_why_says_what_an_uninstall_lacks_and_what_it_needs(reason: str) -> None:
    body = uninstalled(reason)
    assert says(body) == [
        "The service account apps/werf lacks permissions to uninstall; it cannot",
        "  list secrets in live",
        "werf names one at a time. Besides get, list, watch, delete of its objects it needs",
        "  get, update configmaps in live",
        "  get namespaces in live",
        "  get, list, update, delete secrets in live",
        "  git in its image, with werf 3",
        "To grant them: copyrator why apps/shop --kind bundle --roles | kubectl apply -f -",
        "Then the uninstall is retried by itself.",
    ]
    role, _ = roles_of(view_of(body), spec_of(body))
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "live")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "update", "delete"]},
    ]
    first = manifest(view_of(body), spec_of(body), [role]).splitlines()[0]
    assert first == "# Grants the service account apps/werf what it lacks to uninstall shop."


def test_an_uninstall_needs_it_where_the_release_was_deployed() -> None:
    body = uninstalled()
    body["status"]["deployed"] = {"namespace": "there"}
    assert "  get namespaces in there" in says(body)


def test_an_uninstall_that_failed_for_another_cause_lacks_nothing() -> None:
    body = uninstalled()
    body["status"]["attempted"]["missing"] = []
    assert (says(body), roles_of(view_of(body), spec_of(body))) == ([], [])


def applied(body: dict[str, Any]) -> str:
    view, spec = view_of(body), spec_of(body)
    return manifest(view, spec, roles_of(view, spec))


def test_the_manifest_is_what_kubectl_applies() -> None:
    body = bundle()
    spec = spec_of(body)
    text = applied(body)
    assert (
        text.splitlines()[0]
        == "# Grants the service account apps/werf what it lacks to deploy shop."
    )
    assert text.splitlines()[1].startswith("# What is needed is decided by its chart")
    role, binding = yaml.safe_load_all(text)
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "live"
    assert role["rules"] == [
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["create", "patch"]}
    ]
    assert "aren't listed" not in text
    body = bundle({**PLAN, "missingPermissions": 9})
    assert "# 7 more permissions aren't listed" in manifest(
        view_of(body), spec, roles_of(view_of(body), spec)
    )


def test_the_releases_namespace_comes_first_where_it_is_missing() -> None:
    body = bundle({**PLAN, "missing": [SPACE, ONE]})
    spec = spec_of(body)
    kinds = [one["kind"] for one in roles_of(view_of(body), spec, is_namespace_missing=True)]
    assert kinds == ["Namespace", "Role", "RoleBinding"]
    kinds = [one["kind"] for one in roles_of(view_of(body), spec)]
    assert kinds == ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    nothing = bundle({**PLAN, "missing": []})
    assert roles_of(view_of(nothing), spec, is_namespace_missing=True) == []


@given(JSON, JSON)
def test_whatever_a_status_has_nothing_else_is_granted(plan: Any, attempted: Any) -> None:
    forged = {"missing": [ONE, plan, {"verbs": plan, "resource": attempted}]}
    body = bundle(forged, attempted=attempted)
    spec = spec_of(body)
    list(explain_permissions(view_of(body), spec))
    for role in roles_of(view_of(body), spec)[::2]:
        for rule in role["rules"]:
            assert set(rule["verbs"]) <= set(VERBS)
            assert "*" not in "".join((*rule["apiGroups"], *rule["resources"]))


Body = dict[str, Any]


def refusal(
    kind: str, *, account: str = "apps:werf", where: str = "live", verb: str = "patch"
) -> str:
    return (
        f'{kind} "shop" is forbidden: User "system:serviceaccount:{account}" cannot {verb} '
        f'resource "{kind}" in API group "" in the namespace "{where}"'
    )


DIFF = f"""\
Blind apply ConfigMap/shop
  --- deployed
  +++ planned
  - text: {refusal("secrets")}
  + text: {refusal("pods")}
  <blind apply reason: error: dry-run apply object: {refusal("configmaps")}>

Blind apply ConfigMap/other
  <blind apply reason: error: dry-run apply object: {refusal("configmaps")}>

Blind apply Service/shop
  <blind apply reason: error: dry-run apply object: {refusal("services")}>
  <blind apply reason: error: {refusal("events", account="other:werf")}>
"""
BLIND = {"job": "p", "outcome": "Planned", "madeAt": "2026-01-02T11:55:00Z", "counts": {"apply": 3}}


def blind(**plan: Any) -> Body:
    return known({"project_namespace": "live"}, plan={**BLIND, **plan})


def test_refusals_of_the_account_are_used_and_no_content() -> None:
    found = with_refusals_of(blind(), DIFF)
    assert found["status"]["plan"]["missing"] == [
        {"verbs": ["patch"], "resource": "configmaps", "namespace": "live"},
        {"verbs": ["patch"], "resource": "services", "namespace": "live"},
    ]
    assert permission_summary(view_of(found).status) == (
        "missing: patch configmaps in live; patch services in live"
    )
    said = list(explain_permissions(view_of(found), spec_of(found)))
    assert said[:3] == [
        "The service account apps/werf lacked permissions 5m ago; it cannot",
        "  patch configmaps in live",
        "  patch services in live",
    ]
    assert said[3].startswith("Named by the plan's blind applies, one permission each. ")
    (role, binding) = roles_of(view_of(found), spec_of(found))
    # Beside what every release needs, as nothing was reviewed.
    assert {"apiGroups": [""], "resources": ["services"], "verbs": ["patch"]} in role["rules"]
    assert {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]} in role["rules"]
    assert "# By the plan's blind applies" in manifest(
        view_of(found), spec_of(found), [role, binding]
    )


@pytest.mark.parametrize(
    "body",
    [
        blind(missingPermissions=0),
        blind(missingPermissions=1, missing=[{"verbs": ["get"], "resource": "pods"}]),
        blind(counts={"update": 3}),
        blind(outcome="Failed"),
        blind() | {"spec": {}},
        blind() | {"status": None},
    ],
    ids=["nothing missing", "reviewed", "none is blind", "failed", "invalid spec", "no status"],
)
def test_where_it_is_known_or_there_is_none_the_words_arent_used(body: Body) -> None:
    assert with_refusals_of(body, DIFF) is body


@pytest.mark.parametrize("diff", [None, ""])
def test_without_a_log_nothing_is_claimed(diff: str | None) -> None:
    body = blind()
    assert with_refusals_of(body, diff) is body
    assert not any("blind" in line for line in explain_permissions(view_of(body), spec_of(body)))


def test_many_objects_of_a_kind_dont_hide_another() -> None:
    many = "".join(f"  <error: {name} {refusal('configmaps')}>\n" for name in range(2000))
    found = with_refusals_of(blind(), f"{many}  <error: {refusal('services')}>\n")
    assert [one["resource"] for one in found["status"]["plan"]["missing"]] == [
        "configmaps",
        "services",
    ]


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
