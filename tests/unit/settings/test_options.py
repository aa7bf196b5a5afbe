"""Flags and variables: the contract's names, a flag beats its variable, one clear refusal."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from copyrator.settings import options
from copyrator.settings.config import LogFormat, LogLevel, Settings


def parse(*args: str, **environ: str) -> Settings:
    """Parse a command line as `copyrator run` does; raises AssertionError with click's message."""
    seen: list[Settings] = []

    @click.command()
    @options.options
    def command(**values: object) -> None:
        seen.append(options.from_options(values))

    result = CliRunner().invoke(command, list(args), env={**CLEAN, **environ})
    assert result.exit_code == 0, (result.exit_code, result.output)
    return seen[0]


def refuse(*args: str, **environ: str) -> str:
    """Parse a command line that must be refused; returns what the user reads."""

    @click.command()
    @options.options
    def command(**values: object) -> None:
        options.from_options(values)

    result = CliRunner().invoke(command, list(args), env={**CLEAN, **environ})
    assert result.exit_code == 2, (result.exit_code, result.output)
    assert "Traceback" not in result.output
    return result.output


VARIABLES = [
    parameter.envvar
    for parameter in options.parameters()
    if isinstance(parameter, click.Option) and isinstance(parameter.envvar, str)
]
CLEAN: dict[str, str | None] = dict.fromkeys([*VARIABLES, "KUBERNETES_SERVICE_HOST"])


def test_without_flags_and_variables_the_settings_are_the_documented_defaults() -> None:
    assert parse() == Settings()


@pytest.mark.parametrize(
    ("flag", "variable", "text", "field", "value"),
    [
        ("--namespace", "NAMESPACE", "infra", "namespace", "infra"),
        ("--watch-namespaces", "COPYRATOR_WATCH_NAMESPACES", "a, b", "watch_namespaces",
         ("a", "b")),
        ("--rule-name", "RULE_NAME", "main-rule", "rule_name", "main-rule"),
        ("--kubeconfig", "KUBECONFIG", "/a/config", "kubeconfig", Path("/a/config")),
        ("--context", "COPYRATOR_CONTEXT", "prod", "context", "prod"),
        ("--jobs-ttl", "WERF_OPERATOR_JOBS_TTL", "7", "jobs_ttl", 7),
        ("--werf-tag", "WERF_OPERATOR_TAG", "2-stable", "werf_tag", "2-stable"),
        ("--timer-interval", "WERF_OPERATOR_TIMER_INTERVAL", "0.5", "timer_interval", 0.5),
        ("--timer-idle", "WERF_OPERATOR_TIMER_IDLE", "0", "timer_idle", 0.0),
        ("--kinds", "COPYRATOR_KINDS", "Secret, Role.rbac.authorization.k8s.io,", "kinds",
         ("Secret", "Role.rbac.authorization.k8s.io")),
        ("--allowed-service-accounts", "COPYRATOR_ALLOWED_SERVICE_ACCOUNTS", "werf,deployer",
         "allowed_service_accounts", ("werf", "deployer")),
        ("--allowed-images", "COPYRATOR_ALLOWED_IMAGES", "localhost:5000/werf", "allowed_images",
         ("localhost:5000/werf",)),
        ("--allowed-secrets", "COPYRATOR_ALLOWED_SECRETS", "a, b.c", "allowed_secrets",
         ("a", "b.c")),
        ("--allowed-secrets", "COPYRATOR_ALLOWED_SECRETS", "a,*", "allowed_secrets", ("*",)),
        ("--allowed-secrets", "COPYRATOR_ALLOWED_SECRETS", "-", "allowed_secrets", ()),
        ("--allowed-pod-metadata", "COPYRATOR_ALLOWED_POD_METADATA", "team, a.example/b=c d=e,",
         "allowed_pod_metadata", ("team", "a.example/b=c d=e")),
        ("--job-pod-labels", "COPYRATOR_JOB_POD_LABELS", "team=a, a.example/b=,", "job_pod_labels",
         (("team", "a"), ("a.example/b", ""))),
        ("--job-pod-labels", "COPYRATOR_JOB_POD_LABELS", "-", "job_pod_labels", ()),
        ("--job-pod-annotations", "COPYRATOR_JOB_POD_ANNOTATIONS", "a.example/b=c=d e",
         "job_pod_annotations", (("a.example/b", "c=d e"),)),
        ("--allow-registry-addresses", "COPYRATOR_ALLOW_REGISTRY_ADDRESSES", "127.0.0.0/8, ::1",
         "allow_registry_addresses", (ip_network("127.0.0.0/8"), ip_network("::1/128"))),
        ("--require-approval", "COPYRATOR_REQUIRE_APPROVAL", "prod-*=Always, *=OnRisk",
         "require_approval", (("prod-*", "Always"), ("*", "OnRisk"))),
        ("--attest-environments", "COPYRATOR_ATTEST_ENVIRONMENTS", "staging=team-*, qa=qa,",
         "attest_environments", (("staging", "team-*"), ("qa", "qa"))),
        ("--max-plan-jobs", "COPYRATOR_MAX_PLAN_JOBS", "7", "max_plan_jobs", 7),
        ("--webhook-trusted-proxies", "COPYRATOR_WEBHOOK_TRUSTED_PROXIES", "10.0.0.0/8",
         "webhook_trusted_proxies", (ip_network("10.0.0.0/8"),)),
        ("--lease-name", "COPYRATOR_LEASE_NAME", "second", "lease_name", "second"),
        ("--lease-namespace", "POD_NAMESPACE", "ops", "lease_namespace", "ops"),
        ("--identity", "POD_NAME", "copyrator-7d9c-x2x", "identity", "copyrator-7d9c-x2x"),
        ("--log-format", "COPYRATOR_LOG_FORMAT", "json", "log_format", LogFormat.JSON),
        ("--log-level", "COPYRATOR_LOG_LEVEL", "DEBUG", "log_level", LogLevel.DEBUG),
        ("--health-address", "COPYRATOR_HEALTH_ADDRESS", "::1", "health_address", "::1"),
        ("--health-port", "COPYRATOR_HEALTH_PORT", "0", "health_port", 0),
        ("--webhook-secret-file", "COPYRATOR_WEBHOOK_SECRET_FILE", "/a/secret",
         "webhook_secret_file", Path("/a/secret")),
    ],
)  # fmt: skip
def test_each_setting_has_a_flag_and_a_variable(
    flag: str, variable: str, text: str, field: str, value: object
) -> None:
    assert getattr(parse(flag, text), field) == value
    assert getattr(parse(**{variable: text}), field) == value


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
    assert parse(RULE_NAME="", WERF_OPERATOR_TAG="", KUBECONFIG="") == Settings()


@pytest.mark.parametrize(
    ("flag", "variable", "text"),
    [
        ("--namespace", "NAMESPACE", "Not_A_Namespace"),
        ("--namespace", "NAMESPACE", "a" * 64),
        ("--rule-name", "RULE_NAME", "main rule"),
        ("--jobs-ttl", "WERF_OPERATOR_JOBS_TTL", "-1"),
        ("--jobs-ttl", "WERF_OPERATOR_JOBS_TTL", "two minutes"),
        ("--werf-tag", "WERF_OPERATOR_TAG", "a/b"),
        ("--timer-interval", "WERF_OPERATOR_TIMER_INTERVAL", "0"),
        ("--timer-interval", "WERF_OPERATOR_TIMER_INTERVAL", "nan"),
        ("--timer-interval", "WERF_OPERATOR_TIMER_INTERVAL", "inf"),
        ("--timer-idle", "WERF_OPERATOR_TIMER_IDLE", "-0.1"),
        ("--kinds", "COPYRATOR_KINDS", "secrets"),
        ("--allowed-images", "COPYRATOR_ALLOWED_IMAGES", "a@sha256:00"),
        ("--allowed-secrets", "COPYRATOR_ALLOWED_SECRETS", "A B"),
        ("--allowed-pod-metadata", "COPYRATOR_ALLOWED_POD_METADATA", "*"),
        ("--job-pod-labels", "COPYRATOR_JOB_POD_LABELS", "team"),
        ("--job-pod-labels", "COPYRATOR_JOB_POD_LABELS", "team=a b"),
        ("--job-pod-annotations", "COPYRATOR_JOB_POD_ANNOTATIONS", "A B=c"),
        ("--allow-registry-addresses", "COPYRATOR_ALLOW_REGISTRY_ADDRESSES", "10.0.0.1/8"),
        ("--attest-environments", "COPYRATOR_ATTEST_ENVIRONMENTS", "staging"),
        ("--attest-environments", "COPYRATOR_ATTEST_ENVIRONMENTS", "Staging=a"),
        ("--attest-environments", "COPYRATOR_ATTEST_ENVIRONMENTS", "staging=A"),
        ("--webhook-trusted-proxies", "COPYRATOR_WEBHOOK_TRUSTED_PROXIES", "ingress"),
        ("--lease-name", "COPYRATOR_LEASE_NAME", "A Lease"),
        ("--lease-namespace", "POD_NAMESPACE", "Not A Namespace"),
        ("--log-format", "COPYRATOR_LOG_FORMAT", "xml"),
        ("--health-port", "COPYRATOR_HEALTH_PORT", "65536"),
        ("--webhook-port", "COPYRATOR_WEBHOOK_PORT", "tcp://10.0.0.1:80"),
    ],
)
def test_a_bad_value_is_refused_with_one_message_that_names_flag_and_variable(
    flag: str, variable: str, text: str
) -> None:
    message = refuse(flag, text)
    assert flag in message
    assert message.count("Error:") == 1
    assert variable in refuse(**{variable: text})


def test_run_outside_cluster_is_accepted_and_ignored_with_a_hint() -> None:
    @click.command()
    @options.options
    def command(**values: object) -> None:
        assert options.from_options(values) == Settings()

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
    assert options.from_environment() == Settings(namespace="infra", jobs_ttl=9)


def test_kopf_run_gets_the_same_message_for_a_bad_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WERF_OPERATOR_JOBS_TTL", "soon")
    with pytest.raises(click.UsageError) as refusal:
        options.from_environment()
    assert "WERF_OPERATOR_JOBS_TTL" in refusal.value.format_message()
    assert refusal.value.exit_code == 2
