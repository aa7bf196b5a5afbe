"""Eighty columns are enough: on a terminal lines end there; a pipe gets them whole."""

import re
from datetime import UTC, datetime

import pytest
from rich.text import Text
from tests.builders.bundles import known

from copyrator.api.text import MOST, Detail, printable, said
from copyrator.cli.core.output import Column, Table, paint_diff, prose, reference
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView, bundle_columns

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MESSAGE = "exceeded quota: none, requested: secrets=1, used: secrets=0, limited: secrets=0"
ROW = {"name": "registry-creds", "message": MESSAGE}
COLUMNS = [Column("NAME", lambda row: row["name"]), Column("MESSAGE", lambda row: row["message"])]


@pytest.fixture
def terminal(monkeypatch):
    """Output goes to a terminal of 80 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys):
    return Text.from_ansi(capsys.readouterr().out).plain.splitlines()


@pytest.mark.usefixtures("terminal")
def test_a_table_is_cut_at_the_end_of_the_line(capsys):
    Table(COLUMNS).print([ROW])
    _, line = printed(capsys)
    assert len(line) == 80
    assert line.endswith("…")


@pytest.mark.usefixtures("terminal")
def test_a_message_that_somebody_needs_whole_goes_on_below_its_beginning(capsys):
    Table(COLUMNS, whole=True).print([ROW])
    _, *lines = printed(capsys)
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith(" " * 16)
    assert " ".join(line[16:] for line in lines) == MESSAGE


@pytest.mark.usefixtures("terminal")
def test_a_wide_table_is_neither_cut_nor_broken(capsys):
    Table(COLUMNS, wide=True, whole=True).print([ROW])
    assert printed(capsys)[1].endswith(MESSAGE)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("line", "indent"),
    [(f"State:         {MESSAGE}", 15), (f"  rule a: {MESSAGE}", 6), (f"It says: {MESSAGE}", 4)],
)
def test_prose_breaks_between_words_and_is_indented(capsys, line, indent):
    prose([line])
    first, second = printed(capsys)
    assert len(first) <= 80
    assert second.startswith(" " * indent + second.strip())
    assert f"{first} {second.strip()}" == line


def test_a_pipe_gets_whole_lines(capsys):
    prose([f"State:         {MESSAGE}"])
    Table(COLUMNS, whole=True).print([ROW])
    lines = printed(capsys)
    assert len(lines) == 3
    assert lines[0].endswith(MESSAGE)
    assert lines[2].endswith(MESSAGE)


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [
        ("v1", "Secret", "secret/a"),
        ("rbac.authorization.k8s.io/v1", "Role", "role.rbac.authorization.k8s.io/a"),
        ("operator.werf.dev/v1", "Bundle", "bundle.operator.werf.dev/a"),
    ],
)
def test_a_name_is_what_kubectl_prints_and_takes(version, kind, name):
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}
    assert reference(body) == name


def bundle(**status):
    body = known(name="checkout-service", **status)
    body["metadata"]["namespace"] = "payments-production"
    return body


FAILING = {
    "type": "Ready",
    "status": "False",
    "reason": "RegistryUnreachable",
    "message": f"registry.example.com: {MESSAGE}",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


SIGNED = [Column("NAME", str), Column("WHAT", lambda _: "+a ~b.c -d is -new", signed=True)]
DIFF = [("same", "  data:"), ("removed", "-   x: 1"), ("added", "+   x: 2"), ("added", "+ ")]
PLAIN_DIFF = ["    data:", "  -   x: 1", "  +   x: 2", "  +"]


@pytest.mark.usefixtures("terminal")
def test_what_is_added_changed_and_removed_is_coloured_on_a_terminal(capsys):
    Table(SIGNED).print(["row"])
    line = capsys.readouterr().out.splitlines()[1]
    coloured = ["\x1b[32m+a\x1b[0m", "\x1b[33m~b.c\x1b[0m", "\x1b[31m-d\x1b[0m", "is", "-new"]
    assert line.split()[1:] == coloured
    prose(paint_diff(DIFF, "  "))
    same, *changed = capsys.readouterr().out.splitlines()
    assert same == PLAIN_DIFF[0]
    for line, plain, colour in zip(changed, PLAIN_DIFF[1:], (31, 32, 32), strict=True):
        assert line == f"\x1b[{colour}m{plain}\x1b[0m"


def test_a_pipe_and_who_wants_no_colours_get_diffs_without(capsys, monkeypatch):
    for variables in ({}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        Table(SIGNED).print(["row"])
        prose(paint_diff(DIFF, "  "))
        printed = capsys.readouterr().out
        assert not re.search("\x1b.[0-9;]*3[0-9]m", printed)
        assert Text.from_ansi(printed).plain.splitlines()[2:] == PLAIN_DIFF


@pytest.mark.usefixtures("terminal")
def test_a_row_with_long_names_goes_on_in_the_next_line_and_the_others_stay_short(capsys):
    good = {**FAILING, "status": "True", "reason": "Deployed"}
    versions = {"deployed": {"version": "1.10.0"}, "available": {"version": "1.11.0"}}
    short, long = bundle(conditions=[good], **versions), bundle(conditions=[FAILING], **versions)
    long["metadata"] = {"name": "n" * 53, "namespace": "s" * 63}
    columns = bundle_columns()
    Table(columns).print([BundleView(short, NOW), BundleView(long, NOW)])
    heads, first, *parts = printed(capsys)
    assert max(map(len, (heads, first, *parts))) <= 80
    assert heads.split() == ["NAMESPACE", "NAME", "STATUS", "REASON", "DEPLOYED"]
    assert first.split()[2:] == ["Ready", "Deployed", "1.10.0"]
    names, rest, message = parts[:2], parts[2], parts[3:]
    assert [line.strip() for line in names] == ["s" * 63, "n" * 53]
    assert rest.split() == ["Failing", "RegistryUnreachable", "1.10.0"]
    assert rest.index("Failing") == heads.index("STATUS")
    assert " ".join(line.strip() for line in message) == FAILING["message"]


@pytest.mark.usefixtures("terminal")
def test_the_rule_of_a_copy_with_long_names_is_whole(capsys):
    owner, name, namespace = "s" * 30 + "/" + "r" * 40, "n" * 40, "s" * 30
    metadata = {"name": name, "namespace": namespace}
    metadata |= {"annotations": {"copyrator.flant.com/rule": owner}}
    Table(rows.copy_columns(NOW)).print([{"kind": "ConfigMap", "metadata": metadata}])
    _, *lines = printed(capsys)
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()) == f"{namespace} ConfigMap {name} - {owner}"


def test_what_moves_a_cursor_or_reorders_text_is_shown_as_an_escape():
    text = "a\tb\n\x1b[2J\r\x9b\u202e\u2066é"
    assert printable(text) == "a\tb\n\\x1b[2J\\r\\x9b\\u202e\\u2066é"
    assert said("a\nb\tc\x1b") == "a b c\\x1b"
    assert len(said("x" * 10_000)) == MOST + 1
    assert said("") == said(None) == "-"


def test_a_part_has_its_label_in_a_column_and_its_lines_below():
    part = Detail("Plan", "a\x1b", ["b", "  c\x1b"])
    assert part.lines == ["Plan:          a\\x1b", "  b", "    c\\x1b"]
    assert part.text == "a\\x1b\nb\n  c\\x1b"
    assert Detail("Soak", below=["x"]).lines == ["Soak:", "  x"]
    assert Detail("Soak", below=["x"]).text == "x"
