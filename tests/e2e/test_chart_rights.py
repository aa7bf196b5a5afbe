"""The rights that the chart gives, asked of a real API server: what is needed, and nothing else."""

import json
import re
import secrets
from typing import Any

import pytest
import yaml
from tests.e2e import rbac
from tests.e2e.installation import apply, rendered
from tests.e2e.operator_process import until
from tests.e2e.rights.roles import rights_of_chart
from tests.e2e.vanishing import vanish

from copyrator.settings.config import KNOWN_KINDS
from demo.chart import CHART, ROOT, SET_IMAGE, render

OPERATOR_MAY = [
    ("watch", "flant.com", "copyrators", ""),
    ("mark", "flant.com", "copyrators", ""),
    ("patch", "flant.com", "copyrators", "status"),
    ("patch", "operator.werf.dev", "bundles", "status"),
    ("watch", "", "namespaces", ""),
    ("create", "", "secrets", ""),
    ("watch", "", "configmaps", ""),
    ("update", "networking.k8s.io", "networkpolicies", ""),
    ("create", "rbac.authorization.k8s.io", "roles", ""),
    ("create", "batch", "jobs", ""),
    ("watch", "apps", "deployments", ""),
    ("get", "", "pods", "log"),
    ("deletecollection", "", "secrets", ""),
    ("patch", "", "events", ""),
]
"""Some of each role: every right is compared with the documents, and taken away in e2e/rights."""
OPERATOR_MAY_NOT = [
    ("create", "flant.com", "copyrators", ""),
    ("delete", "operator.werf.dev", "bundles", ""),
    ("approve", "operator.werf.dev", "bundles", ""),
    ("patch", "", "namespaces", ""),
    ("create", "", "pods", "exec"),
    ("create", "", "serviceaccounts", "token"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles", ""),
    ("escalate", "rbac.authorization.k8s.io", "roles", ""),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
    ("deletecollection", "", "configmaps", ""),
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
    "rules.kinds": ["ConfigMap", "RoleBinding.rbac.authorization.k8s.io"],
    "rules.bindClusterRoles": ["edit"],
    "bundles.allowedSecrets": ["registry-creds"],
    "image.variant": "clouds",
    "bundles.workloadIdentity.enabled": True,
}
"""Every switch on, few kinds: each right of the chart that docs/security.md has to explain."""


def test_every_right_is_explained_and_none_that_isnt_given(cluster):
    given = rights_of_chart(rendered(cluster, "copyrator", FULL, policy=True))
    text = (ROOT / "docs" / "security.md").read_text()
    explained = {
        f"{verb} {resource}"
        for verbs, resource in re.findall(r"^\| ([a-z, ]+) `([a-z./0-9]+)`", text, re.MULTILINE)
        for verb in verbs.split(", ")
    }
    lines = re.findall(r"^\| ([a-z, ]+) each of the rule kinds", text, re.MULTILINE)
    kinds = ("configmaps", "rolebindings.rbac.authorization.k8s.io")
    explained |= {f"{verb} {kind}" for line in lines for verb in line.split(", ") for kind in kinds}
    assert explained == given


WITHOUT: dict[str, Any] = {
    "rules__kinds": ["ConfigMap", "NetworkPolicy.networking.k8s.io"],
    "bundles__plans__enabled": False,
    "bundles__health__enabled": False,
    "bundles__permissionReviews__enabled": False,
}
"""Two kinds, and nothing that can be switched off."""
SECOND: dict[str, Any] = {
    "fullnameOverride": "second",
    "rules__kinds": ["RoleBinding.rbac.authorization.k8s.io"],
    "rules__bindClusterRoles": ["edit"],
    "rules__restart": True,
    "bundles__health__enabled": False,
    "image__variant": "clouds",
    "bundles__workloadIdentity__enabled": True,
    "bundles__allowedServiceAccounts": ["werf", "deployer"],
}


def of_workloads(verbs: str) -> set[str]:
    kinds = ("deployments", "statefulsets", "daemonsets")
    return {f"{verb} {kind}.apps" for verb in verbs.split() for kind in kinds}


def of_kind(kind: str) -> set[str]:
    verbs = ("create", "delete", "get", "list", "patch", "update", "watch")
    return {f"{verb} {kind}" for verb in verbs}


BINDINGS = "rolebindings.rbac.authorization.k8s.io"
SWITCHES: list[tuple[dict[str, Any], set[str]]] = [
    (
        {"bundles.permissionReviews.enabled": True},
        {f"create {where}subjectaccessreviews.authorization.k8s.io" for where in ("", "local")},
    ),
    ({"bundles.health.enabled": True}, of_workloads("list watch")),
    ({"bundles.plans.enabled": True}, {"delete secrets", "deletecollection secrets"}),
    ({"rules.consumers": True}, of_workloads("get list")),
    ({"rules.restart": True}, of_workloads("get list patch")),
    (
        {
            "rules.kinds": ["RoleBinding.rbac.authorization.k8s.io"],
            "rules.bindClusterRoles": ["edit"],
        },
        {"bind clusterroles.rbac.authorization.k8s.io", *of_kind(BINDINGS)},
    ),
]


@pytest.mark.parametrize(("values", "rights"), SWITCHES, ids=[str(one) for one, _ in SWITCHES])
def test_a_switch_gives_its_rights_and_no_others(cluster, values, rights):
    usual = {name.replace("__", "."): value for name, value in WITHOUT.items()}
    before, after = (
        rights_of_chart(rendered(cluster, "x", one)) for one in (usual, usual | values)
    )
    assert after - before == rights


class Rights:
    """The rights of an applied chart; asks the API server's authorizer."""

    def __init__(self, cluster, values: dict[str, Any]) -> None:
        self._api = cluster.api()
        self.home = f"chart-{secrets.token_hex(3)}"
        """The release's namespace."""
        chart = rendered(cluster, self.home, values)
        self.account = chart.service_account
        self._clusterwide = [
            one for one in chart.rights if one["kind"] in ("ClusterRole", "ClusterRoleBinding")
        ]
        self._api.create("/api/v1/namespaces", {"metadata": {"name": self.home}})
        apply(self._api, chart.rights)
        for binding in chart.rights:
            if binding["kind"] in ("ClusterRoleBinding", "RoleBinding"):
                self._wait_for(binding, chart.bound_roles)

    def _wait_for(self, binding, roles) -> None:
        """The authorizer learns of roles and bindings a moment later."""
        namespace, name = binding["metadata"].get("namespace", ""), binding["roleRef"]["name"]
        (rules,) = (
            role["rules"]
            for role in roles
            if (role["metadata"].get("namespace", ""), role["metadata"]["name"])
            == (namespace, name)
        )
        rule, (subject,) = rules[-1], binding["subjects"]
        resource, _, subresource = rule["resources"][-1].partition("/")
        asked = (rule["verbs"][-1], rule["apiGroups"][-1], resource, subresource)
        where = {"namespace": namespace, "name": rule.get("resourceNames", [""])[-1]}
        where["user"] = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
        until(lambda: self.may(asked, **where), f"{name} is in force")

    def may(self, request, *, user: str = "", namespace: str = "", name: str = "") -> bool:
        operator = f"system:serviceaccount:{self.home}:{self.account}"
        return is_allowed(self._api, user or operator, request, namespace, name)

    def remove(self) -> None:
        """Delete what isn't in a namespace, but for people's roles: those are every release's."""
        for one in self._clusterwide:
            name = one["metadata"]["name"]
            if self.home in name:
                self._api.delete(f"{rbac.RBAC}/{one['kind'].lower()}s/{name}")


def is_allowed(api, user: str, request, namespace: str = "", name: str = "") -> bool:
    asked = dict(zip(("verb", "group", "resource", "subresource"), request, strict=True))
    return rbac.may(api, user, **asked, namespace=namespace, name=name)


@pytest.fixture(scope="module")
def rights(cluster):
    """Applies the chart with values, each set of values once, in a namespace of its own."""
    made: dict[str, Rights] = {}

    def apply_with(**values: Any) -> Rights:
        key = json.dumps(values, sort_keys=True)
        if key not in made:
            chosen = {key.replace("__", "."): value for key, value in values.items()}
            made[key] = Rights(cluster, chosen)
        return made[key]

    yield apply_with
    for one in made.values():
        one.remove()
    vanish(cluster, [one.home for one in made.values()])


@pytest.fixture(scope="module")
def served(cluster):
    """A namespace that is served."""
    name = f"served-{secrets.token_hex(3)}"
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    vanish(cluster, [name])


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


def test_it_may_create_tokens_of_the_allowed_accounts_where_the_chart_allows_it(rights, served):
    token = ("create", "", "serviceaccounts", "token")
    assert not rights().may(token, namespace=served, name="werf")
    chart = rights(**SECOND)
    for name in ("werf", "deployer"):
        assert chart.may(token, namespace=served, name=name)
    for name in ("default", "second", ""):
        assert not chart.may(token, namespace=served, name=name)
    identities = {"image__variant": "clouds", "bundles__workloadIdentity__enabled": True}
    here = rights(watchNamespaces=[served], **identities)
    assert here.may(token, namespace=served, name="werf")
    assert not here.may(token, namespace=served, name="deployer")
    assert not here.may(token, namespace=here.home, name="werf")
    usual = rights(bundles__allowedServiceAccounts=None, **identities)
    assert usual.may(token, namespace=served, name="werf"), "null is the default"
    for name in ("default", ""):
        assert not usual.may(token, namespace=served, name=name)


@pytest.mark.parametrize(("values", "own"), [({}, "copyrator"), (SECOND, "second")], ids=["", "2"])
def test_it_binds_the_named_roles_alone_and_its_lease_is_its_own(rights, values, own):
    chart = rights(**values)
    bind = ("bind", "rbac.authorization.k8s.io", "clusterroles", "")
    assert chart.may(bind, name="edit") == (own == "second")
    assert not chart.may(bind, name="cluster-admin")
    for verb in ("get", "update"):
        right = (verb, "coordination.k8s.io", "leases", "")
        assert chart.may(right, namespace=chart.home, name=own)
        for name in {"copyrator", "second"} - {own}:
            assert not chart.may(right, namespace=chart.home, name=name)
        assert not chart.may(right, namespace="kube-system", name=own)


def test_without_secrets_among_the_kinds_it_still_has_its_own_hash_key(rights):
    chart = rights(**WITHOUT)
    home = chart.home
    assert chart.may(("create", "", "secrets", ""), namespace=home)
    assert not chart.may(("create", "", "secrets", ""), namespace="default")
    assert not chart.may(("update", "", "secrets", ""), namespace=home)


def test_the_signature_policy_is_read_beside_the_rules_also_where_these_arent_served(
    rights, namespace, served
):
    rules = namespace("rules")
    chart = rights(watchNamespaces=[served], rules__namespace=rules)
    for verb in ("get", "list", "watch"):
        assert chart.may((verb, "", "configmaps", ""), namespace=rules)
        assert not chart.may((verb, "", "configmaps", ""), namespace=chart.home)
        assert not chart.may((verb, "", "secrets", ""), namespace=rules), "keys are in ConfigMaps"
    for verb in ("create", "update", "patch", "delete"):
        assert not chart.may((verb, "", "configmaps", ""), namespace=rules)
    assert chart.may(("get", "", "secrets", ""), namespace=rules, name="copyrator-hash-key")


def test_in_some_namespaces_there_are_the_same_rights_and_none_elsewhere(rights, namespace):
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
    assert [right for right in OPERATOR_MAY if chart.may(right, namespace=chart.home)] == [
        mark,
        create,
        watch,
    ], "only its hash key, beside the rules that it trusts, and what the signature policy names"
    crds = ("get", "apiextensions.k8s.io", "customresourcedefinitions", "")
    assert not chart.may(crds, name="copyrators.flant.com")


def test_werf_may_deploy_in_its_namespace_only(rights, served):
    chart = rights(werf__namespaces=[served])
    here = {"user": f"system:serviceaccount:{served}:werf", "namespace": served}
    get_namespace = WERF_MAY[-1]
    assert [one for one in WERF_MAY[:-1] if not chart.may(one, **here)] == []
    assert chart.may(get_namespace, **here, name=served)
    assert [one for one in WERF_MAY_NOT if chart.may(one, **here)] == []
    elsewhere = here | {"namespace": "default"}
    assert [one for one in WERF_MAY if chart.may(one, **elsewhere)] == []


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


def test_people_may_do_what_the_chart_says_in_their_namespace_only(api, rights, namespace):
    rights()
    team, other = namespace("team"), namespace("other")
    for role in PEOPLE_MAY:
        rbac.bind(api, rbac.user(f"has-{role}"), role, team)

    def may(role: str, asked: str, where: str = team) -> bool:
        verb, _, rest = asked.partition(" ")
        resource, _, sub = rest.partition("/")
        groups = {"bundles": "operator.werf.dev", "jobs": "batch", "pods": ""}
        wanted = (verb, groups.get(resource, "flant.com"), resource, sub)
        return is_allowed(api, f"has-{role}", wanted, where)

    for role, wanted in PEOPLE_MAY.items():
        until(lambda: all(may(role, asked) for asked in wanted), f"{role} is aggregated")  # noqa: B023
        assert [asked for asked in PEOPLE_MAY_NOT[role] if may(role, asked)] == [], role
        assert [asked for asked in wanted if may(role, asked, other)] == [], role


def test_writing_rules_is_never_aggregated(cluster):
    for role in rendered(cluster, "x", {}).rights:
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
    settings = (("--set-json", f"{key}={json.dumps(one)}") for key, one in values.items())
    printed = cluster.helm("template", "copyrator", str(CHART), *SET_IMAGE, *sum(settings, ()))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = [one for one in yaml.load_all(printed, loader) if one and "rules" in one]
    roles = [one for one in found if one["kind"] in ("Role", "ClusterRole")]
    verbs = {
        one["metadata"]["name"]: {v for r in one["rules"] for v in r["verbs"]} for one in roles
    }
    assert [name for name, given in verbs.items() if "*" in given] == []
    approving = [name for name, given in verbs.items() if "approve" in given]
    assert approving == ([] if "watchNamespaces" in values else ["copyrator-approver"])
    labels = [one["metadata"]["labels"] for one in roles if one["metadata"]["name"] in approving]
    assert not any("aggregate-to" in label for of_one in labels for label in of_one)


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
    chart = rendered(cluster, "x", values)
    bound = [role["metadata"]["name"] for role in chart.bound_roles]
    found = [one["metadata"]["name"] for one in chart.rights if one["kind"] == "ClusterRole"]
    assert sorted(set(found) - set(bound)) == [f"copyrator-{role}" for role in roles]


def test_without_rbac_there_is_no_role_and_no_binding(cluster):
    for more in ((), ("--set-json", 'watchNamespaces=["x"]')):
        printed = cluster.helm(
            "template", "x", str(CHART), *SET_IMAGE, "--set", "rbac.create=false", *more
        )
        assert "kind: Deployment" in printed
        assert re.findall(r"^kind: \w*Role\w*$", printed, re.MULTILINE) == []


def test_an_existing_service_account_is_used_and_none_created(cluster):
    values = {"serviceAccount.create": False, "serviceAccount.name": "mine"}
    chart = rendered(cluster, "x", values)
    assert "ServiceAccount" not in {one["kind"] for one in chart.rights}
    subjects = [s["name"] for one in chart.rights for s in one.get("subjects", ())]
    assert {*subjects, chart.service_account} == {"mine"}
    with pytest.raises(
        Exception, match=r"serviceAccount\.create=false requires serviceAccount\.name"
    ):
        render(cluster.helm, namespace="x", values={"serviceAccount.create": False})
