"""What the command line says of permissions that a Bundle's service account lacks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from tests.builders.bundles import known

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.jobs.rights import VERBS
from copyrator.cli.bundles.permissions import explain_permissions, manifest, roles_of
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
    assert says(bundle()) == [
        "The service account apps/werf lacked permissions 5m ago; it cannot",
        "  create, patch deployments.apps in live",
        "To grant them: copyrator why apps/shop --kind bundle --roles | kubectl apply -f -",
        "Then: copyrator plan bundle apps/shop --refresh",
    ]


def test_why_tells_what_the_status_does_not_list_and_what_was_not_reviewed() -> None:
    lines = says(bundle({**PLAN, "missingPermissions": 3, "unreviewed": 1}))
    assert "  and 1 more permission that the status doesn't list." in lines
    assert "  What 1 more kind needs isn't reviewed." in lines


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


def test_of_a_plan_that_failed_the_age_is_that_of_its_begin() -> None:
    failed = {**PLAN, "outcome": "Failed", "madeAt": None, "startedAt": "2026-01-02T11:58:00Z"}
    assert says(bundle(failed))[0].endswith(" lacked permissions 2m ago; it cannot")
    assert says(bundle({**failed, "startedAt": None}))[0].endswith(" permissions; it cannot")


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
