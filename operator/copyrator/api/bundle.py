"""Parses a Bundle into BundleSpec."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import Any, Final

from copyrator.api import names, syntax
from copyrator.api.bundle_sizes import check_sizes
from copyrator.api.bundle_spec import (
    DEFAULT_APPROVAL_EXPIRES,
    DEFAULT_VERSION,
    MAX_DEPENDENCIES,
    MAX_DURATION,
    MIN_APPROVAL_EXPIRES,
    MIN_INTERVAL,
    Approval,
    ApprovalMode,
    BundleDefaults,
    BundleSpec,
    DeletionPolicy,
    JobSpec,
    Retry,
    ValuesKind,
    ValuesSource,
)
from copyrator.api.bundle_status import (
    Attempted,
    Available,
    BundleReason,
    BundleStatus,
    Deployed,
    HistoryEntry,
    LastError,
    Outcome,
    Rejected,
    VersionRef,
    parse_status,
)
from copyrator.api.drift import (
    DEFAULT_DRIFT_INTERVAL,
    MIN_DRIFT_INTERVAL,
    Drift,
    read_drift,
)
from copyrator.api.fields import Fields, InvalidSpec, SpecError, check_text, is_scalar, json_type
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.api.promotion import DEFAULT_SOAK, NO_PROMOTION, PromoteFrom, read_promote_from
from copyrator.api.skip_digests import read_skip_digests
from copyrator.api.tagfilter import FilterError, compile_filter
from copyrator.api.times import format_duration, parse_duration
from copyrator.api.verify import read_verify
from copyrator.api.version_range import VersionError, parse_version
from copyrator.api.windows import read_windows

__all__ = [
    "Approval",
    "ApprovalMode",
    "Attempted",
    "Available",
    "BundleDefaults",
    "BundleReason",
    "BundleSpec",
    "BundleStatus",
    "DeletionPolicy",
    "Deployed",
    "HistoryEntry",
    "InvalidSpec",
    "JobSpec",
    "LastError",
    "Outcome",
    "Rejected",
    "Retry",
    "ValuesKind",
    "ValuesSource",
    "VersionRef",
    "parse_bundle",
    "parse_status",
]

_REGISTRY = re.compile(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_REPO = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_IMAGE = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._:/@]*")
_TAG = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9._]{0,127}")
MAX_TTL: Final = 7 * 24 * 3600


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
    env, ignored = _read_env(spec)
    tag_filter = spec.text("tagFilter", _tag_filter)
    return BundleSpec(
        namespace=namespace,
        name=name,
        registry=sys.intern(spec.required_text("registry", _registry)),
        repo=spec.required_text("repo", _repo),
        version=spec.text("version", _version) or DEFAULT_VERSION,
        auth=spec.text("auth", syntax.object_name),
        project_namespace=spec.text("project_namespace", syntax.namespace) or namespace,
        values_from=_read_values(spec),
        env=env,
        ignored_env=ignored,
        proxies=defaults.proxies,
        interval=_duration(spec, "interval", defaults.interval, least=MIN_INTERVAL),
        suspend=spec.flag("suspend"),
        service_account=spec.text("serviceAccountName", syntax.object_name)
        or defaults.service_account,
        timeout=_duration(spec, "timeout", defaults.timeout),
        auto_rollback=spec.flag("autoRollback"),
        releases_history_max=spec.number("releasesHistoryMax", 0, least=1, most=1000)
        if spec.has("releasesHistoryMax")
        else None,
        tag_filter=tag_filter,
        prerelease=spec.flag("prerelease"),
        insecure=spec.flag("insecure"),
        skip_tls_verify=spec.flag("skipTLSVerify"),
        ca_secret=spec.text("caSecret", syntax.object_name),
        werf_image=_werf_image(spec.sub("werf"), defaults),
        job=_read_job(spec.sub("job"), defaults),
        retry=_read_retry(spec.sub("retry"), defaults),
        deletion_policy=spec.choice("deletionPolicy", DeletionPolicy, DeletionPolicy.UNINSTALL),
        approval=_read_approval(spec.sub("approval"), namespace, defaults),
        verify=read_verify(spec.sub("verify")),
        min_age=_duration(spec, "minAge", 0.0),
        promote_from=_read_promote_from(spec, BundleKey(namespace, name)),
        skip_digests=read_skip_digests(metadata),
        depends_on=_read_depends_on(spec, BundleKey(namespace, name)),
        windows=read_windows(spec),
        drift=_read_drift(spec.sub("drift")),
        health=spec.choice("health", HealthMode, HealthMode.OFF),
    )


def _registry(value: str) -> str | None:
    if "://" in value:
        hint = "; for plain HTTP set spec.insecure" if value.startswith("http://") else ""
        return f"must be host[:port] without a scheme: remove {value.partition('://')[0]}://{hint}"
    if "/" in value:
        return "must be host[:port] without a path: put the path into spec.repo"
    if len(value) <= 255 and _REGISTRY.fullmatch(value):
        return None
    return f"{syntax.shown(value)} isn't a valid host[:port]; for example registry.example.com:5000"


def _repo(value: str) -> str | None:
    if "@" in value:
        return "must not contain a digest: put a tag, wildcard or range into spec.version"
    if ":" in value:
        return "must not contain a tag or scheme: put the tag into spec.version"
    if len(value) <= 255 and _REPO.fullmatch(value):
        return None
    return (
        f"{syntax.shown(value)} isn't a valid repository path; use lower-case words separated by "
        "'/', "
        "without a leading or trailing '/', for example team/app"
    )


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


def _duration(spec: Fields, name: str, default: float, *, least: float = 1.0) -> float:
    value = spec.get(name)
    if value is None:
        return default
    hint = "write it with a unit, for example 30s, 5m or 1h30m"
    if not isinstance(value, str):
        spec.fail(name, f"must be a duration, not {json_type(value)}; {hint}")
    seconds = parse_duration(value)
    if seconds is None:
        spec.fail(name, f"{syntax.shown(value)} isn't a valid duration; {hint}")
    if not least <= seconds <= MAX_DURATION:
        spec.fail(
            name,
            f"must be between {format_duration(least)} and {format_duration(MAX_DURATION)}",
        )
    return seconds


def _read_values(spec: Fields) -> tuple[ValuesSource, ...]:
    found: list[ValuesSource] = []
    if (name := spec.text("values", syntax.object_name)) is not None:
        found.append(ValuesSource(ValuesKind.CONFIG_MAP, name))
    for i, item in enumerate(spec.items("valuesFrom")):
        entry = Fields(item, f"{spec.at('valuesFrom')}[{i}]")
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


def _read_env(spec: Fields) -> tuple[dict[str, str], tuple[str, ...]]:
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


def _werf_image(werf: Fields, defaults: BundleDefaults) -> str:
    image = werf.text("image", _image)
    version = werf.text("version", _tag)
    if image is not None and ("@" in image or ":" in image.rpartition("/")[2]):
        if version is not None:
            werf.fail("version", "must be removed: spec.werf.image already names a tag or digest")
        return image
    return sys.intern(f"{image or defaults.werf_image}:{version or defaults.werf_version}")


def _image(value: str) -> str | None:
    if len(value) <= 512 and _IMAGE.fullmatch(value) and "://" not in value:
        return None
    return f"{syntax.shown(value)} isn't a valid image; for example registry.werf.io/werf/werf"


def _tag(value: str) -> str | None:
    return None if _TAG.fullmatch(value) else f"{syntax.shown(value)} isn't a valid image tag"


@lru_cache(maxsize=4)
def _plain_job(ttl: int) -> JobSpec:
    """The JobSpec of most Bundles, shared by all of them."""
    return JobSpec(ttl_seconds_after_finished=ttl)


def _read_job(job: Fields, defaults: BundleDefaults) -> JobSpec:
    if not job.raw:
        return _plain_job(defaults.jobs_ttl)
    tolerations = tuple(
        Fields(item, f"{job.at('tolerations')}[{i}]").raw
        for i, item in enumerate(job.items("tolerations"))
    )
    return JobSpec(
        ttl_seconds_after_finished=job.number(
            "ttlSecondsAfterFinished", defaults.jobs_ttl, least=0, most=MAX_TTL
        ),
        resources=job.sub("resources").raw,
        node_selector=job.text_map("nodeSelector", syntax.label_key, syntax.label_value),
        tolerations=tolerations,
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


def _read_depends_on(spec: Fields, own: BundleKey) -> tuple[BundleKey, ...]:
    items = spec.items("dependsOn")
    if len(items) > MAX_DEPENDENCIES:
        spec.fail("dependsOn", f"has {len(items)} items; at most {MAX_DEPENDENCIES} are allowed")
    found: dict[BundleKey, None] = {}
    for i, item in enumerate(items):
        one = Fields(item, f"{spec.at('dependsOn')}[{i}]")
        namespace = one.text("namespace", syntax.namespace) or own.namespace
        key = BundleKey(namespace, one.required_text("name", syntax.object_name))
        if key == own:
            one.fail("name", "is this Bundle itself; remove the item")
        found[key] = None
    return tuple(found)


def _read_promote_from(spec: Fields, own: BundleKey) -> PromoteFrom:
    if not spec.has("promoteFrom"):
        return NO_PROMOTION
    promote = spec.sub("promoteFrom")
    return read_promote_from(promote, own, _duration(promote, "soak", DEFAULT_SOAK))


def _read_retry(retry: Fields, defaults: BundleDefaults) -> Retry:
    return Retry(
        limit=retry.number("limit", defaults.retry_limit, least=0, most=1000),
        backoff=_duration(retry, "backoff", defaults.retry_backoff),
    )


def _read_approval(approval: Fields, namespace: str, defaults: BundleDefaults) -> Approval:
    modes = [approval.choice("mode", ApprovalMode, ApprovalMode.NEVER)]
    modes += (mode for globs, mode in defaults.require_approval if globs.matches(namespace))
    return Approval(
        mode=max(modes, key=list(ApprovalMode).index),
        expires=_duration(
            approval, "expires", DEFAULT_APPROVAL_EXPIRES, least=MIN_APPROVAL_EXPIRES
        ),
    )


def _read_drift(drift: Fields) -> Drift:
    interval = _duration(drift, "interval", DEFAULT_DRIFT_INTERVAL, least=MIN_DRIFT_INTERVAL)
    return read_drift(drift, interval)
