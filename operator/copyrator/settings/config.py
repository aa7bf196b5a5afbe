"""The operator's settings, validated; options.py says which flag and variable sets each."""

from __future__ import annotations

import dataclasses
import enum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

DEFAULT_KINDS = (
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "ResourceQuota",
    "LimitRange",
    "Role.rbac.authorization.k8s.io",
    "RoleBinding.rbac.authorization.k8s.io",
    "NetworkPolicy.networking.k8s.io",
)
OFFICIAL_WERF_IMAGE = "registry.werf.io/werf/werf"


class LogFormat(enum.StrEnum):
    """How a log line looks: for a person, or one JSON object a line."""

    CONSOLE = "console"
    JSON = "json"


class LogLevel(enum.StrEnum):
    """The least severe line that is written. kopf's own loggers never go below INFO."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be configured, validated. Durations are seconds."""

    namespace: str = "default"
    """The namespace whose rules are trusted."""

    watch_namespaces: tuple[str, ...] = ()
    """The only namespaces that are served; empty: all of them."""

    rule_name: str | None = None
    """Run only the rule of this name; None runs every rule."""

    tenant_rules: bool = False
    """Whether rules outside `namespace` are served, within the limits for tenants."""

    kinds: tuple[str, ...] = DEFAULT_KINDS
    """Kinds that rules may copy or render; the chart grants the rights for exactly these."""

    kubeconfig: Path | None = None
    """None means: the service account's when in a cluster, else ~/.kube/config."""

    context: str | None = None
    """None means the kubeconfig's current context."""

    jobs_ttl: int = 120
    """How long a Job is kept after its outcome has been recorded."""

    werf_tag: str = "latest"
    """Tag of the official werf image, where a Bundle names none."""

    timer_interval: float = 600.0
    """How often a registry is polled, where a Bundle says nothing."""

    timer_idle: float = 10.0
    """How long a Bundle must have been left alone before it is polled by the timer."""

    allowed_service_accounts: tuple[str, ...] = ("werf",)
    """Service accounts that a Bundle's Jobs may run as."""

    allowed_images: tuple[str, ...] = (OFFICIAL_WERF_IMAGE,)
    """Image repositories that a Bundle's Jobs may run, without tag or digest."""

    allowed_secrets: tuple[str, ...] = ("*",)
    """Secrets that a Bundle may name; "*" means any."""

    allow_registry_addresses: tuple[IPv4Network | IPv6Network, ...] = ()
    """Where registries may be though such addresses are refused (oci/addresses.py)."""

    leader_election: bool = True
    """Whether one of several replicas works while the others stand by."""

    identity: str | None = None
    """This replica's name in the Lease; None means the pod's, or one that no other process has."""

    lease_name: str = "copyrator"
    lease_namespace: str | None = None
    """Where the Lease is; None means `namespace`."""

    log_format: LogFormat = LogFormat.CONSOLE
    log_level: LogLevel = LogLevel.INFO

    health_address: str = "127.0.0.1"
    """Where /healthz, /readyz and /metrics listen; empty means every address of the machine."""

    health_port: int = 8080
    """0 picks a free port, which the log names."""

    webhook_port: int | None = None
    """Where registries may say that something was pushed; None means nowhere, 0 a free port."""

    webhook_host: str | None = None
    """How the other replicas reach it; None means by the address that it listens on."""

    webhook_secret_file: Path | None = None
    """Holds the secret that they must know; read at each call."""

    webhook_trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Proxies whose X-Forwarded-For says who calls."""

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Where rules and Bundles are listed; None is the whole cluster."""
        return self.watch_namespaces or (None,)

    def serves(self, namespace: str) -> bool:
        """Whether the operator has any business in a namespace."""
        return not self.watch_namespaces or namespace in self.watch_namespaces
