"""The chart as helm renders it and as a real API server takes it."""

import json
import re
import shutil
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import kopf.cli
import pytest
import yaml
from tests.e2e.installation import apply, rendered
from tests.e2e.prometheus_operator import prometheus_operator_crds
from tests.long import LONG

import copyrator
from copyrator.api.names import LABEL_JOB_KIND
from copyrator.api.verify import SIGNATURE_ENTRIES
from copyrator.bundles.features.signatures.policy import (
    CONFIG_MAP,
    POLICY_KEY,
    SIGNATURE_POLICY_ENTRIES,
    Default,
    read_policy,
)
from copyrator.cli.core.installation import of_deployment
from copyrator.cli.core.run import run
from demo.chart import CHART, IMAGE, ROOT, SET_IMAGE, render
from images.product import CLOUDS, KEYLESS
from images.product import suffix as suffix_of
from localcluster.errors import CommandFailedError

SIGNERS: dict[str, Any] = {
    "image.variant": "keyless",
    "signaturePolicy.required": True,
    "signaturePolicy.default": "Deny",
    "signaturePolicy.entries": [
        {
            "repositories": ["registry.example.com:5000/team/*", "*"],
            "anyOf": [
                {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}},
                {
                    "cosign": {
                        "issuer": "https://accounts.example.com",
                        "subjectPattern": ".*@example[.]com",
                        "trustedRootFrom": {"kind": "Secret", "name": "root"},
                    }
                },
                {
                    "notation": {
                        "subjects": ["C=US, ST=WA, O=example"],
                        "caFrom": {"kind": "ConfigMap", "name": "ca"},
                        "tsaFrom": {"kind": "ConfigMap", "name": "tsa"},
                        "signingAuthorityFrom": {"kind": "ConfigMap", "name": "authority"},
                    }
                },
            ],
        }
    ],
}
"""Each field that an entry may have."""


def signers(**change: Any) -> list[dict[str, Any]]:
    """An entry of the policy that is right, but for the change."""
    keys = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}
    return [{"repositories": ["host/path"], "anyOf": [keys], **change}]


MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one replica": {"replicas": 1},
    "one rule of another namespace": {"rules.namespace": "default", "rules.name": "main-rule"},
    "rules of tenants": {"rules.tenantRules": True},
    "rollouts": {
        "rules.consumers": True,
        "rules.restart": True,
    },
    "certificates": {"rules.certificateWarning": 86400},
    "other clusters": {"rules.maxRemotes": 3},
    "no admission policy": {
        "rules.admissionPolicy": False,
        "bundles.approvalPolicy.enabled": False,
    },
    "plans": {
        "bundles.requireApproval": {"prod-*": "Always", "*": "OnRisk"},
        "attest.environments": {"staging": ["staging", "team-*"]},
        "bundles.allowedPodMetadata": ["team", "a.example/b=c"],
        "bundles.podLabels": {"sidecar.istio.io/inject": "true", "team": "a"},
        "bundles.maxPlanJobs": 2,
    },
    "identities of clouds": {
        "image.variant": "clouds",
        "bundles.workloadIdentity.enabled": True,
        "bundles.operatorIdentity.namespaces": ["platform", "infra-*"],
        "werf.namespaces": ["default"],
        "werf.serviceAccountAnnotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/a"},
    },
    "network of Jobs": {
        "bundles.networkPolicy.namespaces": ["default", "kube-public"],
        "bundles.networkPolicy.egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
    },
    "no plans": {"bundles.plans.enabled": False},
    "no reviews": {"bundles.permissionReviews.enabled": False},
    "no health": {"bundles.health.enabled": False},
    "more kinds": {
        "rules.kinds": ["Secret", "RoleBinding.rbac.authorization.k8s.io", "ResourceQuota"],
        "rules.bindClusterRoles": ["edit"],
    },
    "werf in two namespaces": {"werf.namespaces": ["default", "kube-public"]},
    "some namespaces": {"watchNamespaces": ["default", "kube-public"]},
    "webhook": {
        "webhook.enabled": True,
        "webhook.secretName": "hook",
        "webhook.serviceAnnotations": {"a": "b"},
    },
    "signature policy": SIGNERS,
    "no CRDs": {"crds.enabled": False},
    "image by digest": {"image.digest": "sha256:" + "0" * 64, "imagePullSecrets": [{"name": "x"}]},
    "monitoring": {
        "metrics.serviceMonitor.enabled": True,
        "metrics.prometheusRule.enabled": True,
        "metrics.dashboard.enabled": True,
        "metrics.serviceMonitor.labels": {"release": "prometheus"},
        "metrics.dashboard.annotations": {"grafana_folder": "Operators"},
    },
    "network policy": {
        "networkPolicy.enabled": True,
        "networkPolicy.metricsFrom": [{"namespaceSelector": {}}],
        "networkPolicy.webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
        "webhook.enabled": True,
        "webhook.secretName": "hook",
    },
    "proxy and CA": {
        "proxy.https": "http://proxy:3128",
        "proxy.noProxy": "10.0.0.1,.svc",
        "ca.configMapName": "authorities",
    },
    "without what is there by default": {
        "metrics.service": False,
        "podDisruptionBudget.enabled": False,
        "crds.keep": False,
    },
    "values that people look for": {
        "replicaCount": 3,
        "commonLabels": {"team": "platform"},
        "extraArgs": ["--log-level=debug"],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "podSecurityContext.runAsUser": None,
        "securityContext.privileged": False,
        "livenessProbe.periodSeconds": 20,
        "serviceAccount.create": False,
        "serviceAccount.name": "mine",
        "rbac.aggregate": False,
        "networkPolicy.enabled": True,
        "networkPolicy.egress": [{"ports": [{"port": 443, "protocol": "TCP"}]}],
        "webhook.enabled": True,
        "webhook.secretName": "hook",
        "webhook.ingress.enabled": True,
        "webhook.ingress.host": "hooks.example.com",
        "webhook.ingress.tlsSecretName": "hooks-tls",
        "webhook.ingress.className": "nginx",
        "webhook.ingress.annotations": {"a": "b"},
    },
    "everything on the pod": {
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "resources": {},
        "serviceAccount.annotations": {"e": "f"},
    },
}

TOGETHER: list[tuple[str, ...]] = [
    ("defaults",),
    (
        "one replica",
        "no admission policy",
        "no plans",
        "no reviews",
        "no health",
        "no CRDs",
        "without what is there by default",
    ),
    (
        "rules of tenants",
        "rollouts",
        "certificates",
        "other clusters",
        "plans",
        "identities of clouds",
        "more kinds",
        "image by digest",
        "monitoring",
        "proxy and CA",
        "everything on the pod",
    ),
    ("one rule of another namespace", "some namespaces", "signature policy", "network policy"),
    ("werf in two namespaces", "webhook", "network of Jobs"),
    ("values that people look for",),
]
"""What of the matrix goes together: `make test-long` renders each alone, too."""
assert {name for names in TOGETHER for name in names} == MATRIX.keys()
CHOSEN = [*TOGETHER, *([(name,) for name in MATRIX] if LONG else ())]


@pytest.fixture(scope="module")
def monitoring_kinds(cluster):
    """The cluster has the Prometheus operator's CRDs, as upstream ships them."""
    files = prometheus_operator_crds("servicemonitors", "prometheusrules")
    named = [part for path in files for part in ("-f", str(path))]
    cluster.kubectl("apply", "--server-side", *named)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *named)
    yield
    cluster.kubectl("delete", "--ignore-not-found", *named)


def manifests_of(of):
    return [*of.crds, *of.rights, of.deployment]


def documents(printed: str) -> list[dict[str, Any]]:
    """The objects of a text of helm's."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [one for one in yaml.load_all(printed, loader) if one]


def chart(cluster, values=None, namespace="ops"):
    """The chart with these values, as a cluster with admission policies gets it."""
    return rendered(cluster, namespace, values or {}, policy=True)


def rendered_kind(cluster, kind, values):
    return [one for one in chart(cluster, values).rights if one["kind"] == kind]


def test_helm_lint_finds_nothing(cluster):
    printed = cluster.helm("lint", "--strict", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in printed
    assert not re.search(r"\[(WARNING|ERROR)\]", printed)


def test_each_value_may_be_null_and_no_section_loses_its_protections(cluster):
    """Helm's way to delete a default: a section has its defaults, a map of free form is empty."""
    names = yaml.safe_load((CHART / "values.yaml").read_text()).keys()
    free = {"resources", "podSecurityContext", "securityContext"}
    within = {
        "image.variant",
        "bundles.allowedImages",
        "rules.kinds",
        "webhook.port",
        "metrics.dashboard",
    }
    plain = chart(cluster)
    for several in (names - free - {"image"}, within):
        assert chart(cluster, dict.fromkeys(several)) == plain
    changed = {name: chart(cluster, {name: None}) for name in free}
    assert all(found != plain and found.rights == plain.rights for found in changed.values())
    assert "resources" not in changed["resources"].container
    assert changed["securityContext"].container["securityContext"] == {}


UMBRELLA = """
apiVersion: v2
name: platform
version: 0.1.0
dependencies: [{name: copyrator, version: "*", condition: copyrator.enabled, tags: [ops]}]
"""


def umbrella(cluster, folder, values: dict[str, Any], over: dict[str, Any]) -> list[dict[str, Any]]:
    """What a chart with this one as a dependency and values of its own renders, with `over`."""
    (folder / "Chart.yaml").write_text(UMBRELLA)
    ours = {"image": {"repository": IMAGE}, "enabled": True, **values}
    around = {"tags": {"ops": True}, "global": {"region": "eu"}, "copyrator": ours}
    (folder / "values.yaml").write_text(json.dumps(around))
    (folder / "over.json").write_text(json.dumps({"copyrator": over}))
    shutil.copytree(CHART, folder / "charts" / "copyrator", dirs_exist_ok=True)
    return documents(cluster.helm("template", "p", str(folder), "-f", str(folder / "over.json")))


def test_it_renders_as_a_dependency_with_condition_tags_global_values_and_nulls(cluster, tmp_path):
    bundles = {"allowedImages": None, "requireBoundPlans": ["prod"]}
    values = {"nodeSelector": None, "resources": None, "rules": None, "bundles": bundles}
    found = umbrella(cluster, tmp_path, values, {})
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    for name, value in {
        "REQUIRE_BOUND_PLANS": "prod",
        "ALLOWED_IMAGES": "registry.werf.io/werf/werf",
        "KINDS": "ConfigMap,Secret",
    }.items():
        assert at(deployment, f"CONTAINER/env/COPYRATOR_{name}/value") == value
    left = umbrella(cluster, tmp_path, values, {"enabled": False})
    assert [one for one in left if one["kind"] == "Deployment"] == []


def test_null_deletes_what_the_chart_around_it_set(cluster, tmp_path):
    free = {"commonLabels": {"team": "a", "kept": "b"}, "nodeSelector": {"pool": "ops"}}
    pods = {"podLabels": {"team": "a"}, "podAnnotations": {"team": "a"}}
    deep = {"resources": {"limits": {"cpu": "1"}}, "bundles": {"podLabels": {"team": "a"}}}
    over = {name: dict.fromkeys(one) for name, one in (pods | free).items()}
    over["commonLabels"] = {"team": None}
    over |= {"resources": {"limits": {"cpu": None}}, "bundles": {"podLabels": {"team": None}}}

    found = umbrella(cluster, tmp_path, {**free, **pods, **deep}, over)

    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    pod, labels = deployment["spec"]["template"], deployment["metadata"]["labels"]
    assert labels["kept"] == "b"
    assert "team" not in labels | pod["metadata"]["labels"]
    assert "annotations" not in pod["metadata"]
    assert "nodeSelector" not in pod["spec"]
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["limits"] == {"memory": "512Mi"}
    (marks,) = (one for one in container["env"] if one["name"] == "COPYRATOR_JOB_POD_LABELS")
    assert marks["value"] == "sidecar.istio.io/inject=false"


def test_a_protection_that_the_chart_around_it_set_isnt_deleted_by_null(cluster, tmp_path):
    values = {"bundles": {"requireApproval": {"prod": "Always"}}}
    over = {"bundles": {"requireApproval": {"prod": None}}}
    with pytest.raises(CommandFailedError, match="requireApproval/prod"):
        umbrella(cluster, tmp_path, values, over)


EVERYTHING: dict[str, Any] = {
    "webhook": {"enabled": True, "ingress": {"enabled": True, "host": "hooks.example.com"}},
    "metrics": {
        "serviceMonitor": {"enabled": True},
        "prometheusRule": {"enabled": True},
        "dashboard": {"enabled": True},
    },
    "networkPolicy": {"enabled": True},
    "signaturePolicy": {"entries": signers()},
    "notifications": {"secrets": ["chat"]},
    "attest": {"environments": {"prod": ["prod"]}},
}


def written(cluster, folder, values: dict[str, Any], *options: str) -> str:
    """What helm renders with a file of values, where numbers are others than with --set."""
    (folder / "values.json").write_text(json.dumps(values))
    file = ("-f", str(folder / "values.json"), "--kube-version", "1.34.0")
    return str(cluster.helm("template", "release", str(CHART), *SET_IMAGE, *file, *options))


@pytest.mark.parametrize("name", ["123", "1e3", "true", "null"])
def test_names_are_texts_whatever_they_are(cluster, tmp_path, name):
    """A namespace, a Secret or an account may be called 123."""
    egress = [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]
    names = {
        "nameOverride": name,
        "fullnameOverride": name,
        "serviceAccount": {"name": name},
        "watchNamespaces": [name],
        "priorityClassName": name,
        "ca": {"configMapName": name, "key": name},
        "bundles": {"networkPolicy": {"namespaces": [name], "egress": egress}},
        "werf": {"namespaces": [name]},
        "commonLabels": {"team": name},
    }
    secret = {"secretName": name, "secretKey": name}
    ingress = {**EVERYTHING["webhook"]["ingress"], "className": name, "tlsSecretName": name}
    webhook = {**EVERYTHING["webhook"], **secret, "ingress": ingress}

    values = {**EVERYTHING, **names, "webhook": webhook}
    text = json.dumps(values).replace(f'"{name}"', '"a-name"')

    found, plain = (
        documents(written(cluster, tmp_path, one, "--namespace", namespace))
        for one, namespace in ((values, name), (json.loads(text), "a-name"))
    )

    assert shape(found) == shape(plain)


def shape(value: Any) -> Any:
    """The types of all values."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    return [shape(one) for one in value] if isinstance(value, list) else type(value)


def test_large_numbers_of_a_file_are_written_out(cluster, tmp_path):
    names = ("jobsTTL", "timerInterval", "timerIdle")
    rules = ("certificateWarning",)
    values = {"bundles": dict.fromkeys(names, 2592000), "rules": dict.fromkeys(rules, 2592000)}
    printed = written(cluster, tmp_path, values)
    assert "e+06" not in printed
    assert printed.count('value: "2592000"') == len(names) + len(rules)


class OnceLoader(yaml.SafeLoader):
    """As Flux and Kustomize read YAML: no key twice."""

    def construct_mapping(self, node, deep=False):
        names = [key.value for key, _ in node.value]
        assert len(names) == len({*names}), names
        return super().construct_mapping(node, deep)


def test_no_label_is_there_twice_and_the_selectors_stay(cluster, tmp_path):
    standard = ("name", "instance", "version", "managed-by", "component")
    ours = {f"app.kubernetes.io/{name}": "other" for name in standard}
    labels = {**ours, "helm.sh/chart": "other", "release": "a", "team": "a"}
    aggregation = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "false" for role in ROLES}
    metrics = {
        name: {"enabled": True, "labels": {"release": "b", "team": "b"}}
        for name in EVERYTHING["metrics"]
    }
    values = {
        **EVERYTHING,
        "commonLabels": {**labels, **aggregation},
        "podLabels": {**labels, "team": "c"},
        "metrics": metrics,
        "webhook": {**EVERYTHING["webhook"], "secretName": "hooks"},
    }
    printed = written(cluster, tmp_path, values)
    found = list(filter(None, yaml.load_all(printed, OnceLoader)))

    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= pod.items()
    assert pod["team"] == "c"
    assert pod["app.kubernetes.io/managed-by"] == "other"
    (monitor,) = (one for one in found if one["kind"] == "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "b"
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in found if one["kind"] == "Service"]
    assert [one["metadata"]["name"] for one in services if selected <= labels_of(one).items()] == [
        "release-copyrator-metrics"
    ]
    (view,) = (one for one in found if one["metadata"]["name"].endswith("-view"))
    assert labels_of(view)["rbac.authorization.k8s.io/aggregate-to-view"] == "true"


ROLES = ("view", "edit", "admin")


def labels_of(found: dict[str, Any]) -> dict[str, str]:
    return found["metadata"]["labels"]


REFUSED: list[tuple[str, Any]] = [
    ("image.tagg", "1"),
    ("image.digest", "latest"),
    ("rules.kinds", []),
    ("rules.namespace", "Not A Namespace"),
    ("bundles.jobsTTL", -1),
    ("bundles.timerInterval", 0),
    ("attest.environments", {"Staging": ["a"]}),
    ("bundles.requireApproval", {"prod": "Never"}),
    ("bundles.allowedPodMetadata", ["a,b"]),
    ("bundles.podLabels", {"team": "a b"}),
    ("bundles.requireApproval", {"prod=Always,x": "Always"}),
    ("rules.certificateWarning", -1),
    ("bundles.maxPlanJobs", 101),
    ("bundles.operatorIdentity.namespaces", ["a,b"]),
    ("werf.serviceAccountAnnotations", {"a": 1}),
    ("rules.consumers", "yes"),
    ("bundles.approvalPolicy", True),
    ("image.variant", "cloud"),
    ("signaturePolicy.default", "deny"),
    ("signaturePolicy.entry", []),
    ("webhook.port", 80),
    ("bundles.allowedServiceAccounts", []),
    ("log.level", "trace"),
    ("proxy.https", "proxy:3128"),
    ("metrics.prometheusRule.pollLateSeconds", 0),
    ("metrics.dashbord.enabled", True),
    ("networkPolicy.metricsFrom", [{"selector": {}}]),
    ("uninstall.hook", "yes"),
    ("topologySpreadConstraints", [{"maxSkew": 1}]),
    ("commonLabels", {"a": 1}),
    ("extraVolumes", [{}]),
    ("livenessProbe", {"httpGet": {"path": "/"}}),
    ("networkPolicy.egress", [{"from": []}]),
    ("webhook.ingress.host", "Not A Host"),
    ("runner", "kopf run"),
    ("replicas", -1),
]
REFUSED_ENTRIES = [
    *signers(repositories=[]),
    *signers(repositories=["https://host/path"]),
    *signers(anyOf=[]),
    *signers(anyOf=[{}]),
    *signers(anyOf=[{"cosign": {}}]),
    *signers(anyOf=[{"cosign": {"issuer": "https://x"}}]),
    *signers(anyOf=[{"notation": {"subjects": ["*"]}}]),
    *signers(anyof=[]),
    *signers(),
]
"""Entries of a signature policy, of which only the last is right."""


def test_the_schema_refuses(cluster):
    """All that is wrong is told at once, each by its place; of one place there is one value."""
    left = REFUSED
    while left:
        now = dict(reversed(left))
        left = [(path, value) for path, value in left if now[path] is not value]
        said = refusal(cluster, now)
        assert [(path, value) for path, value in now.items() if not tells(said, path, value)] == []
    said = refusal(cluster, {"signaturePolicy.entries": REFUSED_ENTRIES})
    told = re.findall(r"at '/signaturePolicy/entries/(\d+)", said)
    assert {*map(int, told)} == {*range(len(REFUSED_ENTRIES) - 1)}


def refusal(cluster, values: dict[str, Any]) -> str:
    match = "values don't meet the specifications of the schema"
    with pytest.raises(Exception, match=match) as refused:
        render(cluster.helm, namespace="copyrator", values=values)
    return str(refused.value)


def tells(said: str, path: str, value: Any) -> bool:
    """Whether helm finds fault with the value there, or with a name in the path or in the value."""
    names = [f"invalid propertyName '{name}'" for name in value] if isinstance(value, dict) else []
    if any(name in said for name in names):
        return True
    parts = path.split(".")
    unknown = (
        rf"at '/{'/'.join(parts[:at])}': additional properties .*'{part}'"
        for at, part in enumerate(parts)
    )
    place = rf"at '/{'/'.join(parts)}['/]"
    return any(re.search(pattern, said) for pattern in (place, *unknown))


CANT_WORK: list[tuple[dict[str, Any], str]] = [
    ({"image.repository": ""}, "image.repository is empty, .*: set it"),
    ({"image.keyless": True}, "are image.variant=keyless"),
    ({"image.clouds": True}, "image.variant=clouds now"),
    ({"rules.kinds": ["Secret", "Role"]}, "rules.kinds: .* no namespaced kind Role: add its group"),
    ({"werf.kinds": ["Job"]}, "werf.kinds: .* no namespaced kind Job: add its group"),
    ({"rules.bindClusterRoles": ["edit"]}, "add RoleBinding.rbac.authorization.k8s.io to rules"),
    (
        {"bundles.requireApproval": {"*": "Always"}, "bundles.plans.enabled": False},
        "requireApproval requires bundles.plans.enabled",
    ),
    (
        {"bundles.requireApproval": {"*": "Always"}, "bundles.approvalPolicy.enabled": False},
        "requireApproval requires bundles.approvalPolicy.enabled",
    ),
    (
        {"bundles.requireBoundPlans": ["prod"], "bundles.guard.enabled": False},
        "requireBoundPlans requires bundles.guard.enabled",
    ),
    (
        {"bundles.workloadIdentity.enabled": True, "bundles.plans.enabled": False},
        "workloadIdentity requires bundles.plans.enabled",
    ),
    (
        {"bundles.operatorIdentity.namespaces": ["infra"], "image.variant": "keyless"},
        "operatorIdentity requires image.variant=clouds",
    ),
    (SIGNERS | {"image.variant": "plain"}, "signaturePolicy.entries .* image.variant=keyless"),
    (
        {"metrics.serviceMonitor.enabled": True, "metrics.service": False},
        "serviceMonitor.enabled requires metrics.service",
    ),
    (
        {"bundles.networkPolicy.namespaces": ["default"]},
        "requires bundles.networkPolicy.egress",
    ),
    *(
        ({"webhook.ingress.enabled": True, **more}, f"ingress.enabled requires {missing}")
        for missing, more in (
            ("webhook.enabled", {}),
            ("webhook.ingress.host", {"webhook.enabled": True, "webhook.secretName": "hook"}),
        )
    ),
    (
        {"notifications.entries": [{"name": "a", "urlFrom": {"secretName": "a", "key": "url"}}]},
        "notifications.entries require image.variant=keyless",
    ),
]
"""Values that pass the schema and can't work together."""


@pytest.mark.parametrize(
    ("values", "says"), CANT_WORK, ids=lambda one: one if str(one) == one else ""
)
def test_what_cant_work_together_is_refused_with_the_remedy(cluster, values, says):
    with pytest.raises(CommandFailedError, match=says):
        chart(cluster, values)


def test_rights_that_are_bound_by_hand_arent_missed(cluster):
    values = {"bundles.requireApproval": {"*": "Always"}, "bundles.plans.enabled": False}
    assert chart(cluster, values | {"rbac.create": False}).deployment


@pytest.mark.parametrize("names", CHOSEN, ids=", ".join)
@pytest.mark.usefixtures("monitoring_kinds")
def test_every_object_is_accepted_by_the_api_server(cluster, api, accepted, names):
    values = {path: value for name in names for path, value in MATRIX[name].items()}
    policy = int(api.get("/version")["minor"]) >= 30
    found = manifests_of(rendered(cluster, "default", values, policy=policy))
    assert found
    for manifest in found:
        text = json.dumps(manifest, sort_keys=True)
        if text not in accepted:
            apply(api, [manifest], dryRun="All", fieldValidation="Strict")
            accepted.add(text)


@pytest.fixture(scope="module")
def accepted() -> set[str]:
    """Objects that the API server has accepted: most are the same whatever the values are."""
    return set()


def test_the_crds_are_the_ones_in_crds_and_nothing_else(cluster):
    sources = {
        body["metadata"]["name"]: body
        for body in (yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml"))
    }
    assert sorted(sources) == ["bundles.operator.werf.dev", "copyrators.flant.com"]
    made = {one["metadata"]["name"]: one for one in chart(cluster).crds}
    assert made.keys() == sources.keys()
    for name, body in made.items():
        assert body["spec"] == sources[name]["spec"]
        assert body["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        assert body["metadata"]["annotations"] == sources[name]["metadata"].get("annotations", {})
    assert chart(cluster, {"crds.enabled": False}).crds == []
    for crd in chart(cluster, {"crds.keep": False}).crds:
        assert "helm.sh/resource-policy" not in crd["metadata"].get("annotations", {})


def test_the_chart_has_no_symbolic_link_of_which_helm_would_warn():
    assert [path for path in CHART.rglob("*") if path.is_symlink()] == []


SOUGHT = MATRIX["values that people look for"]
POLICY = MATRIX["network policy"]
PROXIED = MATRIX["proxy and CA"]
CLOUDY = MATRIX["identities of clouds"]
HEALTHZ = {"path": "/healthz", "port": "http"}
REACHES: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "defaults": (
        {},
        "Deployment",
        {
            "spec/replicas": 2,
            "CONTAINER/args": ["run"],
            "CONTAINER/command": None,
            "CONTAINER/ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "CONTAINER/startupProbe/httpGet": HEALTHZ,
            "CONTAINER/livenessProbe/httpGet": HEALTHZ,
            "CONTAINER/readinessProbe/httpGet": {"path": "/readyz", "port": "http"},
            "CONTAINER/env/COPYRATOR_LEASE_NAME/value": "copyrator",
            "CONTAINER/env/POD_NAME/valueFrom/fieldRef/fieldPath": "metadata.name",
            "CONTAINER/env/POD_NAMESPACE/valueFrom/fieldRef/fieldPath": "metadata.namespace",
            "CONTAINER/env/RULE_NAME": None,
        },
    ),
    "another name has another lease": (
        {"fullnameOverride": "second"},
        "Deployment",
        {"CONTAINER/env/COPYRATOR_LEASE_NAME/value": "second"},
    ),
    "what people look for": (
        SOUGHT,
        "Deployment",
        {
            "spec/replicas": 3,
            "CONTAINER/args": ["run", "--log-level=debug"],
            "CONTAINER/volumeMounts/more/mountPath": "/more",
            "POD/volumes/more/emptyDir": {},
            "POD/securityContext/runAsUser": None,
            "POD/securityContext/runAsNonRoot": True,
            "CONTAINER/securityContext/privileged": False,
            "CONTAINER/securityContext/allowPrivilegeEscalation": False,
            "CONTAINER/livenessProbe/periodSeconds": 20,
            "CONTAINER/livenessProbe/failureThreshold": 3,
            "spec/selector/matchLabels/team": None,
        },
    ),
    "replicaCount wins": (
        {"replicaCount": 0, "replicas": 2},
        "Deployment",
        {"spec/replicas": 0},
    ),
    "proxy and authorities": (
        PROXIED,
        "Deployment",
        {
            "CONTAINER/env/HTTPS_PROXY/value": "http://proxy:3128",
            "CONTAINER/env/NO_PROXY/value": "10.0.0.1,.svc",
            "CONTAINER/env/HTTP_PROXY": None,
            "CONTAINER/env/SSL_CERT_FILE/value": "/var/run/copyrator/ca/ca.crt",
            "CONTAINER/volumeMounts/ca/mountPath": "/var/run/copyrator/ca",
        },
    ),
    "one replica may be evicted": ({}, "PodDisruptionBudget", {"spec/maxUnavailable": 1}),
    "dashboard": (
        {"metrics.dashboard.enabled": True},
        "ConfigMap",
        {"metadata/labels/grafana_dashboard": "1"},
    ),
    "who may come in": (
        POLICY,
        "NetworkPolicy",
        {
            "spec/policyTypes": ["Ingress"],
            "spec/ingress/0/from": POLICY["networkPolicy.metricsFrom"],
            "spec/ingress/0/ports/0/port": "http",
            "spec/ingress/1/from": POLICY["networkPolicy.webhookFrom"],
            "spec/ingress/1/ports/0/port": "webhook",
            "spec/ingress/2/ports/0/port": "webhook",  # the other replica
        },
    ),
    "where it may go": (
        SOUGHT,
        "NetworkPolicy",
        {"spec/policyTypes": ["Ingress", "Egress"], "spec/egress": SOUGHT["networkPolicy.egress"]},
    ),
    "the webhook's ingress": (
        SOUGHT,
        "Ingress",
        {
            "spec/rules/0/host": "hooks.example.com",
            "spec/rules/0/http/paths/0/path": "/hooks/registry",
            "spec/rules/0/http/paths/0/pathType": "Exact",
            "spec/rules/0/http/paths/0/backend/service/name": "copyrator-webhook",
            "spec/rules/0/http/paths/1": None,
            "spec/tls": [{"hosts": ["hooks.example.com"], "secretName": "hooks-tls"}],
        },
    ),
}


def at(found: Any, path: str) -> Any:
    """A value of an object; an entry of a list by its number or name, None where there is none."""
    pod = "spec/template/spec"
    path = path.replace("CONTAINER/", "POD/containers/0/").replace("POD/", f"{pod}/")
    for part in path.split("/"):
        if isinstance(found, list):
            found = dict(enumerate(found)) | {one.get("name"): one for one in found}
            found = {str(key): one for key, one in found.items()}
        found = (found or {}).get(part)
    return found


@pytest.mark.parametrize(("values", "kind", "fields"), REACHES.values(), ids=REACHES)
def test_a_value_reaches_its_object(cluster, values, kind, fields):
    (found,) = (one for one in manifests_of(chart(cluster, values)) if one["kind"] == kind)
    assert {path: at(found, path) for path in fields} == fields


@pytest.mark.parametrize("values", [{"replicas": 1}, {"replicaCount": 1}], ids=str)
def test_a_single_replica_has_no_disruption_budget(cluster, values):
    assert rendered_kind(cluster, "PodDisruptionBudget", values) == []


def test_the_dashboard_is_json_and_an_account_has_its_annotations(cluster):
    (board,) = rendered_kind(cluster, "ConfigMap", {"metrics.dashboard.enabled": True})
    assert json.loads(board["data"]["copyrator.json"])["title"] == "Copyrator"
    annotations = {
        one["metadata"]["name"]: one["metadata"].get("annotations")
        for one in rendered_kind(cluster, "ServiceAccount", CLOUDY)
    }
    assert annotations["werf"] == CLOUDY["werf.serviceAccountAnnotations"]


def test_on_openshift_no_id_is_fixed(cluster):
    options = ("--api-versions", "security.openshift.io/v1")
    found = documents(cluster.helm("template", "copyrator", str(CHART), *SET_IMAGE, *options))
    pods = [one for one in found if one["kind"] in ("Deployment", "Job")]
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert [at(one, "POD/securityContext") for one in pods] == [security] * 2


def test_the_variables_of_the_deployment_are_ones_that_the_operator_reads(cluster):
    known = {str(parameter.envvar) for parameter in run.params if parameter.envvar}
    values = {"rules.name": "main-rule"}
    container = chart(cluster, values).container
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert set(names) <= known


@pytest.mark.parametrize("served", [[], ["team-a", "team-b"]], ids=["all", "two namespaces"])
def test_kopf_run_starts_the_module_in_the_namespaces_that_are_served(cluster, served):
    """As kopf's own command line reads it, and copyrator's the settings; extraArgs are refused."""
    values = {"runner": "kopf", "watchNamespaces": served, "rules.kinds": ["Secret"]}
    made = chart(cluster, values)
    container = made.container
    assert [*container["command"], *container["args"][:1]] == ["kopf", "run"]
    given = kopf.cli.run.make_context("run", container["args"][1:]).params
    assert given["modules"] == ("copyrator.kopf_main",)
    assert (given["clusterwide"], given["namespaces"]) == (not served, tuple(served))
    usual = chart(cluster, values | {"runner": "copyrator"})
    settings = of_deployment(made.deployment).settings
    assert settings == of_deployment(usual.deployment).settings
    assert (settings.kinds, settings.watch_namespaces) == (("Secret",), tuple(served))
    with pytest.raises(Exception, match="with runner=kopf set variables in extraEnv"):
        chart(cluster, values | {"extraArgs": ["--log-level=debug"]})


def test_the_pod_passes_the_restricted_profile(cluster, namespace):
    home = namespace("chart", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    template = chart(cluster, namespace=home).deployment["spec"]["template"]
    template["spec"].pop("serviceAccountName")
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= {"name": "copyrator", "namespace": home}
    create = ("create", "--dry-run=server", "-f", "-")
    assert "created" in cluster.kubectl(*create, input=json.dumps(pod))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Exception, match="violates PodSecurity"):
        cluster.kubectl(*create, input=json.dumps(pod))


def test_kinds_whose_plural_is_guessed_get_the_right_resource(cluster):
    """The template's guess, against every namespaced kind that a real API server has."""
    printed = cluster.kubectl("api-resources", "--namespaced", "--no-headers")
    found = {}
    for line in printed.splitlines():
        plural, *_, version, _namespaced, kind = line.split()
        group = version.rpartition("/")[0]
        if kind != "CopyratorRule" and "metrics" not in group:
            found[f"{kind}.{group}" if group else kind] = (group, plural)
    found = {kind: wanted for kind, wanted in found.items() if "." not in kind or "k8s.io" in kind}
    assert len(found) > 15
    made = chart(cluster, {"rules.kinds": list(found)})
    rules = next(one for one in made.bound_roles if one["kind"] == "ClusterRole")["rules"]
    granted = {
        (group, plural)
        for rule in rules
        if "create" in rule["verbs"] and "update" in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert granted >= set(found.values())


def test_prometheus_finds_the_metrics_of_every_replica(cluster):
    values = {"metrics.serviceMonitor.enabled": True, "metrics.serviceMonitor.labels": {"a": "b"}}
    (monitor,) = rendered_kind(cluster, "ServiceMonitor", values)
    (service,) = rendered_kind(cluster, "Service", values)
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert service["spec"]["clusterIP"] == "None"
    pod = chart(cluster).deployment["spec"]["template"]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "times", [{"bundles.timerInterval": 2400}, {"metrics.prometheusRule.pollLateSeconds": 7200}]
)
def test_the_alerts_are_those_of_the_file_with_the_chosen_time(cluster, times):
    values = {
        "metrics.prometheusRule.enabled": True,
        "rules.certificateWarning": 2592000,
        **times,
    }
    (rule,) = rendered_kind(cluster, "PrometheusRule", values)
    alerts = {one["alert"]: one["expr"] for one in rule["spec"]["groups"][0]["rules"]}
    assert alerts["CopyratorPollLate"].endswith("> 7200")
    assert alerts["CopyratorCertificateExpiring"].endswith("<= 2592000")
    file = Path(__file__).resolve().parents[2] / "charts" / "copyrator" / "files" / "alerts.yaml"
    assert len(alerts) == file.read_text().count("- alert: ")


def policies(cluster, values):
    found = rendered_kind(cluster, "ConfigMap", values)
    return [one for one in found if one["metadata"]["name"] == CONFIG_MAP]


def test_a_signature_policy_is_what_the_operator_reads_where_it_reads_it(cluster):
    values = SIGNERS | {"rules.namespace": "rules"}
    (policy,) = policies(cluster, values)
    assert policy["metadata"]["namespace"] == "rules"
    read = read_policy(yaml.safe_load(policy["data"][POLICY_KEY]))
    assert read.default is Default.DENY
    (entry,) = read.entries
    assert len(entry.any_of) == len(SIGNERS["signaturePolicy.entries"][0]["anyOf"])
    container = chart(cluster, values).container
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["NAMESPACE"] == "rules"
    assert variables["COPYRATOR_REQUIRE_SIGNATURE_POLICY"] == "true"


def test_without_entries_the_signature_policy_is_the_administrators_own_unless_all_is_denied(
    cluster,
):
    assert policies(cluster, {}) == []
    assert policies(cluster, {"signaturePolicy.required": True}) == []
    (denying,) = policies(cluster, {"signaturePolicy.default": "Deny"})
    assert read_policy(yaml.safe_load(denying["data"][POLICY_KEY])).default is Default.DENY


def test_no_policy_that_the_operator_refuses_passes_the_schema_by_its_size(cluster):
    (entry,) = signers()

    def of_size(more: int) -> dict[str, Any]:
        large = {**entry, "anyOf": entry["anyOf"] * (SIGNATURE_ENTRIES + more)}
        return {
            "signaturePolicy.entries": [large, *[entry] * (SIGNATURE_POLICY_ENTRIES - 1 + more)]
        }

    assert policies(cluster, of_size(0))
    said = refusal(cluster, of_size(1))
    for place in ("entries", "entries/0/anyOf"):
        assert f"at '/signaturePolicy/{place}': maxItems" in said


@pytest.mark.parametrize(
    ("chosen", "suffix"),
    [
        ({}, ""),
        ({"image.keyless": False, "image.clouds": False}, ""),  # as --reuse-values has them
        ({"image.variant": KEYLESS}, suffix_of(KEYLESS)),
        ({"image.variant": CLOUDS}, suffix_of(CLOUDS)),
    ],
    ids=str,
)
def test_an_image_variant_has_a_tag_of_its_own(cluster, chosen, suffix):
    def image(values: dict[str, Any]) -> str:
        name: str = chart(cluster, {**chosen, **values}).container["image"]
        return name

    assert image({}) == f"{IMAGE}:{copyrator.__version__}{suffix}"
    assert image({"image.tag": "1.2.3"}) == f"{IMAGE}:1.2.3{suffix}"
    digest = "sha256:" + "0" * 64
    assert image({"image.digest": digest}) == f"{IMAGE}@{digest}"


def hooks(cluster, *settings):
    only = ("--show-only", "templates/uninstall.yaml", *settings)
    printed = cluster.helm(
        "template", "copyrator", str(CHART), *SET_IMAGE, "--namespace", "default", *only
    )
    return {one["kind"]: one for one in documents(printed)}


def test_the_job_before_an_uninstall_may_run_and_stops_this_release_only(cluster, namespace):
    found = hooks(cluster, "--set", "fullnameOverride=second,imagePullSecrets[0].name=x")
    for manifest in found.values():
        assert manifest["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    (patch, look, _release) = found["Role"]["rules"]
    assert (patch["resourceNames"], patch["verbs"]) == (["second"], ["patch"])
    assert look["verbs"] == ["list"]
    pod = found["Job"]["spec"]["template"]
    assert "--stop=second" in pod["spec"]["containers"][0]["args"]
    assert "--helm-release=copyrator" in pod["spec"]["containers"][0]["args"]
    operator = chart(cluster).deployment["spec"]
    selected = operator["selector"]["matchLabels"].items()
    assert not selected <= pod["metadata"]["labels"].items(), "it would wait for itself"
    home = namespace("hook", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    pod["spec"].pop("serviceAccountName")
    body = {"apiVersion": "v1", "kind": "Pod", **pod}
    body["metadata"] |= {"name": "uninstall", "namespace": home}
    create = ("create", "--dry-run=server", "--validate=strict", "-f", "-")
    assert "created" in cluster.kubectl(*create, input=json.dumps(body))
    with pytest.raises(Exception, match="could not find template"):
        hooks(cluster, "--set", "uninstall.hook=false")


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ((), 4),
        (("--kube-version", "1.34.1"), 4),
        (("--kube-version", "1.29.9"), 0),
        (("--api-versions", "apps/v1/Deployment"), 0),
    ],
    ids=str,
)
def test_without_a_cluster_the_version_decides_about_all_policies(cluster, options, number):
    found = documents(cluster.helm("template", "copyrator", str(CHART), *SET_IMAGE, *options))
    assert [one["kind"] for one in found].count("ValidatingAdmissionPolicy") == number


def test_common_labels_are_on_every_object_and_on_the_pods_and_select_nothing(cluster):
    made = chart(cluster, SOUGHT)
    for one in (*made.rights, made.deployment, made.deployment["spec"]["template"]):
        assert one["metadata"]["labels"]["team"] == "platform", one["kind"]


def test_jobs_reach_only_what_is_named_in_the_namespaces_that_are_named(cluster, api):
    values = MATRIX["network of Jobs"]
    found = rendered_kind(cluster, "NetworkPolicy", values)
    assert [policy["metadata"]["namespace"] for policy in found] == ["default", "kube-public"]
    for policy in found:
        apply(api, [policy], dryRun="All")
        spec = policy["spec"]
        (chosen,) = spec["podSelector"]["matchExpressions"]
        assert (chosen["key"], chosen["operator"]) == (LABEL_JOB_KIND, "Exists")
        assert (spec["policyTypes"], "ingress" in spec) == (["Ingress", "Egress"], False)
        assert spec["egress"] == values["bundles.networkPolicy.egress"]


def test_egress_to_metadata_addresses_is_for_the_operators_own_identity_alone(cluster):
    identity = {"image.variant": "clouds", "bundles.operatorIdentity.namespaces": ["platform"]}
    values = {**SOUGHT, **identity}
    (policy,) = rendered_kind(cluster, "NetworkPolicy", values)
    *given, own = policy["spec"]["egress"]
    assert given == SOUGHT["networkPolicy.egress"]
    ranges = {peer["ipBlock"]["cidr"] for peer in own["to"]}
    assert all(ip_network(one).num_addresses == 1 for one in ranges)
    assert {"169.254.169.254/32", "169.254.170.23/32"} < ranges
    assert {port["port"] for port in own["ports"]} == {80, 987, 988}


def test_werf_is_pinned_to_the_version_that_was_tested(cluster):
    variables = {one["name"]: one for one in chart(cluster).container["env"]}
    lines = (ROOT / "docs/facts/werf.md").read_text().splitlines()
    tag = variables["WERF_OPERATOR_TAG"]["value"]
    (marks,) = (one for one in lines if one.startswith("Marks: **[M]** measured with a real werf"))
    assert re.search(rf"\bv?{re.escape(tag)}\b", marks)
    assert (ROOT / "docs/facts/werf-output" / tag / "render.txt").exists()
