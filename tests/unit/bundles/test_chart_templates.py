"""Which templates can render something else another time: the allow list and what it prints."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.packed_charts import CHART_YAML, chart, pack

from copyrator.bundles.chart.allowed import FUNCTIONS, METHODS
from copyrator.bundles.chart.facts import judge_layer

RECORDED = json.loads((Path(__file__).parent / "templates" / "functions.json").read_text())
HELPERS = '{{ define "help" }}{{ . | toJson }}{{ end }}'
REFUSED = {
    "ago",
    "bcrypt",
    "buildCustomCert",
    "call",
    "date",
    "dateInZone",
    "dateModify",
    "date_in_zone",
    "date_modify",
    "decryptAES",
    "derivePassword",
    "durationRound",
    "encryptAES",
    "env",
    "expandenv",
    "fromYaml",
    "fromYamlArray",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "getHostByName",
    "htmlDate",
    "htmlDateInZone",
    "htpasswd",
    "keys",
    "lookup",
    "mustDateModify",
    "mustToDate",
    "must_date_modify",
    "now",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "shuffle",
    "toDate",
    "toYamlPretty",
    "unixEpoch",
    "uuidv4",
    "values",
}


def _unbound(*templates: str, **files: str | bytes) -> tuple[str, ...]:
    facts = judge_layer(chart(*templates, **files))
    assert facts.unreadable is None
    return facts.unbound


@pytest.mark.parametrize("text", [text for text, _ in RECORDED["rendered"]])
def test_what_helm_rendered_alike_in_each_process_is_bound(text: str) -> None:
    assert _unbound(text, HELPERS) == ()


def test_each_allowed_function_and_method_has_such_a_sample() -> None:
    samples = " ".join(text for text, _ in RECORDED["rendered"])
    shown = set(samples.replace("(", " ").replace(")", " ").replace(".", " ").split())

    assert set(FUNCTIONS) - shown == {"fail", "werf_secret_file"}
    assert METHODS - shown == {"Equal", "GreaterThan", "LessThan"}


def test_each_function_of_helm_is_allowed_or_refused() -> None:
    assert set(RECORDED["functions"]) - REFUSED == set(FUNCTIONS) - {"werf_secret_file"}


@pytest.mark.parametrize("name", sorted(REFUSED | {"printf_debug", "dump_debug", "unheard_of"}))
def test_a_function_that_isnt_allowed_makes_a_chart_unbound(name: str) -> None:
    (why,) = _unbound(f"a: b\nc: {{{{ {name} }}}}")

    assert why.startswith(f"templates/0.yaml:2: {name} ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ now | unixEpoch }}", "now depends on the time or the time zone"),
        ("{{ if gt (randInt 0 2) 0 }}x{{ end }}", "randInt draws"),
        ('{{ .Values.password | default (randAlphaNum 8) }}', "randAlphaNum draws"),
        ('{{ $x := lookup "v1" "Secret" "a" "b" }}', "lookup reads objects of the cluster"),
        ("{{ keys .Values | first }}", "keys returns its result in an order that is drawn"),
        ("{{ with now }}{{ end }}", "now depends"),
        ("{{ range (list now) }}{{ end }}", "now depends"),
        ("{{ if .A }}{{ else if now }}{{ end }}", "now depends"),
        ("{{ if .A }}{{ else }}{{ now }}{{ end }}", "now depends"),
        ('{{ template "a" (now) }}{{ define "a" }}{{ end }}', "now depends"),
        ('{{ define "unused" }}{{ now }}{{ end }}', "now depends"),
        ('{{ block "a" . }}{{ now }}{{ end }}', "now depends"),
        ("{{ now.Unix }}", "now depends"),
        ("{{\n  now\n}}", "now depends"),
        ("{{- now -}}", "now depends"),
        ('{{ tpl "{{ now }}" . }}', "now depends"),
        ('{{ tpl `{{ tpl "{{ now }}" . }}` . }}', "now depends"),
        ("{{ tpl .Values.text . }}", "tpl of a text that isn't literal"),
        ('{{ .Values.text | tpl "a" }}{{ "a" | tpl . }}', "tpl of a text that isn't literal"),
        ('{{ tpl "{{ end }}" . }}', "tpl of a text that can't be parsed"),
        ('{{ printf "%p" .Values }}', "printf of %p"),
        ('{{ printf "%s %#[1]p" .Values }}', "printf of %p"),
        ('{{ printf "%%%-8p" .Values }}', "printf of %p"),
        ("{{ printf .Values.format 1 }}", "printf of a format that isn't literal"),
        ('{{ "%p" | printf }}', "printf of a format that isn't literal"),
        ("{{ .Chart }}", "prints an object of Helm's"),
        ("{{ .Chart.Maintainers }}", "prints an object of Helm's"),
        ("{{ .Chart.Metadata }}", "prints an object of Helm's"),
        ("{{ . }}", "prints an object of Helm's"),
        ("{{ $ }}", "prints an object of Helm's"),
        ("{{ .AsMap }}", "prints an object of Helm's"),
        ("{{ .Capabilities.Copy }}", "prints an object of Helm's"),
        ("{{ .Subcharts }}", "prints an object of Helm's"),
        ("{{ print .Subcharts.a }}", "print prints an object of Helm's"),
        ("{{ .Chart.Dependencies | quote }}", "quote prints an object of Helm's"),
        ("{{ toYaml . }}", "toYaml prints an object of Helm's"),
        ("{{ with .Chart }}{{ . | toString }}{{ end }}", "toString prints an object"),
        ("{{ range .Chart.Maintainers }}{{ list . | join `,` }}{{ end }}", "join prints"),
        ("{{ $x := .Chart }}{{ $x }}", "prints an object of Helm's"),
        ("{{ $x := 1 }}{{ if 1 }}{{ $x = $ }}{{ end }}{{ $x }}", "prints an object of Helm's"),
        ("{{ range $k, $v := . }}{{ $v }}{{ end }}", "prints an object of Helm's"),
        ('{{ get . "Chart" }}', "prints an object of Helm's"),
        ("{{ get . .Values.x }}", "prints an object of Helm's"),
        ("{{ index (list 1 .Chart) 1 }}", "prints an object of Helm's"),
        ("{{ first (append (list 1) .Chart) }}", "prints an object of Helm's"),
        ('{{ dig "a" .Chart .Values }}', "prints an object of Helm's"),
        ('{{ pluck "Chart" . }}', "prints an object of Helm's"),
        ('{{ default "a" .Chart }}', "prints an object of Helm's"),
        ('{{ omit . "Values" }}', "prints an object of Helm's"),
        ('{{ printf "%d" (list (semver "1.2.3")) }}', "printf prints an object"),
        ('{{ dict "a" .Chart }}', "prints an object of Helm's"),
        ('{{ $d := dict .Chart 1 }}', "dict prints an object of Helm's"),
        ('{{ $d := dict "a" $ }}{{ $d.a.Chart }}', "prints an object of Helm's"),
        ('{{ define "a" }}{{ . }}{{ end }}{{ include "a" . }}', "prints an object of Helm's"),
        ('{{ define "a" }}{{ .b }}{{ end }}{{ template "a" (dict "b" $) }}', "prints an object"),
        ('{{ define "a" }}{{ $.b }}{{ end }}{{ include "a" (dict "b" .Chart) }}', "prints"),
        ('{{ define "a.b" }}{{ . }}{{ end }}{{ include (printf "%s.b" .Values.x) . }}', "prints"),
        ('{{ define "a" }}{{ . }}{{ end }}{{ include .Values.name . }}', "prints an object"),
        ('{{ $x := set .Values "a" .Chart }}', "set puts an object that holds pointers"),
        ('{{ $x := merge .Values (dict "a" .Chart) }}', "merge puts an object"),
        ('{{ $x := merge (dict "v" .Values) (dict "v" (dict "a" $)) }}', "merge puts an object"),
        (
            (
                '{{ $m := dict }}{{ $a := dict "x" $m "y" $m }}'
                '{{ $x := merge $a (dict "x" (dict "k" "1") "y" (dict "k" "2")) }}{{ $m.k }}'
            ),
            "merge goes over keys in an order that is drawn",
        ),
        ("{{ $x := mergeOverwrite (dict) .a .b }}", "mergeOverwrite goes over keys"),
        ("{{ $x := .b | mustMerge (dict) .a }}", "mustMerge goes over keys"),
        ("{{ range .Capabilities.APIVersions }}{{ end }}", "reads .Capabilities.APIVersions"),
        ("{{ first .Capabilities.APIVersions }}", "reads .Capabilities.APIVersions"),
        ("{{ with .Capabilities }}{{ .APIVersions }}{{ end }}", "reads .Capabilities.APIVersions"),
        ("{{ .Values.a 1 }}", "the method a isn't known"),
        ("{{ .Files.Encode 1 }}", "the method Encode isn't known"),
        ("{{ end }}", "can't be parsed: end without a beginning"),
        ('1: a\n"1": b\n', "of the key 1 and an equal one, one is drawn"),
        ('a: {1.0: a, 1: b}\n', "of the key 1 and an equal one, one is drawn"),
        ('"true": a\nyes: b\n', "of the key yes and an equal one, one is drawn"),
    ],
)  # fmt: skip
def test_a_template_that_may_render_differently_is_unbound(text: str, why: str) -> None:
    found = _unbound(text)

    assert found, "it is bound"
    assert f": {why}" in found[0]


@pytest.mark.parametrize(
    "text",
    [
        "a: {{ .Values.a | quote }}",
        'now {{/* now */}}{{ `{{ now }}` }} {{ "now" }}',
        "{{ .Values.now }}{{ $now := 1 }}{{ $now }}",
        "{{ range $k, $v := .Values }}{{ $k }}: {{ $v | quote }}\n{{ end }}",
        "{{ range .Chart.Maintainers }}{{ .Name }}{{ end }}{{ .Chart.Name }}{{ .Chart.IsRoot }}",
        "{{ range $i, $x := .Chart.Maintainers }}{{ $i }}{{ $x.Email }}{{ end }}",
        "{{ with .Chart }}{{ .Version | quote }}{{ end }}",
        '{{ define "a" }}{{ . }}{{ end }}{{ include "a" .Values.x }}',
        (
            '{{ define "a" }}{{ .x }}{{ .root.Values.y }}{{ end }}'
            '{{ include "a" (dict "x" 1 "root" $) }}'
        ),
        (
            '{{ define "a" }}{{ . }}{{ end }}{{ include "a" "x" }}'
            '{{ include (print $.Template.BasePath "/0.yaml") . | sha256sum }}'
        ),
        '{{ if .Capabilities.APIVersions.Has "apps/v1" }}{{ end }}',
        '{{ $c := .Capabilities }}{{ $c.KubeVersion.Minor }}{{ $c.APIVersions.Has "v1" }}',
        '{{ $x := set . "a" 1 }}{{ $x := set .Values "b" (dict "c" 1) }}{{ .Values.b }}',
        (
            '{{ define "a" }}{{ .component }}{{ .Values.x }}{{ end }}'
            '{{ include "a" (merge (dict "component" "web") .) }}'
        ),
        "{{ $x := merge (deepCopy .Values.a) (deepCopy .Values.b) .Values.c }}",
        '{{ $x := .Values.a | mergeOverwrite (dict "a" (dict "b" 1)) }}',
        '{{ tpl "{{ .Values.a }}" . }}{{ tpl "a" $ }}',
        '{{ printf "%s 100%% %-5d%v" .a 1 .b }}',
        '{{ required "set a" .Values.a }}{{ if .b }}{{ fail "no" }}{{ end }}',
        "{{ range 3 }}{{ . }}{{ break }}{{ end }}",
        '{{ werf_secret_file "a" }}',
        'a: {1: x, "2": y}\nb: [1, 1]\nc: "1"\n',
        "{{- with .Values.a }}\n{{- toYaml . | nindent 2 }}\n{{- end }}",
    ],
)
def test_a_template_that_renders_alike_is_bound(text: str) -> None:
    assert _unbound(text) == ()


def test_objects_are_followed_through_more_rounds_than_one() -> None:
    names = "abcdef"
    passes = "".join(
        f'{{{{ define "{one}" }}}}{{{{ include "{other}" . }}}}{{{{ end }}}}'
        for one, other in pairwise(names)
    )

    assert _unbound(passes + '{{ define "f" }}{{ . }}{{ end }}{{ include "a" . }}')
    assert not _unbound(passes + '{{ define "f" }}{{ . }}{{ end }}{{ include "a" .Values }}')


def test_recursion_ends() -> None:
    grows = '{{ define "a" }}{{ include "a" (dict "b" . "c" $) }}{{ end }}{{ include "a" . }}'

    assert _unbound(grows) == ()


def test_files_of_one_name_make_as_config_unbound() -> None:
    text = "{{ (.Files.Glob `conf/*`).AsConfig }}"
    files = {"Chart.yaml": CHART_YAML, "templates/a": text, "conf/a": "1", "other/a": "2"}

    assert judge_layer(pack(files)).unbound == ()
    (why,) = judge_layer(pack({**files, "conf/b/a": "3"})).unbound
    assert why == "templates/a:1: AsConfig takes one of several files of one name, which is drawn"
    assert judge_layer(pack({**files, "templates/a": "{{ .Files.AsSecrets }}"})).unbound


def test_all_files_of_templates_are_judged_and_no_others() -> None:
    files = dict.fromkeys(
        ["templates/NOTES.txt", "templates/_a.tpl", "templates/x/y.json", "a.tpl", "crds/a"],
        "{{ now }}",
    )

    found = judge_layer(pack({"Chart.yaml": CHART_YAML, **files})).unbound

    assert {why.split(":")[0] for why in found} == {
        "templates/NOTES.txt",
        "templates/_a.tpl",
        "templates/x/y.json",
    }


def test_templates_of_subcharts_are_judged_packed_or_not() -> None:
    inner = {"Chart.yaml": "name: b\nversion: 1.0.0", "templates/b": "{{ now }}"}
    files = {
        "Chart.yaml": CHART_YAML,
        "charts/a/Chart.yaml": "name: a",
        "charts/a/templates/a": "{{ uuidv4 }}",
        "charts/a/charts/b-1.0.0.tgz": pack(inner, "b"),
        "charts/_ignored/templates/a": "{{ now }}",
    }

    assert judge_layer(pack(files)).unbound == (
        "charts/a/templates/a:1: uuidv4 draws",
        "charts/a/charts/b-1.0.0.tgz/templates/b:1: now depends on the time or the time zone",
    )


def test_typescript_is_unbound() -> None:
    (why,) = _unbound("a: b", **{"ts/src/index.ts": "export function render() {}"})

    assert why == "ts/src/index.ts: TypeScript may do anything"


def test_two_subcharts_of_one_name_are_unbound() -> None:
    files = {
        "Chart.yaml": CHART_YAML,
        "charts/a/Chart.yaml": "name: x",
        "charts/b/Chart.yaml": "name: x",
    }

    assert judge_layer(pack(files)).unbound == ("charts: of two charts named x one is drawn",)


@pytest.mark.parametrize(
    ("values", "is_bound"),
    [
        ('1: a\n"1": b\n', False),
        ('a: {b: {1: a}}\nc: {"1": b}\n', False),
        ("a:\n  1.0: x\n  1: y\n", False),
        ("0x10: x\n16: y\n", False),
        ("a: 1\nb: 1\n1: x\n", True),
        ('"1": x\n"1": y\n', True),
        ("a: x\na: y\n", True),
        ("[", False),
        ("[" * 200, False),
    ],
)
def test_keys_of_values_that_become_equal_are_unbound(values: str, *, is_bound: bool) -> None:
    assert (_unbound("a: b", **{"values.yaml": values}) == ()) is is_bound


def test_at_most_twenty_reasons_are_kept_and_names_are_cut() -> None:
    found = _unbound("{{ now }}\n" * 50 + f"{{{{ {'x' * 500} }}}}")

    assert len(found) == 20
    (cut,) = _unbound(f"{{{{ {'x' * 500} }}}}")
    assert len(cut) < 200


def test_literal_texts_of_required_and_fail_are_listed() -> None:
    text = '{{ required "set a" .a }}{{ .b | required "set b" }}{{ fail .c }}{{ fail "no" }}'

    assert judge_layer(chart(text)).literals == ("set a", "set b", "no")


def test_templates_of_many_bytes_arent_parsed() -> None:
    facts = judge_layer(chart(*["x" * 2**20] * 3))

    assert facts.unbound == ("its templates have more than 2 MiB",)
