"""The originals' command lines: no subcommand, and flags as Go's package `flag` reads them."""

import click
import pytest
from click.testing import CliRunner

from copyrator.cli import cli
from copyrator.cli.core.run import run_arguments
from copyrator.runtime import flags

IN_A_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
ELSEWHERE = {"KUBERNETES_SERVICE_HOST": None}


@pytest.fixture
def started(monkeypatch):
    """The settings with which the operator was started, instead of starting it."""
    seen = []
    from copyrator.runtime import supervisor  # noqa: PLC0415

    monkeypatch.setattr(supervisor, "run", lambda settings: seen.append(settings) or 0)
    for parameter in flags.parameters():
        if isinstance(parameter.envvar, str):
            monkeypatch.delenv(parameter.envvar, raising=False)
    return seen


def invoke(text, environ):
    return CliRunner().invoke(cli, text.split(), env=environ)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("-rule-name main-rule", "--rule-name main-rule"),
        ("-rule-name=main-rule -namespace=a", "--rule-name=main-rule --namespace=a"),
        ("--rule-name=-rule-name", "--rule-name=-rule-name"),
        ("-run-outside-cluster", "--run-outside-cluster"),
        ("--run-outside-cluster=true", "--run-outside-cluster"),
        ("-run-outside-cluster=1", "--run-outside-cluster"),
        ("-run-outside-cluster=false", ""),
        ("--run-outside-cluster=F", ""),
        ("-tenant-rules=TRUE", "--tenant-rules"),
        ("-h -v -nonsense=1 word", "-h -v -nonsense=1 word"),
        ("-- -run-outside-cluster", "-- -run-outside-cluster"),
    ],
)
def test_flags_in_gos_forms_are_those_of_run_and_the_rest_stays(given, taken):
    assert run_arguments(given.split()) == taken.split()


def test_a_switch_that_is_neither_true_nor_false_is_refused():
    with pytest.raises(click.BadParameter, match="'maybe' must be true or false"):
        run_arguments(["-run-outside-cluster=maybe"])


@pytest.mark.parametrize(
    ("text", "namespace", "rule_name"),
    [
        ("", "default", None),
        ("--rule-name main-rule --namespace infra", "infra", "main-rule"),
        ("-namespace=infra", "infra", None),
        ("-run-outside-cluster=false -rule-name x", "default", "x"),
    ],
)
def test_in_a_pod_an_originals_arguments_start_the_operator(started, text, namespace, rule_name):
    result = invoke(text, IN_A_POD)
    assert result.exit_code == 0, result.output
    assert [(one.namespace, one.rule_name) for one in started] == [(namespace, rule_name)]


@pytest.mark.parametrize(
    "text",
    [
        "-run-outside-cluster",
        "--run-outside-cluster=true",
        "--rule-name main-rule -run-outside-cluster=1",
        "run -run-outside-cluster=true",
    ],
)
def test_elsewhere_the_flag_for_outside_the_cluster_starts_it(started, text):
    result = invoke(text, ELSEWHERE)
    assert (result.exit_code, len(started)) == (0, 1), result.output


@pytest.mark.parametrize("text", ["--rule-name x", "-namespace=a", "-run-outside-cluster=false"])
def test_elsewhere_the_operators_flags_alone_are_answered_with_the_command(started, text):
    result = invoke(text, ELSEWHERE)
    assert (result.exit_code, started) == (2, [])
    assert "To start the operator: copyrator run" in result.output


def test_elsewhere_nothing_at_all_is_answered_with_the_commands(started):
    result = invoke("", ELSEWHERE)
    assert (result.exit_code, started) == (2, [])
    assert "copyrator run" in result.output


@pytest.mark.parametrize("text", ["--help", "-h", "--version", "--nonsense", "nonsense"])
def test_help_and_errors_are_the_same_in_a_pod(started, text):
    assert invoke(text, IN_A_POD).output == invoke(text, ELSEWHERE).output
    assert started == []
