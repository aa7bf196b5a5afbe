"""Every command of ours that a document or an example shows is one that the program takes."""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
from tests.e2e.documents import commands

from copyrator.cli import cli

ROOT = Path(__file__).resolve().parents[3]
FILES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "charts/copyrator/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").rglob("*.yaml")),
]


def _of_blocks(path: Path) -> list[str]:
    """Our commands in the blocks of a document, without comments and what they are piped to."""
    words = [shlex.split(line, comments=True) for line in commands(str(path))]
    ours = [each for each in words if each[0] == "copyrator"]
    return [shlex.join(itertools.takewhile(lambda word: word != "|", each)) for each in ours]


SHOWN = sorted(
    {
        command.strip()
        for path in FILES
        for command in (
            *re.findall(r"`(copyrator [^`…]+)`", path.read_text()),
            *re.findall(r"(?:by|first): (copyrator .+)$", path.read_text(), re.MULTILINE),
            *_of_blocks(path),
        )
    }
)


def test_commands_are_found_in_the_documents():
    assert len(SHOWN) > 20


@pytest.mark.parametrize("command", SHOWN)
def test_a_shown_command_is_one_that_the_program_takes(command, tmp_path, monkeypatch):
    name, *arguments = shlex.split(command)[1:]
    found = cli.get_command(click.Context(cli), name)
    assert found is not None, f"there is no command {name}"
    found.make_context(name, arguments)  # parses, and raises what a user would read


NAMES = {name.split()[0] for name in cli.list_commands(click.Context(cli))}
ALSO_FIELDS = {"approve", "attest", "create", "get", "hold", "notify", "plan", "run", "verify"}
"""Commands whose names are verbs of RBAC, fields or packages, too."""
LIST = re.compile(r"`[a-z]+`(?:(?:,| and| or|, and)\s+`[a-z]+`)+")


def test_no_list_of_commands_names_one_that_there_isnt():
    documents = {*FILES, *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs/reference/json.md"}
    lists = [
        re.findall(r"`([a-z]+)`", found)
        for path in documents
        for found in LIST.findall(path.read_text())
    ]
    ours = [one for one in lists if NAMES.intersection(one) - ALSO_FIELDS]
    assert len(ours) > 5
    assert [one for one in ours if not NAMES.issuperset(one)] == []
