"""Which templates can render something else another time, by the names in their actions."""

import json
import re
from pathlib import Path

import pytest
from tests.packed_charts import CHART_YAML, chart, pack

from copyrator.bundles.features.charts.facts import judge_layer
from copyrator.bundles.features.charts.lexical import FUNCTIONS

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
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
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


@pytest.mark.parametrize(
    "text",
    [text for text, _ in RECORDED["rendered"] if not re.search(r"[mM]erge", text)],
)
def test_what_helm_rendered_alike_in_each_process_is_bound(text: str) -> None:
    assert _unbound(text, HELPERS) == ()


def test_each_allowed_function_has_such_a_sample() -> None:
    samples = " ".join(text for text, _ in RECORDED["rendered"])
    shown = set(re.findall(r"\w+", samples))

    assert set(FUNCTIONS) - shown == {"fail", "werf_secret_file"}


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
        ("{{ keys .Values | first }}", "keys goes over keys in an order that is drawn"),
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
        ('{{ printf "%p" .Values }}', "printf of %p"),
        ('{{ printf "%s %#[1]p" .Values }}', "printf of %p"),
        ('{{ printf "%%%-8p" .Values }}', "printf of %p"),
        ("{{ printf .Values.format 1 }}", "printf of a format that isn't literal"),
        ('{{ "%p" | printf }}', "printf of a format that isn't literal"),
        ("{{ $x := mergeOverwrite (dict) .a .b }}", "mergeOverwrite goes over keys"),
        ("{{ $x := .b | mustMerge (dict) .a }}", "mustMerge goes over keys"),
        ("{{ range .Capabilities.APIVersions }}{{ end }}", "reads .Capabilities.APIVersions"),
        ("{{ first .Capabilities.APIVersions }}", "reads .Capabilities.APIVersions"),
        ("{{ with .Capabilities }}{{ .APIVersions }}{{ end }}", "reads .Capabilities.APIVersions"),
        ("{{ (.Capabilities.APIVersions).Has 1 }}", "reads .Capabilities.APIVersions"),
        ("{{ now! }}", "can't be parsed: an unknown character after a name"),
        ('{{ $x := "a" | tpl }}{{ $x }}', "tpl of a text that isn't literal"),
        ("{{ tpl (print `a` .b) . }}", "tpl of a text that isn't literal"),
        ("{{ if tpl .a . }}{{ end }}", "tpl of a text that isn't literal"),
        ("{{ range (list (tpl $.a $)) }}{{ end }}", "tpl of a text that isn't literal"),
        ("{{ with $t := tpl\n.a $ }}{{ end }}", "tpl of a text that isn't literal"),
        ('{{ template "a" (tpl .a .) }}', "tpl of a text that isn't literal"),
        ('{{ define "a" }}{{ block "b" (tpl . $) }}{{ end }}{{ end }}', "tpl of a text"),
        ("{{ tpl `{{ tpl .a . }}` . }}", "tpl of a text that isn't literal"),
        ("{{ tpl `{{ end` . }}", "can't be parsed: an action isn't closed"),
        ("{{ call .a }}", "call isn't known to give the same result"),
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


def test_texts_of_tpl_in_one_another_have_a_limit() -> None:
    text = "now"
    for _ in range(12):
        text = "tpl " + json.dumps("{{" + text + "}}") + " ."

    (why,) = _unbound("{{ " + text + " }}")

    assert "more than 8 texts of tpl in one another" in why


def test_files_of_one_name_make_as_config_unbound() -> None:
    text = "{{ (.Files.Glob `conf/*`).AsConfig }}"
    files = {"Chart.yaml": CHART_YAML, "templates/a": text, "conf/a": "1", "other/a": "2"}

    assert judge_layer(pack(files)).unbound == ()
    (why,) = judge_layer(pack({**files, "conf/b/a": "3"})).unbound
    assert why == "templates/a:1: AsConfig takes one of several files of one name, which is drawn"
    assert judge_layer(pack({**files, "templates/a": "{{ .Files.AsSecrets }}"})).unbound
    computed = '{{ (.Files.Glob (print "conf/" .a)).AsConfig }}'
    assert judge_layer(pack({**files, "templates/a": computed})).unbound


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


@pytest.mark.parametrize(
    ("crd", "is_bound"),
    [
        ('1: a\n"1": b\n', False),
        ("a: 1\n---\nb: {a: 1, a: 2}\n", False),
        ("[", False),
        ("[" * 200, False),
        ("a: 1\nb: 1\n1: x\n---\na: 1\n", True),
    ],
)
def test_keys_of_crds_that_become_equal_are_unbound(crd: str, *, is_bound: bool) -> None:
    assert (_unbound("a: b", **{"crds/a.yaml": crd}) == ()) is is_bound


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


TPL = "tpl .Values.text ."


def calling(call: str) -> dict[str, str]:
    """Templates that call ``tpl`` with a text of the values, by where the call stands."""
    return {
        "an action": f"a: {{{{ {call} }}}}",
        "a pipe": f"a: {{{{ {call} | quote }}}}",
        "an argument": f"a: {{{{ print ({call}) }}}}",
        "an argument of a method": f"a: {{{{ .Files.Get ({call}) }}}}",
        "a variable": f"{{{{ $a := {call} }}}}a: {{{{ $a }}}}",
        "if": f"{{{{ if {call} }}}}a: b{{{{ end }}}}",
        "else if": f"{{{{ if .Values.no }}}}a: c{{{{ else if {call} }}}}a: b{{{{ end }}}}",
        "else": f"{{{{ if .Values.no }}}}a: c{{{{ else }}}}a: {{{{ {call} }}}}{{{{ end }}}}",
        "with": f"{{{{ with {call} }}}}a: {{{{ . }}}}{{{{ end }}}}",
        "range": f"{{{{ range list ({call}) }}}}a: {{{{ . }}}}{{{{ end }}}}",
        "a body of range": f"{{{{ range list 1 }}}}a: {{{{ with $ }}}}{{{{ {call} }}}}"
        "{{ end }}{{ end }}",
        "a template that is included": f'{{{{ define "a" }}}}{{{{ {call} }}}}{{{{ end }}}}'
        'a: {{ include "a" . }}',
        "the context of include": f'{{{{ define "a" }}}}{{{{ . }}}}{{{{ end }}}}'
        f'a: {{{{ include "a" ({call}) }}}}',
        "the context of template": f'{{{{ define "a" }}}}{{{{ . }}}}{{{{ end }}}}'
        f'a: {{{{ template "a" ({call}) }}}}',
        "a block": f'a: {{{{ block "a" . }}}}{{{{ {call} }}}}{{{{ end }}}}',
        "the text of another tpl": f"a: {{{{ tpl `{{{{ {call} }}}}` . }}}}",
        "the context of another tpl": f"a: {{{{ tpl `{{{{ .a }}}}` (dict `a` ({call})) }}}}",
    }


FOLLOWED = {
    **{f"{where}: a value": text for where, text in calling(TPL).items()},
    **{
        f"an action: {what}": f"a: {{{{ {call} }}}}"
        for what, call in {
            "a text that is put together": 'tpl (print "{{ no" "w }}") .',
            "a text of a file": 'tpl (.Files.Get "text") .',
            "a text from a pipe": 'printf "%s" .Values.text | tpl',
            "a text as a variable": "with $a := .Values.text }}{{ tpl $a $ }}{{ end",
        }.items()
    },
}


@pytest.mark.promise
@pytest.mark.parametrize("what", FOLLOWED)
def test_a_chart_that_follows_a_text_that_isnt_literal_isnt_bound_wherever_it_does(
    what: str,
) -> None:
    assert "tpl of a text that isn't literal" in "".join(_unbound(FOLLOWED[what]))


OTHER_FILES: dict[str, dict[str, str | bytes]] = {
    "notes": {"templates/NOTES.txt": f"{{{{ {TPL} }}}}"},
    "a helper": {
        "templates/_helpers.tpl": f'{{{{ define "a" }}}}{{{{ {TPL} }}}}{{{{ end }}}}',
    },
    "a subchart": {
        "charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
        "charts/sub/templates/a.yaml": f"a: {{{{ {TPL} }}}}",
    },
}


@pytest.mark.promise
@pytest.mark.parametrize("what", OTHER_FILES)
def test_neither_is_one_whose_other_files_do(what: str) -> None:
    text = 'a: {{ include "a" . }}' if what == "a helper" else "a: b"
    found = _unbound(text, **OTHER_FILES[what])
    assert "tpl of a text that isn't literal" in "".join(found)


LITERAL = {
    where: text.replace(TPL, "tpl `b` .") for where, text in calling(TPL).items() if "tpl" in text
}


@pytest.mark.promise
@pytest.mark.parametrize("where", [one for one in LITERAL if one != "the text of another tpl"])
def test_a_chart_that_follows_a_literal_text_is_bound(where: str) -> None:
    assert _unbound(LITERAL[where]) == ()
