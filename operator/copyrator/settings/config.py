"""The operator's settings, validated; options.py has the flag and variable of each."""

from __future__ import annotations

import dataclasses
import enum
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, validated. Durations are seconds."""

    namespace: str = "default"
    """The namespace whose rules are trusted."""

    watch_namespaces: tuple[str, ...] = ()
    """The only namespaces that are served; empty: all of them."""

    rule_name: str | None = None
    """Serve only the rule of this name; None serves every rule."""

    tenant_rules: bool = False
    """Whether rules outside `namespace` are served, within the limits for tenants."""

    kinds: tuple[str, ...] = DEFAULT_KINDS
    """Kinds that rules may copy or render; the chart grants permissions for exactly these."""

    certificate_warning: float = 1_209_600.0
    """Seconds before the end of a certificate in a copy that the rule warns of it: 14 days."""

    max_remotes: int = 20
    """Credentials of other clusters that trusted rules may use at the same time."""

    rollout_health_pause: float = 120.0
    """Seconds that a rollout with health waits after each step, at least."""

    kubeconfig: Path | None = None
    """None: the service account's in a cluster, else ~/.kube/config."""

    context: str | None = None
    """None: the kubeconfig's current context."""

    jobs_ttl: int = 120
    """Seconds that a Job is kept after its outcome has been recorded."""

    werf_tag: str = "latest"
    """Tag of the official werf image, where a Bundle sets none."""

    timer_interval: float = 600.0
    """Seconds between two polls of a registry, where a Bundle sets none."""

    timer_idle: float = 10.0
    """Seconds without a change of a Bundle before the timer polls it."""

    allowed_service_accounts: tuple[str, ...] = ("werf",)
    """Service accounts that a Bundle's Jobs may run as."""

    operator_identity_namespaces: tuple[str, ...] = ()
    """Globs of namespaces whose Bundles with ``spec.provider`` use the operator's own identity."""

    allowed_images: tuple[str, ...] = (OFFICIAL_WERF_IMAGE,)
    """Image repositories that a Bundle's Jobs may run, without tag or digest."""

    allowed_secrets: tuple[str, ...] = ("*",)
    """Secrets that a Bundle may name; "*" means any."""

    allowed_pod_metadata: tuple[str, ...] = ()
    """Labels and annotations, `key` or `key=value`, that pods of gated Bundles may have."""

    job_pod_labels: tuple[tuple[str, str], ...] = NO_SIDECAR_LABELS
    """Labels of the pods of all Jobs, which `spec.job` may override."""

    job_pod_annotations: tuple[tuple[str, str], ...] = NO_SIDECAR_ANNOTATIONS
    """Annotations of the same."""

    allow_registry_addresses: tuple[IPv4Network | IPv6Network, ...] = ()
    """Addresses that registries may have although refused by default (oci/hosts.py)."""

    require_approval: tuple[tuple[str, str], ...] = ()
    """Globs of Bundles' namespaces, each with the lowest approval mode there: OnRisk or Always."""

    require_bound_plans: tuple[str, ...] = ()
    """Globs of Bundles' namespaces where a plan isn't deployed unless it is enforced, and bound or
    exact."""

    guard_policy: str | None = None
    """Name of the ValidatingAdmissionPolicy, and of its binding, that holds a Job to its approved
    operations; None: there is none.
    """

    attest_environments: tuple[tuple[str, str], ...] = ()
    """Names of environments, each with a glob of namespaces whose Bundles may attest under it."""

    require_signature_policy: bool = False
    """Nothing is deployed without the ConfigMap of the signature policy."""

    max_plan_jobs: int = 4
    """Jobs that may plan deploys at the same time; one namespace may have half of them."""

    leader_election: bool = True
    """Whether only one of several replicas works while the others are on standby."""

    identity: str | None = None
    """This replica's identity in the Lease; None: the pod's name, or a unique one."""

    lease_name: str = "copyrator"
    lease_namespace: str | None = None
    """Namespace of the Lease; None: `namespace`."""

    log_format: LogFormat = LogFormat.CONSOLE
    log_level: LogLevel = LogLevel.INFO

    health_address: str = "127.0.0.1"
    """Listening address of /healthz, /readyz and /metrics; empty: every address of the machine."""

    health_port: int = 8080
    """0 picks a free port, which is logged."""

    webhook_port: int | None = None
    """Port of the webhook for push notifications; None: no webhook, 0: a free port."""

    webhook_host: str | None = None
    """Host of the webhook's URL for the other replicas; None: its listening address."""

    webhook_secret_file: Path | None = None
    """File with the secret that callers must present; read at each call."""

    webhook_trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    """Proxies whose X-Forwarded-For is trusted."""

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Namespaces in which rules and Bundles are listed; None is the whole cluster."""
        return self.watch_namespaces or (None,)

    def serves(self, namespace: str) -> bool:
        """Whether the operator serves a namespace."""
        return not self.watch_namespaces or namespace in self.watch_namespaces
