"""The operator's settings: one table, from which flags, variables, chart and documents are made.

A flag has its setting's name: ``timer_idle`` is ``--timer-idle``, and a switch has ``--no-`` too.
A variable is ``COPYRATOR_`` and the name, or an older one. `make generate` writes what comes from
the table: docs/settings.md, the chart's values, their schema and the variables of its Deployment.

Flags are click options, so that `copyrator run`, its `--help` and the variables for `kopf run` and
the chart are always the same: `from_environment` parses the same options from an empty command
line. An invalid value is reported once, with flag and variable, and exits with code 2.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, TypeVar

import click

from copyrator.settings.options import (
    Chart,
    Items,
    Networks,
    Pairs,
    Seconds,
    Text,
    composed,
    option,
    rows,
    setting,
)

DNS_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN = "[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
NAMESPACE_GLOB = "[-a-z0-9*?]{1,63}"
TAG = "[A-Za-z0-9_][A-Za-z0-9._-]{0,127}"  # OCI distribution spec, "Pulling manifests"
KIND = r"[A-Z][A-Za-z0-9]*(\.[a-z0-9.-]+(/v[a-z0-9]+)?)?"
LABEL_VALUE = "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
POD_KEY = "([a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

NAMESPACE = Text(DNS_LABEL, "a namespace's name (lower case, digits, '-')")
NAMESPACES = Items(DNS_LABEL, "a namespace's name")
GLOBS = Items(NAMESPACE_GLOB, "a namespace's name or glob")
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


@rows
class Runtime:
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


@rows
class Copies:
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


@rows
class Engine:
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
        "tag of the official werf image that runs the deploys, unless a Bundle sets it "
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
        "images of werf that Bundles' Jobs may run, without tag or digest",
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


@rows
class Login:
    """Identities of clouds."""

    operator_identity_namespaces: tuple[str, ...] = setting(
        GLOBS,
        (),
        "names or globs of namespaces whose Bundles with `spec.provider` use the "
        "[operator's own identity](clouds.md#the-operators-own-identity) in place of their "
        "service account's; its tokens reach Secrets of these namespaces "
        "([what they open](security.md#identities-of-clouds))",
        chart=Chart("bundles.operatorIdentity.namespaces"),
    )


@rows
class Approval:
    """Plans and approval."""

    allowed_pod_metadata: tuple[str, ...] = setting(
        Items(f"{POD_KEY}(=[^,]*)?", "a key, or KEY=VALUE, of a label or annotation"),
        (),
        "labels and annotations of `spec.job.podLabels` and `podAnnotations` that the pods of "
        "[gated Bundles](approval.md#what-a-gated-bundles-jobs-get) get, as `KEY` or `KEY=VALUE`; "
        "pods of other Bundles get all of theirs",
        chart=Chart("bundles.allowedPodMetadata"),
    )
    require_approval: tuple[tuple[str, str], ...] = setting(
        Pairs(
            "NAMESPACE-GLOB=OnRisk|Always",
            NAMESPACE_GLOB,
            "OnRisk|Always",
            "a namespace's name or glob with OnRisk or Always, such as prod-*=Always",
        ),
        (),
        "lowest `spec.approval.mode` of the Bundles in namespaces, and of those with their release "
        "there, of several that match the highest; those who write Bundles can't change it "
        "([who may approve](trust.md#who-may-approve)). There a username and password of "
        "`spec.auth` need their host in an annotation "
        "([credentials](trust.md#credentials-of-registries))",
        chart=Chart("bundles.requireApproval", note="as `<name or glob>: OnRisk` or `Always`"),
    )
    require_bound_plans: tuple[str, ...] = setting(
        GLOBS,
        (),
        "names or globs of Bundles' and their releases' namespaces where a plan isn't deployed "
        "unless it is enforced, and bound or exact "
        "([the words](approval.md#how-certain-a-plan-is))",
        chart=Chart("bundles.requireBoundPlans"),
    )
    max_plan_jobs: int = setting(
        click.IntRange(1, 100),
        4,
        "Jobs that may plan deploys at the same time; one namespace may have "
        "[half of them](security.md#what-one-tenant-can-cost)",
        chart=Chart("bundles.maxPlanJobs"),
    )
    guard_policy: str | None = setting(
        Text(DNS_SUBDOMAIN, "a policy's name (lower case, digits, '-', '.')"),
        None,
        "name of the ValidatingAdmissionPolicy, and of its binding, by which the API server "
        "refuses what isn't approved; its lists are ConfigMaps in the Lease's namespace",
        unset="none",
    )


@rows
class Attest:
    """Attestations."""

    attest_environments: tuple[tuple[str, str], ...] = setting(
        Pairs(
            "ENVIRONMENT=NAMESPACE-GLOB",
            DNS_LABEL,
            NAMESPACE_GLOB,
            "an environment with a namespace's name or glob, such as staging=team-*",
            several=True,
        ),
        (),
        "namespaces whose Bundles may attest under an environment's name "
        "([`spec.attest`](promotion.md#attest-what-stands-here)); names that aren't listed are "
        "free for Bundles with a key of their own, and the operator's key (Secret "
        "`copyrator-attest-key` in the rules' namespace) is only for those listed",
        chart=Chart(
            "attest.environments",
            note="as `<environment>: [<namespaces or globs>]`. With `watchNamespaces` it also "
            "allows reading the uid of `kube-system`, which names the cluster in attestations "
            "([other clusters](promotion.md#from-other-clusters))",
        ),
    )


@rows
class Signatures:
    """Signatures."""

    require_signature_policy: bool = setting(
        None,
        False,
        "deploy nothing while there is no [signature policy](signatures.md), the ConfigMap "
        "`copyrator-signature-policy` in the rules' namespace",
        chart=Chart(
            "signaturePolicy.required",
            note="the chart makes it of the values below, or you create it yourself",
        ),
    )


@rows
class Webhook:
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


@composed
class Settings(Runtime, Copies, Engine, Login, Approval, Attest, Signatures, Webhook):
    """All settings, validated. Durations are seconds."""

    @property
    def scopes(self) -> tuple[str | None, ...]:
        """Namespaces in which rules and Bundles are listed; None is the whole cluster."""
        return self.watch_namespaces or (None,)

    def serves(self, namespace: str) -> bool:
        """Whether the operator serves a namespace."""
        return not self.watch_namespaces or namespace in self.watch_namespaces


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
    given = {k: v for k, v in values.items() if k in known and v is not None}
    if "webhook_port" in given and "webhook_secret_file" not in given:
        raise click.UsageError(
            "--webhook-port (COPYRATOR_WEBHOOK_PORT) requires --webhook-secret-file "
            "(COPYRATOR_WEBHOOK_SECRET_FILE): without a secret any client could call it."
        )
    return Settings(**given)


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
        *map(option, dataclasses.fields(Settings)),
        click.Option(
            ["--run-outside-cluster"],
            is_flag=True,
            hidden=True,
            expose_value=False,
            callback=_hint_outside_cluster,
        ),
    ]


def _hint_outside_cluster(_ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(
            "Hint: --run-outside-cluster is ignored; --kubeconfig chooses the cluster.",
            err=True,
        )
