"""The operator's settings but those of features and plans, which are in their ``settings.py``.

Flags, variables, the chart and documents are made from the rows. A flag has its setting's name:
``timer_idle`` is ``--timer-idle``, and a switch has ``--no-`` too. A variable is ``COPYRATOR_`` and
the name, or an older one. `make generate` writes docs/settings.md, the chart's values, their schema
and the variables of its Deployment.
"""

from __future__ import annotations

import enum
import os
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TypeVar

import click

from copyrator.settings.options import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    Chart,
    Group,
    Items,
    Networks,
    Pairs,
    Seconds,
    Text,
    setting,
)

TAG = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"  # OCI distribution spec, "Pulling manifests"
KIND = r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+(/v[a-z0-9]+)?)?"
LABEL_VALUE = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
POD_KEY = "([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

NAMESPACE = Text(DNS_LABEL, "a namespace's name (lower case, digits, '-')")
NAMESPACES = Items(DNS_LABEL, "a namespace's name")
PORT = click.IntRange(0, 65535)
FILE = click.Path(path_type=Path, dir_okay=False)

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


def _default_health_address() -> str:
    """In a pod the kubelet and Prometheus connect from outside; elsewhere only this machine may."""
    return "" if os.environ.get("KUBERNETES_SERVICE_HOST") else "127.0.0.1"


class Runtime(Group, place=0):
    """The process and its cluster."""

    kubeconfig: Path | None = setting(
        FILE,
        None,
        "kubeconfig file, which names the cluster",
        variable="KUBECONFIG",
        unset="the pod's service account, else `~/.kube/config`",
    )
    context: str | None = setting(
        click.STRING, None, "context of the kubeconfig", unset="the kubeconfig's current one"
    )
    namespace: str = setting(
        NAMESPACE,
        "default",
        "the namespace whose rules are trusted",
        variable="NAMESPACE",
        chart=Chart("rules.namespace", "", unset="the release's"),
    )
    watch_namespaces: tuple[str, ...] = setting(
        NAMESPACES,
        (),
        "serve these namespaces only ([details](security.md#only-some-namespaces))",
        unset="all",
        chart=Chart("watchNamespaces", note="they must exist, and each gets a Role"),
    )
    leader_election: bool = setting(
        None,
        True,
        "work only while this replica holds the Lease ([details](high-availability.md))",
    )
    lease_name: str = setting(
        Text(DNS_SUBDOMAIN, "a Lease's name (lower case, digits, '-', '.')"),
        "copyrator",
        "name of the Lease: the same for all replicas of an installation, and only for these",
    )
    lease_namespace: str | None = setting(
        NAMESPACE,
        None,
        "namespace of the Lease",
        variable="POD_NAMESPACE",
        unset="that of `--namespace`",
    )
    identity: str | None = setting(
        click.STRING,
        None,
        "this replica's name in the Lease",
        variable="POD_NAME",
        unset="the pod's name; elsewhere the host name and a random suffix",
    )
    log_format: LogFormat = setting(
        click.Choice(LogFormat, case_sensitive=False),
        LogFormat.CONSOLE,
        "log format: text lines, or one JSON object a line",
        chart=Chart("log.format", "json"),
    )
    log_level: LogLevel = setting(
        click.Choice(LogLevel, case_sensitive=False),
        LogLevel.INFO,
        "the lowest level that is logged",
        chart=Chart("log.level"),
    )
    health_address: str = setting(
        click.STRING,
        "127.0.0.1",
        "address of `/healthz`, `/readyz` and `/metrics`",
        unset="`127.0.0.1`; in a cluster every address",
        default_of_flag=_default_health_address,
    )
    """Empty: every address of the machine."""
    health_port: int = setting(
        PORT, 8080, "port of the health address; 0 selects a free one, which is logged"
    )


class Copies(Group, place=10):
    """Rules and their copies."""

    rule_name: str | None = setting(
        Text(DNS_SUBDOMAIN, "a rule's name (lower case, digits, '-', '.')"),
        None,
        "run only the rule of this name",
        variable="RULE_NAME",
        unset="every rule",
        chart=Chart("rules.name", unset="every rule of that namespace"),
    )
    tenant_rules: bool = setting(
        None,
        False,
        "serve rules of other namespaces too, each from its own namespace only and only into "
        "namespaces that accept it ([trust](trust.md))",
        chart=Chart("rules.tenantRules"),
    )
    kinds: tuple[str, ...] = setting(
        Items(KIND, "a kind such as Secret or Role.rbac.authorization.k8s.io"),
        DEFAULT_KINDS,
        "kinds that rules may copy or render, as `<Kind>` or, outside of the core group, "
        "`<Kind>.<group>`",
        chart=Chart(
            "rules.kinds",
            note="the operator gets full permissions on exactly these, and rejects rules for "
            "other kinds; uncomment a line, or list all that you need with `--set-json`",
        ),
    )
    max_remotes: int = setting(
        click.IntRange(0, 1000),
        20,
        "credentials of [other clusters](rules.md#sources-of-another-cluster) that rules may "
        "read their sources with (`spec.source.kubeConfig`) at the same time; 0: none",
        chart=Chart("rules.maxRemotes"),
    )
    default_cas_file: Path = setting(
        FILE,
        Path("/etc/ssl/certs/ca-certificates.crt"),
        "the [public CAs](composed.md#the-public-cas) for rules with `defaultCAs: true`: "
        "certificates in PEM",
        chart=Chart("rules.defaultCAsFile", note="mount another one with `extraVolumes`"),
    )
    certificate_warning: float = setting(
        Seconds(min=0),
        14 * 24 * 3600.0,
        "seconds before the end of a certificate in copies that its rule's condition "
        "CertificateExpiring, an Event and the alert "
        "[warn of it](rules.md#certificates-that-end)",
        chart=Chart("rules.certificateWarning"),
    )
    rollout_health_pause: float = setting(
        Seconds(min=1),
        120.0,
        "seconds that a [rollout with health](rollouts.md#health) waits after each step, at least",
    )


class Engine(Group, place=20):
    """Bundles and their Jobs."""

    jobs_ttl: int = setting(
        click.IntRange(0, 10**9),
        120,
        "seconds that a Job is kept once its outcome is in the Bundle's status",
        variable="WERF_OPERATOR_JOBS_TTL",
        chart=Chart("bundles.jobsTTL"),
    )
    werf_tag: str = setting(
        Text(TAG, "an image tag"),
        "latest",
        "tag of the werf image that runs the deploys, unless a Bundle sets it "
        "([tested versions](bundles.md#versions-of-werf))",
        variable="WERF_OPERATOR_TAG",
        chart=Chart("bundles.werfTag", "2.75.3"),
    )
    timer_interval: float = setting(
        Seconds(min=0, min_open=True),
        600.0,
        "seconds between two polls of a registry, unless a Bundle sets `spec.interval`",
        variable="WERF_OPERATOR_TIMER_INTERVAL",
        chart=Chart("bundles.timerInterval"),
    )
    timer_idle: float = setting(
        Seconds(min=0),
        10.0,
        "seconds without a timed poll of a Bundle after it was changed; the change itself is "
        "acted on at once",
        variable="WERF_OPERATOR_TIMER_IDLE",
        chart=Chart("bundles.timerIdle"),
    )
    allowed_service_accounts: tuple[str, ...] = setting(
        Items(DNS_SUBDOMAIN, "a service account's name"),
        ("werf",),
        "service accounts that Bundles' Jobs may run as",
        chart=Chart("bundles.allowedServiceAccounts"),
    )
    allowed_images: tuple[str, ...] = setting(
        Items(r"[a-z0-9][^\s,@]*", "an image repository without tag or digest"),
        (OFFICIAL_WERF_IMAGE,),
        "images of werf that Bundles' Jobs may run, without tag or digest; the first one is that "
        "of Bundles without `spec.werf.image`",
        chart=Chart("bundles.allowedImages"),
    )
    allowed_secrets: tuple[str, ...] = setting(
        Items(rf"[*]|{DNS_SUBDOMAIN}", "a Secret's name", none=True),
        ("*",),
        "names of the Secrets that Bundles may name (`auth`, `caSecret`, `valuesFrom`, `verify`, "
        "`attest`, `promoteFrom`); `*` any",
        chart=Chart(
            "bundles.allowedSecrets",
            note="`[]` none. The operator may read Secrets of these names in every namespace",
        ),
    )
    job_pod_labels: tuple[tuple[str, str], ...] = setting(
        Pairs("KEY=VALUE", POD_KEY, LABEL_VALUE, "KEY=VALUE of a label", none=True),
        NO_SIDECAR_LABELS,
        "labels of the pods of all Jobs, which `spec.job.podLabels` may override, of "
        "[gated Bundles](approval.md#what-a-gated-bundles-jobs-get) only with what the allowed pod "
        "metadata name. The defaults of labels and annotations switch off the injection of "
        "sidecars by Istio, Linkerd and Vault ([service meshes](where-it-runs.md#service-meshes))",
        chart=Chart("bundles.podLabels", note="`null` removes one"),
    )
    job_pod_annotations: tuple[tuple[str, str], ...] = setting(
        Pairs("KEY=VALUE", POD_KEY, "[^,]*", "KEY=VALUE of an annotation", none=True),
        NO_SIDECAR_ANNOTATIONS,
        "annotations of these pods, in the same way",
        chart=Chart("bundles.podAnnotations"),
    )
    allow_registry_addresses: tuple[IPv4Network | IPv6Network, ...] = setting(
        Networks(),
        (),
        "address ranges (`10.0.0.0/8`) that registries may have although they are loopback, "
        "link-local or a cloud's metadata service; by default the operator sends "
        "[no requests there](settings.md#where-requests-go)",
        chart=Chart("bundles.allowRegistryAddresses"),
    )


class Gated(Group, place=40):
    """Plans and approval."""

    # Signatures, promotion and other clusters gate Bundles, too; it is listed where most look.

    allowed_pod_metadata: tuple[str, ...] = setting(
        Items(f"{POD_KEY}(=[^,]*)?", "a key, or KEY=VALUE, of a label or annotation"),
        (),
        "labels and annotations of `spec.job.podLabels` and `podAnnotations` that the pods of "
        "[gated Bundles](approval.md#what-a-gated-bundles-jobs-get) get, as `KEY` or `KEY=VALUE`; "
        "pods of other Bundles get all of theirs",
        chart=Chart("bundles.allowedPodMetadata"),
    )


class Webhook(Group, place=70):
    """The webhook of registries."""

    webhook_port: int | None = setting(
        PORT,
        None,
        "port of `POST /hooks/registry`, on which registries announce pushes "
        "([details](webhook.md)), on the health address; 0 selects a free one",
        unset="none: no webhook",
    )
    """The chart's `webhook.port` has no default of none and is a Service's port, too."""
    webhook_host: str | None = setting(
        click.STRING,
        None,
        "host by which other replicas reach this one's webhook "
        "([details](high-availability.md#settings))",
        variable="POD_IP",
        unset="the address it listens on",
    )
    webhook_secret_file: Path | None = setting(
        FILE,
        None,
        "file with the secret that callers must send; required with `--webhook-port`",
        unset="none",
    )
    """Read at each call."""
    webhook_trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = setting(
        Networks(),
        (),
        "address ranges of proxies, such as an Ingress controller's pods, whose `X-Forwarded-For` "
        "names the webhook's caller ([details](webhook.md#authentication-and-limits))",
        chart=Chart("webhook.trustedProxies"),
    )


G = TypeVar("G", bound=Group)


class Settings(Runtime, Copies, Engine, Gated, Webhook):
    """All settings, validated. Durations are seconds."""

    features: tuple[Group, ...] = ()
    """Groups of features and of plans; of the others the defaults hold."""

    def of(self, kind: type[G]) -> G:
        """The group of this type."""
        return next((one for one in self.features if isinstance(one, kind)), None) or kind()

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Namespaces in which rules and Bundles are listed; None is the whole cluster."""
        return self.watch_namespaces or (None,)

    def serves(self, namespace: str) -> bool:
        """Whether the operator serves a namespace."""
        return not self.watch_namespaces or namespace in self.watch_namespaces
