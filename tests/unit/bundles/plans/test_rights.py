"""What the deploy of a plan needs, by its operations, and what a status says that it lacks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conditions import conditions
from tests.replacing import replace

from copyrator.api.bundle_status import MAX_MISSING, Attempted, BundleStatus, MissingPermission
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.checks import PERMISSION_KINDS
from copyrator.bundles.jobs.rights import (
    VERBS,
    RequiredPermission,
    ServiceAccount,
)
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.operations import PLAN_OPERATIONS, Operation, OperationType
from copyrator.bundles.plans.rights import (
    KindIn,
    PermissionFindings,
    kinds_of,
    missing_of,
    read_needs,
    record_findings,
    required_permissions,
)
from copyrator.cli.bundles.roles import grants
from copyrator.kube.resources import CRDS, NAMESPACES, SECRETS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")

CREATE = OperationType.CREATE


def operation(kind: str, group: str = "", namespace: str = "", name: str = "a") -> Operation:
    return Operation(CREATE, namespace, group, kind, name)


def asked(found: tuple[RequiredPermission, ...]) -> dict[tuple[str, str], tuple[str, ...]]:
    return {(one.namespace, one.key): one.verbs for one in found}


def test_every_release_needs_its_lock_its_storage_and_tracking() -> None:
    lock = ("get", "list", "watch", "create", "update", "patch")
    assert required_permissions("app", {}) == (
        RequiredPermission("app", "", "configmaps", lock, "werf-synchronization"),
        RequiredPermission("app", "", "secrets", ("get", "list", "create", "update", "delete")),
        RequiredPermission("app", "", "namespaces", ("get",), "app"),
        RequiredPermission("app", "", "events", ("list", "watch")),
        RequiredPermission("app", "", "pods", ("get", "list", "watch")),
        RequiredPermission("app", "", "pods/log", ("get", "list", "watch")),
    )


def test_the_kinds_of_a_plan_need_all_verbs_in_their_namespaces() -> None:
    kinds = {
        KindIn("", "", "Secret"): SECRETS,
        KindIn("", "apps", "Deployment"): DEPLOYMENTS,
        KindIn("other", "apps", "Deployment"): DEPLOYMENTS,
        KindIn("", "apiextensions.k8s.io", "CustomResourceDefinition"): CRDS,
    }
    found = asked(required_permissions("app", kinds))
    assert found["app", "secrets"] == VERBS  # once, with the verbs of both uses
    assert found["app", "deployments.apps"] == VERBS
    assert found["other", "deployments.apps"] == VERBS
    assert found["other", "replicasets.apps"] == ("get", "list", "watch")
    assert found["", "customresourcedefinitions.apiextensions.k8s.io"] == VERBS
    assert ("app", "customresourcedefinitions.apiextensions.k8s.io") not in found


@pytest.mark.parametrize(
    ("group", "kind", "plural", "namespaced"),
    [
        ("", "Namespace", "namespaces", False),
        ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", False),
        ("example.com", "Tenant", "tenants", False),
        ("rbac.authorization.k8s.io", "Role", "roles", True),
        ("example.com", "Thing", "things", True),
    ],
)
def test_objects_in_no_namespace_are_tracked_by_events_in_default(
    group: str, kind: str, plural: str, namespaced: bool
) -> None:
    kinds = {KindIn("", group, kind): Resource(group, "v1", plural, kind, namespaced)}

    found = asked(required_permissions("app", kinds))
    own = required_permissions("default", kinds)

    assert found.get(("default", "events")) == (None if namespaced else ("list", "watch"))
    assert found["app", "events"] == ("list", "watch")
    events = [one for one in own if one.resource == "events"]
    assert events == [RequiredPermission("default", "", "events", ("list", "watch"))]


def test_what_is_needed_for_several_reasons_keeps_all_verbs() -> None:
    """ReplicaSets of the chart's own, and then those of a Deployment, which are only read."""
    kinds = {
        KindIn("", "apps", "ReplicaSet"): Resource("apps", "v1", "replicasets", "ReplicaSet"),
        KindIn("app", "apps", "Deployment"): DEPLOYMENTS,
    }
    assert asked(required_permissions("app", kinds))["app", "replicasets.apps"] == VERBS


def test_a_namespace_that_is_missing_must_be_created() -> None:
    found = required_permissions("app", {}, is_namespace_missing=True)
    assert found[-1] == RequiredPermission("", "", "namespaces", ("create", "patch"))
    own = asked(required_permissions("app", {KindIn("", "", "Namespace"): NAMESPACES}))
    assert own["", "namespaces"] == VERBS  # the chart's


def test_what_werf_said_it_lacks_is_asked_about_whole() -> None:
    denied = (
        RequiredPermission("app", "apps", "deployments", ("get",)),
        RequiredPermission("app", "", "secrets", ("list",)),
        RequiredPermission("app", "", "pods/exec", ("create",)),
    )
    found = asked(required_permissions("app", {}, denied=denied))
    assert found["app", "deployments.apps"] == VERBS
    assert found["app", "secrets"] == ("get", "list", "create", "update", "delete")
    assert found["app", "pods/exec"] == ("create",)


def test_an_access_review_names_an_object_where_one_is_all_that_is_needed() -> None:
    lock = next(one for one in required_permissions("app", {}) if one.resource == "configmaps")
    assert lock.attributes("patch") == {
        "verb": "patch",
        "resource": "configmaps",
        "namespace": "app",
        "name": "werf-synchronization",
    }
    for verb in ("list", "watch", "create"):  # their requests have none
        assert "name" not in lock.attributes(verb)
    kinds = {KindIn("", "", "ConfigMap"): Resource("", "v1", "configmaps", "ConfigMap")}
    lock = next(one for one in required_permissions("app", kinds) if one.resource == "configmaps")
    assert "name" not in lock.attributes("patch")


NAMES = st.from_regex(r"[a-z]{1,3}", fullmatch=True)

OPERATIONS = st.builds(
    Operation,
    type=st.sampled_from(OperationType),
    namespace=st.one_of(st.just(""), NAMES),
    group=st.one_of(st.just(""), NAMES),
    kind=NAMES,
    name=NAMES,
)


@given(st.lists(OPERATIONS, max_size=2 * PERMISSION_KINDS), st.booleans())
def test_reviews_are_bounded_whatever_the_plan_has(
    operations: list[Operation], is_namespace_missing: bool
) -> None:
    kinds, beyond = kinds_of(operations)
    there = {(one.namespace, one.group, one.kind) for one in operations}
    assert len(kinds) <= PERMISSION_KINDS
    assert len(kinds) + beyond == len(there)
    served = {one: Resource(one.group, "v1", one.kind, one.kind, one.kind < "m") for one in kinds}
    found = required_permissions("app", served, is_namespace_missing=is_namespace_missing)
    places = [(one.namespace, one.group, one.resource) for one in found]
    assert len(places) == len(set(places)) <= PERMISSION_KINDS + 8
    assert all(set(one.verbs) <= set(VERBS) for one in found)
    for one, kind in served.items():  # nothing that a kind needs is left out
        namespace = (one.namespace or "app") if kind.namespaced else ""
        assert RequiredPermission(namespace, one.group, one.kind, VERBS) in found


def test_of_as_many_operations_as_a_plan_may_have_a_part_is_reviewed() -> None:
    many = [
        operation("ConfigMap", namespace=f"ns-{number}") for number in range(PLAN_OPERATIONS - 1)
    ]
    kinds, beyond = kinds_of([*many, operation("Secret")])
    assert len(kinds) == PERMISSION_KINDS
    assert beyond == PLAN_OPERATIONS - PERMISSION_KINDS
    assert kinds[0] == KindIn("", "", "Secret")  # of the release's own namespace first


def test_a_status_lists_a_limited_number_and_counts_all() -> None:
    many = tuple(
        RequiredPermission(f"ns-{number:02}", "", "pods", ("get", "list")) for number in range(30)
    )
    found = record_findings(PlanStatus(job="plan"), PermissionFindings(many, unreviewed=2))
    assert len(found.missing) == MAX_MISSING
    assert found.missing[0] == MissingPermission(
        verbs=("get", "list"), resource="pods", namespace="ns-00"
    )
    assert (found.missing_permissions, found.unreviewed) == (60, 2)
    assert found.job == "plan"


def test_that_nothing_is_missing_is_told_from_what_is_not_known() -> None:
    found = record_findings(PlanStatus(), PermissionFindings()).to_dict()
    assert found == {"missingPermissions": 0}


WERF = ServiceAccount("team", "werf")


def lacks(resource: str, *verbs: str, namespace: str | None = "app") -> MissingPermission:
    return MissingPermission(verbs=verbs, resource=resource, namespace=namespace)


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
