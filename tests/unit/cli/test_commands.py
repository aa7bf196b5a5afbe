"""The commands as a whole: help that fits a terminal, clear refusals, nothing loaded in vain."""

import re
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from copyrator.cli import _COMMANDS, cli
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


def test_lists_are_of_all_namespaces_as_kubectls_are():
    assert {"-A", "--all-namespaces"} <= flags("get")


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
    assert "Helm" not in MANIFESTS.read_text().replace("without Helm", "").replace("by Helm", "")


def test_install_says_what_to_give_it():
    result = invoke("install")
    assert result.exit_code == 2
    assert "--print --image IMAGE" in result.output


def test_an_option_before_the_command_is_told_where_to_stand():
    result = invoke("-n", "apps", "get", "rules")
    assert result.exit_code == 2
    assert "options follow it, such as in copyrator get rules -n" in " ".join(result.output.split())
