"""What a command is to do, from its arguments and WERF_* variables, as werf reads them.

What docs/facts/werf.md doesn't say is refused; see `variables` for the names.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import WerfError

VERSIONS = ("v2.67.0", "v2.75.3", "v3.2.0")
"""What the stand-in plays: those whose output was recorded."""
PLAYED = "COPYRATOR_WERF"
"""The variable that says which of them it plays: 2.67, 2.75 or 3.2; without it the newest 2."""


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
class Shown:
    """What a plan's text shows.

    Attributes:
        sensitive: contents of Secrets, and of what a chart calls sensitive.
        insignificant: annotations of helm and werf, and managed fields.
        crds: definitions that are created or deleted.
    """

    sensitive: bool
    insignificant: bool
    crds: bool


@dataclass(frozen=True, slots=True)
class Deploy:
    """A `bundle apply`, `bundle plan` or `bundle render`.

    Attributes:
        version: werf's own.
        repo: registry and repository.
        tag: an exact tag, or one with a digest.
        release: the release's name.
        namespace: where it goes.
        access: how to reach the registry.
        values: helm's flags for values, in the order in which helm reads them.
        labels: for all objects of the release.
        annotations: likewise.
        timeout: seconds, None for as long as it takes.
        report: where to write the report.
        auto_rollback: go back to the last good release on failure.
        history: how many releases to keep.
        create_namespace: make the namespace if it isn't there; 2.67 knows no other way.
        environment: the name of the environment, for the chart.
        graph: where to write a plan's graph.
        exit_code: a plan's exit code tells whether there are changes.
        save_plan: where to save a plan; werf 3.
        use_plan: a saved plan that is to be carried out; likewise.
        secret_key: the key of secret values; with it a saved plan is encrypted.
        validate: a render asks the cluster.
        check_schemas: refuse objects that don't fit their schema, before anything is done.
        random_order: a plan's text has what is created in another order each time.
        watch_events: track with the events of objects.
        shown: what a plan's text shows.
    """

    version: str
    repo: str
    tag: str
    release: str
    namespace: str
    access: RegistryAccess
    values: Sequence[str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    timeout: int | None
    report: Path | None
    auto_rollback: bool
    history: int
    create_namespace: bool
    environment: str
    graph: Path | None
    exit_code: bool
    save_plan: Path | None
    use_plan: Path | None
    secret_key: str
    validate: bool
    check_schemas: bool
    random_order: bool
    watch_events: bool
    shown: Shown

    @property
    def newest(self) -> bool:
        """Whether werf 3 is played."""
        return self.version.startswith("v3")


@dataclass(frozen=True, slots=True)
class Dismiss:
    """A `dismiss` of werf 3; without a time-out, in seconds, it may take as long as it likes."""

    version: str
    release: str
    namespace: str
    timeout: int | None


def version(env: Mapping[str, str]) -> str:
    """The version of werf that the stand-in plays: the newest that begins as PLAYED says."""
    wanted = env.get(PLAYED) or "2"
    found = [each for each in VERSIONS if f"{each}.".startswith(f"v{wanted.removeprefix('v')}.")]
    if not found:
        raise WerfError(f"{PLAYED}={wanted}: the stand-in plays {', '.join(VERSIONS)}")
    return found[-1]


def _is_3(env: Mapping[str, str]) -> bool:
    return version(env).startswith("v3")


def is_help(arguments: Sequence[str], switches: Collection[str], valued: Collection[str]) -> bool:
    """Whether a command's flags ask for its help; those before it have to be known."""
    if "--help" not in arguments:
        return False
    read_flags(arguments[: arguments.index("--help")], switches, valued, 0)
    return True


def parse_deploy(
    arguments: Sequence[str],
    env: Mapping[str, str],
    switches: Collection[str] = (),
    valued: Collection[str] = (),
) -> Deploy:
    """Read what `bundle apply`, `plan` or `render` is told; each has its own flags."""
    _, flags = read_flags(arguments, switches, valued, 0)
    repo, release = env.get("WERF_REPO", ""), env.get("WERF_RELEASE", "")
    if not repo:
        raise WerfError("get repo address: --repo=ADDRESS param required")
    if not release:
        raise WerfError("get release name: --release=RELEASE param required")
    report = env.get("WERF_DEPLOY_REPORT_PATH") or ".werf-deploy-report.json"
    if not report.endswith(".json"):
        raise WerfError(f"invalid --deploy-report-path {report!r}: must have the extension .json")
    return Deploy(
        version=version(env),
        repo=repo,
        tag=env.get("WERF_TAG") or "latest",
        release=release,
        namespace=env.get("WERF_NAMESPACE") or "default",
        access=_access(env),
        values=[
            word
            for flag, family in VALUES.items()
            for value in _family(env, family)
            for word in (flag, value)
        ],
        labels=_pairs(env, ADD_LABEL),
        annotations=_pairs(env, ADD_ANNOTATION),
        timeout=number(env, "WERF_TIMEOUT", 0) or None,
        report=Path(report) if _truth(env, "WERF_SAVE_DEPLOY_REPORT") else None,
        # WERF_AUTO_ROLLBACK does nothing, in no version.
        auto_rollback="--auto-rollback" in flags or _truth(env, "WERF_ATOMIC"),
        history=number(env, "WERF_RELEASES_HISTORY_MAX", 5),
        create_namespace=version(env) == VERSIONS[0] or not _truth(env, "WERF_NO_CREATE_NAMESPACE"),
        environment=env.get("WERF_ENV", ""),
        graph=Path(graph) if (graph := env.get("WERF_DEPLOY_GRAPH_PATH")) else None,
        exit_code="--exit-code" in flags,
        save_plan=Path(flags["--save-plan"]) if "--save-plan" in flags else None,
        use_plan=Path(flags["--use-plan"]) if "--use-plan" in flags else None,
        secret_key=env.get("WERF_SECRET_KEY", ""),
        validate=_truth(env, "WERF_VALIDATE"),
        check_schemas=_is_3(env) and not _truth(env, "WERF_NO_RESOURCE_VALIDATION"),
        random_order=not _is_3(env) and number(env, "WERF_NETWORK_PARALLELISM", 30) > 1,
        watch_events=env.get("KUBEDOG_DISABLE_EVENTS") != "1",
        shown=_shown(env),
    )


def parse_login(
    arguments: Sequence[str], env: Mapping[str, str]
) -> tuple[str, tuple[str, str], RegistryAccess]:
    """Read what `cr login HOST` is told; returns the host, user name and password, and how."""
    (host,), _ = read_flags(arguments, (), (), 1)
    username, password = env.get("WERF_USERNAME", ""), env.get("WERF_PASSWORD", "")
    if not username:
        raise WerfError("provide --username")
    if not password:
        raise WerfError("provide --password or --password-stdin")
    return host, (username, password), _access(env)


def parse_rollback(arguments: Sequence[str], env: Mapping[str, str]) -> tuple[Deploy, int]:
    """Read what `rollback` is told; returns how to deploy, and the revision to go back to."""
    _, flags = read_flags(arguments, (), ("--namespace", "--release", "--revision"), 0)
    place = {name: flags.get(f"--{name}", "") for name in ("namespace", "release")}
    if not all(place.values()):
        raise WerfError(
            "get release name and namespace: no git with werf project found: rollback should "
            "either be executed in a git repository, or with --namespace and --release specified"
        )
    named = {f"WERF_{name.upper()}": value for name, value in place.items()}
    # It has a report of its own, under another variable.
    deploy = parse_deploy((), {**env, **named, "WERF_SAVE_DEPLOY_REPORT": "0"})
    return deploy, number(flags, "--revision", 0)


def parse_dismiss(arguments: Sequence[str], env: Mapping[str, str]) -> Dismiss:
    """Read what werf 3's `dismiss` is told."""
    _, flags = read_flags(arguments, (), ("--namespace", "--release", "--timeout"), 0)
    release = flags.get("--release") or env.get("WERF_RELEASE", "")
    namespace = flags.get("--namespace") or env.get("WERF_NAMESPACE", "")
    if not (release and namespace):
        raise WerfError(
            "get release name and namespace: no git with werf project found: dismiss should either "
            "be executed in a git repository, or with --namespace and --release specified, or with "
            "--use-deploy-report"
        )
    if "--timeout" in flags:
        env = {**env, "WERF_TIMEOUT": flags["--timeout"]}
    return Dismiss(version(env), release, namespace, number(env, "WERF_TIMEOUT", 0) or None)


def kubeconfig(env: Mapping[str, str]) -> str:
    """The kubeconfig file that werf would use; empty for the account of the pod."""
    return next((env[name] for name in KUBECONFIGS if env.get(name)), "")


def process_environment() -> Mapping[str, str]:
    """This process's variables."""
    return os.environ


def read_flags(
    arguments: Sequence[str], switches: Collection[str], valued: Collection[str], positional: int
) -> tuple[list[str], dict[str, str]]:
    """Tell arguments and flags apart; the words of an error are those of Go's cobra."""
    found, flags, rest = [], {}, list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            found.append(word)
        elif word in switches:
            flags[word] = "true"
        elif name not in valued:
            raise WerfError(f"unknown flag: {name}")
        elif not equals and not rest:
            raise WerfError(f"flag needs an argument: {name}")
        else:
            flags[name] = value if equals else rest.pop(0)
    if len(found) != positional:
        raise WerfError(f"accepts {positional} arg(s), received {len(found)}")
    return found, flags


def _family(env: Mapping[str, str], wanted: str) -> list[str]:
    """The values of all variables of a family, ordered by a plain sort of their names."""
    return [env[name] for name in sorted(env) if family(name) == wanted]


def _pairs(env: Mapping[str, str], prefix: str) -> dict[str, str]:
    result = {}
    for text in _family(env, prefix):
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise WerfError(f"bad value {text} of {prefix}*: expected name=value")
        result[key] = value
    return result


def _shown(env: Mapping[str, str]) -> Shown:
    if not _truth({"WERF_SHOW_VERBOSE_DIFFS": "1", **env}, "WERF_SHOW_VERBOSE_DIFFS"):
        raise WerfError("WERF_SHOW_VERBOSE_DIFFS=0: docs/facts/werf.md says nothing of it")
    return Shown(
        sensitive=_truth(env, "WERF_SHOW_SENSITIVE_DIFFS"),
        insignificant=_truth(env, "WERF_SHOW_INSIGNIFICANT_DIFFS"),
        crds=_truth(env, "WERF_SHOW_VERBOSE_CRD_DIFFS"),
    )


def _truth(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name, "").lower()
    if text not in ("", "0", "1", "false", "no", "true", "yes"):
        raise WerfError(f"bad {name} value: {text!r} is no boolean")
    return text in ("1", "true", "yes")


def number(env: Mapping[str, str], name: str, default: int) -> int:
    """A whole number, of a variable or a flag."""
    text = env.get(name) or str(default)
    if not (text.isascii() and text.isdigit()):
        raise WerfError(f"bad {name} value: {text!r} is no whole number")
    return int(text)


def _access(env: Mapping[str, str]) -> RegistryAccess:
    home = Path(env.get("HOME", "/"))
    return RegistryAccess(
        Path(env.get("WERF_DOCKER_CONFIG") or env.get("DOCKER_CONFIG") or home / ".docker"),
        _truth(env, "WERF_INSECURE_REGISTRY"),
        _truth(env, "WERF_SKIP_TLS_VERIFY_REGISTRY"),
    )


ADD_LABEL = "WERF_ADD_LABEL_"
ADD_ANNOTATION = "WERF_ADD_ANNOTATION_"
VALUES = {
    "--values": "WERF_VALUES_",
    "--set": "WERF_SET_",
    "--set-string": "WERF_SET_STRING_",
    "--set-file": "WERF_SET_FILE_",
}
"""helm's flags for values, and the family of each."""
FAMILIES = (ADD_ANNOTATION, ADD_LABEL, *VALUES.values())
# Families of werf's that the stand-in hasn't got, though they begin like its own. _JSON_ and
# _LITERAL_ aren't among them: werf takes those for WERF_SET_.
_MISSING = ("WERF_SET_DOCKER_CONFIG_JSON_VALUE", "WERF_SET_ROOT_JSON_", "WERF_SET_RUNTIME_JSON_")
WITHOUT_EFFECT = frozenset(
    {
        "WERF_IGNORE_SECRET_KEY",
        "WERF_KUBE_BURST_LIMIT",
        "WERF_KUBE_QPS_LIMIT",
        "WERF_KUBE_REQUEST_TIMEOUT",
        "WERF_LOG_COLOR_MODE",
        "WERF_LOG_PRETTY",
        "WERF_NO_FINAL_TRACKING",
        "WERF_SKIP_DEPENDENCIES_REPO_REFRESH",
        "WERF_STATUS_PROGRESS_PERIOD",
        "WERF_STATUS_PROGRESS_PERIOD_SECONDS",
        "WERF_TELEMETRY",
    }
)
"""Nothing that the stand-in does is another with them."""
VARIABLES = WITHOUT_EFFECT | frozenset(
    {
        "WERF_ATOMIC",
        "WERF_AUTO_ROLLBACK",
        "WERF_BUILDAH_MODE",
        "WERF_CONTAINERIZED",
        "WERF_DEPLOY_GRAPH_PATH",
        "WERF_DEPLOY_REPORT_PATH",
        "WERF_DISABLE_AUTO_HOST_CLEANUP",
        "WERF_DOCKER_CONFIG",
        "WERF_ENV",
        "WERF_HOME",
        "WERF_INSECURE_REGISTRY",
        "WERF_KUBECONFIG",
        "WERF_KUBECONFIG_BASE64",
        "WERF_KUBE_CONFIG",
        "WERF_KUBE_CONFIG_BASE64",
        "WERF_NAMESPACE",
        "WERF_NETWORK_PARALLELISM",
        "WERF_NO_CREATE_NAMESPACE",
        "WERF_NO_RESOURCE_VALIDATION",
        "WERF_PASSWORD",
        "WERF_RELEASE",
        "WERF_RELEASES_HISTORY_MAX",
        "WERF_REPO",
        "WERF_SAVE_DEPLOY_REPORT",
        "WERF_SECRET_KEY",
        "WERF_SHOW_INSIGNIFICANT_DIFFS",
        "WERF_SHOW_SENSITIVE_DIFFS",
        "WERF_SHOW_VERBOSE_CRD_DIFFS",
        "WERF_SHOW_VERBOSE_DIFFS",
        "WERF_SKIP_TLS_VERIFY_REGISTRY",
        "WERF_TAG",
        "WERF_TIMEOUT",
        "WERF_USERNAME",
        "WERF_VALIDATE",
    }
)


KUBECONFIGS = ("WERF_KUBE_CONFIG", "WERF_KUBECONFIG", "KUBECONFIG")
"""Files; the first that is set is taken."""
ENCODED_KUBECONFIGS = tuple(f"{name}_BASE64" for name in KUBECONFIGS)
"""What wins over those: a file's content in base64."""


def family(name: str) -> str:
    """The longest family that a variable's name begins with; empty if it has none."""
    found = max((each for each in FAMILIES if name.startswith(each)), key=len, default="")
    return "" if name.startswith(_MISSING) else found


def check_variables(env: Mapping[str, str]) -> None:
    """Refuse what the stand-in doesn't know.

    werf itself passes over a variable that it doesn't know. Here a Job with such a one must not
    look right, so what docs/facts/werf.md doesn't say is refused, and what the stand-in can't do.

    Raises:
        WerfError: it names the first such variable.
    """
    for name in sorted(env):
        if name.startswith("WERF_") and name not in VARIABLES and not family(name):
            raise WerfError(
                f"unknown variable: {name}: docs/facts/werf.md says nothing of it, or the stand-in "
                "can't do it"
            )
