"""In what werf 2.67.0, 2.75.3 and 3.2.0 differ: each text with the versions that print it.

The outputs that were recorded whole are compared in test_plan_text.py and test_render.py.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e import rbac
from tests.e2e.standin.conftest import (
    CHANGES_PLANNED,
    PLAYED,
    VERSIONS,
    Charts,
    Werf,
    detail,
    each_version,
    judged,
    only_stand_in,
    only_werf_3,
)
from tests.e2e.standin.test_failures import BAD_POD, ENDLESS_JOB, INVALID_SERVICE

from copyrator.api.reasons.bundles import BundleReason
from localcluster import Api, Cluster

pytestmark = detail
UNIT = Path(__file__).parents[2] / "unit"
LISTENING = """
apiVersion: v1
kind: Service
metadata: {name: x}
spec: {ports: [{port: PORT}]}
"""
PRIORITY = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: "{{ .Release.Namespace }}"}
value: 1
"""


def last_lines(output: str) -> str:
    """What follows the line with werf's running time."""
    return re.split(r"^Running time .*\n", output, flags=re.MULTILINE)[-1].strip()


def failed(werf: Werf, *causes: str) -> str:
    """The error of a failed release with one cause, or several."""
    before = f'Error: release install: failed release "demo" (namespace: "{werf.namespace}"): '
    if len(causes) == 1:
        return before + causes[0]
    listed = "".join(f"\n  * {cause}" for cause in causes)
    return f"{before}{len(causes)} errors occurred:{listed}"


MEASURED = {
    (case["case"].rpartition(",")[0], case["werf"]): case["log"].strip()
    for case in yaml.safe_load((UNIT / "bundles" / "werf_errors.yaml").read_text())
    if case["from"] == "measured"
}
OLDEST = {  # measured with 2.75.3, and 2.67.0 has a layer less, by its source
    "retryable on webhook error: server-side apply: ": "",
    'dry-run apply resource "Deployment/d": server-side apply: ': "dry-run apply resource "
    '"Deployment/d": ',
    "retry mapper NoMatch timed out after 10s: get GVK to GVR mapping: ": "",
}


def manifest(kind: str, name: str, more: str = "", version: str = "v1") -> str:
    return f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}}}\n{more}"


DEPLOYMENT = """
spec:
  replicas: 0
  selector: {matchLabels: {app: APP}}
  template:
    metadata: {labels: {app: APP}}
    spec: {containers: [{name: c, image: x}]}
"""
HOOK = ENDLESS_JOB.replace("name: endless", "name: hook, annotations: {helm.sh/hook: pre-install}")
NUMBERED = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ann, MEMBER: {a: VALUE}}\n"
CASES = {
    "objects of another release": {
        "a": manifest("ConfigMap", "mine"),
        "b": manifest("ConfigMap", "mine2"),
    },
    "a kind that isn't served": {"a": manifest("Thing", "t", version="example.com/v1")},
    "an object twice": {"a": manifest("ConfigMap", "dup"), "b": manifest("ConfigMap", "dup")},
    "a text of a template": {"a": '{{ fail "hunter2" }}'},
    "a value that is missing": {"a": "a: {{ .Values.a.b.c }}"},
    "a hook that fails": {"a": HOOK.replace('[sleep, "1000"]', '["false"]')},
    "an immutable field": {
        "a": manifest("Deployment", "d", DEPLOYMENT.replace("APP", "b"), version="apps/v1")
    },
    "an invalid name": {"a": manifest("ConfigMap", "a_b")},
    "an invalid pod": {"a": BAD_POD},
    "a rollback that fails": {"a": INVALID_SERVICE},
    "fields of the wrong type": {
        "a": manifest("Service", "x", 'spec: {clusterIP: 5, ports: [{port: "abc"}]}\n')
    },
    "a number in a ConfigMap": {"a": manifest("ConfigMap", "num", "data: {a: 5}\n")},
    "a timeout": {"a": ENDLESS_JOB},
    "a number as an annotation": {
        "a": NUMBERED.replace("MEMBER", "annotations").replace("VALUE", "5")
    },
    "a number as a label": {"a": NUMBERED.replace("MEMBER", "labels").replace("VALUE", "5")},
    "a boolean as a label": {"a": NUMBERED.replace("MEMBER", "labels").replace("VALUE", "true")},
}
"""The charts' templates, beside the first one."""
BEFORE = {
    "an immutable field": {
        "a": manifest("Deployment", "d", DEPLOYMENT.replace("APP", "a"), version="apps/v1")
    },
    "a rollback that fails": {},
}
"""What was deployed before."""


def measured(case: str, version: str) -> str:
    """What the real werf of a version printed."""
    if version != "2.67.0":
        return MEASURED[case, version]
    text = MEASURED[case, "2.75.3"]
    for newer, older in OLDEST.items():
        text = text.replace(newer, older)
    return text


def compared(text: str, namespace: str) -> list[str]:
    """An error with names in place of what is another each time; causes in any order.

    The API server, too, lists a typed patch's errors in any order.
    """
    text = text.replace(f'"{namespace}', '"app')
    text = re.sub(r'(chart at) "[^"]*"', r'\1 "CHART"', text)
    first, *causes = text.splitlines()
    is_list = first.endswith(": errors:") or all(cause.startswith("  * ") for cause in causes)
    return [first, *(sorted(causes) if is_list else causes)]


def refuses(version: str, case: str) -> bool:
    """Whether a version refuses a chart; some only werf 3."""
    return version == "3.2.0" or (case, "2.75.3") in MEASURED


@pytest.mark.parametrize(
    ("version", "case"),
    [(version, case) for version in VERSIONS for case in CASES if refuses(version, case)],
    indirect=["version"],
)
def test_an_error_is_the_measured_one(werf: Werf, charts: Charts, case: str, version: str) -> None:
    if case in BEFORE:
        charts.push(**BEFORE[case])
        werf.apply()
    if case == "objects of another release":
        for name in ("mine", "mine2"):
            body: dict[str, Any] = {"metadata": {"name": name}}
            werf.api.create(f"/api/v1/namespaces/{werf.namespace}/configmaps", body)
    charts.push("1.1.0", **CASES[case])
    limit = {"WERF_TIMEOUT": "5"} if case == "a timeout" else {}

    code, output = werf.run("bundle", "apply", "--auto-rollback", WERF_TAG="1.1.0", **limit)

    assert code == 1
    wanted = compared(measured(case, version), "app")
    assert compared(last_lines(output), werf.namespace) == wanted


@each_version
def test_an_object_that_does_not_fit_its_schema_is_refused_by_werf_3_in_the_plan(
    werf: Werf, charts: Charts, version: str
) -> None:
    charts.push(service=LISTENING.replace("PORT", "http"))

    plan = werf.plan()
    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0")
    without, _ = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_NO_RESOURCE_VALIDATION="1")

    fault = "validate Service/x: /spec/ports/0/port: got string, want integer"
    layers = "locally validate resources: validate resource schemas"
    if version == "3.2.0":
        assert (plan.code, plan.last) == (1, f"Error: release plan install: {layers}: {fault}")
        assert (code, last_lines(output)) == (1, f"Error: release install: {layers}: {fault}")
    else:
        assert (plan.code, plan.last) == (2, CHANGES_PLANNED[version])
        port = '.spec.ports[port="http",protocol="TCP"].port'
        assert f"{port}: expected numeric (int or float), got string\n" in output
    assert without == 1
    assert "create: Service/x" in werf.report["failedOperations"], "it was tried"


@each_version
@pytest.mark.parametrize("port", ["80", '"80"'])
def test_several_faults_are_on_the_next_lines_and_what_fits_passes(
    werf: Werf, charts: Charts, version: str, port: str
) -> None:
    x = LISTENING.replace("PORT", port)
    charts.push(x=x, z=x.replace("name: x", "name: z"))

    plan = werf.plan()

    if version == "3.2.0" and port == '"80"':
        assert plan.code == 1
        first, *causes = last_lines(plan.output).splitlines()
        layers = "locally validate resources: validate resource schemas"
        assert first == f"Error: release plan install: {layers}: 2 errors occurred:"
        fault = "/spec/ports/0/port: got string, want integer"
        assert causes == [f"  * validate Service/{name}: {fault}" for name in "xz"]
    else:
        assert (plan.code, plan.last) == (2, CHANGES_PLANNED[version])


def test_an_annotation_that_is_no_text_is_left_out_by_werf_2(werf: Werf, charts: Charts) -> None:
    werf.env[PLAYED] = "2.75.3"
    number = NUMBERED.replace("MEMBER", "annotations").replace("VALUE", "1, b: kept")
    charts.push(x=number)

    werf.apply()

    annotations = werf.object("ann")["metadata"]["annotations"]
    assert ("a" in annotations, annotations.get("b")) == (False, "kept")


@only_werf_3
def test_an_annotation_in_quotes_passes_in_werf_3(werf: Werf, charts: Charts) -> None:
    werf.env[PLAYED] = "3.2.0"
    charts.push(x=NUMBERED.replace("MEMBER", "annotations").replace("VALUE", '"1"'))

    assert werf.plan().code == 2


@only_stand_in
@pytest.mark.parametrize(
    ("deployed", "planned", "code", "last"),
    [
        ("2.67.0", "2.67.0", 0, "No changes planned for"),
        ("2.67.0", "2.75.3", 0, "No changes planned for"),
        ("2.75.3", "2.67.0", 0, "No changes planned for"),
        ("3.2.0", "3.2.0", 0, "No changes planned for"),
        ("3.2.0", "2.67.0", 2, "Error: changes planned"),
        ("3.2.0", "2.75.3", 2, "Error: changes planned"),
        ("2.67.0", "3.2.0", 3, "Error: no resource changes planned, but still must install"),
        ("2.75.3", "3.2.0", 3, "Error: no resource changes planned, but still must install"),
    ],
)
def test_a_release_of_another_major_version_is_stored_anew_once(
    werf: Werf, charts: Charts, deployed: str, planned: str, code: int, last: str
) -> None:
    charts.push()
    werf.apply(**{PLAYED: deployed})
    werf.env[PLAYED] = planned

    plan = werf.plan()

    assert (plan.code, plan.last.startswith(last)) == (code, True), plan.output
    assert plan.operations == set()
    assert "┌ Update" not in plan.output
    werf.apply()
    assert werf.plan().code == 0


@pytest.fixture
def account(werf: Werf, cluster: Cluster, api: Api) -> Callable[..., None]:
    """Has werf run as an account that may all in its namespace, and more in others."""

    def may(name: str, namespace: str, rule: dict[str, Any]) -> None:
        subject = rbac.account(werf.namespace, "deployer")
        rbac.grant(api, subject, rule, namespace=namespace, name=name)

    accounts = f"/api/v1/namespaces/{werf.namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "deployer"}})
    kubeconfig = cluster.kubeconfig_for_service_account(werf.namespace, "deployer")
    werf.env["WERF_KUBE_CONFIG"] = str(kubeconfig)
    may("all", werf.namespace, rbac.rule("*", "*", group="*"))
    return may


@each_version
def test_objects_in_no_namespace_are_tracked_by_events_in_default(
    werf: Werf, charts: Charts, api: Api, account: Callable[..., None], version: str
) -> None:
    own = werf.namespace
    priorities = rbac.rule("*", "*", group="scheduling.k8s.io")
    account(own, "", priorities)
    charts.push(priority=PRIORITY)

    code, output = werf.run("bundle", "apply", WERF_TAG="1.0.0")

    assert code == 1, version
    error = last_lines(output)
    assert error.startswith(failed(werf, "").rstrip())
    assert "unrecoverable watch error for /v1, Resource=events: " in error
    who = f'User "system:serviceaccount:{own}:deployer" cannot list resource "events"'
    assert f'{who} in API group "" in the namespace "default"' in error
    assert api.get(f"/apis/scheduling.k8s.io/v1/priorityclasses/{own}")["value"] == 1
    assert werf.report["status"] == "failed"
    assert list(werf.revisions("demo")) == [1]  # failed; pending-install with another kubedog

    werf.apply(KUBEDOG_DISABLE_EVENTS="1")

    assert werf.revisions("demo")[2] == "deployed"
    events = rbac.rule("list watch", "events")
    account(own, "default", events)
    charts.push("1.1.0", greeting="bye", priority=PRIORITY)
    werf.apply("1.1.0")
    for namespace in ("default", ""):
        rbac.revoke(api, own, namespace)
    api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{own}")


STUCK = """
apiVersion: v1
kind: ConfigMap
metadata: {name: stuck, finalizers: [example.com/hold]}
"""


@only_werf_3
def test_a_dismiss_ends_by_its_timeout(werf: Werf, charts: Charts) -> None:
    werf.env[PLAYED] = "3.2.0"
    charts.push(stuck=STUCK)
    werf.apply()
    place = ("--namespace", werf.namespace, "--release", "demo")

    code, output = werf.run("dismiss", *place, WERF_TIMEOUT="2")

    name = f'release "demo" (namespace: "{werf.namespace}")'
    words = "execute release delete plan: wait for operations completion: execute operation: "
    words += f'track resource absence: poll resource "{werf.namespace}/ConfigMap/stuck"'
    words += ": timed out waiting for the condition"
    last = f"Error: release uninstall: uninstall failed for {name}: {words}"
    assert (code, last_lines(output)) == (1, last)
    assert judged(code, output).reason is BundleReason.DEPLOY_FAILED
    path = f"/api/v1/namespaces/{werf.namespace}/configmaps/stuck"
    werf.api.remove_finalizers(path)
    assert werf.run("dismiss", *place)[0] == 0
    assert werf.names() == {"kube-root-ca.crt", "werf-synchronization"}


@only_werf_3
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (
            rbac.rule("get", "pods"),
            "check release namespace existence: get release",
        ),
        (rbac.rule("get", "namespaces"), "lock release: acquire release lock: "),
        (
            rbac.rule("get", "namespaces", "configmaps"),
            "lock release: acquire release lock: acquire lock: unable to put store value",
        ),
        (
            rbac.rule("get update", "namespaces", "configmaps"),
            'build release history: query releases for release "demo": query releases: query: ',
        ),
    ],
)
def test_a_dismiss_needs_the_namespace_the_lock_and_the_history(
    werf: Werf, charts: Charts, api: Api, cluster: Cluster, rule: dict[str, Any], words: str
) -> None:
    charts.push()
    werf.env[PLAYED] = "3.2.0"
    werf.apply()
    accounts = f"/api/v1/namespaces/{werf.namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "some"}})
    rbac.grant(api, rbac.account(werf.namespace, "some"), rule, namespace=werf.namespace)
    some = cluster.kubeconfig_for_service_account(werf.namespace, "some")
    place = ("--namespace", werf.namespace, "--release", "demo")

    code, output = werf.run("dismiss", *place, WERF_KUBE_CONFIG=str(some))

    assert code == 1
    assert last_lines(output).startswith(f"Error: release uninstall: {words}"), output
    assert "is forbidden: " in output


@only_werf_3
def test_a_dismiss_needs_git(werf: Werf, charts: Charts) -> None:
    werf.env[PLAYED] = "3.2.0"
    place = ("--namespace", werf.namespace, "--release", "demo")
    programs = werf.directory / "programs"
    programs.mkdir()
    for name in ("helm", "kubectl", "python3", "env"):
        found = next(p for d in werf.env["PATH"].split(":") if (p := Path(d) / name).exists())
        (programs / name).symlink_to(found)

    code, output = werf.run("dismiss", *place, PATH=str(programs))

    assert (code, '"git": executable file not found in $PATH' in output) == (1, True), output
