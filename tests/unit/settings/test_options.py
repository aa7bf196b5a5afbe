"""Flags and variables: the contract's names, a flag beats its variable, one clear refusal."""

from __future__ import annotations

from dataclasses import fields, replace
from ipaddress import ip_network
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.settings import values_of

from copyrator.bundles import features
from copyrator.bundles.features.approval.settings import ApprovalSettings
from copyrator.bundles.features.attest.settings import AttestSettings
from copyrator.runtime import flags
from copyrator.settings.config import LogFormat, LogLevel, Settings


def parse(*args: str, **environ: str) -> Settings:
    """Parse a command line as `copyrator run` does; raises AssertionError with click's message."""
    seen: list[Settings] = []

    @click.command(params=flags.parameters())
    def command(**values: object) -> None:
        seen.append(flags.from_options(values))

    result = CliRunner().invoke(command, list(args), env={**CLEAN, **environ})
    assert result.exit_code == 0, (result.exit_code, result.output)
    return seen[0]


def flag_of(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def refuse(*args: str, **environ: str) -> str:
    """Parse a command line that must be refused; returns what the user reads."""

    @click.command(params=flags.parameters())
    def command(**values: object) -> None:
        flags.from_options(values)

    result = CliRunner().invoke(command, list(args), env={**CLEAN, **environ})
    assert result.exit_code == 2, (result.exit_code, result.output)
    assert "Traceback" not in result.output
    return result.output


VARIABLES = {
    str(option.name): str(option.envvar) for option in flags.parameters() if option.expose_value
}
DEFAULTS = flags.from_options({})
CLEAN: dict[str, str | None] = dict.fromkeys([*VARIABLES.values(), "KUBERNETES_SERVICE_HOST"])
OLDER = {
    "kubeconfig": "KUBECONFIG",
    "namespace": "NAMESPACE",
    "rule_name": "RULE_NAME",
    "jobs_ttl": "WERF_OPERATOR_JOBS_TTL",
    "werf_tag": "WERF_OPERATOR_TAG",
    "timer_interval": "WERF_OPERATOR_TIMER_INTERVAL",
    "timer_idle": "WERF_OPERATOR_TIMER_IDLE",
    "lease_namespace": "POD_NAMESPACE",
    "identity": "POD_NAME",
    "webhook_host": "POD_IP",
}
"""Variables of the originals, of kubectl and of a pod."""


def test_a_variable_has_its_settings_name_or_an_older_one() -> None:
    named = {name: f"COPYRATOR_{name.upper()}" for name in VARIABLES}
    assert named | OLDER == VARIABLES


def test_a_feature_that_is_taken_out_has_no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "FEATURES", ("login", "age"))
    names = {option.name for option in flags.parameters()}
    gone = {field.name for kind in (ApprovalSettings, AttestSettings) for field in fields(kind)}
    assert gone | {"require_signature_policy"} == VARIABLES.keys() - names


def test_without_flags_and_variables_the_settings_are_the_documented_defaults() -> None:
    assert parse() == DEFAULTS


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("namespace", "infra", "infra"),
        ("watch_namespaces", "a, b", ("a", "b")),
        ("kubeconfig", "/a/config", Path("/a/config")),
        ("jobs_ttl", "7", 7),
        ("timer_interval", "0.5", 0.5),
        ("timer_idle", "0", 0.0),
        ("kinds", "Secret, Role.rbac.authorization.k8s.io,",
         ("Secret", "Role.rbac.authorization.k8s.io")),
        ("allowed_service_accounts", "werf,deployer", ("werf", "deployer")),
        ("allowed_images", "localhost:5000/werf", ("localhost:5000/werf",)),
        ("allowed_secrets", "a, b.c", ("a", "b.c")),
        ("allowed_secrets", "A B,*", ("*",)),
        ("allowed_secrets", "-", ()),
        ("allowed_pod_metadata", "team, a.example/b=c d=e,", ("team", "a.example/b=c d=e")),
        ("job_pod_labels", "team=a, a.example/b=,", (("team", "a"), ("a.example/b", ""))),
        ("job_pod_labels", "-", ()),
        ("job_pod_annotations", "a.example/b=c=d e", (("a.example/b", "c=d e"),)),
        ("allow_registry_addresses", "127.0.0.0/8, ::1",
         (ip_network("127.0.0.0/8"), ip_network("::1/128"))),
        ("allow_registry_addresses", "10.0.0.0/255.0.0.0", (ip_network("10.0.0.0/8"),)),
        ("require_bound_plans", "a,*", ("*",)),
        ("require_approval", "prod-*=Always, *=OnRisk", (("prod-*", "Always"), ("*", "OnRisk"))),
        ("attest_environments", "staging=team-*, qa=qa,", (("staging", "team-*"), ("qa", "qa"))),
        ("log_format", "json", LogFormat.JSON),
        ("log_level", "DEBUG", LogLevel.DEBUG),
        ("health_address", "::1", "::1"),
        ("health_port", "0", 0),
    ],
)  # fmt: skip
def test_each_setting_has_a_flag_and_a_variable(field: str, text: str, value: object) -> None:
    assert values_of(parse(flag_of(field), text))[field] == value
    assert values_of(parse(**{VARIABLES[field]: text}))[field] == value


def test_leader_election_can_be_switched_off() -> None:
    assert not parse("--no-leader-election").leader_election
    assert not parse(COPYRATOR_LEADER_ELECTION="false").leader_election


def test_a_webhook_has_a_port_and_a_secret() -> None:
    given = parse("--webhook-port", "0", COPYRATOR_WEBHOOK_SECRET_FILE="/a/secret")
    assert (given.webhook_port, given.webhook_secret_file) == (0, Path("/a/secret"))


@pytest.mark.parametrize("variable", [True, False])
def test_a_webhook_without_a_secret_is_refused(variable: bool) -> None:
    given = {"COPYRATOR_WEBHOOK_PORT": "9000"}
    message = refuse(**given) if variable else refuse("--webhook-port", "9000")
    assert "--webhook-secret-file" in message
    assert "COPYRATOR_WEBHOOK_SECRET_FILE" in message


def test_a_flag_beats_its_variable() -> None:
    assert parse("--namespace", "from-flag", NAMESPACE="from-variable").namespace == "from-flag"


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert parse(RULE_NAME="", WERF_OPERATOR_TAG="", KUBECONFIG="") == DEFAULTS


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("namespace", "Not_A_Namespace"),
        ("namespace", "a" * 64),
        ("jobs_ttl", "-1"),
        ("werf_tag", "a/b"),
        ("timer_interval", "0"),
        ("timer_interval", "inf"),
        ("timer_idle", "-0.1"),
        ("kinds", "secrets"),
        ("allowed_images", "a@sha256:00"),
        ("allowed_secrets", "A B"),
        ("allowed_secrets", "-,*"),
        ("allowed_pod_metadata", "*"),
        ("require_bound_plans", "A B,*"),
        ("operator_identity_namespaces", "*,A B"),
        ("job_pod_labels", "team"),
        ("job_pod_labels", "team=a b"),
        ("job_pod_annotations", "A B=c"),
        ("allow_registry_addresses", "10.0.0.1/8"),
        ("attest_environments", "staging"),
        ("attest_environments", "Staging=a"),
        ("attest_environments", "staging=A"),
        ("webhook_trusted_proxies", "ingress"),
        ("lease_name", "A Lease"),
        ("log_format", "xml"),
        ("health_port", "65536"),
        ("webhook_port", "tcp://10.0.0.1:80"),
    ],
)
def test_a_bad_value_is_refused_with_one_message_that_names_flag_and_variable(
    field: str, text: str
) -> None:
    message = refuse(flag_of(field), text)
    assert flag_of(field) in message
    assert message.count("Error:") == 1
    assert VARIABLES[field] in refuse(**{VARIABLES[field]: text})


def test_run_outside_cluster_is_accepted_and_ignored_with_a_hint() -> None:
    @click.command(params=flags.parameters())
    def command(**values: object) -> None:
        assert flags.from_options(values) == DEFAULTS

    result = CliRunner().invoke(command, ["--run-outside-cluster"], env=CLEAN)
    assert result.exit_code == 0
    assert "--kubeconfig" in result.stderr


def test_in_a_cluster_health_listens_on_every_address() -> None:
    assert parse(KUBERNETES_SERVICE_HOST="10.0.0.1").health_address == ""


def test_kopf_run_reads_the_same_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CLEAN:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NAMESPACE", "infra")
    monkeypatch.setenv("WERF_OPERATOR_JOBS_TTL", "9")
    assert flags.parse(flags.parameters()) == replace(DEFAULTS, namespace="infra", jobs_ttl=9)


def test_kopf_run_gets_the_same_message_for_a_bad_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WERF_OPERATOR_JOBS_TTL", "soon")
    with pytest.raises(click.UsageError) as refusal:
        flags.parse(flags.parameters())
    assert "WERF_OPERATOR_JOBS_TTL" in refusal.value.format_message()
    assert refusal.value.exit_code == 2
