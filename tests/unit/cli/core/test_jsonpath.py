"""Templates as kubectl's documentation has them, with its own examples."""

import json

import click
import pytest
from click.testing import CliRunner

from copyrator.cli.core import jsonpath
from copyrator.cli.core.jsonpath import JsonPathError, parse_path, parse_template, sort_key
from copyrator.cli.core.output import dump, output_option

# https://kubernetes.io/docs/reference/kubectl/jsonpath/
DOCUMENTED = json.loads("""
{"kind": "List",
 "items": [
  {"kind": "None", "metadata": {"name": "127.0.0.1",
                                "labels": {"kubernetes.io/hostname": "127.0.0.1"}},
   "status": {"capacity": {"cpu": "4"},
              "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.1"}]}},
  {"kind": "None", "metadata": {"name": "127.0.0.2"},
   "status": {"capacity": {"cpu": "8"},
              "addresses": [{"type": "LegacyHostIP", "address": "127.0.0.2"},
                            {"type": "another", "address": "127.0.0.3"}]}}
 ],
 "users": [
  {"name": "myself", "user": {}},
  {"name": "e2e", "user": {"username": "admin", "password": "secret"}}
 ]}
""")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("kind is {.kind}", "kind is List"),
        ("{.kind}", "List"),
        ("{['kind']}", "List"),
        ("{$.kind}{@.kind}", "ListList"),
        ("{..name}", "127.0.0.1 127.0.0.2 myself e2e"),
        ("{.items[*].metadata.name}", "127.0.0.1 127.0.0.2"),
        ("{.users[0].name}", "myself"),
        ("{.users[-1].name}{.users[-1:].name}{.users[1:5].name}", "e2ee2ee2e"),
        ("{.users[::2].name}", "myself"),
        (
            "{.items[*]['metadata.name', 'status.capacity']}",
            '127.0.0.1 {"cpu":"4"} 127.0.0.2 {"cpu":"8"}',
        ),
        ('{.users[?(@.name=="e2e")].user.password}', "secret"),
        ("{.users[?(@.name!='e2e')].name}", "myself"),
        ("{.users[?(@.user.password)].name}", "e2e"),
        ('{.items[*].status.addresses[?(@.type=="another")].address}', "127.0.0.3"),
        (
            "{range .items[*]}[{.metadata.name}, {.status.capacity}] {end}",
            '[127.0.0.1, {"cpu":"4"}] [127.0.0.2, {"cpu":"8"}] ',
        ),
        ("{range .items[*]}{.metadata.name}{'\\t'}{end}", "127.0.0.1\t127.0.0.2\t"),
        (
            "{range .items[*]}{.metadata.name}{range ..addresses[*]} {.type}{end};{end}",
            "127.0.0.1 LegacyHostIP;127.0.0.2 LegacyHostIP another;",
        ),
        (r"{.items[0].metadata.labels.kubernetes\.io/hostname}", "127.0.0.1"),
        (r"{.items[0].metadata.labels['kubernetes\.io/hostname']}", "127.0.0.1"),
        ("{.users[0,1].name}", "myself e2e"),
        ("{.none.at.all}{.users[7]}{.kind[0]}{.users.name}", ""),
        ("{'it is a {brace}'}", "it is a {brace}"),
    ],
)
def test_what_kubectl_documents(template, text):
    assert parse_template(template).render(DOCUMENTED) == text


def test_values_are_printed_as_they_are_and_objects_as_json():
    value = {"a": 1, "b": True, "c": None, "d": 1.5, "e": [1, "ü"], "f": {"g": []}}
    shown = parse_template("{.a}|{.b}|{.c}|{.d}|{.e}|{.f}|{@.f.g}|{5}").render(value)
    assert shown == '1|true||1.5|[1,"ü"]|{"g":[]}|[]|5'
    assert json.loads(parse_template("{.}").render(value)) == value


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("@.n==1", "a"),
        ("@.n!=1", "b c d"),
        ("@.n<2", "a"),
        ("@.n>=1", "a b"),
        ("@.n==true", "d"),
        ('@.n>"0"', "c"),
        ("@.n==$.wanted", "b"),
        ("@.m < @.m", ""),
    ],
)
def test_filters_compare_what_can_be_compared(condition, names):
    items = [{"k": "a", "n": 1}, {"k": "b", "n": 2}, {"k": "c", "n": "1"}, {"k": "d", "n": True}]
    found = parse_template(f"{{.items[?({condition})].k}}").render({"items": items, "wanted": 2})
    assert found == names


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        (".metadata.name", "no expression in braces, such as {.metadata.name}"),
        ("", "no expression in braces, such as {.metadata}"),
        ("{.a", "} is expected, at character 4 of '{.a'"),
        ("{.a[}", "an index, a slice"),
        ("{a}", "a path begins with a dot, $ or @"),
        ("{range .a}{.b}", "{range} without {end}"),
        ("{.a}{end}", "{end} without {range}"),
        ("{.a[?(@.b==1 && @.c==2)]}", "&& isn't supported in filters, as in kubectl"),
        ("{.a[?(@.b=~'x')]}", "=~ isn't supported"),
        ("{.a[0:9:0]}", "a step of 0"),
        ("{.a b}", "} is expected"),
        ("{range .a}" * 21, "more than 20 ranges"),
        ("{.a}" * 3000, "more than 10000 characters"),
    ],
)
def test_what_isnt_a_template_is_refused_with_the_place(template, fault):
    with pytest.raises(JsonPathError) as refused:
        parse_template(template)
    assert fault in str(refused.value)


def test_a_path_that_finds_too_much_ends(monkeypatch):
    monkeypatch.setattr(jsonpath, "MOST", 100)
    with pytest.raises(JsonPathError, match="more than 100 values"):
        parse_template("{..*..*..*}").render(DOCUMENTED)


@pytest.mark.parametrize("path", ["{.users[1].name}", ".users[1].name", "users[1].name"])
def test_a_path_to_sort_by_needs_no_braces(path):
    assert parse_path(path).find(DOCUMENTED, DOCUMENTED) == ["e2e"]


@pytest.mark.parametrize("path", [".a}", "a b", "", "a["])
def test_what_isnt_a_path_to_sort_by_is_refused(path):
    with pytest.raises(JsonPathError):
        parse_path(path)


def test_texts_are_sorted_by_the_numbers_in_them_and_what_is_missing_comes_first():
    wanted = [None, 2, 10.5, "v1.2", "v1.10", "v2"]
    assert sorted(["v2", "v1.10", None, "v1.2", 10.5, 2], key=sort_key) == wanted


def test_the_template_is_the_format_of_what_is_json_without_it():
    @click.command()
    @output_option
    def command(shape):
        dump({"apiVersion": "v1", "kind": "A", "a": ["\a"]}, shape)

    assert CliRunner().invoke(command, ["-o", "jsonpath={.a[*]}"]).stdout == "\a"
    shown = CliRunner().invoke(command, ["-o", "jsonpath={.a[*]}"], env={"FORCE_COLOR": "1"})
    assert shown.stdout == "\\x07"
    refused = CliRunner().invoke(command, ["-o", "jsonpath={.a"])
    assert (refused.exit_code, "the template of jsonpath: }" in refused.output) == (2, True)


def test_an_unknown_format_is_told_that_templates_are_taken_too():
    @click.command()
    @output_option
    def command(shape):
        """Do nothing."""

    answer = CliRunner().invoke(command, ["-o", "custom-columns=NAME:.metadata.name"])
    assert answer.exit_code == 2
    assert answer.output.endswith("'name', or jsonpath=TEMPLATE.\n")
