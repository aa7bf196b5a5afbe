"""What a command is to do, from flags and WERF_* variables, as werf reads them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .errors import WerfError

_SETS = {"--set": "WERF_SET_", "--set-string": "WERF_SET_STRING_", "--set-file": "WERF_SET_FILE_"}
# werf takes every other WERF_SET_*, such as WERF_SET_JSON_1, for one of --set.
_NOT_SET = ("WERF_SET_STRING_", "WERF_SET_FILE_", "WERF_SET_DOCKER_CONFIG_JSON_VALUE")


class Parser(argparse.ArgumentParser):
    """Flags with a message and an exit code like werf's."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog=prog, allow_abbrev=False, add_help=False)

    def error(self, message: str) -> NoReturn:
        """Refuse a command line."""
        raise WerfError(message)


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """How to talk to registries.

    Attributes:
        docker_config: the directory that holds config.json.
        insecure: plain HTTP, and no check of certificates.
        skip_tls_verify: no check of certificates.
    """

    docker_config: Path
    insecure: bool
    skip_tls_verify: bool


@dataclass(frozen=True, slots=True)
class Deploy:
    """A `bundle apply` or `bundle plan`.

    Attributes:
        repo: registry and repository.
        tag: an exact tag, or one with a digest.
        release: the release's name.
        namespace: where it goes.
        access: how to reach the registry.
        values: values files, the last one wins.
        sets: pairs of a helm flag (--set…) and its value.
        labels: for all objects of the release.
        annotations: likewise.
        timeout: seconds, None for as long as it takes.
        report: where to write the report.
        auto_rollback: go back to the last good release on failure.
        history: how many releases to keep.
        create_namespace: make the namespace if it isn't there.
        docker_config_value: hand config.json to the chart as a value.
        environment: the name of the environment, for the chart.
        exit_code: `plan` only: exit code 2 when there are changes.
    """

    repo: str
    tag: str
    release: str
    namespace: str
    access: RegistryAccess
    values: Sequence[str]
    sets: Sequence[tuple[str, str]]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    timeout: int | None
    report: Path | None
    auto_rollback: bool
    history: int
    create_namespace: bool
    docker_config_value: bool
    environment: str
    exit_code: bool


def parse_deploy(command: str, arguments: Sequence[str], env: Mapping[str, str]) -> Deploy:
    """Read the flags of `bundle apply` or `bundle plan`; a flag beats its variable.

    Raises:
        WerfError: an unknown flag, or one that is needed is missing.
    """
    parser = Parser(f"werf bundle {command}")
    add = parser.add_argument
    for name in ("repo", "release", "namespace"):
        add(f"--{name}", default=env.get(f"WERF_{name.upper()}", ""))
    add("--tag", default=env.get("WERF_TAG") or "latest")
    add("--timeout", "-t", type=int, default=int(env.get("WERF_TIMEOUT") or 0))
    add("--values", action="append", default=family(env, "WERF_VALUES_"))
    for flag, prefix in _SETS.items():
        skip = _NOT_SET if prefix == "WERF_SET_" else ()
        add(flag, action="append", default=family(env, prefix, skip))
    add("--add-label", action="append", default=family(env, "WERF_ADD_LABEL_"))
    add("--add-annotation", action="append", default=family(env, "WERF_ADD_ANNOTATION_"))
    add("--env", default=env.get("WERF_ENV", ""))
    add("--releases-history-max", type=int, default=int(env.get("WERF_RELEASES_HISTORY_MAX") or 5))
    add("--deploy-report-path", default=env.get("WERF_DEPLOY_REPORT_PATH", ""))
    _booleans(parser, env, "save-deploy-report", "no-create-namespace", "atomic")
    _booleans(parser, {}, "auto-rollback")  # its variable does nothing in 2.67.0
    _booleans(parser, env, "set-docker-config-json-value")
    if command == "plan":
        _booleans(parser, env, "exit-code")
    _access_flags(parser, env)
    _ignored(parser)
    options = parser.parse_args(list(arguments))
    if not options.repo:
        raise WerfError("get repo address: --repo=ADDRESS param required")
    if not options.release:
        raise WerfError("get release name: --release=RELEASE param required")
    report = options.deploy_report_path or ".werf-deploy-report.json"
    if not report.endswith(".json"):
        raise WerfError(f"invalid --deploy-report-path {report!r}: must have the extension .json")
    return Deploy(
        repo=options.repo,
        tag=options.tag,
        release=options.release,
        namespace=options.namespace or "default",
        access=_access(options),
        values=options.values,
        sets=[(f, v) for f in _SETS for v in getattr(options, f.strip("-").replace("-", "_"))],
        labels=_pairs(options.add_label, "label"),
        annotations=_pairs(options.add_annotation, "annotation"),
        timeout=options.timeout or None,
        report=Path(report) if options.save_deploy_report else None,
        auto_rollback=options.auto_rollback or options.atomic,
        history=options.releases_history_max,
        create_namespace=not options.no_create_namespace,
        docker_config_value=options.set_docker_config_json_value,
        environment=options.env,
        exit_code=getattr(options, "exit_code", False),
    )


@dataclass(frozen=True, slots=True)
class Login:
    """A `cr login`."""

    host: str
    username: str
    password: str
    access: RegistryAccess


def parse_login(arguments: Sequence[str], env: Mapping[str, str]) -> Login:
    """Read the flags of `cr login`.

    Raises:
        WerfError: an unknown flag, or no user name or password.
    """
    parser = Parser("werf cr login")
    parser.add_argument("host")
    parser.add_argument("--username", "-u", default=env.get("WERF_USERNAME", ""))
    parser.add_argument("--password", "-p", default=env.get("WERF_PASSWORD", ""))
    _access_flags(parser, env)
    _ignored(parser)
    options = parser.parse_args(list(arguments))
    if not options.username:
        raise WerfError("provide --username")
    if not options.password:
        raise WerfError("provide --password or --password-stdin")
    return Login(options.host, options.username, options.password, _access(options))


@dataclass(frozen=True, slots=True)
class Uninstall:
    """A `helm uninstall`, or werf 3's `dismiss`."""

    release: str
    namespace: str
    wait: bool
    timeout: str
    ignore_not_found: bool


def parse_uninstall(arguments: Sequence[str], env: Mapping[str, str]) -> Uninstall:
    """Read the arguments of `helm uninstall RELEASE`."""
    parser = Parser("werf helm uninstall")
    parser.add_argument("release")
    parser.add_argument("--namespace", "-n", default=env.get("WERF_NAMESPACE") or "default")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--timeout", default="5m")
    parser.add_argument("--ignore-not-found", action="store_true")
    _ignored(parser)
    options = parser.parse_args(list(arguments))
    return Uninstall(
        options.release, options.namespace, options.wait, options.timeout, options.ignore_not_found
    )


def parse_dismiss(arguments: Sequence[str], env: Mapping[str, str]) -> Uninstall:
    """Read the flags of werf 3's `dismiss`.

    Raises:
        WerfError: no release is named.
    """
    parser = Parser("werf dismiss")
    parser.add_argument("--release", default=env.get("WERF_RELEASE", ""))
    parser.add_argument("--namespace", default=env.get("WERF_NAMESPACE") or "default")
    _ignored(parser)
    options = parser.parse_args(list(arguments))
    if not options.release:
        raise WerfError("get release name: --release=RELEASE param required")
    return Uninstall(options.release, options.namespace, True, "5m", ignore_not_found=True)


def family(env: Mapping[str, str], prefix: str, without: Sequence[str] = ()) -> list[str]:
    """The values of all variables of a prefix, ordered by a plain sort of their names."""
    names = (name for name in sorted(env) if name.startswith(prefix))
    return [env[name] for name in names if not name.startswith(tuple(without))]


def truth(text: str | None) -> bool:
    """A boolean variable: 1, true and yes are true."""
    return (text or "").lower() in ("1", "true", "yes")


def _booleans(parser: Parser, env: Mapping[str, str], *names: str) -> None:
    for name in names:
        variable = f"WERF_{name.upper().replace('-', '_')}"
        parser.add_argument(
            f"--{name}", nargs="?", const=True, type=truth, default=truth(env.get(variable))
        )


def _access_flags(parser: Parser, env: Mapping[str, str]) -> None:
    home = Path(env.get("HOME", "/"))
    config = env.get("WERF_DOCKER_CONFIG") or env.get("DOCKER_CONFIG") or str(home / ".docker")
    parser.add_argument("--docker-config", default=config)
    _booleans(parser, env, "insecure-registry", "skip-tls-verify-registry")


def _access(options: argparse.Namespace) -> RegistryAccess:
    return RegistryAccess(
        Path(options.docker_config), options.insecure_registry, options.skip_tls_verify_registry
    )


def _ignored(parser: Parser) -> None:
    """Flags of werf that change only how it prints."""
    for flag in ("--log-color-mode", "--log-pretty", "--log-terminal-width", "--kube-config"):
        parser.add_argument(flag)


def _pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    result = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise WerfError(f"bad --add-{what} value {text}: expected name=value")
        result[key] = value
    return result


def kubeconfig(env: Mapping[str, str]) -> str:
    """The kubeconfig that werf would use; empty for the one of the pod."""
    names = ("WERF_KUBE_CONFIG", "WERF_KUBECONFIG", "KUBECONFIG")
    return next((env[name] for name in names if env.get(name)), "")


def process_environment() -> Mapping[str, str]:
    """This process's variables."""
    return os.environ
