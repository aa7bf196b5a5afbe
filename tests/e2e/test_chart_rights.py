"""The rights that the chart gives, asked of a real API server: what is needed, and nothing else."""

import json
import re
from typing import Any

import pytest
import yaml
from tests.e2e.operator_process import until

from copyrator.settings.config import KNOWN_KINDS
from demo.chart import CHART, ROOT, render

OPERATOR_MAY = [
    ("list", "flant.com", "copyrators", ""),
    ("watch", "flant.com", "copyrators", ""),
    ("patch", "flant.com", "copyrators", ""),
    ("mark", "flant.com", "copyrators", ""),
    ("patch", "flant.com", "copyrators", "status"),
    ("watch", "operator.werf.dev", "bundles", ""),
    ("patch", "operator.werf.dev", "bundles", ""),
    ("patch", "operator.werf.dev", "bundles", "status"),
    ("watch", "", "namespaces", ""),
    *((verb, "", kind, "") for kind in ("configmaps", "secrets") for verb in ("create", "delete")),
    *((verb, "", kind, "") for kind in ("configmaps", "secrets") for verb in ("update", "watch")),
    ("create", "", "serviceaccounts", ""),
    ("update", "", "resourcequotas", ""),
    ("update", "", "limitranges", ""),
    ("update", "networking.k8s.io", "networkpolicies", ""),
    ("create", "rbac.authorization.k8s.io", "rolebindings", ""),
    ("create", "rbac.authorization.k8s.io", "roles", ""),
    *((verb, "batch", "jobs", "") for verb in ("create", "patch", "watch")),
    *((verb, "apps", "deployments", "") for verb in ("list", "watch")),
    *((verb, "apps", "statefulsets", "") for verb in ("list", "watch")),
    *((verb, "apps", "daemonsets", "") for verb in ("list", "watch")),
    ("list", "", "pods", ""),
    ("get", "", "pods", "log"),
    ("deletecollection", "", "secrets", ""),
    ("create", "", "events", ""),
    ("get", "", "events", ""),
    ("patch", "", "events", ""),
]
OPERATOR_MAY_NOT = [
    ("create", "flant.com", "copyrators", ""),
    ("update", "flant.com", "copyrators", ""),
    ("delete", "flant.com", "copyrators", ""),
    ("delete", "operator.werf.dev", "bundles", ""),
    ("approve", "operator.werf.dev", "bundles", ""),
    ("delete", "batch", "jobs", ""),
    ("watch", "", "pods", ""),
    ("create", "", "namespaces", ""),
    ("delete", "", "namespaces", ""),
    ("patch", "", "namespaces", ""),
    ("create", "", "pods", ""),
    ("delete", "", "pods", ""),
    ("create", "", "pods", "exec"),
    ("create", "", "serviceaccounts", "token"),
    ("list", "", "events", ""),
    ("list", "", "nodes", ""),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", ""),
    ("escalate", "rbac.authorization.k8s.io", "roles", ""),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", ""),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("create", "apps", "deployments", ""),
    ("get", "apps", "deployments", ""),
    ("list", "apps", "replicasets", ""),
    ("deletecollection", "", "configmaps", ""),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("patch", "apiextensions.k8s.io", "customresourcedefinitions", ""),
]
WERF_MAY = [
    ("create", "", "secrets", ""),
    ("delete", "", "secrets", ""),
    ("patch", "", "configmaps", ""),
    ("patch", "apps", "deployments", ""),
    ("get", "", "pods", "log"),
    ("get", "", "namespaces", ""),
]
WERF_MAY_NOT = [
    ("create", "rbac.authorization.k8s.io", "rolebindings", ""),
    ("create", "", "pods", ""),
    ("create", "", "serviceaccounts", "token"),
    ("delete", "", "namespaces", ""),
    ("patch", "operator.werf.dev", "bundles", "status"),
]


FULL = {
    "rules.restart": True,
    "rules.kinds": ["ConfigMap"],
    "rules.bindClusterRoles": ["edit"],
    "bundles.allowedSecrets": ["registry-creds"],
}
"""Every switch on, few kinds: each right of the chart that docs/security.md has to explain."""


def test_every_right_is_explained_and_none_that_isnt_given(cluster):
    rendered = render(cluster.helm, namespace="copyrator", values=FULL)
    given = {
        f"{verb} {resource}" + (f".{group}" if group else "")
        for role in rendered.bound_roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    text = (ROOT / "docs" / "security.md").read_text()
    explained = {
        f"{verb} {resource}"
        for verbs, resource in re.findall(r"^\| ([a-z, ]+) `([a-z./0-9]+)`", text, re.MULTILINE)
        for verb in verbs.split(", ")
    }
    explained |= {f"{verb} configmaps" for verb in of_rule_kinds(text)}
    assert explained == {_as_written(one) for one in given}


def of_rule_kinds(text: str) -> list[str]:
    lines = re.findall(r"^\| ([a-z, ]+) each of the rule kinds", text, re.MULTILINE)
    return [verb for line in lines for verb in line.split(", ")]


def _as_written(right: str) -> str:
    """`patch bundles/status.operator.werf.dev` is `patch bundles.operator.werf.dev/status`."""
    return re.sub(r"/status\.(.+)$", r".\1/status", right)


class Rights:
    """The rights of an applied chart; asks the API server's authorizer."""

    def __init__(self, cluster, namespace: str, values: dict[str, Any]) -> None:
        self._api = cluster.api()
        self._namespace = namespace
        rendered = render(cluster.helm, namespace=namespace, values=values)
        self.account = rendered.service_account
        text = yaml.safe_dump_all(rendered.rights)
        cluster.kubectl("apply", "--server-side", "-f", "-", input=text)

    def may(self, request, *, account: str = "", namespace: str = "", name: str = "") -> bool:
        verb, group, resource, subresource = request
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{self._namespace}:{account or self.account}",
                "resourceAttributes": {**asked, "namespace": namespace, "name": name},
            },
        }
        answer = self._api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return answer["status"]["allowed"]


@pytest.fixture
def home(namespace):
    """The release's namespace."""
    return namespace("chart")


@pytest.fixture
def rights(cluster, home):
    def apply(**values: Any) -> Rights:
        chosen = {key.replace("__", "."): value for key, value in values.items()}
        return Rights(cluster, home, chosen)

    yield apply
    for kind in ("clusterrole", "clusterrolebinding"):
        for name in ("copyrator", "second"):
            cluster.kubectl("delete", kind, f"{home}:{name}", "--ignore-not-found")


def test_the_operator_may_do_both_jobs_everywhere_and_nothing_else(rights):
    chart = rights(rules__kinds=list(KNOWN_KINDS))
    assert [one for one in OPERATOR_MAY if not chart.may(one)] == []
    assert [one for one in OPERATOR_MAY_NOT if chart.may(one)] == []


def test_it_may_read_its_own_crds_by_name(rights):
    chart = rights()
    get = ("get", "apiextensions.k8s.io", "customresourcedefinitions", "")
    assert chart.may(get, name="copyrators.flant.com")
    assert chart.may(get, name="bundles.operator.werf.dev")
    assert not chart.may(get, name="other.example.com")


def test_by_default_it_may_copy_configmaps_and_secrets_only(rights):
    chart = rights()
    for resource in ("configmaps", "secrets"):
        assert chart.may(("create", "", resource, ""))
    for resource in ("serviceaccounts", "resourcequotas", "limitranges"):
        assert not chart.may(("create", "", resource, ""))
    assert not chart.may(("list", "rbac.authorization.k8s.io", "rolebindings", ""))


def test_kinds_give_exactly_their_rights(rights):
    kinds = ["ConfigMap", "NetworkPolicy.networking.k8s.io"]
    chart = rights(rules__kinds=kinds, bundles__plans__enabled=False)
    assert chart.may(("update", "networking.k8s.io", "networkpolicies", ""))
    assert not chart.may(("update", "networking.k8s.io", "ingresses", ""))
    assert chart.may(("create", "", "configmaps", ""))
    assert chart.may(("get", "", "secrets", "")), "a Bundle's credentials are still read"
    assert not chart.may(("create", "", "secrets", ""))
    assert not chart.may(("update", "", "secrets", ""))


def test_bundles_may_name_the_secrets_that_are_allowed_and_the_operator_reads_no_others(rights):
    kinds = ["ConfigMap"]
    reading = [(verb, "", "secrets", "") for verb in ("get", "list", "watch")]
    named = rights(rules__kinds=kinds, bundles__allowedSecrets=["registry-creds"])
    assert all(named.may(one, name="registry-creds") for one in reading)
    assert not any(named.may(one, name="other") or named.may(one) for one in reading)
    none = rights(rules__kinds=kinds, bundles__allowedSecrets=[])
    assert not any(none.may(one, name="registry-creds") for one in reading)


def test_for_plans_it_may_make_secrets_and_delete_them_and_neither_edit_nor_read_more(rights):
    of_secrets = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")

    def given(**values: Any) -> list[str]:
        chart = rights(rules__kinds=["ConfigMap"], bundles__allowedSecrets=[], **values)
        return [verb for verb in of_secrets if chart.may((verb, "", "secrets", ""), namespace="x")]

    assert given() == ["create", "delete", "deletecollection"]
    assert given(bundles__plans__enabled=False) == []


def test_it_may_ask_what_accounts_may_do_where_the_chart_allows_it(rights, namespace):
    review = ("create", "authorization.k8s.io", "subjectaccessreviews", "")
    assert rights().may(review)
    assert not rights(bundles__permissionReviews__enabled=False).may(review)
    assert not rights(watchNamespaces=[namespace("served")]).may(review)


def test_it_may_read_and_restart_workloads_only_where_the_chart_allows_it(rights, namespace):
    def given(**values: Any) -> list[str]:
        chart = rights(bundles__health__enabled=False, **values)
        verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
        return [verb for verb in verbs if chart.may((verb, "apps", "deployments", ""))]

    served = namespace("served")
    chart = rights(rules__restart=True, watchNamespaces=[served])
    assert chart.may(("patch", "apps", "daemonsets", ""), namespace=served)
    assert not chart.may(("patch", "apps", "daemonsets", ""))
    assert given() == []
    assert given(rules__consumers=True) == ["get", "list"]
    assert given(rules__restart=True) == ["get", "list", "patch"]


def test_it_may_watch_releases_where_the_chart_allows_it(rights, namespace):
    watch = ("watch", "apps", "statefulsets", "")
    assert rights().may(watch)
    assert not rights(bundles__health__enabled=False).may(watch)
    served = namespace("served")
    chart = rights(watchNamespaces=[served])
    assert chart.may(watch, namespace=served)
    assert not chart.may(watch)


def test_without_secrets_among_the_kinds_it_still_has_its_own_hash_key(rights, home):
    chart = rights(rules__kinds=["ConfigMap"], bundles__plans__enabled=False)
    assert chart.may(("create", "", "secrets", ""), namespace=home)
    assert not chart.may(("create", "", "secrets", ""), namespace="default")
    assert not chart.may(("update", "", "secrets", ""), namespace=home)


def test_its_hash_key_stands_beside_the_rules_that_it_trusts(rights, namespace, home):
    elsewhere = namespace("rules")
    values = {"rules__kinds": ["ConfigMap"], "rules__namespace": elsewhere}
    chart = rights(**values, bundles__plans__enabled=False)
    create = ("create", "", "secrets", "")
    assert chart.may(create, namespace=elsewhere)
    assert not chart.may(create, namespace=home)


def test_the_signature_policy_is_read_beside_the_rules_also_where_these_arent_served(
    rights, namespace, home
):
    rules, served = namespace("rules"), namespace("served")
    chart = rights(watchNamespaces=[served], rules__namespace=rules)
    for verb in ("get", "list", "watch"):
        assert chart.may((verb, "", "configmaps", ""), namespace=rules)
        assert not chart.may((verb, "", "configmaps", ""), namespace=home)
        assert not chart.may((verb, "", "secrets", ""), namespace=rules), "keys are in ConfigMaps"
    for verb in ("create", "update", "patch", "delete"):
        assert not chart.may((verb, "", "configmaps", ""), namespace=rules)
    assert chart.may(("get", "", "secrets", ""), namespace=rules, name="copyrator-hash-key")


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["x", "rules"]}], ids=str)
def test_where_the_rules_are_served_the_signature_policy_needs_no_role_of_its_own(cluster, values):
    rendered = render(cluster.helm, namespace="x", values={"rules.namespace": "rules"} | values)
    names = {one["metadata"]["name"] for one in rendered.rights if one["kind"] == "Role"}
    assert not any("signature" in name for name in names)


def test_role_bindings_may_refer_only_to_the_cluster_roles_that_are_named(rights):
    binding = "RoleBinding.rbac.authorization.k8s.io"
    chart = rights(rules__kinds=[binding], rules__bindClusterRoles=["edit"])
    bind = ("bind", "rbac.authorization.k8s.io", "clusterroles", "")
    assert chart.may(bind, name="edit")
    assert not chart.may(bind, name="cluster-admin")
    assert chart.may(("create", "rbac.authorization.k8s.io", "rolebindings", ""))


def test_in_some_namespaces_there_are_the_same_rights_and_none_elsewhere(rights, home, namespace):
    one, two = namespace("one"), namespace("two")
    kinds = list(KNOWN_KINDS)
    chart = rights(watchNamespaces=[one, two], rules__bindClusterRoles=["edit"], rules__kinds=kinds)
    clusterwide = {"namespaces"}
    here = [right for right in OPERATOR_MAY if right[2] not in clusterwide]
    for place in (one, two):
        assert [right for right in here if not chart.may(right, namespace=place)] == []
        assert chart.may(("get", "", "namespaces", ""), namespace=place, name=place)
        bind = ("bind", "rbac.authorization.k8s.io", "clusterroles", "")
        assert chart.may(bind, namespace=place, name="edit")
    for place in ("", "default"):
        assert [right for right in OPERATOR_MAY if chart.may(right, namespace=place)] == []
    mark, create = ("mark", "flant.com", "copyrators", ""), ("create", "", "secrets", "")
    watch = ("watch", "", "configmaps", "")
    assert [right for right in OPERATOR_MAY if chart.may(right, namespace=home)] == [
        mark,
        create,
        watch,
    ], "only its hash key, beside the rules that it trusts, and what the signature policy names"
    crds = ("get", "apiextensions.k8s.io", "customresourcedefinitions", "")
    assert not chart.may(crds, name="copyrators.flant.com")


def test_the_lease_is_its_own(rights, home):
    chart = rights()
    for verb in ("get", "update"):
        right = (verb, "coordination.k8s.io", "leases", "")
        assert chart.may(right, namespace=home, name="copyrator")
        assert not chart.may(right, namespace=home, name="another")
        assert not chart.may(right, namespace="kube-system", name="copyrator")


def test_a_second_release_in_a_namespace_has_a_lease_of_its_own(rights, home):
    chart = rights(fullnameOverride="second")
    get = ("get", "coordination.k8s.io", "leases", "")
    assert chart.may(get, namespace=home, name="second")
    assert not chart.may(get, namespace=home, name="copyrator")


def test_werf_may_deploy_in_its_namespace_only(rights, home):
    chart = rights(werf__namespaces=[home])
    here = {"account": "werf", "namespace": home}
    get_namespace = WERF_MAY[-1]
    assert [one for one in WERF_MAY[:-1] if not chart.may(one, **here)] == []
    assert chart.may(get_namespace, **here, name=home)
    assert [one for one in WERF_MAY_NOT if chart.may(one, **here)] == []
    elsewhere = here | {"namespace": "default"}
    assert [one for one in WERF_MAY if chart.may(one, **elsewhere)] == []


def test_werf_gets_the_kinds_that_are_asked_for(rights, home):
    chart = rights(werf__namespaces=[home], werf__kinds=["DaemonSet.apps"])
    here = {"account": "werf", "namespace": home}
    assert chart.may(("patch", "apps", "daemonsets", ""), **here)
    assert not chart.may(("patch", "apps", "deployments", ""), **here)


PEOPLE_MAY = {
    "view": {"get copyrators", "list copyrators", "watch bundles", "list bundles"},
    "edit": {
        "list copyrators",
        "list bundles",
        "create bundles",
        "patch bundles",
        "delete bundles",
    },
    "admin": {"list copyrators", "create bundles", "update bundles", "deletecollection bundles"},
    "copyrator-rule-editor": {"get copyrators", "create copyrators", "delete copyrators"},
    "copyrator-deployer": {
        *("watch bundles", "create bundles", "patch bundles", "delete bundles"),
        *("list jobs", "list pods", "get pods/log"),
    },
    "copyrator-approver": {
        *("get bundles", "patch bundles", "approve bundles"),
        *("get jobs", "list pods", "get pods/log"),
    },
}
PEOPLE_MAY_NOT = {
    "view": {"create bundles", "approve bundles", "patch copyrators", "patch bundles/status"},
    "edit": {
        "approve bundles",
        "create copyrators",
        "patch copyrators",
        "delete copyrators",
        "patch bundles/status",
    },
    "admin": {
        "approve bundles",
        "create copyrators",
        "mark copyrators",
        "patch bundles/status",
        "patch copyrators/status",
    },
    "copyrator-rule-editor": {"create bundles", "mark copyrators", "patch copyrators/status"},
    "copyrator-deployer": {
        *("approve bundles", "patch bundles/status"),
        *("create jobs", "create pods", "create pods/exec", "get copyrators"),
    },
    "copyrator-approver": {
        *("create bundles", "delete bundles", "patch bundles/status"),
        *("create jobs", "create pods", "create pods/exec"),
    },
}


@pytest.mark.parametrize("role", PEOPLE_MAY)
def test_people_may_do_what_the_chart_says_in_their_namespace_only(
    cluster, api, rights, home, namespace, role
):
    rights()
    team, other = namespace("team"), namespace("other")
    cluster.kubectl(
        *("create", "rolebinding", "people", "-n", team), f"--clusterrole={role}", "--user=someone"
    )

    def may(asked: str, where: str = team) -> bool:
        verb, _, rest = asked.partition(" ")
        resource, _, sub = rest.partition("/")
        groups = {"bundles": "operator.werf.dev", "jobs": "batch", "pods": ""}
        group = groups.get(resource, "flant.com")
        wanted = {"verb": verb, "group": group, "resource": resource, "subresource": sub}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": "someone", "resourceAttributes": {**wanted, "namespace": where}},
        }
        answer = api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    until(lambda: all(map(may, PEOPLE_MAY[role])), f"{role} is aggregated")
    assert [asked for asked in PEOPLE_MAY_NOT[role] if may(asked)] == []
    assert [asked for asked in PEOPLE_MAY[role] if may(asked, other)] == []


def test_writing_rules_is_never_aggregated(cluster):
    for role in render(cluster.helm, namespace="x").rights:
        labels = role["metadata"].get("labels", {})
        if role["kind"] == "ClusterRole" and any("aggregate-to" in label for label in labels):
            for rule in role["rules"]:
                assert rule["resources"] == ["bundles"] or set(rule["verbs"]) <= {
                    *("get", "list", "watch")
                }


@pytest.mark.parametrize(
    "values", [{}, FULL, {"watchNamespaces": ["x"]}, {"werf.namespaces": ["x"]}], ids=str
)
def test_no_role_has_all_verbs_and_approving_is_the_approvers_alone(cluster, values):
    """The verb `*` includes approve, and every verb that will be invented."""
    printed = cluster.helm("template", "copyrator", str(CHART), *as_settings(values))
    found = [one for one in yaml.safe_load_all(printed) if one and "rules" in one]
    roles = [one for one in found if one["kind"] in ("Role", "ClusterRole")]
    verbs = {
        one["metadata"]["name"]: {v for r in one["rules"] for v in r["verbs"]} for one in roles
    }
    assert [name for name, given in verbs.items() if "*" in given] == []
    approving = [name for name, given in verbs.items() if "approve" in given]
    assert approving == ([] if "watchNamespaces" in values else ["copyrator-approver"])
    labels = [one["metadata"]["labels"] for one in roles if one["metadata"]["name"] in approving]
    assert not any("aggregate-to" in label for of_one in labels for label in of_one)


def as_settings(values: dict[str, Any]) -> list[str]:
    return [
        part
        for key, value in values.items()
        for part in ("--set-json", f"{key}={json.dumps(value)}")
    ]


@pytest.mark.parametrize(
    ("values", "roles"),
    [
        ({}, ["approver", "bundle-editor", "deployer", "rule-editor", "view"]),
        ({"rbac.aggregate": False}, ["approver", "deployer", "rule-editor"]),
        ({"crds.enabled": False}, []),
        ({"watchNamespaces": ["x"]}, []),
    ],
    ids=str,
)
def test_peoples_roles_come_with_the_crds(cluster, values, roles):
    rendered = render(cluster.helm, namespace="x", values=values)
    bound = [role["metadata"]["name"] for role in rendered.bound_roles]
    found = [one["metadata"]["name"] for one in rendered.rights if one["kind"] == "ClusterRole"]
    assert sorted(set(found) - set(bound)) == [f"copyrator-{role}" for role in roles]


def test_without_rbac_there_is_no_role_and_no_binding(cluster):
    values = {"rbac.create": False, "watchNamespaces": ["x"]}
    for chosen in ({"rbac.create": False}, values):
        kinds = {one["kind"] for one in render(cluster.helm, namespace="x", values=chosen).rights}
        assert not any("Role" in kind for kind in kinds), kinds
    printed = cluster.helm("template", "x", str(CHART), "--set", "rbac.create=false")
    assert "kind: Role" not in printed


def test_an_existing_service_account_is_used_and_none_created(cluster):
    values = {"serviceAccount.create": False, "serviceAccount.name": "mine"}
    rendered = render(cluster.helm, namespace="x", values=values)
    assert "ServiceAccount" not in {one["kind"] for one in rendered.rights}
    subjects = [s["name"] for one in rendered.rights for s in one.get("subjects", ())]
    assert {*subjects, rendered.service_account} == {"mine"}
    with pytest.raises(
        Exception, match=r"serviceAccount\.create=false requires serviceAccount\.name"
    ):
        render(cluster.helm, namespace="x", values={"serviceAccount.create": False})
