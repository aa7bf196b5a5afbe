"""The rights that the chart gives, asked of a real API server: what is needed, and nothing else."""

from typing import Any

import pytest
import yaml

from demo.chart import render

OPERATOR_MAY = [
    ("list", "flant.com", "copyrators", ""),
    ("watch", "flant.com", "copyrators", ""),
    ("patch", "flant.com", "copyrators", ""),
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
    *((verb, "batch", "jobs", "") for verb in ("create", "delete", "patch", "watch")),
    ("watch", "", "pods", ""),
    ("get", "", "pods", "log"),
    ("create", "", "events", ""),
    ("get", "", "events", ""),
    ("patch", "", "events", ""),
]
OPERATOR_MAY_NOT = [
    ("create", "flant.com", "copyrators", ""),
    ("update", "flant.com", "copyrators", ""),
    ("delete", "flant.com", "copyrators", ""),
    ("delete", "operator.werf.dev", "bundles", ""),
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
    ("deletecollection", "", "secrets", ""),
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
        cluster.kubectl("delete", kind, f"{home}:copyrator", "--ignore-not-found")


def test_the_operator_may_do_both_jobs_everywhere_and_nothing_else(rights):
    chart = rights()
    assert [one for one in OPERATOR_MAY if not chart.may(one)] == []
    assert [one for one in OPERATOR_MAY_NOT if chart.may(one)] == []


def test_it_may_read_its_own_crds_by_name(rights):
    chart = rights()
    get = ("get", "apiextensions.k8s.io", "customresourcedefinitions", "")
    assert chart.may(get, name="copyrators.flant.com")
    assert chart.may(get, name="bundles.operator.werf.dev")
    assert not chart.may(get, name="other.example.com")


def test_kinds_give_exactly_their_rights(rights):
    chart = rights(rules__kinds=["ConfigMap", "NetworkPolicy.networking.k8s.io"])
    assert chart.may(("update", "networking.k8s.io", "networkpolicies", ""))
    assert not chart.may(("update", "networking.k8s.io", "ingresses", ""))
    assert chart.may(("create", "", "configmaps", ""))
    assert chart.may(("get", "", "secrets", "")), "a Bundle's credentials are still read"
    assert not chart.may(("create", "", "secrets", ""))
    assert not chart.may(("update", "", "secrets", ""))


def test_without_secrets_among_the_kinds_it_still_has_its_own_hash_key(rights, home):
    chart = rights(rules__kinds=["ConfigMap"])
    assert chart.may(("create", "", "secrets", ""), namespace=home)
    assert not chart.may(("create", "", "secrets", ""), namespace="default")
    assert not chart.may(("update", "", "secrets", ""), namespace=home)


def test_its_hash_key_stands_beside_the_rules_that_it_trusts(rights, namespace, home):
    elsewhere = namespace("rules")
    chart = rights(rules__kinds=["ConfigMap"], rules__namespace=elsewhere)
    create = ("create", "", "secrets", "")
    assert chart.may(create, namespace=elsewhere)
    assert not chart.may(create, namespace=home)


def test_role_bindings_may_refer_only_to_the_cluster_roles_that_are_named(rights):
    binding = "RoleBinding.rbac.authorization.k8s.io"
    chart = rights(rules__kinds=[binding], rules__bindClusterRoles=["edit"])
    bind = ("bind", "rbac.authorization.k8s.io", "clusterroles", "")
    assert chart.may(bind, name="edit")
    assert not chart.may(bind, name="cluster-admin")
    assert chart.may(("create", "rbac.authorization.k8s.io", "rolebindings", ""))


def test_the_lease_is_its_own(rights, home):
    chart = rights()
    update = ("update", "coordination.k8s.io", "leases", "")
    assert chart.may(update, namespace=home, name="copyrator")
    assert not chart.may(update, namespace=home, name="another")
    assert not chart.may(update, namespace="kube-system", name="copyrator")


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
