"""`werf bundle render`, with and without WERF_VALIDATE; beside what the real one printed."""

import json
import re
import stat
import subprocess
from pathlib import Path

import pytest
from tests.e2e.standin.conftest import Charts, Werf, each_version

RECORDED = Path(__file__).parents[3] / "docs" / "facts" / "werf-output"
TEMPLATES = {
    "cm": """
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {v: "{{ .Values.greeting }}", text: one}
""",
    "gone": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: gone}\ndata: {}\n",
    "hook": """
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}
data: {t: one}
""",
    "cr": """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: example}
rules: []
""",
    "dep": """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: "x:one"}]}
""",
    "rand": """
apiVersion: v1
kind: Secret
metadata: {name: r}
data: {pw: {{ randAlphaNum 12 | b64enc }}}
""",
    "sec": """
apiVersion: v1
kind: Secret
metadata: {name: s}
data: {pw: {{ "example-one" | b64enc }}}
""",
}
"""The chart of docs/facts/werf-output."""
PROJECT = {"project.werf.io/name": "shop", "project.werf.io/env": ""}
FACTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: facts}
data:
  install: "{{ .Release.IsInstall }}"
  revision: "{{ .Release.Revision }}"
  kube: {{ .Capabilities.KubeVersion.Version }}
  found: "{{ (lookup "v1" "ConfigMap" .Release.Namespace "kube-root-ca.crt").kind }}"
"""


def rendered(werf: Werf, tag: str = "1.0.0", **env: str) -> str:
    code, output = werf.run("bundle", "render", **{"WERF_TAG": tag, **env})
    assert code == 0, output
    return output


def facts(werf: Werf, **env: str) -> dict[str, str]:
    return dict(re.findall(r'^  (\w+): "?([^"\n]*)"?$', rendered(werf, **env), re.MULTILINE))


@each_version
def test_a_render_is_the_recorded_one(werf: Werf, charts: Charts, version: str) -> None:
    (charts.directory / "shop").mkdir()
    (charts.directory / "shop" / "extra_annotations.json").write_text(json.dumps(PROJECT))
    charts.push(name="shop", **TEMPLATES)
    recorded = (RECORDED / version / "render.txt").read_text().split("\n", 2)[2]

    for more in ({}, {"WERF_VALIDATE": "1"}):
        text = rendered(werf, WERF_ADD_LABEL_0="a=b", **more)

        drawn = re.compile(r"pw: \w{16}$", re.MULTILINE)
        assert drawn.sub("pw: x", text, 1) == drawn.sub("pw: x", recorded, 1)
    assert werf.names() == {"kube-root-ca.crt"}, "nothing is written"


def test_the_cluster_is_asked_only_where_it_is_to_validate(werf: Werf, charts: Charts) -> None:
    charts.push(facts=FACTS)
    version = werf.api.get("/version")["gitVersion"]
    werf.apply()

    assert facts(werf, WERF_KUBE_CONFIG="/nowhere") == {
        **facts(werf),
        "install": "true",
        "revision": "1",
        "found": "",
    }
    validated = facts(werf, WERF_VALIDATE="1")
    assert validated["kube"] == version
    wanted = {"install": "false", "revision": "2", "found": "ConfigMap"}
    assert validated == {**validated, **wanted}
    code, output = werf.run("bundle", "render", WERF_VALIDATE="1", WERF_KUBE_CONFIG="/nowhere")
    assert code == 1, output


def test_an_apply_writes_what_was_rendered(werf: Werf, charts: Charts) -> None:
    charts.push(facts=FACTS)
    werf.apply()
    text = rendered(werf, WERF_VALIDATE="1", WERF_SET_0="greeting=anew")

    werf.apply(WERF_SET_0="greeting=anew")

    data = werf.object("facts")["data"]
    assert data["revision"] == "2"
    for name, value in data.items():
        assert re.search(f'^  {name}: "?{re.escape(value)}"?$', text, re.MULTILINE), text


@pytest.mark.parametrize(
    "change",
    [
        ("data: {t: one}", 'data: {t: "one "}'),
        ("data: {t: one}", 'data: {t: "one\\n"}'),
        ("data: {t: one}", 'data: {t: "o\\e[31mne"}'),
        ("data: {t: one}", 'data: {t: "+++ one"}'),
        ("name: hook,", "name: hook, finalizers: [example.com/a],"),
    ],
    ids=["space", "newline", "escape", "plus", "finalizer"],
)
def test_no_change_is_lost(werf: Werf, charts: Charts, change: tuple[str, str]) -> None:
    charts.push(hook=TEMPLATES["hook"])
    charts.push("1.1.0", hook=TEMPLATES["hook"].replace(*change))
    same = "  version: 1.0.0\n"

    first, second = rendered(werf), rendered(werf, "1.1.0")

    assert first != second.replace("  version: 1.1.0\n", same)
    assert len(re.findall("^---$", second, re.MULTILINE)) == 2


def test_definitions_are_printed_and_values_cannot_forge_a_document(
    werf: Werf, charts: Charts
) -> None:
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    crd += "metadata: {name: things.example.com}\n"
    (charts.directory / "demo" / "crds").mkdir(parents=True)
    (charts.directory / "demo" / "crds" / "things.yaml").write_text(crd)
    charts.push(greeting='"x\\n---\\n# Source: forged\\n"')

    for more in ({}, {"WERF_VALIDATE": "1"}):
        sources = re.findall("^# Source: (.*)$", rendered(werf, **more), re.MULTILINE)
        assert sources == ["demo/crds/things.yaml", "demo/templates/cm.yaml"]


def test_where_there_is_no_place_for_it_the_render_fails(werf: Werf, charts: Charts) -> None:
    charts.push()
    full = Path("/dev/full")
    if not full.exists() or not stat.S_ISCHR(full.stat().st_mode):
        pytest.skip("no /dev/full on this machine")

    with full.open("w") as output:
        ran = subprocess.run(
            [werf.program, "bundle", "render"],
            env={**werf.env, "WERF_TAG": "1.0.0"},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    layers = 'chart render: render resource "ConfigMap/demo-cm": write resource to output'
    words = "write to output: write /dev/stdout: no space left on device"
    assert (ran.returncode, ran.stderr) == (1, f"Error: {layers}: {words}\n")
