"""Plain charts: what may be read in several ways is refused, with file, line, key and cure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packed_charts import CHART_YAML, chart, pack

from copyrator.bundles.features.charts.facts import judge_layer

DB = "name: db\nversion: 1.0.3\n"
NAMED = CHART_YAML + "dependencies:\n- name: db\n  version: ~1.0\n"
LOCK = "dependencies:\n- name: db\n  repository: ''\n  version: 1.0.3\n"


def _unplain(files: dict[str, str | bytes]) -> tuple[str, ...]:
    facts = judge_layer(pack({"Chart.yaml": CHART_YAML, **files}))
    assert facts.unreadable is None
    assert facts.unbound[: len(facts.unplain)] == facts.unplain, "it is called bound"
    return facts.unplain


@pytest.mark.parametrize("repository", ["file://../db", "file:///var/run/secrets", "@a", "alias:a"])
@pytest.mark.parametrize("name", ["Chart.lock", "requirements.lock", "Chart.yaml"])
def test_a_dependency_from_a_directory_is_refused_wherever_it_is_named(
    name: str, repository: str
) -> None:
    start = CHART_YAML if name == "Chart.yaml" else ""
    text = f"{start}dependencies:\n- name: db\n  version: 1.0.3\n  repository: '{repository}'\n"
    line = text.count("\n")

    found = _unplain({"charts/db/Chart.yaml": DB, name: text})

    what = "key repository is neither empty nor http(s):// or oci://"
    cure = "copy that chart to charts/ and leave repository empty"
    assert found == (f"{name}:{line}: {what}: {cure}",)


SUB = "charts/db/"
REFUSED: list[tuple[str, str, int, str]] = [
    ("Chart.lock", "Dependencies:\n- name: db\n", 1, "key Dependencies isn't one of Helm's: spell"),
    ("Chart.lock", "dependencies:\n- Repository: 'file://a'\n", 2, "key Repository isn't one of"),
    ("Chart.lock", "dependencie\u017f: []\n", 1, "key dependencie\u017f isn't one of Helm's"),
    ("Chart.lock", "dependencies: []\ndependencies: []\n", 2, "key dependencies and another one"),
    ("Chart.lock", 'dependencies: []\n"\\x64ependencies": []\n', 2, "key dependencies and another"),
    ("Chart.lock", "a: &a\n  b: c\n<<: *a\n", 1, "an anchor (&) or a tag (!): write the value"),
    ("Chart.lock", "dependencies: !!seq []\n", 1, "an anchor (&) or a tag (!): write the value"),
    ("Chart.lock", "dependencies: []\n---\ndependencies: [{name: a}]\n", 1, "the file isn't one"),
    ("Chart.lock", "- a\n", 1, "the file isn't one mapping"),
    ("Chart.lock", "a: [\n", 2, "the file isn't YAML"),
    ("Chart.lock", "#" * 70000, 1, "the file has more than 64 KiB"),
    ("Chart.yaml", f"{CHART_YAML}maintainers: [{{Name: a}}]\n", 4, "key Name isn't one of Helm's"),
    ("Chart.yaml", f"{CHART_YAML}annotations: {{a: b, a: c}}\n", 4, "key a and another one"),
    ("Chart.yaml", "name: shop\nversion: 1.10\n", 2, "the value of key version may be read as"),
    ("Chart.yaml", "name: a\nversion: 1234567.5\n", 2, "the value of key version may be read as"),
    ("Chart.yaml", "name: yes\nversion: 1.0.0\n", 1, "the value of key name may be read as"),
    ("requirements.yaml", "name: other\n", 1, "key name isn't one of Helm's: remove it"),
    (SUB + "Chart.yaml", "Name: db\n", 1, "key Name isn't one of Helm's: spell it name"),
    (SUB + "Chart.lock", "dependencies: [{repository: 'file:a'}]\n", 1, "key repository is"),
    ("values.yaml", "a: 1\nb: 2\na: 3\n", 3, "key a and another one of its mapping may be equal"),
    ("values.yaml", "a:\n  1.1: x\n  1.10000001: y\n", 3, "key 1.10000001 and another one"),
    ("values.yaml", '1: a\n"1": b\n', 2, "key 1 and another one of its mapping"),
    ("values.yaml", "0x10: x\n16: y\n", 2, "key 16 and another one of its mapping"),
    ("values.yaml", "1_0: x\n10: y\n", 2, "key 10 and another one of its mapping"),
    ("values.yaml", f"1: x\n1.{'0' * 60}: y\n", 2, f"key 1.{'0' * 60} and another one"),
    ("values.yaml", '"true": a\nyes: b\n', 2, "key yes and another one of its mapping"),
    ("values.yaml", '"\\u0061": x\na: y\n', 2, "key a and another one of its mapping"),
    ("values.yaml", "&a b: c\n", 1, "key b has an anchor (&) or a tag (!): remove it"),
    ("values.yaml", "!!int 1: c\n", 1, "key 1 has an anchor (&) or a tag (!): remove it"),
    ("values.yaml", "a: &a b\n*a : c\n", 2, "a key that isn't a text: write it as one"),
    ("values.yaml", "? [a]\n: b\n", 1, "a key that isn't a text: write it as one"),
    ("values.yaml", 'a: &a {1: x}\nb: {<<: *a, "1": y}\n', 2, "key 1 and another one"),
    ("values.yaml", "a: 1\n---\na: 2\n", 3, "a second document, which werf doesn't read"),
    ("values.yaml", "[" * 200, 1, "the file has too many keys and values, or too many in one"),
    ("values.yaml", b"a: \xff\n", 1, "the file isn't YAML"),  # type: ignore[list-item]
    ("secret-values.yaml", "a: x\na: y\n", 2, "key a and another one of its mapping"),
    (SUB + "values.yaml", "a: x\na: y\n", 2, "key a and another one of its mapping"),
    (SUB + "secret-values.yaml", "on: x\ntrue: y\n", 2, "key true and another one"),
    ("values.schema.json", '{\n"$ref": "http://a/b#"}', 2, 'key $ref names another document'),
    ("values.schema.json", '{"a": {"$ref": "b.json"}}', 1, "key $ref names another document"),
    ("values.schema.json", '{"$ref": "file:///a", "$ref": "#"}', 1, "key $ref names another"),
    ("values.schema.json", '{"$schema": "http://a/b"}', 1, "key $schema names another document"),
    ("values.schema.json", '{"$id": "http://a/b#c", "$ref": "#/d"}', 1, "key $id names another"),
    ("values.schema.json", '{"$id": "http://a/b?", "$ref": "#/d"}', 1, "key $id names another"),
    ("values.schema.json", '{"id": "file:///a", "$ref": "#/d"}', 1, "key id names another"),
    ("values.schema.json", "[" * 100_000, 1, "the file isn't JSON, or nested too deeply"),
    (SUB + "values.schema.json", '{"$ref": "http://a"}', 1, "key $ref names another document"),
    (".helmignore", "*.md\ncharts/db\n", 2, "this pattern hides a chart in charts/, or metadata"),
    (".helmignore", "charts/\n", 1, "this pattern hides a chart"),
    (".helmignore", "d[abc]\n", 1, "this pattern hides a chart"),
    (".helmignore", "charts/*/values.yaml\n", 1, "this pattern hides a chart"),
    (".helmignore", "/Chart.lock\n", 1, "this pattern hides a chart"),
    (".helmignore", "!templates\n", 1, "this pattern hides a chart"),
    (".helmignore", "d[\\]b]\n", 1, "this pattern hides a chart"),
    (".helmignore", "/charts[^a]db\n", 1, "this pattern hides a chart"),
    (".helmignore", "//charts\n", 1, "this pattern hides a chart"),
    (".helmignore", "*\\b\n", 1, "this pattern hides a chart"),
    (".helmignore", "/*/d?\n", 1, "this pattern hides a chart"),
    (".helmignore", "\ufeffcharts\n", 1, "this pattern hides a chart"),
    (".helmignore", "a\n" * 300, 1, "the file has more than 200 patterns: remove some"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "why"), REFUSED)
def test_what_may_be_read_in_several_ways_is_refused(
    name: str, text: str, line: int, why: str
) -> None:
    whole = {SUB + "Chart.yaml": DB, SUB + "values.yaml": "a: b", "Chart.lock": LOCK, name: text}

    found = _unplain(whole)

    assert found, "it is plain"
    assert found[0].startswith(f"{name}:{line}: {why}"), found


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"charts/db/Chart.yaml": "name: a", "charts/DB/Chart.yaml": "name: b"}, "directories"),
        ({"charts/a/Chart.yaml": "name: x", "charts/b/Chart.yaml": "name: X"}, "charts named x"),
        ({"charts/a/Chart.yaml": "name: x", "charts/b/Chart.yaml": "name: x"}, "charts named x"),
        (
            {
                "Chart.yaml": f"{NAMED}- name: c\n  version: 1\n  alias: Db\n",
                "charts/db/Chart.yaml": DB,
                "charts/c/Chart.yaml": "name: c",
            },
            "dependencies named db and Db",
        ),
        (
            {
                "Chart.yaml": f"{CHART_YAML}dependencies: [{{name: c, alias: DB}}]",
                "charts/db/Chart.yaml": DB,
                "charts/c/Chart.yaml": "name: c",
            },
            "dependencies named DB and db",
        ),
        (
            {"charts/a/charts/b/Chart.yaml": "name: x", "charts/a/charts/c/Chart.yaml": "name: X"},
            "charts named x",
        ),
    ],
)
def test_subcharts_whose_names_are_equal_but_for_case_are_refused(
    files: dict[str, str | bytes], why: str
) -> None:
    found = _unplain(files)

    assert found[0].split(":")[0].endswith("charts")
    assert f"of two {why}" in found[0]
    assert found[0].endswith("one is drawn: rename or remove one")


def test_two_files_of_dependencies_are_refused() -> None:
    old = {"requirements.yaml": "dependencies: []", "requirements.lock": LOCK}
    both = _unplain({"Chart.yaml": NAMED, "charts/db/Chart.yaml": DB, "Chart.lock": LOCK, **old})

    assert both == (
        "requirements.yaml:1: Chart.yaml has dependencies: remove this",
        "requirements.lock:1: there is Chart.lock, too: remove this",
    )


PLAIN: dict[str, dict[str, str | bytes]] = {
    "all keys of Helm": {
        "Chart.yaml": f"{NAMED}  repository: https://charts.example\n  alias: store\n"
        "  condition: db.enabled\n  tags: [a]\n  import-values: [{child: a, parent: b}]\n"
        "maintainers: [{name: a, email: b, url: c}]\nannotations:\n  a/b: |\n    - x\n"
        "kubeVersion: '>=1.29'\ntype: application\nsources: []\nkeywords: [a]\nhome: a\n"
        "icon: a\nappVersion: 1.10\ndeprecated: false\ndescription: a\nengine: gotpl\n",
        "charts/db/Chart.yaml": DB,
        "Chart.lock": f"{LOCK}digest: sha256:ab\ngenerated: '2026-01-01T00:00:00Z'\n",
    },
    "one chart under two aliases": {
        "Chart.yaml": CHART_YAML
        + "dependencies: [{name: db, version: 1, alias: a}, {name: db, version: 1, alias: b}]",
        "charts/db/Chart.yaml": DB,
    },
    "a registry's chart": {
        "Chart.yaml": f"{NAMED}  repository: oci://registry.example/charts\n",
        "charts/db-1.0.3.tgz": pack({"Chart.yaml": DB}, "db"),
    },
    "anchors and merges of values": {
        "values.yaml": "a: &a {b: 1, '8080': x}\nc:\n  <<: *a\n  b: 2\nd: *a\ne: &t text\n"
    },
    "keys in quotes, numbers, yes": {
        "values.yaml": "'a/b': 1\n\"c\": 2\n8080: a\n443: b\nx: 1\ny: 2\nn: 3\n1.2.3: c\n"
        "1.28: d\n1.29: e\n'1.30': f\n"
    },
    "equal keys of several mappings": {"values.yaml": 'a: {1: x}\nb: {"1": y, a: 1}\n'},
    "values of all kinds": {"values.yaml": "a: ~\nb: 1.10\nc: !!str x\nd: [1, {e: f}]\n"},
    "no values": {"values.yaml": "# none\n", "secret-values.yaml": ""},
    "a schema": {
        "values.schema.json": '{"$schema": "http://json-schema.org/draft-07/schema#", '
        '"$id": "https://example.com/shop.json", "definitions": {"a": {}}, '
        '"properties": {"$ref": {"type": "string"}, "b": {"$ref": "#/definitions/a"}}}'
    },
    "what helm create ignores": {
        ".helmignore": "# a\n.DS_Store\n.git/\n*.swp\n*~\n*.tmproj\n.vscode/\n/*.tgz\n"
        "CHANGES\nci/\ntests/\n",
        "charts/db/Chart.yaml": DB,
        "charts/db/CHANGES": "a",
        "charts/db/tests/a": "a",
        "charts/a-1.tgz": pack({"Chart.yaml": "name: a"}, "a"),
    },
}


@pytest.mark.parametrize("what", PLAIN)
def test_what_every_reader_takes_alike_is_plain(what: str) -> None:
    assert _unplain(PLAIN[what]) == ()


def test_at_most_twenty_reasons_are_kept_and_texts_of_the_chart_are_cut() -> None:
    many = "".join(f"{'k' * 300}{at}: a\n" for at in range(50))

    found = _unplain({"Chart.lock": many})

    assert len(found) == 20
    assert all(len(one) < 200 for one in found)


def test_large_values_are_refused_before_they_are_parsed() -> None:
    found = _unplain({"values.yaml": "a: b\n" * 2**20})

    assert found == ("values.yaml:1: with it values and schemas have more than 4 MiB: shorten it",)


@given(st.binary(max_size=120), st.sampled_from(["Chart.lock", "values.yaml", ".helmignore"]))
def test_no_content_raises(content: bytes, name: str) -> None:
    judge_layer(pack({"Chart.yaml": CHART_YAML, "charts/db/Chart.yaml": DB, name: content}))


def test_a_plain_chart_is_bound() -> None:
    assert judge_layer(chart("a: b")).unbound == ()
