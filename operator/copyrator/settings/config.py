"""The operator's settings, validated: the variable, help, default and values of each."""

# ruff: noqa: RUF009 - _setting returns a dataclass field

from __future__ import annotations

import dataclasses
import enum
import math
import os
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

import click

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


DEFAULT_KINDS = ("ConfigMap", "Secret")
KNOWN_KINDS = (
    *DEFAULT_KINDS,
    "ServiceAccount",
    "ResourceQuota",
    "LimitRange",
    "Role.rbac.authorization.k8s.io",
    "RoleBinding.rbac.authorization.k8s.io",
    "NetworkPolicy.networking.k8s.io",
)
"""Built-in kinds that rules are known to be used for; the default allows the first two."""

NO_SIDECAR_LABELS = (("sidecar.istio.io/inject", "false"),)
NO_SIDECAR_ANNOTATIONS = (
    ("sidecar.istio.io/inject", "false"),
    ("linkerd.io/inject", "disabled"),
    ("vault.hashicorp.com/agent-inject", "false"),
)
"""What switches off the injection of sidecars, by the documentation of Istio, Linkerd and Vault."""
OFFICIAL_WERF_IMAGE = "registry.werf.io/werf/werf"


class LogFormat(enum.StrEnum):
    """Format of a log line: human-readable, or one JSON object a line."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """Minimum severity of the log. kopf's own loggers never go below INFO."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _setting(variable: str, text: str, *, default: Any = None, **option: Any) -> Any:
    """A field with its variable, its help, and further arguments of click's option."""
    described = {"envvar": variable, "help": text, **option}
    return dataclasses.field(default=default, metadata=described)


def _default_health_address() -> str:
    """In a pod the kubelet and Prometheus connect from outside; elsewhere only this machine may."""
    return "" if os.environ.get("KUBERNETES_SERVICE_HOST") else "127.0.0.1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, validated. Durations are seconds.

    A field's flag has its name: ``timer_idle`` is ``--timer-idle``; a boolean has ``--no-`` too.
    """

    kubeconfig: Path | None = _setting(
        "KUBECONFIG",
        "Kubeconfig file; default: the pod's service account, else ~/.kube/config.",
        type=click.Path(path_type=Path, dir_okay=False),
    )
    context: str | None = _setting(
        "COPYRATOR_CONTEXT",
        "Context of the kubeconfig; default: its current one.",
    )
    namespace: str = _setting(
        "NAMESPACE",
        "The namespace whose rules are trusted.",
        default="default",
        callback=matching(DNS_LABEL, "a namespace's name (lower case, digits, '-')"),
    )
    watch_namespaces: tuple[str, ...] = _setting(
        "COPYRATOR_WATCH_NAMESPACES",
        "Serve these namespaces only, separated by commas; default: all.",
        default=(),
        callback=listed(DNS_LABEL, "a namespace's name"),
    )
    rule_name: str | None = _setting(
        "RULE_NAME",
        "Run only the rule of this name; default: every rule.",
        callback=matching(DNS_SUBDOMAIN, "a rule's name (lower case, digits, '-', '.')"),
    )
    tenant_rules: bool = _setting(
        "COPYRATOR_TENANT_RULES",
        "Serve rules of other namespaces too, each from its own namespace only.",
        default=False,
    )
    kinds: tuple[str, ...] = _setting(
        "COPYRATOR_KINDS",
        "Kinds that rules may copy or render, separated by commas.",
        default=DEFAULT_KINDS,
        callback=listed(KIND, "a kind such as Secret or Role.rbac.authorization.k8s.io"),
    )
    """The chart grants permissions for exactly these."""
    certificate_warning: float = _setting(
        "COPYRATOR_CERTIFICATE_WARNING",
        "Seconds before the end of a certificate in copies that rules warn of it.",
        default=14 * 24 * 3600.0,
        callback=seconds(least=0),
    )
    max_remotes: int = _setting(
        "COPYRATOR_MAX_REMOTES",
        "Credentials of other clusters that rules may read sources with.",
        default=20,
        type=click.IntRange(min=0, max=1000),
    )
    rollout_health_pause: float = _setting(
        "COPYRATOR_ROLLOUT_HEALTH_PAUSE",
        "Seconds that rollouts with health wait after each step, at least.",
        default=120.0,
        callback=seconds(least=1),
    )
    jobs_ttl: int = _setting(
        "WERF_OPERATOR_JOBS_TTL",
        "Seconds a Job is kept once its outcome is in the Bundle's status.",
        default=120,
        type=click.IntRange(min=0, max=10**9),
    )
    werf_tag: str = _setting(
        "WERF_OPERATOR_TAG",
        "Tag of the werf image, unless a Bundle sets it.",
        default="latest",
        callback=matching(TAG, "an image tag"),
    )
    timer_interval: float = _setting(
        "WERF_OPERATOR_TIMER_INTERVAL",
        "Seconds between two polls of a registry, unless a Bundle sets spec.interval.",
        default=600.0,
        callback=seconds(above=0),
    )
    timer_idle: float = _setting(
        "WERF_OPERATOR_TIMER_IDLE",
        "Seconds after a change of a Bundle before the timer polls it.",
        default=10.0,
        callback=seconds(least=0),
    )
    allowed_service_accounts: tuple[str, ...] = _setting(
        "COPYRATOR_ALLOWED_SERVICE_ACCOUNTS",
        "Service accounts that Bundles' Jobs may run as, separated by commas.",
        default=("werf",),
        callback=listed(DNS_SUBDOMAIN, "a service account's name"),
    )
    operator_identity_namespaces: tuple[str, ...] = _setting(
        "COPYRATOR_OPERATOR_IDENTITY_NAMESPACES",
        "Namespaces, as globs separated by commas, whose Bundles with spec.provider use the "
        "operator's own identity in place of their service account's; default: none.",
        default=(),
        callback=listed(NAMESPACE_GLOB, "a namespace's name or glob"),
    )
    allowed_images: tuple[str, ...] = _setting(
        "COPYRATOR_ALLOWED_IMAGES",
        "Image repositories that Bundles' Jobs may run, separated by commas.",
        default=(OFFICIAL_WERF_IMAGE,),
        callback=listed(IMAGE, "an image repository without tag or digest"),
    )
    allowed_secrets: tuple[str, ...] = _setting(
        "COPYRATOR_ALLOWED_SECRETS",
        "Secrets that Bundles may name, separated by commas; * any, - none.",
        default=("*",),
        callback=secret_names,
    )
    allowed_pod_metadata: tuple[str, ...] = _setting(
        "COPYRATOR_ALLOWED_POD_METADATA",
        "Labels and annotations of spec.job that the pods of gated Bundles get: KEY or "
        "KEY=VALUE, separated by commas; default: none.",
        default=(),
        callback=listed(POD_METADATA, "a key, or KEY=VALUE, of a label or annotation"),
    )
    job_pod_labels: tuple[tuple[str, str], ...] = _setting(
        "COPYRATOR_JOB_POD_LABELS",
        "Labels of the pods of all Jobs, which spec.job may override: KEY=VALUE, separated by "
        "commas; - none.",
        default=NO_SIDECAR_LABELS,
        callback=pod_metadata(POD_LABEL, "a label"),
    )
    job_pod_annotations: tuple[tuple[str, str], ...] = _setting(
        "COPYRATOR_JOB_POD_ANNOTATIONS",
        "Annotations of the same. The defaults switch off the injection of sidecars.",
        default=NO_SIDECAR_ANNOTATIONS,
        callback=pod_metadata(POD_ANNOTATION, "an annotation"),
    )
    allow_registry_addresses: tuple[IPv4Network | IPv6Network, ...] = _setting(
        "COPYRATOR_ALLOW_REGISTRY_ADDRESSES",
        "Address ranges, separated by commas, that registries may have although they are "
        "loopback, link-local or a cloud's metadata service; default: none.",
        default=(),
        callback=networks,
    )
    require_approval: tuple[tuple[str, str], ...] = _setting(
        "COPYRATOR_REQUIRE_APPROVAL",
        "Lowest spec.approval.mode of Bundles, by the namespace of the Bundle or its release: "
        "NAMESPACE-GLOB=OnRisk|Always, separated by commas; default: none.",
        default=(),
        callback=approvals,
    )
    require_bound_plans: tuple[str, ...] = _setting(
        "COPYRATOR_REQUIRE_BOUND_PLANS",
        "Namespaces of Bundles or their releases, as globs separated by commas, where a plan "
        "isn't deployed unless it is enforced, and bound or exact; default: none.",
        default=(),
        callback=listed(NAMESPACE_GLOB, "a namespace's name or glob"),
    )
    guard_policy: str | None = _setting(
        "COPYRATOR_GUARD_POLICY",
        "Name of the ValidatingAdmissionPolicy, and of its binding, by which the API server "
        "refuses what isn't approved; default: none.",
        callback=matching(DNS_SUBDOMAIN, "a policy's name (lower case, digits, '-', '.')"),
    )
    attest_environments: tuple[tuple[str, str], ...] = _setting(
        "COPYRATOR_ATTEST_ENVIRONMENTS",
        "Namespaces whose Bundles may attest under an environment's name: "
        "ENVIRONMENT=NAMESPACE-GLOB, separated by commas; default: with keys of their own all.",
        default=(),
        callback=environments,
    )
    require_signature_policy: bool = _setting(
        "COPYRATOR_REQUIRE_SIGNATURE_POLICY",
        "Deploy nothing while the ConfigMap copyrator-signature-policy doesn't exist.",
        default=False,
    )
    max_plan_jobs: int = _setting(
        "COPYRATOR_MAX_PLAN_JOBS",
        "Jobs that may plan deploys at the same time; one namespace may have half of them.",
        default=4,
        type=click.IntRange(min=1, max=100),
    )
    leader_election: bool = _setting(
        "COPYRATOR_LEADER_ELECTION",
        "Work only while this replica holds the Lease.",
        default=True,
    )
    lease_name: str = _setting(
        "COPYRATOR_LEASE_NAME",
        "Name of the Lease: the same for all replicas of an installation, and only for these.",
        default="copyrator",
        callback=matching(DNS_SUBDOMAIN, "a Lease's name (lower case, digits, '-', '.')"),
    )
    lease_namespace: str | None = _setting(
        "POD_NAMESPACE",
        "Namespace of the Lease; default: --namespace.",
        callback=matching(DNS_LABEL, "a namespace's name (lower case, digits, '-')"),
    )
    identity: str | None = _setting(
        "POD_NAME",
        "This replica's name in the Lease; default: the pod's, or a unique one.",
    )
    log_format: LogFormat = _setting(
        "COPYRATOR_LOG_FORMAT",
        "Log format: text lines, or one JSON object a line.",
        default=LogFormat.CONSOLE,
        type=click.Choice(LogFormat, case_sensitive=False),
    )
    log_level: LogLevel = _setting(
        "COPYRATOR_LOG_LEVEL",
        "The lowest level that is logged.",
        default=LogLevel.INFO,
        type=click.Choice(LogLevel, case_sensitive=False),
    )
    health_address: str = _setting(
        "COPYRATOR_HEALTH_ADDRESS",
        "Address of /healthz, /readyz and /metrics.",
        default="127.0.0.1",
        default_of_flag=_default_health_address,
        show_default="127.0.0.1; in a cluster every address",
    )
    """Empty: every address of the machine."""
    health_port: int = _setting(
        "COPYRATOR_HEALTH_PORT",
        "Port of /healthz, /readyz and /metrics; 0 selects a free one.",
        default=8080,
        type=click.IntRange(min=0, max=65535),
    )
    webhook_port: int | None = _setting(
        "COPYRATOR_WEBHOOK_PORT",
        "Port of POST /hooks/registry, on the same address; default: none, 0 selects a free one.",
        type=click.IntRange(min=0, max=65535),
    )
    webhook_host: str | None = _setting(
        "POD_IP",
        "Host by which other replicas reach this one's webhook; default: where it listens.",
    )
    webhook_secret_file: Path | None = _setting(
        "COPYRATOR_WEBHOOK_SECRET_FILE",
        "File with the secret of the webhook's callers.",
        type=click.Path(path_type=Path, dir_okay=False),
    )
    """Read at each call."""
    webhook_trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = _setting(
        "COPYRATOR_WEBHOOK_TRUSTED_PROXIES",
        "Address ranges, separated by commas, of proxies whose X-Forwarded-For names the "
        "webhook's caller; default: none.",
        default=(),
        callback=networks,
    )

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Namespaces in which rules and Bundles are listed; None is the whole cluster."""
        return self.watch_namespaces or (None,)

    def serves(self, namespace: str) -> bool:
        """Whether the operator serves a namespace."""
        return not self.watch_namespaces or namespace in self.watch_namespaces
