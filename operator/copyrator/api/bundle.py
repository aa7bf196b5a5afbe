"""Parses a Bundle into BundleSpec."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from copyrator.api import names, syntax
from copyrator.api.bundle_job import read_env, read_job, read_werf_image
from copyrator.api.bundle_refs import read_bundles
from copyrator.api.bundle_sizes import check_sizes
from copyrator.api.bundle_spec import (
    DEFAULT_APPROVAL_EXPIRES,
    DEFAULT_VERSION,
    MAX_DEPENDENCIES,
    MIN_APPROVAL_EXPIRES,
    MIN_INTERVAL,
    Approval,
    ApprovalMode,
    BundleDefaults,
    BundleDeletionPolicy,
    BundleSpec,
    Retry,
    SecretKey,
    ValuesKind,
    ValuesSource,
)
from copyrator.api.drift import read_drift
from copyrator.api.fields import Fields, InvalidSpec, SpecError
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.api.promotion import read_promote_from
from copyrator.api.skip_digests import read_skip_digests
from copyrator.api.tagfilter import FilterError, compile_filter
from copyrator.api.verify import read_verify
from copyrator.api.version_range import VersionError, parse_version
from copyrator.api.windows import read_windows

_REGISTRY = re.compile(
    r"(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
    r"(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
)
_REPO = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
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
    return BundleSpec(
        namespace=namespace,
        name=name,
        registry=sys.intern(spec.required_text("registry", _registry)),
        repo=spec.required_text("repo", _repo),
        version=spec.text("version", _version) or DEFAULT_VERSION,
        auth=spec.text("auth", syntax.object_name),
        project_namespace=target,
        values_from=_read_values(spec),
        env=env,
        secret_key=_read_secret_key(spec, env),
        ignored_env=ignored,
        proxies=defaults.proxies,
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
        retry=_read_retry(spec.sub("retry"), defaults),
        deletion_policy=spec.choice(
            "deletionPolicy", BundleDeletionPolicy, BundleDeletionPolicy.UNINSTALL
        ),
        approval=_read_approval(spec.sub("approval"), (namespace, target), defaults),
        verify=read_verify(spec.sub("verify")),
        min_age=spec.duration("minAge", 0.0),
        promote_from=read_promote_from(spec, own),
        skip_digests=read_skip_digests(metadata),
        depends_on=read_bundles(spec, "dependsOn", own, most=MAX_DEPENDENCIES),
        windows=read_windows(spec),
        drift=read_drift(spec.sub("drift")),
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


def _read_retry(retry: Fields, defaults: BundleDefaults) -> Retry:
    return Retry(
        limit=retry.number("limit", defaults.retry_limit, least=0, most=1000),
        backoff=retry.duration("backoff", defaults.retry_backoff),
    )


def _read_approval(
    approval: Fields, namespaces: tuple[str, str], defaults: BundleDefaults
) -> Approval:
    """``spec.approval``, raised to what is required in either namespace: Bundle's and release's."""
    required = [ApprovalMode.NEVER]
    for globs, mode in defaults.require_approval:
        if any(map(globs.matches, namespaces)):
            required.append(mode)
    modes = (approval.choice("mode", ApprovalMode, ApprovalMode.NEVER), *required)
    return Approval(
        mode=max(modes, key=list(ApprovalMode).index),
        expires=approval.duration("expires", DEFAULT_APPROVAL_EXPIRES, least=MIN_APPROVAL_EXPIRES),
        must_be_bound=any(map(defaults.require_bound_plans.matches, namespaces)),
        is_required=any(mode is not ApprovalMode.NEVER for mode in required),
    )
