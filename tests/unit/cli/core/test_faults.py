"""Commands that messages advise work when they are pasted."""

import ast
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from copyrator.cli import cli
from copyrator.cli.core import faults

SOURCE = Path(faults.__file__).parents[1]
NO_HINTS = {
    "__init__.py",  # the program's name
    "install.py",  # a pipe to kubectl, for help
    "completion.py",  # scripts
    "server.py",  # says where its URL was printed
    "run.py",  # the operator's own flags
}
BODY = {"metadata": {"namespace": "team-a", "name": "creds"}}


def advised(*args, program="copyrator", **environment):
    """What a command that is called so would advise."""
    said = []

    @click.command()
    @click.option("--kubeconfig", envvar="KUBECONFIG")
    @click.option("--context")
    @click.option("--as", "user")
    def command(**_options):
        said.append(faults.hint_about("resume", "rule", BODY))

    result = CliRunner().invoke(command, list(args), prog_name=program, env=environment)
    assert result.exit_code == 0, result.output
    return said[0]


def test_a_hint_names_the_namespace():
    assert advised() == "copyrator resume rule team-a/creds"
    assert faults.hint("doctor") == "copyrator doctor"


def test_a_hint_is_for_the_same_cluster_and_user_under_the_same_name():
    typed = ("--context", "my prod", "--as", "jane", "--kubeconfig", "there")
    assert advised(*typed, program="kubectl copyrator") == (
        "kubectl copyrator resume rule team-a/creds --kubeconfig there --context 'my prod' "
        "--as jane"
    )


def test_what_the_environment_says_isnt_repeated():
    assert advised(KUBECONFIG="there") == "copyrator resume rule team-a/creds"


def literals(path):
    """The string literals of a module, without docstrings."""
    tree = ast.parse(path.read_text())
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented:
            yield node.value


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_every_message_makes_its_commands_by_the_helper(path):
    commands = "|".join(cli.list_commands(click.Context(cli)))
    written = [
        text
        for text in literals(path)
        if re.search(rf"copyrator ({commands})\b", text) or text.endswith("copyrator ")
    ]
    assert path.name in NO_HINTS or written == []


def test_a_missing_argument_is_answered_with_the_choices():
    result = CliRunner().invoke(cli, ["get"])
    assert result.exit_code == 2
    assert "Choose from: rules, bundles, copies, all" in " ".join(result.output.split())
