"""What a deploy's account needs, by the operations of a plan, and what werf says it lacks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_MISSING, MissingPermission
from copyrator.bundles.features.approval.fields import PlanStatus
from copyrator.bundles.features.approval.operations import PLAN_OPERATIONS, Operation, OperationType
from copyrator.bundles.features.approval.rights import (
    KindIn,
    PermissionFindings,
    kinds_of,
    record_findings,
    required_permissions,
)
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.bundles.jobs.rights import (
    PERMISSION_KINDS,
    VERBS,
    RequiredPermission,
    ServiceAccount,
    list_missing,
    read_refused,
    sentence,
)
from copyrator.kube.resources import CRDS, NAMESPACES, SECRETS, Resource

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
WERF = ServiceAccount("team", "werf")
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
        ("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", False),
        ("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", False),
        ("", "Namespace", "namespaces", False),
        ("", "PersistentVolume", "persistentvolumes", False),
        ("example.com", "Tenant", "tenants", False),
        ("", "PersistentVolumeClaim", "persistentvolumeclaims", True),
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


def test_an_object_named_in_the_releases_own_namespace_is_asked_about_once() -> None:
    kinds = {KindIn("", "", "Secret"): SECRETS, KindIn("app", "", "Secret"): SECRETS}
    found = [one for one in required_permissions("app", kinds) if one.resource == "secrets"]
    assert found == [RequiredPermission("app", "", "secrets", VERBS)]


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


def test_an_access_review_of_a_subresource_and_of_a_group() -> None:
    assert RequiredPermission("app", "", "pods/log", ("get",)).attributes("get") == {
        "verb": "get",
        "resource": "pods",
        "subresource": "log",
        "namespace": "app",
    }
    assert RequiredPermission("", "apps", "deployments", ("get",)).attributes("get") == {
        "verb": "get",
        "resource": "deployments",
        "group": "apps",
    }


def test_the_account_is_who_the_api_server_takes_it_for() -> None:
    metadata = {"name": "shop", "namespace": "team"}
    fields = {"registry": "r.example.com", "repo": "a", "serviceAccountName": "deployer"}
    spec = parse_bundle({"metadata": metadata, "spec": fields}, BundleDefaults())
    assert isinstance(spec, BundleSpec)
    assert ServiceAccount.of(spec) == ServiceAccount("team", "deployer")
    assert WERF.user == "system:serviceaccount:team:werf"
    assert WERF.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:team",
        "system:authenticated",
    )


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


FORBIDDEN = (
    'secrets is forbidden: User "system:serviceaccount:{}" cannot {} resource "{}" in API group '
    '"{}" {}'
)
HERE = 'in the namespace "team"'
CLUSTER = "at the cluster scope"


def words(
    user: str = "team:werf",
    verb: str = "list",
    resource: str = "secrets",
    group: str = "",
    where: str = HERE,
) -> str:
    return FORBIDDEN.format(user, verb, resource, group, where)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (words(), RequiredPermission("team", "", "secrets", ("list",))),
        (
            f"Error: get release history: {words()}\n",
            RequiredPermission("team", "", "secrets", ("list",)),
        ),
        (
            words(verb="create", resource="deployments", group="apps"),
            RequiredPermission("team", "apps", "deployments", ("create",)),
        ),
        (
            words(verb="get", resource="pods/log"),
            RequiredPermission("team", "", "pods/log", ("get",)),
        ),
        (
            words(verb="create", resource="namespaces", where=CLUSTER),
            RequiredPermission("", "", "namespaces", ("create",)),
        ),
    ],
)
def test_werfs_words_name_the_missing_permission(text: str, wanted: RequiredPermission) -> None:
    assert read_refused(text, WERF) == (wanted,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: render chart: no such value",
        words(user="team:other"),
        words(user="kube-system:werf"),
        words(verb="escalate"),
        words(verb="*"),
        words(resource="*"),
        words(resource="secrets/*"),
        words(resource='a"b'),
        words(group="*"),
        words(group="a" * 300),
        words(resource="a" * 100),
        words(where='in the namespace "*"'),
        words(where='in the namespace ""'),
        words(where="somewhere"),
        words(where='in the namespace "team\n"'),
        "x" * 10_000 + words(),
        'secrets "a" is forbidden: exceeded quota',
    ],
)
def test_other_words_name_none(text: str) -> None:
    assert read_refused(text, WERF) == ()


def test_several_verbs_on_one_resource_are_one_entry() -> None:
    text = "; ".join(words(verb=verb) for verb in ("list", "get", "list"))
    assert read_refused(text, WERF) == (RequiredPermission("team", "", "secrets", ("get", "list")),)


def test_each_resource_is_an_entry_and_other_accounts_are_passed_over() -> None:
    text = "; ".join((words(user="team:other"), words(), words(resource="pods"), words()))
    assert read_refused(text, WERF) == (
        RequiredPermission("team", "", "secrets", ("list",)),
        RequiredPermission("team", "", "pods", ("list",)),
    )


def test_that_the_namespace_could_not_be_created_either_is_not_the_cause() -> None:
    lock = words(verb="create", resource="configmaps")
    space = words(verb="create", resource="namespaces", where=CLUSTER)
    assert read_refused(f"{lock}; {space}", WERF) == (
        RequiredPermission("team", "", "configmaps", ("create",)),
    )


@given(st.text(max_size=2000))
def test_no_text_is_misread(text: str) -> None:
    for one in read_refused(f"{words()} {text}", WERF):
        assert set(one.verbs) <= set(VERBS)
        assert re.fullmatch("[a-z0-9/-]+", one.resource)
    long = " ".join(words(where=f'in the namespace "n{number}"') for number in range(500))
    assert len(read_refused(long, WERF)) <= MAX_MISSING


def test_one_sentence_says_it_everywhere() -> None:
    missing = list_missing(
        [
            RequiredPermission("team", "apps", "deployments", ("create", "patch")),
            RequiredPermission("", "", "namespaces", ("get",)),
        ]
    )
    assert sentence(WERF, missing) == (
        "the service account team/werf cannot get namespaces in all namespaces; "
        "create, patch deployments.apps in team"
    )
    assert replace(missing[0], namespace="x") != missing[0]
