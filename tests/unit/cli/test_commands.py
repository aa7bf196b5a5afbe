"""The commands as a whole: help that fits a terminal, clear refusals, documents that are true."""

import itertools
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.documents import commands

from copyrator.cli import _COMMANDS, cli
from copyrator.cli.core.output import API_VERSION, Format, Kind, dump, typed
from copyrator.cli.offline.install import MANIFESTS

ROOT = Path(__file__).resolve().parents[3]


def invoke(*args, **more):
    return CliRunner().invoke(cli, list(args), **more)


@pytest.mark.parametrize("name", ["", *sorted(_COMMANDS)])
def test_every_help_fits_80_columns_and_says_what_the_command_does(name):
    result = invoke(*([name] if name else []), "--help", env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    assert max(len(line) for line in result.output.splitlines()) <= 80
    if name:
        command = cli.get_command(click.Context(cli), name)
        assert command.name == name
        assert command.help


def test_help_lists_each_command_in_one_group():
    _, *sections = re.split(r"^(?=\S.*:$)", invoke("--help").output, flags=re.MULTILINE)
    listed = {
        section.splitlines()[0]: re.findall(r"^  ([a-z][\w-]*) ", section, re.MULTILINE)
        for section in sections
    }
    assert listed.pop("Options:") == []
    groups = ["Look", "Decide", "Stop and go", "Versions", "Set up", "Offline (without a cluster)"]
    assert list(listed) == [f"{group}:" for group in groups]
    assert sorted(name for names in listed.values() for name in names) == sorted(_COMMANDS)


STOPS = {"freeze", "hold", "rollback", "skip", "suspend"}


def test_help_of_what_stops_something_names_the_table_of_all_ways():
    found = {
        name for name in _COMMANDS if "docs/guides.md#ways-to-stop" in invoke(name, "-h").output
    }
    assert found == STOPS
    table = (ROOT / "docs/guides.md").read_text().split("## Ways to stop\n")[1].split("\n## ")[0]
    ways = set(re.findall(r"^\| `copyrator (\w+) ", table, re.MULTILINE))
    assert ways == STOPS


def flags(name):
    command = cli.get_command(click.Context(cli), name)
    return {flag for option in command.params for flag in option.opts}


@pytest.mark.parametrize(
    "name",
    sorted(
        set(_COMMANDS)
        - {"attest", "completion", "create", "notify", "remote", "resolve", "validate", "verify"}
    ),
)
def test_every_command_that_asks_a_cluster_takes_a_namespace(name):
    # `run` is the operator: its --namespace is a setting, as the original's was.
    assert {"--namespace"} <= flags(name)
    assert "-n" in flags(name) or name == "run"


@pytest.mark.parametrize(
    "name",
    sorted(
        set(_COMMANDS)
        - {"completion", "install", "logs", "run", "uninstall"}
        - {"attest", "create", "notify", "remote", "report", "ui"}
    ),
)
def test_every_command_takes_an_output_format_but_for_those_of_which_kubectl_has_none(name):
    assert {"-o", "--output"} <= flags(name)


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant():
    result = invoke("plna")
    assert (result.exit_code, "Did you mean 'plan'?" in result.output) == (2, True), result.output


def test_no_cluster_is_said_in_a_line_that_says_what_to_do(tmp_path):
    result = invoke("get", "rules", "--kubeconfig", str(tmp_path / "none"))
    assert result.exit_code == 1
    assert result.output == (
        f"Error: the kubeconfig {tmp_path / 'none'} doesn't exist; check --kubeconfig\n"
    )


def test_wrong_usage_of_plan_isnt_mistaken_for_changes():
    wrong = [[], ["rule", "a", "-f", "b"], ["--nonsense"], ["-f", "/nowhere/at/all"]]
    wrong += [["bundle"], ["bundle", "a", "-f", "b"], ["rule", "a", "--refresh"]]
    wrong += [["bundle", "a", "--show", "b/c"]]
    for args in wrong:
        assert invoke("plan", *args).exit_code == 1, args


def test_the_printed_manifests_carry_the_namespace_and_the_image():
    result = invoke("install", "--print", "-n", "ops", "--image", "r.example.com/copyrator:1")
    documents = list(yaml.safe_load_all(result.output))
    kinds = [document["kind"] for document in documents]
    assert kinds[:3] == ["CustomResourceDefinition", "CustomResourceDefinition", "Namespace"]
    assert {d["metadata"]["namespace"] for d in documents if "namespace" in d["metadata"]} == {
        "ops"
    }
    (deployment,) = (d for d in documents if d["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "r.example.com/copyrator:1"
    assert "copyrator-namespace" not in result.output
    assert "system:serviceaccount:ops:copyrator" in result.output
    without = invoke("install", "--print", "--no-policies", "-n", "ops", "--image", "x:1").output
    left = {document["kind"] for document in yaml.safe_load_all(without)}
    assert set(kinds) - left == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert "Helm" not in MANIFESTS.read_text().replace("without Helm", "").replace("by Helm", "")


def test_install_says_what_to_give_it():
    result = invoke("install")
    assert result.exit_code == 2
    assert "--print --image IMAGE" in result.output


def test_an_option_before_the_command_is_told_where_to_stand():
    result = invoke("-n", "apps", "get", "rules")
    assert result.exit_code == 2
    assert "options follow it, such as in copyrator get rules -n" in " ".join(result.output.split())


JSON_PAGE = (ROOT / "docs" / "reference" / "json.md").read_text()


def rows(head):
    """The table below this head: names in code of the first column, and the second one."""
    table = JSON_PAGE.partition(f"| {head} |")[2].partition("\n\n")[0]
    return [
        (re.findall(r"`([^`]+)`", first), second)
        for first, second in re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    ]


def json_commands():
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
    assert sorted(named) == sorted(json_commands())
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
