"""The chart as helm renders it and as a real API server takes it."""

import json
import re
import shutil
import subprocess
import tarfile
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
from generate import chart_readme
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
UMBRELLA_VALUES = """
tags: {ops: true}
global: {region: eu}
copyrator:
  image: {repository: registry.example.com/team/copyrator}
  enabled: true
  nodeSelector: null
  resources: null
  rules: null
  bundles: {allowedImages: null, requireBoundPlans: [prod]}
"""


def test_it_renders_as_a_dependency_with_condition_tags_global_values_and_nulls(cluster, tmp_path):
    (tmp_path / "Chart.yaml").write_text(UMBRELLA)
    (tmp_path / "values.yaml").write_text(UMBRELLA_VALUES)
    shutil.copytree(CHART, tmp_path / "charts" / "copyrator")

    def deployments(*options: str) -> list[dict[str, Any]]:
        found = documents(cluster.helm("template", "p", str(tmp_path), *options))
        return [one for one in found if one["kind"] == "Deployment"]

    (deployment,) = deployments()
    env = {
        one["name"]: one.get("value")
        for one in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert env["COPYRATOR_REQUIRE_BOUND_PLANS"] == "prod"
    assert env["COPYRATOR_ALLOWED_IMAGES"] == "registry.werf.io/werf/werf"
    assert env["COPYRATOR_KINDS"] == "ConfigMap,Secret"
    assert deployments("--set", "copyrator.enabled=false") == []


def umbrella(cluster, folder, values: dict[str, Any], over: dict[str, Any]) -> list[dict[str, Any]]:
    """What a chart with this one as a dependency and values of its own renders, with `over`."""
    (folder / "Chart.yaml").write_text(UMBRELLA)
    (folder / "values.yaml").write_text(
        json.dumps({"copyrator": {"image": {"repository": IMAGE}, **values}})
    )
    (folder / "over.json").write_text(json.dumps({"copyrator": over}))
    shutil.copytree(CHART, folder / "charts" / "copyrator")
    return documents(cluster.helm("template", "p", str(folder), "-f", str(folder / "over.json")))


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


@pytest.mark.parametrize("release", ["y", "1", "null"] if LONG else ["null"])
def test_labels_are_texts_whatever_the_release_is_called(cluster, release):
    printed = cluster.helm("template", release, str(CHART), *SET_IMAGE, "--namespace", "default")
    found = [one["metadata"].get("labels") or {} for one in documents(printed)]
    assert {one.get("app.kubernetes.io/instance", release) for one in found} == {release}


REFUSED: list[tuple[str, Any]] = [
    ("image.tagg", "1"),
    ("image.pullPolicy", "Sometimes"),
    ("image.digest", "latest"),
    ("rules.kinds", []),
    ("rules.kinds", ["secrets"]),
    ("rules.namespace", "Not A Namespace"),
    ("watchNamespaces", ["Not A Namespace"]),
    ("bundles.jobsTTL", -1),
    ("bundles.jobsTTL", "120"),
    ("bundles.timerInterval", 0),
    ("bundles.werfTag", "v 2"),
    ("attest.environments", {"Staging": ["a"]}),
    ("attest.environments", {"staging": ["a,b"]}),
    ("bundles.requireApproval", {"prod": "Never"}),
    ("bundles.allowedPodMetadata", ["a,b"]),
    ("bundles.podLabels", {"team": "a b"}),
    ("bundles.podLabels", {"team": False}),
    ("bundles.podAnnotations", {"team": "a,b"}),
    ("bundles.requireApproval", {"prod=Always,x": "Always"}),
    ("rules.certificateWarning", -1),
    ("rules.certificateWarning", "14d"),
    ("rules.maxRemotes", -1),
    ("bundles.maxPlanJobs", 0),
    ("bundles.maxPlanJobs", 101),
    ("bundles.plans.enabled", "yes"),
    ("bundles.workloadIdentity.enabled", "yes"),
    ("bundles.operatorIdentity.namespaces", ["a,b"]),
    ("bundles.operatorIdentity.namespaces", "platform"),
    ("werf.serviceAccountAnnotations", {"a": 1}),
    ("bundles.permissionReviews.enabled", "yes"),
    ("bundles.health.enabled", "yes"),
    ("rules.consumers", "yes"),
    ("rules.restart", "Consumers"),
    ("bundles.approvalPolicy", True),
    ("image.variant", "cloud"),
    ("signaturePolicy.required", "yes"),
    ("signaturePolicy.default", "deny"),
    ("signaturePolicy.entry", []),
    ("webhook.port", 80),
    ("webhook.secretName", "Not A Name"),
    ("bundles.allowedServiceAccounts", []),
    ("werf.namespaces", "default"),
    ("log.level", "trace"),
    ("proxy.https", "proxy:3128"),
    ("ca.configMapName", "Not A Name"),
    ("metrics.serviceMonitor.interval", "soon"),
    ("metrics.prometheusRule.pollLateSeconds", 0),
    ("metrics.dashbord.enabled", True),
    ("networkPolicy.metricsFrom", [{}]),
    ("networkPolicy.metricsFrom", [{"selector": {}}]),
    ("podAnnotations", {"a": 1}),
    ("uninstall.hook", "yes"),
    ("topologySpreadConstraints", [{"maxSkew": 1}]),
    ("replicaCount", -1),
    ("commonLabels", {"a": 1}),
    ("extraArgs", "--x"),
    ("extraVolumes", [{}]),
    ("extraVolumeMounts", [{"name": "x"}]),
    ("livenessProbe", {"httpGet": {"path": "/"}}),
    ("networkPolicy.egress", [{"from": []}]),
    ("bundles.networkPolicy.egress", [{"from": []}]),
    ("webhook.ingress.host", "Not A Host"),
    ("runner", "kopf run"),
    ("replicas", -1),
    ("replicas", "2"),
]
REFUSED_ENTRIES = [
    *signers(repositories=[]),
    *signers(repositories=["https://host/path"]),
    *signers(repositories=["host/path other"]),
    *signers(anyOf=[]),
    *signers(anyOf=[{}]),
    *signers(anyOf=[{"cosign": {}}]),
    *signers(anyOf=[{"cosign": {"keysFrom": {"name": "x"}}}]),
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


def test_the_crds_can_be_left_out_or_removed_with_the_release(cluster):
    assert chart(cluster, {"crds.enabled": False}).crds == []
    for crd in chart(cluster, {"crds.keep": False}).crds:
        assert "helm.sh/resource-policy" not in crd["metadata"].get("annotations", {})


def test_a_packaged_chart_holds_the_crd_files_byte_for_byte(cluster, tmp_path: Path):
    cluster.helm("package", str(CHART), "--destination", str(tmp_path))
    (archive,) = tmp_path.glob("copyrator-*.tgz")
    with tarfile.open(archive) as packed:
        for source in (ROOT / "crds").glob("*.yaml"):
            member = packed.extractfile(f"copyrator/files/crds/{source.name}")
            assert member is not None
            assert member.read() == source.read_bytes()


def test_the_chart_has_no_symbolic_link_of_which_helm_would_warn(cluster):
    done = subprocess.run(
        [str(cluster.bin_dir / "helm"), "template", "copyrator", str(CHART), *SET_IMAGE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert [path for path in CHART.rglob("*") if path.is_symlink()] == []


def test_the_notes_advise_what_the_installation_guide_advises():
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    guide = (ROOT / "docs" / "installation.md").read_text()
    assert "--reset-then-reuse-values" in notes
    assert "--reset-then-reuse-values" in guide
    assert " --reuse-values" not in notes


def test_chart_and_package_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == copyrator.__version__


def test_each_value_has_a_comment_of_which_the_readmes_table_is_made():
    values = (CHART / "values.yaml").read_text()
    with pytest.raises(ValueError, match=r"image\.pullPolicy has no comment"):
        chart_readme.table(values.replace("  # image pull policy\n", ""))


def test_the_variables_of_the_deployment_are_ones_that_the_operator_reads(cluster):
    known = {str(parameter.envvar) for parameter in run.params if parameter.envvar}
    values = {"rules.name": "main-rule"}
    container = chart(cluster, values).container
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert set(names) <= known
    assert container["args"] == ["run"]
    assert "command" not in container


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


def test_two_replicas_share_a_lease_of_their_releases_name_and_have_names_of_their_own(cluster):
    for name in ("copyrator", "second"):
        found = chart(cluster, {"fullnameOverride": name} if name != "copyrator" else {})
        assert found.deployment["spec"]["replicas"] == 2
        variables = {one["name"]: one for one in found.container["env"]}
        assert variables["COPYRATOR_LEASE_NAME"]["value"] == name
        for variable, path in (("POD_NAME", "name"), ("POD_NAMESPACE", "namespace")):
            field = variables[variable]["valueFrom"]["fieldRef"]["fieldPath"]
            assert field == f"metadata.{path}"


def test_the_rules_are_those_of_the_releases_namespace_by_default(cluster):
    container = chart(cluster).container
    assert {"name": "NAMESPACE", "value": "ops"} in container["env"]
    assert not [variable for variable in container["env"] if variable["name"] == "RULE_NAME"]


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


def test_the_probes_and_the_port_are_the_operators_own(cluster):
    container = chart(cluster).container
    assert container["ports"] == [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]
    asked = {probe: container[probe]["httpGet"] for probe in container if probe.endswith("Probe")}
    assert asked == {
        "startupProbe": {"path": "/healthz", "port": "http"},
        "livenessProbe": {"path": "/healthz", "port": "http"},
        "readinessProbe": {"path": "/readyz", "port": "http"},
    }


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


def test_one_replica_may_be_evicted_at_a_time_but_a_single_one_has_no_budget(cluster):
    (budget,) = rendered_kind(cluster, "PodDisruptionBudget", {})
    assert budget["spec"]["maxUnavailable"] == 1
    assert rendered_kind(cluster, "PodDisruptionBudget", {"replicas": 1}) == []


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
    with pytest.raises(Exception, match=r"serviceMonitor\.enabled requires metrics\.service"):
        chart(cluster, values | {"metrics.service": False})


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


def test_grafanas_sidecar_gets_the_dashboard_as_json(cluster):
    (board,) = rendered_kind(cluster, "ConfigMap", {"metrics.dashboard.enabled": True})
    assert json.loads(board["data"]["copyrator.json"])["title"] == "Copyrator"
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_a_network_policy_lets_in_who_is_named_and_the_other_replica(cluster):
    values = MATRIX["network policy"]
    (policy,) = rendered_kind(cluster, "NetworkPolicy", values)
    ports = [rule["ports"][0]["port"] for rule in policy["spec"]["ingress"]]
    assert ports == ["http", "webhook", "webhook"]
    sources = [rule["from"] for rule in policy["spec"]["ingress"]]
    assert sources[:2] == [values["networkPolicy.metricsFrom"], values["networkPolicy.webhookFrom"]]
    assert policy["spec"]["policyTypes"] == ["Ingress"]


def test_proxy_and_authorities_reach_the_container(cluster):
    container = chart(cluster, MATRIX["proxy and CA"]).container
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["HTTPS_PROXY"] == "http://proxy:3128"
    assert variables["NO_PROXY"] == "10.0.0.1,.svc"
    assert "HTTP_PROXY" not in variables
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "ca"]
    assert variables["SSL_CERT_FILE"] == f"{mount['mountPath']}/ca.crt"


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


def test_it_can_be_left_out(cluster):
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


SOUGHT = MATRIX["values that people look for"]


def test_values_that_people_look_for_reach_the_pod(cluster):
    made = chart(cluster, SOUGHT)
    pod = made.deployment["spec"]["template"]["spec"]
    assert made.deployment["spec"]["replicas"] == 3
    assert made.container["args"] == ["run", "--log-level=debug"]
    assert {"name": "more", "emptyDir": {}} in pod["volumes"]
    assert {"name": "more", "mountPath": "/more"} in made.container["volumeMounts"]
    assert "runAsUser" not in pod["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert made.container["securityContext"]["privileged"] is False
    assert made.container["securityContext"]["allowPrivilegeEscalation"] is False
    probe = made.container["livenessProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (20, 3)


def test_common_labels_are_on_every_object_and_on_the_pods_and_select_nothing(cluster):
    made = chart(cluster, SOUGHT)
    for one in (*made.rights, made.deployment, made.deployment["spec"]["template"]):
        assert one["metadata"]["labels"]["team"] == "platform", one["kind"]
    assert "team" not in made.deployment["spec"]["selector"]["matchLabels"]


def test_replicas_are_counted_by_either_name_and_a_single_one_has_no_budget(cluster):
    assert rendered_kind(cluster, "PodDisruptionBudget", {"replicaCount": 1}) == []
    made = chart(cluster, {"replicaCount": 0, "replicas": 2})
    assert made.deployment["spec"]["replicas"] == 0


def test_on_openshift_no_id_is_fixed(cluster):
    arguments = (
        "template",
        "copyrator",
        str(CHART),
        *SET_IMAGE,
        "--api-versions",
        "security.openshift.io/v1",
    )
    found = documents(cluster.helm(*arguments))
    pods = [
        one["spec"]["template"]["spec"] for one in found if one["kind"] in ("Deployment", "Job")
    ]
    assert len(pods) == 2
    for pod in pods:
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }


def test_egress_is_restricted_where_rules_are_given(cluster):
    (policy,) = rendered_kind(cluster, "NetworkPolicy", SOUGHT)
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy["spec"]["egress"] == SOUGHT["networkPolicy.egress"]


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
    with pytest.raises(Exception, match=r"requires bundles\.networkPolicy\.egress"):
        chart(cluster, {"bundles.networkPolicy.namespaces": ["default"]})


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


def test_identities_of_clouds_reach_the_container_and_the_account(cluster):
    values = MATRIX["identities of clouds"]
    container = chart(cluster, values).container
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["COPYRATOR_OPERATOR_IDENTITY_NAMESPACES"] == "platform,infra-*"
    annotated = [
        one["metadata"]["name"]
        for one in rendered_kind(cluster, "ServiceAccount", values)
        if one["metadata"].get("annotations") == values["werf.serviceAccountAnnotations"]
    ]
    assert annotated == ["werf"]


def test_the_webhooks_ingress_leads_to_its_service_and_path_only(cluster):
    (ingress,) = rendered_kind(cluster, "Ingress", SOUGHT)
    services = {one["metadata"]["name"] for one in rendered_kind(cluster, "Service", SOUGHT)}
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"]) == (
        "hooks.example.com",
        "/hooks/registry",
        "Exact",
    )
    assert path["backend"]["service"]["name"] in services
    assert ingress["spec"]["tls"] == [{"hosts": ["hooks.example.com"], "secretName": "hooks-tls"}]
    for missing in ("webhook.enabled", "webhook.ingress.host"):
        values = {**SOUGHT, missing: "" if missing.endswith("host") else False}
        with pytest.raises(Exception, match=rf"ingress\.enabled requires {missing}"):
            chart(cluster, values)


def test_werf_is_pinned_to_the_version_that_was_tested(cluster):
    variables = {one["name"]: one for one in chart(cluster).container["env"]}
    lines = (ROOT / "docs/facts/werf.md").read_text().splitlines()
    tag = variables["WERF_OPERATOR_TAG"]["value"]
    (marks,) = (one for one in lines if one.startswith("Marks: **[M]** measured with a real werf"))
    assert re.search(rf"\bv?{re.escape(tag)}\b", marks)
    assert (ROOT / "docs/facts/werf-output" / tag / "render.txt").exists()
