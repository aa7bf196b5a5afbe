"""In what werf 2.67.0, 2.75.3 and 3.2.0 differ: each text with the versions that print it.

The outputs that were recorded whole are compared in test_recorded.py.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.authority import Authority
from tests.e2e.bundles.private_registry import front, proxy
from tests.e2e.standin.conftest import (
    BAD_POD,
    ENDLESS_JOB,
    INVALID_SERVICE,
    VERSIONS,
    Charts,
    Werf,
    detail,
    judged,
)

from copyrator.api.reasons.bundles import BundleReason
from localcluster import Cluster

pytestmark = detail
UNIT = Path(__file__).parents[2] / "unit"


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


# --- Errors before there is a report: what the operator looks for in werf's words is there


FAR = "registry.far.example"
"""A host that only the proxy can find."""


@pytest.fixture(scope="module")
def tls(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Variables that lead to registries under a CA that nobody knows."""
    authority = Authority.make(tmp_path_factory.mktemp("authority") / "ca")
    context = authority.context(FAR)
    with front(cluster.registry, tls=context) as host, proxy(host, []) as url:
        yield {
            "TLS": host,
            "HTTPS_PROXY": url,
            "https_proxy": url,
            "CA": str(authority.directory / "ca.pem"),
        }


UNREACHABLE = BundleReason.REGISTRY_UNREACHABLE
BROKEN = BundleReason.DEPLOY_FAILED


@pytest.mark.parametrize(
    ("env", "words", "reason"),
    [
        ({"WERF_TAG": "9.9.9"}, "{repo}:9.9.9: not found", BROKEN),
        pytest.param({"WERF_TAG": "1.0.0@sha256:" + 64 * "a"}, "not found", BROKEN, marks=detail),
        pytest.param(
            {"WERF_TAG": "1.0.*"}, "could not parse reference: {repo}:1.0.*", BROKEN, marks=detail
        ),
        pytest.param(
            {"WERF_TAG": "sha256:" + 64 * "a"},
            "could not parse reference: {repo}:sha256",
            BROKEN,
            marks=detail,
        ),
        ({"WERF_REPO": "127.0.0.1:1/x"}, "could not parse reference: 127.0.0.1:1/x:", BROKEN),
        ({"WERF_REPO": "127.0.0.1:1/xx"}, "connection refused", UNREACHABLE),
        ({"WERF_REPO": f"{FAR}/xx", "https_proxy": "{proxy}"}, "x509: ", UNREACHABLE),
    ],
)
def test_an_error_before_there_is_a_report(
    werf: Werf, charts: Charts, tls: dict[str, str], env: dict[str, str], words: str, reason: str
) -> None:
    charts.push()
    env = {name: value.format(proxy=tls["https_proxy"]) for name, value in env.items()}

    code, output = werf.run("bundle", "apply", **{"WERF_TAG": "1.0.0", **env})

    assert code == 1
    assert "Traceback" not in output
    last = output.splitlines()[-1]
    assert last.startswith("Error: pull bundle: ")
    assert words.format(repo=werf.env["WERF_REPO"]) in last
    assert judged(code, output).reason == reason
    assert not werf.report_file.exists()
