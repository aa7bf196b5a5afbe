"""A parsed Bundle, with the operator's defaults filled in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.drift import NO_DRIFT, Drift
from copyrator.api.globs import Globs
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey, ReleaseKey
from copyrator.api.windows import Window

if TYPE_CHECKING:
    from copyrator.api.clouds import CloudRegistry
    from copyrator.api.kubeconfig import KubeconfigRef

DEFAULT_VERSION: Final = "latest"
DEFAULT_TIMEOUT: Final = 1800.0
DEFAULT_RETRY_LIMIT: Final = 5
DEFAULT_RETRY_BACKOFF: Final = 30.0
MIN_INTERVAL: Final = 10.0
DEFAULT_APPROVAL_EXPIRES: Final = 24 * 3600.0
MIN_APPROVAL_EXPIRES: Final = 60.0
MAX_DEPENDENCIES: Final = 20
DEFAULT_SOAK: Final = 24 * 3600.0
DEFAULT_EVIDENCE_AGE: Final = 7 * 24 * 3600.0
DEFAULT_RENEWAL: Final = 24 * 3600.0
MIN_RENEWAL: Final = 60.0


class ValuesKind(StrEnum):
    """Kinds from which values files are read."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - a kind, not a password


class BundleDeletionPolicy(StrEnum):
    """What happens to the release when its Bundle is deleted."""

    UNINSTALL = "Uninstall"
    ORPHAN = "Orphan"


class ApprovalMode(StrEnum):
    """Which plans a person has to approve before they are deployed; in rising order."""

    NEVER = "Never"
    ON_RISK = "OnRisk"
    """Plans with risky operations: see docs/approval.md."""
    ALWAYS = "Always"


@dataclass(frozen=True, slots=True)
class Approval:
    """Whether deploys are planned first, and which plans wait for a person."""

    mode: ApprovalMode = ApprovalMode.NEVER
    """The stricter one of the spec's mode and the operator's settings."""
    expires: float = DEFAULT_APPROVAL_EXPIRES
    """Seconds that a plan waits for a decision; then it expires and is made again."""
    must_be_bound: bool = False
    """Whether the operator's settings refuse plans that aren't bound."""
    is_required: bool = False
    """Whether the operator's settings require a mode other than Never."""

    @property
    def is_enabled(self) -> bool:
        """Whether a deploy is planned first."""
        return self.mode is not ApprovalMode.NEVER


@dataclass(frozen=True, slots=True)
class LocalObjectRef:
    """A ConfigMap or Secret in the namespace of the object that refers to it."""

    kind: ValuesKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class CosignKeysSpec:
    """cosign signatures by a public key."""

    keys_from: LocalObjectRef


@dataclass(frozen=True, slots=True)
class CosignIdentitySpec:
    """cosign signatures without keys: by a certificate of this subject."""

    issuer: str
    subject_pattern: str
    trusted_root_from: LocalObjectRef


@dataclass(frozen=True, slots=True)
class NotationSpec:
    """notation signatures by a certificate of this CA, or of this signing authority."""

    ca_from: LocalObjectRef | None
    subjects: tuple[str, ...]
    tsa_from: LocalObjectRef | None = None
    signing_authority_from: LocalObjectRef | None = None


VerifyEntry = CosignKeysSpec | CosignIdentitySpec | NotationSpec


@dataclass(frozen=True, slots=True)
class Verify:
    """Who may sign what is deployed."""

    any_of: tuple[VerifyEntry, ...]
    """One entry that is satisfied is enough."""


@dataclass(frozen=True, slots=True)
class AttestationsFrom:
    """An environment whose evidence a version needs, from attestations of its digest."""

    environment: str
    keys_from: LocalObjectRef
    soak: float = 0.0
    """Seconds for which it must have stood there."""
    max_age: float = DEFAULT_EVIDENCE_AGE
    """Seconds after which a statement doesn't count any more."""
    cluster: str | None = None
    """The only cluster that counts; None: each."""
    release: str | None = None
    """The only release that counts, ``namespace/name``; None: each."""


@dataclass(frozen=True, slots=True)
class PromoteFrom:
    """Where a version must have been deployed before it is deployed."""

    bundles: tuple[BundleKey, ...] = ()
    soak: float = DEFAULT_SOAK
    """Seconds without a break, in those Bundles."""
    attestations: tuple[AttestationsFrom, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bundles or self.attestations)


NO_PROMOTION: Final = PromoteFrom()
"""Shared by all Bundles without ``spec.promoteFrom``."""


@dataclass(frozen=True, slots=True)
class AttestKey:
    """The Secret with the private key of attestations, in the Bundle's namespace."""

    secret: str
    key: str
    password_key: str | None = None
    """The key with the password of an encrypted private key; None: there is none."""


@dataclass(frozen=True, slots=True)
class Attest:
    """What the operator attests in the registry of the digest that is deployed here."""

    environment: str
    """What others name; a DNS label."""
    key_from: AttestKey | None = None
    """None: the key in the operator's namespace."""
    after: float = 0.0
    """Seconds for which a digest must have stood."""
    auth: str | None = None
    """Secret with the credential that may push; None: that of ``BundleSpec.auth``."""
    renew: float = DEFAULT_RENEWAL
    """Seconds after which a newer statement is made, while the digest stands."""


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What the pods of all Jobs have, unless ``spec.job`` says otherwise."""

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    has_ids: bool = True
    """Whether they name a user and groups; on OpenShift a namespace's range gives them."""


@dataclass(frozen=True, slots=True)
class BundleDefaults:
    """The settings' defaults for fields that a Bundle doesn't set. Durations in seconds."""

    interval: float = 600.0
    timeout: float = DEFAULT_TIMEOUT
    service_account: str = "werf"
    werf_image: str = "registry.werf.io/werf/werf"
    werf_version: str = "latest"
    jobs_ttl: int = 120
    retry_limit: int = DEFAULT_RETRY_LIMIT
    retry_backoff: float = DEFAULT_RETRY_BACKOFF
    proxies: Mapping[str, str] = field(default_factory=dict)
    """The operator's own proxy variables, for Jobs."""
    pods: PodDefaults = field(default_factory=PodDefaults)
    require_approval: tuple[tuple[Globs, ApprovalMode], ...] = ()
    """Namespaces of Bundles, and the lowest mode that they may have; the highest that matches."""
    allowed_pod_metadata: tuple[str, ...] = ()
    """Labels and annotations that the pods of gated Bundles may have: ``key`` or ``key=value``."""
    require_bound_plans: Globs = field(default_factory=Globs)
    """Namespaces where a plan isn't deployed unless it is enforced, and bound or exact."""

    def lowest_approval(self, namespaces: Collection[str]) -> ApprovalMode:
        """The lowest mode of a Bundle with these namespaces: its own and its release's."""
        modes = list(ApprovalMode)
        floors = (
            mode for globs, mode in self.require_approval if any(map(globs.matches, namespaces))
        )
        return max(floors, key=modes.index, default=ApprovalMode.NEVER)


@dataclass(frozen=True, slots=True)
class ValuesSource:
    """A ConfigMap or Secret in the Bundle's namespace, each key of which is a values file."""

    kind: ValuesKind
    name: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class JobSpec:
    """How the Jobs of a Bundle run; the maps are raw pod fields."""

    ttl_seconds_after_finished: int = 120
    resources: Mapping[str, Any] = field(default_factory=dict, hash=False)
    node_selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerations: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    pod_labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    pod_annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    security_context: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Merged over the pod's restricted security context."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """The Secret, in the Bundle's namespace, with the key of werf's secret values."""

    secret: str
    key: str


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster that the kubeconfig of ``spec.kubeConfig`` names, whatever its credential."""

    server: str
    """``https://HOST[:PORT][/PATH]``."""
    fingerprint: str
    """Hash of the server, its CA and the name in its certificate: part of a plan's ID."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed digest is retried. ``backoff`` is the first delay in seconds."""

    limit: int = DEFAULT_RETRY_LIMIT
    backoff: float = DEFAULT_RETRY_BACKOFF


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSpec:
    """A valid Bundle. Durations in seconds."""

    namespace: str
    name: str
    registry: str
    """``host[:port]``."""
    repo: str
    """Path in the registry, without tag or digest."""
    version: str = DEFAULT_VERSION
    auth: str | None = None
    """Secret with ``username`` and ``password``, or a dockerconfigjson one."""
    cloud: CloudRegistry | None = None
    """Of ``spec.provider``: the registry, which takes tokens of an identity; None: ``auth``."""
    project_namespace: str
    """The namespace of the release."""
    values_from: tuple[ValuesSource, ...] = ()
    """``spec.values`` first, then ``spec.valuesFrom``; a later one wins."""
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Without the variables that the operator sets itself."""
    ignored_env: tuple[str, ...] = ()
    """Names in ``spec.env`` that the operator sets itself; the condition reports them."""
    secret_key: SecretKey | None = None
    secret_key_hash: str = field(default="", hash=False)
    """Keyed hash of WERF_SECRET_KEY in ``env``, which stands for it in hashes of Jobs."""
    allowed_pod_metadata: tuple[str, ...] = ()
    """By the settings: labels and annotations that its pods get although it is gated."""
    is_gated: bool = False
    """Whether its Jobs get only harmless settings (``bundles/deploy/restrictions.py``)."""
    withheld: tuple[str, ...] = ()
    """Settings of a gated Bundle that its Jobs don't get; the condition SettingsWithheld."""
    proxies: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Variables that werf gets where ``env`` doesn't set them."""
    pods: PodDefaults = field(default_factory=PodDefaults)
    interval: float = 600.0
    suspend: bool = False
    service_account: str = "werf"
    timeout: float = DEFAULT_TIMEOUT
    auto_rollback: bool = False
    releases_history_max: int | None = None
    """None: werf's own default."""
    tag_filter: str | None = None
    """Regular expression for the whole tag; ``tagfilter.compile_filter`` takes it."""
    prerelease: bool = False
    insecure: bool = False
    """Plain HTTP."""
    skip_tls_verify: bool = False
    ca_secret: str | None = None
    """Secret whose key ``ca.crt`` is the registry's CA."""
    werf_image: str = "registry.werf.io/werf/werf:latest"
    """Whole image reference of the Jobs' containers."""
    job: JobSpec = JobSpec()
    retry: Retry = Retry()
    deletion_policy: BundleDeletionPolicy = BundleDeletionPolicy.UNINSTALL
    approval: Approval = Approval()
    verify: Verify | None = None
    min_age: float = 0.0
    """Seconds for which a digest has to be known before it is deployed; 0: at once."""
    promote_from: PromoteFrom = NO_PROMOTION
    """Where a digest must have been deployed before it is deployed."""
    attest: Attest | None = None
    """Evidence for other clusters; None: nothing is attested."""
    skip_digests: tuple[str, ...] = ()
    """Digests that are never chosen, by an annotation; sorted."""
    depends_on: tuple[BundleKey, ...] = ()
    """Bundles that new versions of this one wait for."""
    windows: tuple[Window, ...] = ()
    """Deploys begin only in one of these; at any time where there are none."""
    drift: Drift = NO_DRIFT
    health: HealthMode = HealthMode.OFF
    kube_config: KubeconfigRef | None = None
    """The Secret with the kubeconfig of the cluster that the release is in; None: the operator's.
    """
    cluster: TargetCluster | None = None
    """What that kubeconfig names, once it was read (``ReferenceReader.in_cluster``)."""

    @property
    def release(self) -> str:
        """Helm's name for the release."""
        return self.name

    @property
    def server(self) -> str:
        """The API server of the release; empty: the operator's own, or it wasn't read yet."""
        return self.cluster.server if self.cluster is not None else ""

    @property
    def release_key(self) -> ReleaseKey:
        """The release's identity, once the kubeconfig was read where the spec names one."""
        return ReleaseKey(self.project_namespace, self.release, self.server)

    @property
    def reference(self) -> str:
        """``host[:port]/path``, without a tag."""
        return f"{self.registry}/{self.repo}"
