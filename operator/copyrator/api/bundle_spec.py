"""The spec of a Bundle: what the engine takes of it, and how features add theirs.

``BundleSpec`` has the fields of a plain Bundle. A feature has a ``Part`` of its own, in its folder;
``copyrator.bundles.fields`` reads a Bundle. Durations are in seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

import msgspec

from copyrator.api import names
from copyrator.api.keys import ReleaseKey
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import (
    DATA_KEY,
    DERIVED,
    LABEL_KEY,
    LABEL_VALUE,
    NAMESPACE,
    OBJECT_NAME,
    OPEN,
    STORED,
    Form,
    Rule,
    SpecError,
    Takes,
    check_text,
    custom,
    duration,
    entries,
    fail,
    is_scalar,
    items,
    json_type,
    number,
    reader,
    slots,
    text,
)
from copyrator.api.tagfilter import TAG_FILTER_LENGTH, FilterError, compile_filter
from copyrator.api.text import check_env_name, matching, member, truncate
from copyrator.api.version_range import VERSION_LENGTH, VersionError, parse_version

BUNDLE_VALUES_BYTES: Final = 8 * 1024 * 1024
"""Bytes of all values of a Bundle together. werf reads them whole, and so does the redaction of a
failed deploy's log."""

BUNDLE_VALUES_FILES: Final = 2_000
"""Keys of all values sources of a Bundle together: each is a variable of the Job, which has to stay
below etcd's limit of 1.5 MB."""

CA_BYTES: Final = 512 * 1024
"""Bytes of the certificates of caSecret: twice those that browsers trust."""

BUNDLE_SECRET_KEY: Final = 4_096
"""Bytes of the key that ``spec.secretKey`` names; werf's have 32."""

P = TypeVar("P", bound="Part")

DEFAULT_VERSION: Final = "latest"
DEFAULT_TIMEOUT: Final = 1800.0
DEFAULT_RETRY_LIMIT: Final = 5
DEFAULT_RETRY_BACKOFF: Final = 30.0
MIN_INTERVAL: Final = 10.0

BUNDLE_JOB_FIELD: Final = 64 * 1024
"""Bytes of ``resources``, ``securityContext`` and ``tolerations`` of ``spec.job``, each as JSON:
they are copied to the Job unchanged."""

BUNDLE_ENV_VALUE: Final = 128 * 1024
"""Bytes of one variable with its name: Linux's limit for a process (MAX_ARG_STRLEN)."""

BUNDLE_ENV_BYTES: Final = 256 * 1024
"""Bytes of all of ``spec.env`` with the names: the operator holds them, and they are twice in the
Job, for which etcd's limit is 1.5 MB."""

BUNDLE_POD_ANNOTATIONS: Final = 256 * 1024
"""Bytes of ``spec.job.podAnnotations``: the API server's limit for one object."""


class BundleDeletionPolicy(StrEnum):
    """What happens to the release when its Bundle is deleted."""

    UNINSTALL = "Uninstall"
    ORPHAN = "Orphan"


class Part(Form):
    """What a feature adds to the spec: the map ``FIELD``, or fields beside the engine's."""

    FIELD: ClassVar[str] = ""
    RESTRICTS: ClassVar[bool] = False
    """Whether by it something other than its author decides about a Bundle's deploys."""
    NEEDS_PLAIN_CHART: ClassVar[bool] = False
    """Whether the chart of a Bundle that uses it has to read the same for everybody."""
    ANNOTATION: ClassVar[str] = ""
    """The annotation that it is read from, in place of the spec."""

    @classmethod
    def read_annotation(cls, raw: Any) -> Self:
        """Read that; raises SpecError with the whole path."""
        raise NotImplementedError

    @classmethod
    def absent(cls) -> Self | None:
        """What stands for it where the spec has nothing of it; None: nothing."""
        return None if any(slot.is_required for slot in slots(cls)) else cls()

    @property
    def refs(self) -> tuple[tuple[str, LocalObjectRef], ...]:
        """The objects that the operator reads for it, and the fields that name them."""
        return ()

    @property
    def required(self) -> str | None:
        """The condition that Bundles which depend on this one, and attestations, wait for, too.

        None: Ready alone.
        """
        return None

    @property
    def cluster_secret(self) -> str | None:
        """The Secret with the access to another cluster, which the release is in; None: it isn't.

        It is in the Bundle's namespace.
        """
        return None

    @property
    def excluded(self) -> tuple[str, ...]:
        """Digests that are never deployed."""
        return ()

    @property
    def binds_passwords(self) -> bool:
        """Whether a Secret with a password has to name the registry that it is sent to."""
        return False

    @property
    def is_off(self) -> bool:
        """Whether its author switched the feature off."""
        return False

    def fit(self, spec: BundleSpec) -> Self:
        """Check it against the rest of the spec, and complete it by that; ``fail`` refuses it."""
        del spec
        return self


_HOST: Final = matching(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?",
    "isn't a valid host[:port]; for example registry.example.com:5000",
    255,
)
_PATH: Final = matching(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*",
    "isn't a valid repository path; use lower-case words separated by '/', without a leading or "
    "trailing '/', for example team/app",
    255,
)


def _registry(value: str) -> str | None:
    if "://" in value:
        hint = "; for plain HTTP set spec.insecure" if value.startswith("http://") else ""
        return f"must be host[:port] without a scheme: remove {truncate(value.partition('://')[0], 80)}://{hint}"
    if "/" in value:
        return "must be host[:port] without a path: put the path into spec.repo"
    return _HOST(value)


def _repo(value: str) -> str | None:
    if "@" in value:
        return "must not contain a digest: put a tag, wildcard or range into spec.version"
    if ":" in value:
        return "must not contain a tag or scheme: put the tag into spec.version"
    return _PATH(value)


def _version(value: str) -> str | None:
    if value.startswith("sha256:") or "@sha256:" in value:
        return "must be a tag, wildcard or range, not a digest; the operator resolves the digest"
    try:
        parse_version(value)
    except VersionError as error:
        return str(error)
    return None


def _tag_filter(value: str) -> str | None:
    try:
        compile_filter(value)
    except FilterError as error:
        return f"isn't a valid regular expression for tags: {error}"
    return None


_REGISTRY: Final = text(
    _registry,
    most=255,
    rules=(
        Rule(
            "!self.contains('://')",
            "registry is host[:port] without a scheme: remove https:// or http:// (for plain HTTP "
            "set insecure)",
        ),
        Rule(
            "self.contains('://') || !self.contains('/')",
            "registry is host[:port] without a path: put the path into repo",
        ),
        Rule(
            "self.contains('/') || self.matches('^([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
            "([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?$')",
            "registry must be host[:port], for example registry.example.com:5000",
        ),
    ),
)
_REPO: Final = text(
    _repo,
    most=255,
    rules=(
        Rule(
            "!self.contains('@')",
            "repo must not contain a digest: put a tag, wildcard or range into version",
        ),
        Rule(
            "self.contains('@') || !self.contains(':')",
            "repo must not contain a tag or scheme: put the tag into version",
        ),
        Rule(
            "self.contains(':') || self.contains('@') || self.matches('^[a-z0-9]+(([.]|_|__|-+)"
            "[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*$')",
            "repo must be lower-case words separated by '/', without a leading or trailing '/', "
            "for example team/app",
        ),
    ),
)
_VERSION: Final = text(
    _version,
    most=VERSION_LENGTH,
    rules=(
        Rule(
            "!self.contains('sha256:')",
            "version is a tag, a wildcard or a range, not a digest; the operator resolves and pins "
            "the digest",
        ),
        Rule(
            "!self.matches('^[[:space:]]*$')",
            "version must not be blank: remove it for latest",
        ),
    ),
)


def _read_env(value: Any) -> dict[str, str]:
    """Variables as strings."""
    _check_env(_read_entries(value))
    found = {}
    for name, one in value.items():
        check_text(name, "", check_env_name)
        found[name] = "" if names.is_reserved_env(name) else _env_value(one, member(name))
    return found


def _env_value(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_scalar(value):
        return repr(value)
    if value is None:
        return ""
    if not isinstance(value, str):
        what = "a number that large; write it in quotes" if type(value) is int else json_type(value)
        raise SpecError(path, f"must be a string, number or boolean, not {what}")
    if "\0" in value:
        raise SpecError(path, "must not contain a NUL character")
    return value


_ENTRIES: Final = entries(256)
_read_entries: Final = reader(Mapping[str, Any], _ENTRIES)
_ENV: Final = custom(_read_env, _ENTRIES.schema | OPEN.schema)


def _check_env(found: Mapping[str, Any]) -> None:
    size, most = 0, BUNDLE_ENV_VALUE
    for key, value in found.items():
        own = len(key) + _bytes(value)
        size += own
        if own > most:
            path = member(key[:80])
            raise SpecError(path, f"has {own:,} bytes with its name, at most {most:,}")
        if size > BUNDLE_ENV_BYTES:
            raise SpecError("", _too_large(BUNDLE_ENV_BYTES))


def _too_large(most: int) -> str:
    return f"must have at most {most:,} bytes in total, with the names"


def _bytes(value: Any) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 8


class ValuesSource(Form):
    """A ConfigMap or Secret in the Bundle's namespace, each key of which is a values file."""

    kind: Annotated[ValuesKind, Takes({}, required="is required: ConfigMap or Secret")]
    """ConfigMap or Secret."""
    name: Annotated[str, OBJECT_NAME]
    """Name of the object; each of its keys is a values file."""
    optional: Annotated[bool, STORED] = False
    """If true, a missing object is not an error."""


class SecretKey(Form):
    """The Secret with the key of werf's secret values."""

    secret: Annotated[str, OBJECT_NAME] = msgspec.field(name="secretName")
    """Secret in the Bundle's namespace."""
    key: Annotated[str, DATA_KEY]
    """Key in that Secret's data."""


_IMAGE: Final = matching(
    r"(?!.*://)[A-Za-z0-9][-A-Za-z0-9._:/@]*",
    "isn't a valid image; for example registry.werf.io/werf/werf",
)
_TAG: Final = matching(r"[A-Za-z0-9_][-A-Za-z0-9._]{0,127}", "isn't a valid image tag")


class Werf(Form):
    """The werf image."""

    image: Annotated[str, text(_IMAGE, most=512, pattern="[A-Za-z0-9][-A-Za-z0-9._:/@]*")] = ""
    """Image of the Jobs' containers, with or without a tag or digest. It must be allowed by the
    operator's settings. Default: the first one that these allow."""
    version: Annotated[str, text(_TAG, most=128, pattern="[A-Za-z0-9_][-A-Za-z0-9._]*")] = ""
    """Tag of the image. Default: the operator's setting WERF_OPERATOR_TAG."""

    RULES = (
        Rule(
            "!has(self.image) || !has(self.version) || !self.image.matches('(@|:[^/]*$)')",
            "remove version: image already names a tag or digest",
        ),
    )

    def __post_init__(self) -> None:
        if self.is_whole and self.version:
            fail("version", "must be removed: spec.werf.image already names a tag or digest")

    @property
    def is_whole(self) -> bool:
        """Whether the image has a tag or digest."""
        return "@" in self.image or ":" in self.image.rpartition("/")[2]


_ANY: Final = Takes({})


def _raw(kind: Any, like: str, takes: Takes = _ANY) -> Takes:
    """A value that a pod gets unchanged; the API server checks it."""
    read_kind = reader(kind, takes)

    def read_raw(value: Any) -> Any:
        found = read_kind(value)
        if len(msgspec.json.encode(value)) > BUNDLE_JOB_FIELD:
            raise SpecError("", f"must have at most {BUNDLE_JOB_FIELD:,} bytes")
        return found

    return custom(read_raw, takes.schema, like=like)


_Map = Mapping[str, Any]
_Tolerations = tuple[_Map, ...]
_Labels = Mapping[Annotated[str, LABEL_KEY], Annotated[str, LABEL_VALUE]]


class JobSpec(Form):
    """How the Jobs of a Bundle run; the maps are raw pod fields."""

    ttl_seconds_after_finished: Annotated[int, number(0, 7 * 24 * 3600)] = 120
    """How many seconds a finished Job is kept after its outcome is in the status. Default: the
    operator's setting WERF_OPERATOR_JOBS_TTL (120)."""
    resources: Annotated[_Map, _raw(_Map, "Resources")] = msgspec.field(default_factory=dict)
    """Resources of each of the pod's containers, at most 64 KiB as JSON."""
    node_selector: Annotated[_Labels, entries(64)] = msgspec.field(default_factory=dict)
    """Labels of the nodes that the pods may run on."""
    tolerations: Annotated[_Tolerations, _raw(_Tolerations, "Toleration", items(64))] = ()
    """Taints of nodes that the pods tolerate, at most 64 KiB as JSON."""
    pod_labels: Annotated[_Labels, entries(64)] = msgspec.field(default_factory=dict)
    """Additional labels of the pods; of a gated Bundle those that the operator's settings allow."""
    pod_annotations: Annotated[
        Mapping[Annotated[str, LABEL_KEY], Annotated[str, text(most=65_536, least=0)]],
        entries(64),
    ] = msgspec.field(default_factory=dict)
    """Additional annotations of the pods, at most 256 KiB; of a gated Bundle those that the
    operator's settings allow."""
    security_context: Annotated[_Map, _raw(_Map, "SecurityContext")] = msgspec.field(
        default_factory=dict
    )
    """Security context of the pods, merged over the restricted one that they have by default; at
    most 64 KiB as JSON."""

    def __post_init__(self) -> None:
        for name, found in (
            ("podLabels", self.pod_labels),
            ("podAnnotations", self.pod_annotations),
        ):
            for key in found:
                if key.startswith(names.BUNDLE_PREFIX) or key == names.LABEL_MANAGED_BY:
                    fail(f"{name}{member(key)}", "is set by the operator; remove it")
        size = sum(len(key) + _bytes(value) for key, value in self.pod_annotations.items())
        if size > BUNDLE_POD_ANNOTATIONS:
            fail("podAnnotations", _too_large(BUNDLE_POD_ANNOTATIONS))


class Retry(Form):
    """How often a failed digest is retried."""

    limit: Annotated[int, number(0, 1000)] = DEFAULT_RETRY_LIMIT
    """How often a failed digest is retried. Default 5."""
    backoff: Annotated[float, duration("backoff")] = DEFAULT_RETRY_BACKOFF
    """Delay before the first retry, such as 30s (the default); each further one is twice as long,
    up to 15m."""


@dataclass(frozen=True, slots=True)
class TargetCluster:
    """The cluster that the kubeconfig of ``spec.kubeConfig`` names, whatever its credential."""

    server: str
    """``https://HOST[:PORT][/PATH]``."""
    fingerprint: str
    """Hash of the server, its CA and the name in its certificate: part of a plan's ID."""


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What the pods of all Jobs have, unless ``spec.job`` says otherwise."""

    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)
    has_ids: bool = True
    """Whether they name a user and groups; on OpenShift a namespace's range gives them."""


NO_PODS: Final = PodDefaults()


class BundleSpec(Form, kw_only=True):
    """A valid Bundle."""

    namespace: Annotated[str, DERIVED] = ""
    name: Annotated[str, DERIVED] = ""
    registry: Annotated[str, _REGISTRY]
    """Host, and port if there is one, of the OCI registry, for example registry.example.com:5000.
    No scheme and no path."""
    repo: Annotated[str, _REPO]
    """Path of the repository in the registry, for example team/app. Without a tag: set version."""
    version: Annotated[str, _VERSION, STORED] = DEFAULT_VERSION
    """What to deploy: an exact tag, a wildcard such as 1.2.* (a leading v is allowed), or a SemVer
    range such as ">=1.2 <2", "~1.2", "^1.2.3" or "1.2 - 1.4 || 2.*", of at most 32 constraints. A
    wildcard or range selects the highest version, and never a lower one than is deployed, as long
    as the deployed one still matches."""
    auth: Annotated[str, OBJECT_NAME] | None = None
    """Secret in the Bundle's namespace with the registry's credentials: the keys username and
    password, or a Secret of type kubernetes.io/dockerconfigjson (or dockercfg), of which the entry
    for the repository counts. Name and password may have 16 KiB each, the latter Secret 256 KiB.
    Where bundles.requireApproval applies, the former needs the annotation
    operator.werf.dev/registry with the host of spec.registry."""
    project_namespace: Annotated[str, NAMESPACE] = msgspec.field(
        default="", name="project_namespace"
    )
    """Namespace that the release goes to. Default: the Bundle's own. It can't be changed once a
    release is deployed: delete and recreate the Bundle."""
    values: Annotated[str, OBJECT_NAME] | None = None
    """ConfigMap in the Bundle's namespace; each of its keys is a values file. An edit of its data
    triggers a deploy. All values may have 8 MiB and 2,000 keys."""
    env: Annotated[Mapping[str, str], _ENV] = msgspec.field(default_factory=dict)
    """Additional variables for werf, such as WERF_SET_REPLICAS: replicas=2. Numbers and booleans
    become strings. A variable may have 128 KiB with its name, all together 256 KiB. Variables that
    the operator sets itself (WERF_REPO, WERF_TAG, WERF_NAMESPACE, WERF_RELEASE and the like) can't
    be replaced. Of a gated Bundle only names that are known to be harmless reach werf."""
    interval: Annotated[float, duration("interval", MIN_INTERVAL)] = 600.0
    """How often the registry is polled, such as 5m or 1h30m; at least 10s. Default: the operator's
    setting WERF_OPERATOR_TIMER_INTERVAL (600 seconds)."""
    suspend: Annotated[bool, STORED] = False
    """If true, the registry is polled and the status shows what is available, but nothing is
    deployed."""
    service_account: Annotated[str, OBJECT_NAME] = msgspec.field(
        default="werf", name="serviceAccountName"
    )
    """Service account of the Jobs, in the Bundle's namespace; the release is deployed with its
    permissions. Default: werf. Others must be allowed by the operator's settings."""
    timeout: Annotated[float, duration("timeout")] = DEFAULT_TIMEOUT
    """How long a deploy may take, such as 10m. Default: 30m."""
    auto_rollback: Annotated[bool, STORED] = False
    """If true, werf rolls a failed deploy back to the last successful one."""
    releases_history_max: Annotated[int, number(1, 1000)] | None = None
    """Number of revisions of the release that Helm keeps. Default: werf's (5)."""
    values_from: Annotated[tuple[ValuesSource, ...], items(64, noun="entries")] = ()
    """Additional values, from ConfigMaps and Secrets in the Bundle's namespace. A later one takes
    precedence over an earlier one, and all of them over values. All values may have 8 MiB and 2,000
    keys."""
    tag_filter: Annotated[str, text(_tag_filter, most=TAG_FILTER_LENGTH)] | None = None
    """Regular expression that a whole tag must match to be considered for a wildcard or range.
    Back-references and look-around aren't supported, nor what RE2 compiles to more than 512
    instructions, such as (.?){500}."""
    prerelease: Annotated[bool, STORED] = False
    """If true, a wildcard or range also admits pre-releases. Otherwise it takes only those of a
    version that it names as one (>=1.3.0-rc.1), or all where a lower bound or wildcard ends in -0
    (1.x-0)."""
    insecure: Annotated[bool, STORED] = False
    """If true, the registry is accessed over plain HTTP."""
    skip_tls_verify: Annotated[bool, STORED] = msgspec.field(default=False, name="skipTLSVerify")
    """If true, the registry's certificate isn't verified."""
    secret_key: SecretKey | None = None
    """The key with which werf decrypts the chart's secret values (WERF_SECRET_KEY), of at most 4
    KiB. A changed key is deployed as changed values are."""
    ca_secret: Annotated[str, OBJECT_NAME] | None = None
    """Secret in the Bundle's namespace whose key ca.crt holds the CA of the registry's certificate,
    at most 512 KiB."""
    werf: Werf = Werf()
    """The werf image that the Jobs run."""
    job: JobSpec = JobSpec()
    """How the Jobs and their pods run."""
    retry: Retry = Retry()
    """What happens after a digest failed to deploy. When the limit is reached, the digest isn't
    retried until the digest, the spec, the values or a request change."""
    deletion_policy: Annotated[BundleDeletionPolicy, STORED] = BundleDeletionPolicy.UNINSTALL
    """What happens to the release when the Bundle is deleted. Uninstall removes it. Orphan keeps
    it."""

    ignored_env: Annotated[tuple[str, ...], DERIVED] = ()
    """Names in ``env`` that the operator sets itself; the condition reports them."""
    secret_key_hash: Annotated[str, DERIVED] = ""
    """Keyed hash of WERF_SECRET_KEY in ``env``, which stands for it in hashes of Jobs."""
    allowed_pod_metadata: Annotated[tuple[str, ...], DERIVED] = ()
    """By the settings: labels and annotations that its pods get although it is gated."""
    is_gated: Annotated[bool, DERIVED] = False
    """Whether its Jobs get only harmless settings (``bundles/jobs/restrictions.py``)."""
    withheld: Annotated[tuple[str, ...], DERIVED] = ()
    """Settings of a gated Bundle that its Jobs don't get; the condition SettingsWithheld."""
    proxies: Annotated[Mapping[str, str], DERIVED] = msgspec.field(default_factory=dict)
    """Variables that werf gets where ``env`` doesn't set them."""
    pods: Annotated[PodDefaults, DERIVED] = NO_PODS
    werf_image: Annotated[str, DERIVED] = "registry.werf.io/werf/werf:latest"
    """Whole image reference of the Jobs' containers."""
    cluster: Annotated[TargetCluster | None, DERIVED] = None
    """What ``spec.kubeConfig`` names, once it was read (``Feature.locate``)."""
    parts: Annotated[tuple[Part, ...], DERIVED] = ()
    """Of the features that it uses."""

    def part(self, kind: type[P]) -> P:
        """A feature's part; where the spec has nothing of it, what stands for that."""
        found = self.find(kind) or absent(kind)
        assert found is not None, f"{kind.__name__} may be absent: use find"
        return found

    @property
    def needs_plain_chart(self) -> bool:
        """Whether its chart has to read the same for everybody."""
        return any(part.NEEDS_PLAIN_CHART and not part.is_off for part in self.parts)

    def uses(self, kind: type[Part]) -> bool:
        """Whether the spec has anything of a feature, and it isn't off."""
        part = self.find(kind)
        return part is not None and not part.is_off

    def find(self, kind: type[P]) -> P | None:
        """Its part; None where the spec has nothing of it."""
        for one in self.parts:
            if type(one) is kind:
                return one
        return None

    def with_part(self, part: Part) -> Self:
        """The spec with this part in place of another one of its type."""
        return self.without(type(part), part)

    def without(self, kind: type[Part], *instead: Part) -> Self:
        """The spec without a feature."""
        kept = tuple(one for one in self.parts if type(one) is not kind)
        return msgspec.structs.replace(self, parts=(*kept, *instead))

    @property
    def is_remote(self) -> bool:
        """Whether the release is in another cluster, which may not be known yet (``cluster``)."""
        return self.cluster_secret is not None

    @property
    def cluster_secret(self) -> str | None:
        """The Secret with the access to that cluster."""
        return next(filter(None, (part.cluster_secret for part in self.parts)), None)

    def in_own_cluster(self) -> Self:
        """The spec with the release in the operator's own cluster."""
        kept = tuple(part for part in self.parts if part.cluster_secret is None)
        return msgspec.structs.replace(self, parts=kept)

    @property
    def excluded(self) -> frozenset[str]:
        """The digests that aren't deployed, whatever the registry has."""
        return frozenset(digest for part in self.parts for digest in part.excluded)

    @property
    def required(self) -> tuple[str, ...]:
        """The conditions that those wait for, beside Ready."""
        return tuple(filter(None, (part.required for part in self.parts)))

    @property
    def part_refs(self) -> Iterator[tuple[str, LocalObjectRef]]:
        """The objects that the operator reads for its parts, and the fields that name them."""
        return (ref for part in self.parts for ref in part.refs)

    @property
    def binds_passwords(self) -> bool:
        """Whether the Secret of ``auth`` has to name the registry that its password is sent to."""
        return any(part.binds_passwords for part in self.parts)

    @property
    def values_sources(self) -> tuple[ValuesSource, ...]:
        """All sources of values; a later one wins."""
        if self.values is None:
            return self.values_from
        return (ValuesSource(ValuesKind.CONFIG_MAP, self.values), *self.values_from)

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


@cache
def absent(kind: type[P]) -> P | None:
    """What stands for a part where the spec has nothing of it."""
    return kind.absent()
