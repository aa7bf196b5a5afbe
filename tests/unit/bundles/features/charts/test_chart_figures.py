"""Charts of the shape of twenty that people use: how many are plain, and bound (docs/adr/0064).

No file of theirs is here: each is written anew with what decides, as it was seen in 2026-11.
"""

from dataclasses import dataclass

from tests.packed_charts import pack

from copyrator.bundles.features.charts.facts import judge_layer

HTTP = "https://charts.example"
OCI = "oci://registry.example/charts"
LOCAL = "file://../../charts"
HELPERS = (
    '{{- define "fullname" -}}{{ .Values.fullnameOverride | default .Release.Name | trunc 63 '
    '| trimSuffix "-" }}{{- end -}}'
)
WORKLOAD = (
    'metadata:\n  name: {{ include "fullname" . }}\n  labels: {{- toYaml .Values.labels | '
    "nindent 4 }}\n{{- range $k, $v := .Values.ports }}\n- {{ $k }}: {{ $v | quote }}\n{{- end }}\n"
    '{{- if .Capabilities.APIVersions.Has "policy/v1" }}\nx: {{ .Chart.AppVersion }}\n{{- end }}'
)
TPL = "{{ tpl (toYaml .Values.extra) . }}"
TPL_IN_LOOP = "{{ range .Values.extraObjects }}{{ tpl (toYaml .) $ }}{{ end }}"
MERGE = '{{ $labels := merge .Values.a.labels (dict "app" .Release.Name) }}{{ toYaml $labels }}'
YAML = '{{ $pod := include "fullname" . | fromYaml }}{{ toYaml $pod }}'
KEYS = "{{ range keys .Values.args | sortAlpha }}{{ . }}{{ end }}"
LOOKUP = '{{ $old := lookup "v1" "Secret" .Release.Namespace "a" }}{{ $old.data | toYaml }}'
DRAW = "{{ .Values.password | default (randAlphaNum 32) | b64enc }}"
CERT = '{{ $ca := genSelfSignedCert "a" nil nil 365 }}{{ $ca.Cert }}'
TIME = "{{ now | date `2006` }}"
ANCHORS = "a: &a {cpu: 1}\nb: {<<: *a, memory: 2}\nc: *a\n"
SCHEMA = (
    '{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "#/a"}}}'
)
ELSEWHERE = '{"$ref": "https://raw.example/common/values.schema.json"}'


@dataclass(frozen=True)
class Shape:
    """What decides of a chart."""

    templates: tuple[str, ...]
    subcharts: dict[str, str] | None = None
    """Repositories by name; each is in ``charts/`` with the templates of the chart itself."""
    schema: str = ""
    values: str = "fullnameOverride: ''\nlabels: {}\n"


CHARTS = {
    "kube-prometheus-stack": Shape(
        (TPL, TPL_IN_LOOP), {"crds": "", "grafana": HTTP, "kube-state-metrics": HTTP}
    ),
    "prometheus": Shape((TPL, KEYS), {"alertmanager": HTTP, "pushgateway": HTTP}),
    "kyverno": Shape((TPL,), {"crds": "", "grafana": "", "reports-server": HTTP}),
    "argo-cd": Shape((TPL, YAML, MERGE, TIME), {"redis-ha": HTTP}),
    "vault": Shape((TPL,), schema=SCHEMA),
    "traefik": Shape((TPL, YAML, LOOKUP, CERT), schema=SCHEMA),
    "opentelemetry-demo": Shape((TPL, YAML), {"collector": HTTP, "jaeger": HTTP}, SCHEMA, ANCHORS),
    "keda": Shape((MERGE, TPL_IN_LOOP)),
    "ingress-nginx": Shape((TPL, MERGE)),
    "jupyterhub": Shape((LOOKUP, DRAW, TPL, MERGE), schema=SCHEMA),
    "eck-stack": Shape((TPL_IN_LOOP,), {"elasticsearch": "", "kibana": ""}),
    "grafana": Shape((TPL, LOOKUP, DRAW)),
    "external-secrets": Shape((KEYS, TPL), {"bitwarden-sdk-server": OCI}, SCHEMA),
    "istio-ambient": Shape((YAML,), {"base": LOCAL, "istiod": LOCAL}),
    "postgresql": Shape((TPL, YAML), {"common": OCI}, SCHEMA),
    "nextcloud": Shape((TPL, DRAW, KEYS), {"redis": OCI, "postgresql": OCI}),
    "cert-manager": Shape((MERGE, TPL_IN_LOOP), schema=SCHEMA),
    "app-template": Shape((YAML, MERGE), {"common": HTTP}, ELSEWHERE),
    "metallb": Shape((), {"crds": "", "frr-k8s": HTTP}, SCHEMA),
    "node-feature-discovery": Shape(()),
}
IGNORED = ".DS_Store\n.git/\n*.swp\n*~\n.idea/\n/*.tgz\nCHANGES\nci/\n"


def _packed(name: str, shape: Shape) -> bytes:
    files = _files(name, shape) | {".helmignore": IGNORED}
    for each, repository in (shape.subcharts or {}).items():
        inner = _files(each, shape) | {"CHANGES": "a"}
        if repository.startswith(("http", "oci")):
            files[f"charts/{each}-1.0.0.tgz"] = pack(inner, each)
        else:
            files |= {f"charts/{each}/{path}": text for path, text in inner.items()}
    if shape.subcharts:
        named = "dependencies:\n" + "".join(
            f"- name: {each}\n  version: 1.0.0\n  repository: '{repository}'\n"
            for each, repository in shape.subcharts.items()
        )
        files["Chart.yaml"] = f"{files['Chart.yaml']}{named}"
        if LOCAL not in named:
            files["Chart.lock"] = f"{named}digest: sha256:a\ngenerated: '2026-01-01T00:00:00Z'\n"
    return pack(files, name)


def _files(name: str, shape: Shape) -> dict[str, str | bytes]:
    about = f"apiVersion: v2\nname: {name}\nversion: 1.0.0\nappVersion: v1\nkubeVersion: '>=1.29'\n"
    files: dict[str, str | bytes] = {
        "Chart.yaml": f"{about}annotations:\n  artifacthub.io/changes: |\n    - a\n",
        "values.yaml": shape.values,
        "templates/_helpers.tpl": HELPERS,
        **{f"templates/{at}.yaml": text for at, text in enumerate((WORKLOAD, *shape.templates))},
    }
    return files | ({"values.schema.json": shape.schema} if shape.schema else {})


def test_of_twenty_charts_two_arent_plain_and_no_fewer_are_bound_than_by_the_flow_analysis() -> (
    None
):
    found = {name: judge_layer(_packed(name, shape)) for name, shape in CHARTS.items()}

    assert len(found) == 20
    assert {name for name, facts in found.items() if facts.unreadable or facts.unvendored} == set()
    assert {name for name, facts in found.items() if facts.unplain} == {
        "app-template",
        "istio-ambient",
    }
    assert {name for name, facts in found.items() if not facts.unbound} == {
        "metallb",
        "node-feature-discovery",
    }
