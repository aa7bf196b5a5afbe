"""JSON and YAML of commands: each document says what it is, as docs/reference/json.md does."""

import re
from pathlib import Path

import click
import pytest

from copyrator.cli import _COMMANDS, cli
from copyrator.cli.core.output import API_VERSION, Format, Kind, dump, typed

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()


def rows(head):
    """The table below this head: names in code of the first column, and the second one."""
    table = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0]
    return [
        (re.findall(r"`([^`]+)`", first), second)
        for first, second in re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    ]


def commands():
    """Every command that has -o json."""
    context = click.Context(cli)
    for name in _COMMANDS:
        command = cli.get_command(context, name)
        parts = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        for word, part in parts:
            if any(option.name == "shape" for option in part.params):
                yield f"{name} {word}".strip()


def test_the_page_has_every_command_and_every_kind():
    named = [name for names, _ in rows("command | kind") for name in names]
    assert sorted(named) == sorted(commands())
    kinds = {name for names, _ in rows("kind | fields") for name in names}
    assert kinds | {Kind.PLAN} == set(Kind)


def test_the_kinds_that_commands_print_are_described():
    said = {
        kind
        for _, text in rows("command | kind")
        for kind in re.findall(r"`([A-Z]\w+)`", text)
        if kind != "List"
    }
    assert said | {Kind.PLAN} == set(Kind)


def test_only_one_module_prints_json_and_yaml_for_programs():
    """It refuses what doesn't say what it is."""
    home = ROOT / "operator" / "copyrator" / "cli"
    prints = re.compile(r"json\.dumps|import json\b|dump_json|json\.encode")
    found = {
        str(one.relative_to(home)) for one in home.rglob("*.py") if prints.search(one.read_text())
    }
    assert found == {"core/output.py"}


@pytest.mark.parametrize("value", [{}, {"kind": "Tree"}, {"apiVersion": "v1"}])
def test_what_doesnt_say_what_it_is_isnt_printed(value):
    with pytest.raises(KeyError):
        dump(value, Format.JSON)


def test_what_a_document_is_comes_first(capsys):
    dump({"items": [], **typed(Kind.PLAN_LIST, {})}, Format.YAML)
    head = f"apiVersion: {API_VERSION}\nkind: PlanList\n"
    assert capsys.readouterr().out.startswith(head)
