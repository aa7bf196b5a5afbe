"""Parses a Bundle into BundleSpec.

Bounds on its size are checked first, so that parsing is a short step. The CRD has most of them; a
Bundle may have been stored under an older one. It has no bounds for the status, and anybody who may
write it may store whatever the API server accepts: lists and texts of a status larger than any of
ours are truncated.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from copyrator.api import names, syntax
from copyrator.api.bundle_spec import (
    DEFAULT_APPROVAL_EXPIRES,
    DEFAULT_VERSION,
    MAX_DEPENDENCIES,
    MIN_APPROVAL_EXPIRES,
    MIN_INTERVAL,
    NO_PROMOTION,
    Approval,
    ApprovalMode,
    BundleDefaults,
    BundleDeletionPolicy,
    BundleSpec,
    JobSpec,
    Retry,
    SecretKey,
    ValuesKind,
    ValuesSource,
    Verify,
)
from copyrator.api.clouds import CloudRegistry, Provider, read_registry
from copyrator.api.drift import NO_DRIFT, read_drift
from copyrator.api.fields import Fields, InvalidSpec, SpecError, check_text, is_scalar, json_type
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.api.kubeconfig import read_kubeconfig_ref
from copyrator.api.names import RELEASE_METADATA_PREFIXES
from copyrator.api.promotion import read_attest, read_bundles, read_promote_from
from copyrator.api.tagfilter import FilterError, compile_filter
from copyrator.api.verify import read_entries
from copyrator.api.version_range import VersionError, parse_version
from copyrator.api.windows import read_windows

BUNDLE_STATUS_BYTES: Final = 16 * 1024
"""Bytes of a Bundle's status as JSON that are read unchanged; the operator's own have up to some
12 KB. A user who may write ``bundles/status`` may store more: the parts of that are cut."""

BUNDLE_STATUS_TEXT: Final = 4096
"""Characters of each string of a larger status: none of the operator's is longer."""

BUNDLE_STATUS_TEXTS: Final = 32 * 1024
"""Characters of all strings of a larger status together."""

BUNDLE_STATUS_ITEMS: Final = 32
"""Items of each list of a larger status: more than the operator's have."""

BUNDLE_STATUS_FIELDS: Final = 64
"""Fields of each map of a larger status: more than the operator's have."""

BUNDLE_STATUS_VALUES: Final = 2_048
"""Maps, lists, texts and numbers of a status that are read: the operator's own have up to some
1,400. It is held parsed, and an empty map of three bytes takes 64."""

BUNDLE_STATUS_DEPTH: Final = 8
"""Levels of a larger status: more than the operator's have."""

BUNDLE_LIST: Final = 64
"""Entries of ``spec.valuesFrom`` and of each list and map of ``spec.job``, as in the CRD; a
Bundle may have been stored under an older one."""

BUNDLE_JOB_FIELD: Final = 64 * 1024
"""Bytes of ``resources``, ``securityContext`` and ``tolerations`` of ``spec.job``, each as JSON:
they are copied to the Job unchanged."""

BUNDLE_SKIPPED_DIGESTS: Final = 20
"""Digests in the annotation skip-digests: each is held in memory, and compared with every version
that could be deployed."""

BUNDLE_ENV_NAMES: Final = 256
"""Variables in ``spec.env``, as in the CRD."""

BUNDLE_ENV_VALUE: Final = 128 * 1024
"""Bytes of one variable with its name: Linux's limit for a process (MAX_ARG_STRLEN)."""

BUNDLE_ENV_BYTES: Final = 256 * 1024
"""Bytes of all of ``spec.env`` with the names: the operator holds them, and they are twice in the
Job, for which etcd's limit is 1.5 MB."""

BUNDLE_METADATA: Final = 1_000
"""Labels, and likewise annotations, of a Bundle that are set on its release: each is a variable of
the Job."""

BUNDLE_POD_ANNOTATIONS: Final = 256 * 1024
"""Bytes of ``spec.job.podAnnotations``: the API server's limit for one object."""

_COUNTS: Final = {
    ("valuesFrom",): BUNDLE_LIST,
    ("job", "tolerations"): BUNDLE_LIST,
    ("env",): BUNDLE_ENV_NAMES,
    ("job", "nodeSelector"): BUNDLE_LIST,
    ("job", "podLabels"): BUNDLE_LIST,
    ("job", "podAnnotations"): BUNDLE_LIST,
}
_RAW: Final = ("resources", "securityContext", "tolerations")
"""Fields that a Job takes unchanged."""


_NAME: Final = 64
"""Characters of a status's field: none of the operator's is longer."""


def check_sizes(metadata: Fields, spec: Fields) -> None:
    """Raise SpecError where a part of a Bundle is too large to be parsed."""
    for path, most in _COUNTS.items():
        owner = spec if len(path) == 1 else spec.sub(path[0])
        found = owner.get(path[-1])
        if isinstance(found, (list, Mapping)) and len(found) > most:
            owner.fail(path[-1], f"has {len(found)} entries; at most {most} are allowed")
    _check_texts(spec, "env", BUNDLE_ENV_BYTES, BUNDLE_ENV_VALUE)
    job = spec.sub("job")
    _check_texts(job, "podAnnotations", BUNDLE_POD_ANNOTATIONS, BUNDLE_POD_ANNOTATIONS)
    for name in _RAW:
        if job.has(name) and len(msgspec.json.encode(job.get(name))) > BUNDLE_JOB_FIELD:
            job.fail(name, f"must have at most {BUNDLE_JOB_FIELD:,} bytes")
    for name in ("labels", "annotations"):
        keys = metadata.sub(name).raw
        if len(keys) <= BUNDLE_METADATA:
            continue
        count = sum(key.startswith(RELEASE_METADATA_PREFIXES) for key in keys)
        if count > BUNDLE_METADATA:
            metadata.fail(
                name,
                f"{count} of them are copied to the release's objects; at most "
                f"{BUNDLE_METADATA:,} may begin with {', '.join(RELEASE_METADATA_PREFIXES)}",
            )


def _check_texts(owner: Fields, name: str, most: int, most_each: int) -> None:
    found = owner.get(name)
    if not isinstance(found, Mapping):
        return
    size = 0
    for key, value in found.items():
        own = len(key) + _bytes(value)
        size += own
        if own > most_each:
            path = f"{owner.at(name)}[{key[:80]}]"
            raise SpecError(path, f"has {own:,} bytes with its name, at most {most_each:,}")
        if size > most:
            owner.fail(name, f"must have at most {most:,} bytes in total, with the names")


def _bytes(value: Any) -> int:
    return len(value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else 8


def bound_status(raw: Any) -> dict[str, Any]:
    """A status, truncated to what is read of it; an empty one where it is no map."""
    if not isinstance(raw, dict):
        return {}
    packed = msgspec.json.encode(raw)
    values = sum(map(packed.count, (b",", b"{", b"[")))  # or more, as texts have them, too
    if len(packed) <= BUNDLE_STATUS_BYTES and values <= BUNDLE_STATUS_VALUES:
        return raw
    return _Cut().map(raw, 0)


class _Cut:
    """Truncates a status; what is beyond the totals is left out, that in lists first."""

    def __init__(self) -> None:
        self._texts = BUNDLE_STATUS_TEXTS
        self._values = BUNDLE_STATUS_VALUES

    def map(self, found: Mapping[str, Any], depth: int) -> dict[str, Any]:
        known = list(found.items())[:BUNDLE_STATUS_FIELDS]
        known.sort(key=lambda one: isinstance(one[1], list))
        return {
            self._name(name): self._part(value, depth + 1)
            for name, value in known
            if self._takes_another()
        }

    def _part(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, (list, dict)):
            return value
        if depth >= BUNDLE_STATUS_DEPTH:
            return None
        if isinstance(value, dict):
            return self.map(value, depth)
        items = value[:BUNDLE_STATUS_ITEMS]
        return [self._part(one, depth + 1) for one in items if self._takes_another()]

    def _name(self, name: str) -> str:
        return name if len(name) <= _NAME else self._text(name)

    def _text(self, text: str) -> str:
        text = text[: min(BUNDLE_STATUS_TEXT, self._texts)]
        self._texts -= len(text)
        return text

    def _takes_another(self) -> bool:
        self._values -= 1
        return self._values >= 0


_IMAGE: Final = syntax.matching(
    r"(?!.*://)[A-Za-z0-9][-A-Za-z0-9._:/@]*",
    "isn't a valid image; for example registry.werf.io/werf/werf",
)
_TAG: Final = syntax.matching(r"[A-Za-z0-9_][-A-Za-z0-9._]{0,127}", "isn't a valid image tag")
_MAX_TTL: Final = 7 * 24 * 3600


def read_env(spec: Fields) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables as strings, and the names of those that the operator sets itself.

    The latter are left out rather than refused, so that old manifests keep working; the condition
    reports them.
    """
    fields = spec.sub("env")
    env: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in fields.raw.items():
        check_text(name, fields.path, syntax.env_name)
        if names.is_reserved_env(name):
            ignored.append(name)
        else:
            env[name] = _env_value(value, f"{fields.path}[{name}]")
    return env, tuple(sorted(ignored))


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


def read_werf_image(werf: Fields, defaults: BundleDefaults) -> str:
    """The image of ``spec.werf``, with a tag or digest."""
    image = werf.text("image", _IMAGE)
    version = werf.text("version", _TAG)
    if image is not None and ("@" in image or ":" in image.rpartition("/")[2]):
        if version is not None:
            werf.fail("version", "must be removed: spec.werf.image already names a tag or digest")
        return image
    return sys.intern(f"{image or defaults.werf_image}:{version or defaults.werf_version}")


@lru_cache(maxsize=4)
def _plain_job(ttl: int) -> JobSpec:
    """The JobSpec of most Bundles."""
    return JobSpec(ttl_seconds_after_finished=ttl)


def read_job(job: Fields, defaults: BundleDefaults) -> JobSpec:
    """``spec.job``; one record is shared by all Bundles without it."""
    if not job.raw:
        return _plain_job(defaults.jobs_ttl)
    return JobSpec(
        ttl_seconds_after_finished=job.number(
            "ttlSecondsAfterFinished", defaults.jobs_ttl, least=0, most=_MAX_TTL
        ),
        resources=job.sub("resources").raw,
        node_selector=job.text_map("nodeSelector", syntax.label_key, syntax.label_value),
        tolerations=tuple(one.raw for one in job.maps("tolerations", BUNDLE_LIST)),
        pod_labels=_pod_metadata(job, "podLabels", values_are_labels=True),
        pod_annotations=_pod_metadata(job, "podAnnotations", values_are_labels=False),
        security_context=job.sub("securityContext").raw,
    )


def _pod_metadata(job: Fields, name: str, *, values_are_labels: bool) -> dict[str, str]:
    found = job.text_map(name, syntax.label_key, syntax.label_value if values_are_labels else None)
    for key in found:
        if key.startswith(names.BUNDLE_PREFIX) or key == names.LABEL_MANAGED_BY:
            raise SpecError(f"{job.at(name)}[{key}]", "is set by the operator; remove it")
    return found


_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EACH: Final = 73
"""Characters of a digest with a comma and a space."""


def read_skip_digests(metadata: Fields) -> tuple[str, ...]:
    """The digests, sorted, each once; empty where the annotation is absent.

    Raises:
        SpecError: it isn't a list of digests. It isn't ignored: what it names must not be deployed.
    """
    raw = metadata.sub("annotations").get(names.ANN_SKIP_DIGESTS)
    if raw is None:
        return ()
    path = f"metadata.annotations[{names.ANN_SKIP_DIGESTS}]"
    most = BUNDLE_SKIPPED_DIGESTS
    text = check_text(raw, path)
    parts = text.replace(",", " ").split(maxsplit=most) if len(text) <= most * _EACH else ()
    if not 0 < len(parts) <= most:
        raise SpecError(path, f"must have 1 to {most} digests, separated by commas")
    for part in parts:
        if not _DIGEST.fullmatch(part):
            hint = "write each as sha256: and 64 hexadecimal digits, separated by commas"
            raise SpecError(path, f"{syntax.shown(part)} isn't a digest; {hint}")
    return tuple(sorted(set(parts)))


_HOST: Final = syntax.matching(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?",
    "isn't a valid host[:port]; for example registry.example.com:5000",
    255,
)
_PATH: Final = syntax.matching(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*",
    "isn't a valid repository path; use lower-case words separated by '/', without a leading or "
    "trailing '/', for example team/app",
    255,
)


def parse_bundle(body: Any, defaults: BundleDefaults) -> BundleSpec | InvalidSpec:
    """Parse a Bundle from the API server. Never raises, whatever the JSON."""
    try:
        return _read(Fields(body, ""), defaults)
    except SpecError as error:
        return error.invalid


def _read(body: Fields, defaults: BundleDefaults) -> BundleSpec:
    metadata = body.sub("metadata")
    namespace = metadata.required_text("namespace")
    name = metadata.required_text("name")
    if len(name) > names.MAX_RELEASE_NAME:
        metadata.fail(
            "name",
            f"has {len(name)} characters; it names the Helm release, which may have at most "
            f"{names.MAX_RELEASE_NAME}: recreate the Bundle with a shorter name",
        )
    spec = body.sub("spec")
    check_sizes(metadata, spec)
    env, ignored = read_env(spec)
    own = BundleKey(namespace, name)
    tag_filter = spec.text("tagFilter", _tag_filter)
    target = spec.text("project_namespace", syntax.namespace) or namespace
    retry = spec.sub("retry")
    return BundleSpec(
        namespace=namespace,
        name=name,
        registry=sys.intern(spec.required_text("registry", _registry)),
        repo=spec.required_text("repo", _repo),
        version=spec.text("version", _version) or DEFAULT_VERSION,
        auth=spec.text("auth", syntax.object_name),
        cloud=_read_cloud(spec) if spec.has("provider") else None,
        project_namespace=target,
        values_from=_read_values(spec),
        env=env,
        secret_key=_read_secret_key(spec, env),
        ignored_env=ignored,
        proxies=defaults.proxies,
        pods=defaults.pods,
        allowed_pod_metadata=defaults.allowed_pod_metadata,
        interval=spec.duration("interval", defaults.interval, least=MIN_INTERVAL),
        suspend=spec.flag("suspend"),
        service_account=spec.text("serviceAccountName", syntax.object_name)
        or defaults.service_account,
        timeout=spec.duration("timeout", defaults.timeout),
        auto_rollback=spec.flag("autoRollback"),
        releases_history_max=spec.number("releasesHistoryMax", 0, least=1, most=1000)
        if spec.has("releasesHistoryMax")
        else None,
        tag_filter=tag_filter,
        prerelease=spec.flag("prerelease"),
        insecure=spec.flag("insecure"),
        skip_tls_verify=spec.flag("skipTLSVerify"),
        ca_secret=spec.text("caSecret", syntax.object_name),
        werf_image=read_werf_image(spec.sub("werf"), defaults),
        job=read_job(spec.sub("job"), defaults),
        retry=Retry(
            limit=retry.number("limit", defaults.retry_limit, least=0, most=1000),
            backoff=retry.duration("backoff", defaults.retry_backoff),
        ),
        deletion_policy=spec.choice(
            "deletionPolicy", BundleDeletionPolicy, BundleDeletionPolicy.UNINSTALL
        ),
        approval=_read_approval(spec, (namespace, target), defaults),
        verify=Verify(read_entries(spec.sub("verify"))) if spec.has("verify") else None,
        min_age=spec.duration("minAge", 0.0),
        promote_from=read_promote_from(spec.sub("promoteFrom"), own)
        if spec.has("promoteFrom")
        else NO_PROMOTION,
        attest=read_attest(spec.sub("attest")) if spec.has("attest") else None,
        skip_digests=read_skip_digests(metadata),
        depends_on=read_bundles(spec, "dependsOn", own, most=MAX_DEPENDENCIES)
        if spec.has("dependsOn")
        else (),
        windows=read_windows(spec) if spec.has("windows") else (),
        drift=read_drift(spec.sub("drift")) if spec.has("drift") else NO_DRIFT,
        health=_read_health(spec),
        kube_config=read_kubeconfig_ref(spec.raw, "spec"),
    )


_NOT_WITH_PROVIDER: Final = {
    "auth": "a token of the provider is the credential",
    "insecure": "a token of the provider is sent by TLS only",
    "skipTLSVerify": "a token of the provider is sent to a verified registry only",
    "caSecret": "the provider's registries have public certificates, and the operator has its own "
    "CAs (ca.configMapName of the chart)",
}


def _read_cloud(spec: Fields) -> CloudRegistry:
    """The registry of ``spec.provider``."""
    provider = spec.choice("provider", Provider, Provider.AWS)
    for name, why in _NOT_WITH_PROVIDER.items():
        if spec.get(name):
            spec.fail(name, f"must be removed with spec.provider: {why}")
    try:
        return read_registry(provider, spec.required_text("registry", _registry))
    except ValueError as error:
        spec.fail("registry", str(error))


def _read_health(spec: Fields) -> HealthMode:
    found = spec.choice("health", HealthMode, HealthMode.OFF)
    if found is not HealthMode.OFF and spec.has("kubeConfig"):
        spec.fail(
            "health",
            "isn't watched in the cluster of spec.kubeConfig, where the operator has no access: "
            "remove spec.health",
        )
    return found


def _registry(value: str) -> str | None:
    if "://" in value:
        hint = "; for plain HTTP set spec.insecure" if value.startswith("http://") else ""
        return f"must be host[:port] without a scheme: remove {value.partition('://')[0]}://{hint}"
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


def _read_values(spec: Fields) -> tuple[ValuesSource, ...]:
    found: list[ValuesSource] = []
    if (name := spec.text("values", syntax.object_name)) is not None:
        found.append(ValuesSource(ValuesKind.CONFIG_MAP, name))
    for entry in spec.maps("valuesFrom", BUNDLE_LIST):
        if not entry.has("kind"):
            entry.fail("kind", "is required: ConfigMap or Secret")
        found.append(
            ValuesSource(
                kind=entry.choice("kind", ValuesKind, ValuesKind.CONFIG_MAP),
                name=entry.required_text("name", syntax.object_name),
                optional=entry.flag("optional"),
            )
        )
    return tuple(found)


def _read_secret_key(spec: Fields, env: Mapping[str, str]) -> SecretKey | None:
    if not spec.has("secretKey"):
        return None
    if names.SECRET_KEY_ENV in env:
        spec.fail("secretKey", f"sets {names.SECRET_KEY_ENV}; remove that from spec.env")
    ref = spec.sub("secretKey")
    return SecretKey(
        ref.required_text("secretName", syntax.object_name),
        ref.required_text("key", syntax.data_key),
    )


def _read_approval(spec: Fields, namespaces: tuple[str, str], defaults: BundleDefaults) -> Approval:
    """``spec.approval``, raised to what is required in either namespace: Bundle's and release's.

    It isn't given without a mode: the API server may have dropped a misspelled one.
    """
    approval = spec.sub("approval")
    if spec.has("approval") and not approval.has("mode"):
        approval.fail("mode", f"is required: one of {', '.join(ApprovalMode)}")
    lowest = defaults.lowest_approval(namespaces)
    modes = (approval.choice("mode", ApprovalMode, ApprovalMode.NEVER), lowest)
    return Approval(
        mode=max(modes, key=list(ApprovalMode).index),
        expires=approval.duration("expires", DEFAULT_APPROVAL_EXPIRES, least=MIN_APPROVAL_EXPIRES),
        must_be_bound=any(map(defaults.require_bound_plans.matches, namespaces)),
        is_required=lowest is not ApprovalMode.NEVER,
    )
