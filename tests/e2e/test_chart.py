"""The chart as helm renders it and as a real API server takes it."""

import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import copyrator
from copyrator.cli.run import run
from demo.chart import CHART, ROOT, render

MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one rule of another namespace": {"rules.namespace": "default", "rules.name": "main-rule"},
    "rules of tenants": {"rules.tenantRules": True},
    "more kinds": {
        "rules.kinds": ["Secret", "RoleBinding.rbac.authorization.k8s.io", "ResourceQuota"],
        "rules.bindClusterRoles": ["edit"],
    },
    "werf in two namespaces": {"werf.namespaces": ["default", "kube-public"]},
    "webhook": {
        "webhook.enabled": True,
        "webhook.secretName": "hook",
        "webhook.serviceAnnotations": {"a": "b"},
    },
    "no CRDs": {"crds.enabled": False},
    "image by digest": {"image.digest": "sha256:" + "0" * 64, "imagePullSecrets": [{"name": "x"}]},
    "everything on the pod": {
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "resources": {},
        "serviceAccount.annotations": {"e": "f"},
    },
}


def manifests_of(rendered):
    return [*rendered.crds, *rendered.rights, rendered.deployment]


def test_helm_lint_finds_nothing(cluster):
    printed = cluster.helm("lint", "--strict", str(CHART))
    assert "1 chart(s) linted, 0 chart(s) failed" in printed
    assert not re.search(r"\[(WARNING|ERROR)\]", printed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("image.tagg", "1"),
        ("image.pullPolicy", "Sometimes"),
        ("image.digest", "latest"),
        ("rules.kinds", []),
        ("rules.kinds", ["secrets"]),
        ("rules.namespace", "Not A Namespace"),
        ("bundles.jobsTTL", -1),
        ("bundles.jobsTTL", "120"),
        ("bundles.timerInterval", 0),
        ("bundles.werfTag", "v 2"),
        ("webhook.port", 80),
        ("webhook.secretName", "Not A Name"),
        ("bundles.allowedServiceAccounts", []),
        ("werf.namespaces", "default"),
        ("log.level", "trace"),
        ("replicas", 2),
    ],
)
def test_the_schema_refuses(cluster, path, value):
    with pytest.raises(Exception, match="values don't meet the specifications of the schema"):
        render(cluster.helm, namespace="copyrator", values={path: value})


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX.keys())
def test_every_object_is_accepted_by_the_api_server(cluster, values):
    rendered = render(cluster.helm, namespace="default", values=values)
    text = yaml.safe_dump_all(manifests_of(rendered))
    dry_run = ("apply", "--server-side", "--force-conflicts", "--dry-run=server")
    printed = cluster.kubectl(*dry_run, "--validate=strict", "-f", "-", input=text)
    assert len(printed.splitlines()) == len(manifests_of(rendered))


def test_the_crds_are_the_ones_in_crds_and_nothing_else(cluster):
    sources = {
        body["metadata"]["name"]: body
        for body in (yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml"))
    }
    assert sorted(sources) == ["bundles.operator.werf.dev", "copyrators.flant.com"]
    rendered = {one["metadata"]["name"]: one for one in render(cluster.helm, namespace="x").crds}
    assert rendered.keys() == sources.keys()
    for name, body in rendered.items():
        assert body["spec"] == sources[name]["spec"]
        assert body["metadata"]["annotations"].pop("helm.sh/resource-policy") == "keep"
        assert body["metadata"]["annotations"] == sources[name]["metadata"].get("annotations", {})


def test_the_crds_can_be_left_out_or_removed_with_the_release(cluster):
    assert render(cluster.helm, namespace="x", values={"crds.enabled": False}).crds == []
    for crd in render(cluster.helm, namespace="x", values={"crds.keep": False}).crds:
        assert "helm.sh/resource-policy" not in crd["metadata"].get("annotations", {})


def test_a_packaged_chart_holds_the_crd_files_byte_for_byte(cluster, tmp_path: Path):
    cluster.helm("package", str(CHART), "--destination", str(tmp_path))
    (archive,) = tmp_path.glob("copyrator-*.tgz")
    with tarfile.open(archive) as packed:
        for source in (ROOT / "crds").glob("*.yaml"):
            member = packed.extractfile(f"copyrator/files/crds/{source.name}")
            assert member is not None
            assert member.read() == source.read_bytes()


def test_git_holds_no_second_copy_of_the_crds():
    link = CHART / "files" / "crds"
    assert link.is_symlink()
    assert link.resolve() == ROOT / "crds"
    tracked = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "charts"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [path for path in tracked if "files/crds" in path] == ["charts/copyrator/files/crds"]


def test_chart_and_package_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == copyrator.__version__


def test_the_readme_names_every_value():
    text = (CHART / "README.md").read_text()
    documented = re.findall(r"^\| `([^`]+)` \|", text, flags=re.MULTILINE)
    assert documented == list(_paths(yaml.safe_load((CHART / "values.yaml").read_text())))


def _paths(values: dict[str, Any], prefix: str = ""):
    for name, value in values.items():
        if isinstance(value, dict) and value and prefix == "" and name != "resources":
            yield from _paths(value, f"{name}.")
        else:
            yield prefix + name


def test_the_variables_of_the_deployment_are_ones_that_the_operator_reads(cluster):
    known = {str(parameter.envvar) for parameter in run.params if parameter.envvar}
    values = {"rules.name": "main-rule"}
    container = render(cluster.helm, namespace="x", values=values).container
    names = [variable["name"] for variable in container["env"]]
    assert len(names) == len(set(names))
    assert set(names) - known == {"POD_NAME", "POD_NAMESPACE"}
    assert container["args"] == ["run"]


def test_the_rules_are_those_of_the_releases_namespace_by_default(cluster):
    container = render(cluster.helm, namespace="ops").container
    assert {"name": "NAMESPACE", "value": "ops"} in container["env"]
    assert not [variable for variable in container["env"] if variable["name"] == "RULE_NAME"]


def test_the_pod_passes_the_restricted_profile(cluster, namespace):
    home = namespace("chart", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    template = render(cluster.helm, namespace=home).deployment["spec"]["template"]
    template["spec"].pop("serviceAccountName")
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= {"name": "copyrator", "namespace": home}
    create = ("create", "--dry-run=server", "-f", "-")
    assert "created" in cluster.kubectl(*create, input=json.dumps(pod))
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(Exception, match="violates PodSecurity"):
        cluster.kubectl(*create, input=json.dumps(pod))


def test_the_probes_and_the_port_are_the_operators_own(cluster):
    container = render(cluster.helm, namespace="x").container
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
    rendered = render(cluster.helm, namespace="x", values={"rules.kinds": list(found)})
    rules = next(one for one in rendered.rights if one["kind"] == "ClusterRole")["rules"]
    granted = {
        (group, plural)
        for rule in rules
        if "create" in rule["verbs"] and "update" in rule["verbs"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    assert granted >= set(found.values())
