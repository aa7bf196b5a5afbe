"""Flags and environment variables of the settings: a flag overrides its variable.

They are click options, so that `copyrator run`, its `--help` and the variables for `kopf run` and
the chart are always the same: `from_environment` parses the same options from an empty command
line. An invalid value is reported once, with flag and variable, and exits with code 2.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, TypeVar

import click

from copyrator.settings.config import (
    DEFAULT_KINDS,
    NO_SIDECAR_ANNOTATIONS,
    NO_SIDECAR_LABELS,
    OFFICIAL_WERF_IMAGE,
    LogFormat,
    LogLevel,
    Settings,
)

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
NAMESPACE_GLOB = re.compile(r"[-a-z0-9*?]{1,63}")
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")  # OCI distribution spec, "Pulling manifests"
KIND = re.compile(r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+(/v[a-z0-9]+)?)?")
_POD_KEY = r"(?:[a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
POD_METADATA = re.compile(rf"{_POD_KEY}(?:=[^,]*)?")
POD_LABEL = re.compile(rf"{_POD_KEY}=(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?)?")
POD_ANNOTATION = re.compile(rf"{_POD_KEY}=[^,]*")
IMAGE = re.compile(r"[a-z0-9][^\s,@]*")

Callback = Callable[[click.Context, click.Parameter, Any], Any]


def matching(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback that accepts only `pattern`; `what` ends "is not ..."."""

    def check(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
        if value is not None and not pattern.fullmatch(value):
            raise click.BadParameter(f"{value!r} is not {what}.")
        return value

    return check


def listed(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback for a comma-separated list; blanks and empty items are ignored."""
    one = matching(pattern, what)

    def split(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
        items = (part.strip() for part in (value or "").split(","))
        return tuple(dict.fromkeys(one(ctx, param, item) for item in items if item))

    return split


def seconds(*, above: float = -math.inf, least: float = -math.inf) -> Callback:
    """Return a click callback for a finite number, more than `above` and at least `least`."""

    def check(_ctx: click.Context, _param: click.Parameter, value: float) -> float:
        if not math.isfinite(value):
            raise click.BadParameter(f"{value} is not a valid number of seconds.")
        if value <= above:
            raise click.BadParameter(f"{value:g} is too small: more than {above:g} seconds.")
        if value < least:
            raise click.BadParameter(f"{value:g} is too small: at least {least:g} seconds.")
        return value

    return check


def pod_metadata(pattern: re.Pattern[str], what: str) -> Callback:
    """Return a click callback for KEY=VALUE pairs, separated by commas; "-" means none."""
    one = matching(pattern, f"KEY=VALUE of {what}")

    def split(ctx: click.Context, param: click.Parameter, value: str) -> Any:
        items = [part.strip() for part in value.split(",") if part.strip()]
        found = [one(ctx, param, item).partition("=") for item in items if items != ["-"]]
        return tuple({key: text for key, _, text in found}.items())

    return split


def joined(pairs: tuple[tuple[str, str], ...]) -> str:
    """Pairs as `pod_metadata` parses them."""
    return ",".join(f"{key}={value}" for key, value in pairs)


def secret_names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Parse names; "-" means none, because an empty variable counts as not set."""
    words = [word.strip() for word in value.split(",")]
    if "*" in words:
        return ("*",)
    if words == ["-"]:
        return ()
    names: tuple[str, ...] = listed(DNS_SUBDOMAIN, "a Secret's name")(ctx, param, value)
    return names


def networks(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse a comma-separated list of address ranges; a single address is a range of one."""
    items = (part.strip() for part in (value or "").split(","))
    found = []
    for item in items:
        try:
            found += [ip_network(item)] if item else []
        except ValueError:
            raise click.BadParameter(
                f"{item!r} is not a range of addresses, such as 10.0.0.0/8 or fd00::1."
            ) from None
    return tuple(dict.fromkeys(found))


def approvals(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse NAMESPACE-GLOB=MODE pairs, separated by commas."""
    items = (part.strip() for part in (value or "").split(","))
    found = []
    for item in items:
        glob, equals, mode = item.partition("=")
        if not item:
            continue
        if not equals or mode not in ("OnRisk", "Always") or not NAMESPACE_GLOB.fullmatch(glob):
            raise click.BadParameter(
                f"{item!r} is not a namespace's name or glob with OnRisk or Always, such as "
                "prod-*=Always."
            )
        found.append((glob, mode))
    return tuple(dict.fromkeys(found))


def environments(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[tuple[str, str], ...]:
    """Parse ENVIRONMENT=NAMESPACE-GLOB pairs, separated by commas."""
    found = []
    for item in filter(None, (part.strip() for part in (value or "").split(","))):
        name, _, glob = item.partition("=")
        if not DNS_LABEL.fullmatch(name) or not NAMESPACE_GLOB.fullmatch(glob):
            raise click.BadParameter(
                f"{item!r} is not an environment with a namespace's name or glob, such as "
                "staging=team-*."
            )
        found.append((name, glob))
    return tuple(dict.fromkeys(found))


Command = TypeVar("Command", bound=Callable[..., Any])


def options(command: Command) -> Command:
    """Decorate a click command's function with the options of all settings."""
    declared: list[click.Parameter] = command.__dict__.setdefault("__click_params__", [])
    declared.extend(reversed(parameters()))  # click collects them from the innermost outwards
    return command


def from_options(values: dict[str, Any]) -> Settings:
    """Build the settings from click's values; values that aren't settings are ignored.

    Raises:
        click.UsageError: two settings contradict each other.
    """
    known = {field.name for field in dataclasses.fields(Settings)}
    if values.get("webhook_port") is not None and values.get("webhook_secret_file") is None:
        raise click.UsageError(
            "--webhook-port (COPYRATOR_WEBHOOK_PORT) requires --webhook-secret-file "
            "(COPYRATOR_WEBHOOK_SECRET_FILE): without a secret any client could call it."
        )
    return Settings(**{name: value for name, value in values.items() if name in known})


def from_environment() -> Settings:
    """Read the settings from variables alone, for `kopf run`.

    Raises:
        click.UsageError: a value is not valid; the message names the variable.
    """

    def collect(**values: Any) -> Settings:
        return from_options(values)

    command = click.Command("copyrator", callback=collect, params=parameters())
    settings = command.main(args=[], prog_name="copyrator", standalone_mode=False)
    assert isinstance(settings, Settings)
    return settings


def parameters() -> list[click.Parameter]:
    """Return new click options for all settings, in the order in which --help shows them."""
    return [
        *_cluster_options(),
        *_rule_options(),
        *_bundle_options(),
        *_replica_options(),
        *_process_options(),
    ]


def _cluster_options() -> list[click.Parameter]:
    return [
        _option(
            "--kubeconfig",
            "KUBECONFIG",
            "Kubeconfig file; default: the pod's service account, else ~/.kube/config.",
            type=click.Path(path_type=Path, dir_okay=False),
        ),
        _option(
            "--context",
            "COPYRATOR_CONTEXT",
            "Context of the kubeconfig; default: its current one.",
        ),
        click.Option(
            ["--run-outside-cluster"],
            is_flag=True,
            hidden=True,
            expose_value=False,
            callback=_hint_outside_cluster,
        ),
    ]


def _rule_options() -> list[click.Parameter]:
    return [
        _option(
            "--namespace",
            "NAMESPACE",
            "The namespace whose rules are trusted.",
            callback=matching(DNS_LABEL, "a namespace's name (lower case, digits, '-')"),
            default="default",
        ),
        _option(
            "--watch-namespaces",
            "COPYRATOR_WATCH_NAMESPACES",
            "Serve these namespaces only, separated by commas; default: all.",
            callback=listed(DNS_LABEL, "a namespace's name"),
        ),
        _option(
            "--rule-name",
            "RULE_NAME",
            "Run only the rule of this name; default: every rule.",
            callback=matching(DNS_SUBDOMAIN, "a rule's name (lower case, digits, '-', '.')"),
        ),
        _option(
            "--tenant-rules/--no-tenant-rules",
            "COPYRATOR_TENANT_RULES",
            "Serve rules of other namespaces too, each from its own namespace only.",
            default=False,
        ),
        _option(
            "--kinds",
            "COPYRATOR_KINDS",
            "Kinds that rules may copy or render, separated by commas.",
            callback=listed(KIND, "a kind such as Secret or Role.rbac.authorization.k8s.io"),
            default=",".join(DEFAULT_KINDS),
        ),
        _option(
            "--certificate-warning",
            "COPYRATOR_CERTIFICATE_WARNING",
            "Seconds before the end of a certificate in copies that rules warn of it.",
            type=float,
            callback=seconds(least=0),
            default=1_209_600.0,
        ),
        _option(
            "--max-remotes",
            "COPYRATOR_MAX_REMOTES",
            "Credentials of other clusters that rules may read sources with.",
            type=click.IntRange(min=0, max=1000),
            default=20,
        ),
        _option(
            "--rollout-health-pause",
            "COPYRATOR_ROLLOUT_HEALTH_PAUSE",
            "Seconds that rollouts with health wait after each step, at least.",
            type=float,
            callback=seconds(least=1),
            default=120.0,
        ),
    ]


def _bundle_options() -> list[click.Parameter]:
    return [
        _option(
            "--jobs-ttl",
            "WERF_OPERATOR_JOBS_TTL",
            "Seconds a Job is kept once its outcome is in the Bundle's status.",
            type=click.IntRange(min=0, max=10**9),
            default=120,
        ),
        _option(
            "--werf-tag",
            "WERF_OPERATOR_TAG",
            "Tag of the werf image, unless a Bundle sets it.",
            callback=matching(TAG, "an image tag"),
            default="latest",
        ),
        _option(
            "--timer-interval",
            "WERF_OPERATOR_TIMER_INTERVAL",
            "Seconds between two polls of a registry, unless a Bundle sets spec.interval.",
            type=float,
            callback=seconds(above=0),
            default=600.0,
        ),
        _option(
            "--timer-idle",
            "WERF_OPERATOR_TIMER_IDLE",
            "Seconds after a change of a Bundle before the timer polls it.",
            type=float,
            callback=seconds(least=0),
            default=10.0,
        ),
        _option(
            "--allowed-service-accounts",
            "COPYRATOR_ALLOWED_SERVICE_ACCOUNTS",
            "Service accounts that Bundles' Jobs may run as, separated by commas.",
            callback=listed(DNS_SUBDOMAIN, "a service account's name"),
            default="werf",
        ),
        _option(
            "--operator-identity-namespaces",
            "COPYRATOR_OPERATOR_IDENTITY_NAMESPACES",
            "Namespaces, as globs separated by commas, whose Bundles with spec.provider use the "
            "operator's own identity in place of their service account's; default: none.",
            callback=listed(NAMESPACE_GLOB, "a namespace's name or glob"),
        ),
        _option(
            "--allowed-images",
            "COPYRATOR_ALLOWED_IMAGES",
            "Image repositories that Bundles' Jobs may run, separated by commas.",
            callback=listed(IMAGE, "an image repository without tag or digest"),
            default=OFFICIAL_WERF_IMAGE,
        ),
        _option(
            "--allowed-secrets",
            "COPYRATOR_ALLOWED_SECRETS",
            "Secrets that Bundles may name, separated by commas; * any, - none.",
            callback=secret_names,
            default="*",
        ),
        _option(
            "--allowed-pod-metadata",
            "COPYRATOR_ALLOWED_POD_METADATA",
            "Labels and annotations of spec.job that the pods of gated Bundles get: KEY or "
            "KEY=VALUE, separated by commas; default: none.",
            callback=listed(POD_METADATA, "a key, or KEY=VALUE, of a label or annotation"),
        ),
        _option(
            "--job-pod-labels",
            "COPYRATOR_JOB_POD_LABELS",
            "Labels of the pods of all Jobs, which spec.job may override: KEY=VALUE, separated by "
            "commas; - none.",
            callback=pod_metadata(POD_LABEL, "a label"),
            default=joined(NO_SIDECAR_LABELS),
        ),
        _option(
            "--job-pod-annotations",
            "COPYRATOR_JOB_POD_ANNOTATIONS",
            "Annotations of the same. The defaults switch off the injection of sidecars.",
            callback=pod_metadata(POD_ANNOTATION, "an annotation"),
            default=joined(NO_SIDECAR_ANNOTATIONS),
        ),
        _option(
            "--allow-registry-addresses",
            "COPYRATOR_ALLOW_REGISTRY_ADDRESSES",
            "Address ranges, separated by commas, that registries may have although they are "
            "loopback, link-local or a cloud's metadata service; default: none.",
            callback=networks,
        ),
        _option(
            "--require-approval",
            "COPYRATOR_REQUIRE_APPROVAL",
            "Lowest spec.approval.mode of Bundles, by the namespace of the Bundle or its release: "
            "NAMESPACE-GLOB=OnRisk|Always, separated by commas; default: none.",
            callback=approvals,
        ),
        _option(
            "--require-bound-plans",
            "COPYRATOR_REQUIRE_BOUND_PLANS",
            "Namespaces of Bundles or their releases, as globs separated by commas, where a plan "
            "isn't deployed unless it is enforced, and bound or exact; default: none.",
            callback=listed(NAMESPACE_GLOB, "a namespace's name or glob"),
        ),
        _option(
            "--guard-policy",
            "COPYRATOR_GUARD_POLICY",
            "Name of the ValidatingAdmissionPolicy, and of its binding, by which the API server "
            "refuses what isn't approved; default: none.",
            callback=matching(DNS_SUBDOMAIN, "a policy's name (lower case, digits, '-', '.')"),
        ),
        _option(
            "--attest-environments",
            "COPYRATOR_ATTEST_ENVIRONMENTS",
            "Namespaces whose Bundles may attest under an environment's name: "
            "ENVIRONMENT=NAMESPACE-GLOB, separated by commas; default: with keys of their own all.",
            callback=environments,
        ),
        _option(
            "--require-signature-policy/--no-require-signature-policy",
            "COPYRATOR_REQUIRE_SIGNATURE_POLICY",
            "Deploy nothing while the ConfigMap copyrator-signature-policy doesn't exist.",
            default=False,
        ),
        _option(
            "--max-plan-jobs",
            "COPYRATOR_MAX_PLAN_JOBS",
            "Jobs that may plan deploys at the same time; one namespace may have half of them.",
            type=click.IntRange(min=1, max=100),
            default=4,
        ),
    ]


def _replica_options() -> list[click.Parameter]:
    return [
        _option(
            "--leader-election/--no-leader-election",
            "COPYRATOR_LEADER_ELECTION",
            "Work only while this replica holds the Lease.",
            default=True,
        ),
        _option(
            "--lease-name",
            "COPYRATOR_LEASE_NAME",
            "Name of the Lease: the same for all replicas of an installation, and only for these.",
            callback=matching(DNS_SUBDOMAIN, "a Lease's name (lower case, digits, '-', '.')"),
            default="copyrator",
        ),
        _option(
            "--lease-namespace",
            "POD_NAMESPACE",
            "Namespace of the Lease; default: --namespace.",
            callback=matching(DNS_LABEL, "a namespace's name (lower case, digits, '-')"),
        ),
        _option(
            "--identity",
            "POD_NAME",
            "This replica's name in the Lease; default: the pod's, or a unique one.",
        ),
    ]


def _process_options() -> list[click.Parameter]:
    return [
        _option(
            "--log-format",
            "COPYRATOR_LOG_FORMAT",
            "Log format: text lines, or one JSON object a line.",
            type=click.Choice(LogFormat, case_sensitive=False),
            default=LogFormat.CONSOLE,
            show_default=LogFormat.CONSOLE.value,
        ),
        _option(
            "--log-level",
            "COPYRATOR_LOG_LEVEL",
            "The lowest level that is logged.",
            type=click.Choice(LogLevel, case_sensitive=False),
            default=LogLevel.INFO,
            show_default=LogLevel.INFO.value,
        ),
        _option(
            "--health-address",
            "COPYRATOR_HEALTH_ADDRESS",
            "Address of /healthz, /readyz and /metrics.",
            default=_default_health_address,
            show_default="127.0.0.1; in a cluster every address",
        ),
        _option(
            "--health-port",
            "COPYRATOR_HEALTH_PORT",
            "Port of /healthz, /readyz and /metrics; 0 selects a free one.",
            type=click.IntRange(min=0, max=65535),
            default=8080,
        ),
        _option(
            "--webhook-port",
            "COPYRATOR_WEBHOOK_PORT",
            "Port of POST /hooks/registry, on the same address; default: none, 0 selects a free "
            "one.",
            type=click.IntRange(min=0, max=65535),
        ),
        _option(
            "--webhook-host",
            "POD_IP",
            "Host by which other replicas reach this one's webhook; default: where it listens.",
        ),
        _option(
            "--webhook-secret-file",
            "COPYRATOR_WEBHOOK_SECRET_FILE",
            "File with the secret of the webhook's callers.",
            type=click.Path(path_type=Path, dir_okay=False),
        ),
        _option(
            "--webhook-trusted-proxies",
            "COPYRATOR_WEBHOOK_TRUSTED_PROXIES",
            "Address ranges, separated by commas, of proxies whose X-Forwarded-For names the "
            "webhook's caller; default: none.",
            callback=networks,
        ),
    ]


def _option(flag: str, variable: str, text: str, **attributes: Any) -> click.Option:
    attributes.setdefault("show_default", True)
    return click.Option([flag], envvar=variable, show_envvar=True, help=text, **attributes)


def _default_health_address() -> str:
    """In a pod the kubelet and Prometheus connect from outside; elsewhere only this machine may."""
    return "" if os.environ.get("KUBERNETES_SERVICE_HOST") else "127.0.0.1"


def _hint_outside_cluster(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(
            "Hint: --run-outside-cluster is ignored; --kubeconfig chooses the cluster.",
            err=True,
        )
