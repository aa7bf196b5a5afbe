"""Reads a Bundle: its spec and its status with the features' parts; bounds the status.

The CRD has no bounds for the status, and anybody who may write it may store whatever the API server
accepts: lists and texts of a status larger than any of ours are truncated.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, ClassVar, Final, Protocol

import msgspec

from copyrator.api import names
from copyrator.api.bundle_spec import (
    DEFAULT_RETRY_BACKOFF,
    DEFAULT_RETRY_LIMIT,
    DEFAULT_TIMEOUT,
    NO_PODS,
    BundleSpec,
    JobSpec,
    Part,
    PodDefaults,
    Retry,
    absent,
)
from copyrator.api.bundle_status import (
    ENGINE_CONDITIONS,
    AgeStatus,
    BundleCondition,
    BundleStatus,
    Cause,
    ClusterStatus,
    GateState,
    Outcome,
)
from copyrator.api.conditions import ConditionStatus
from copyrator.api.consent import ConsentStatus
from copyrator.api.names import RELEASE_METADATA_PREFIXES
from copyrator.api.reasons import AnyReason, KeptReason, Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import (
    AGE,
    MESSAGE,
    READY,
    REASON,
    TOO_MANY,
    UPDATE,
    Column,
    InvalidSpec,
    Record,
    Root,
    SpecError,
    below,
    check_text,
    json_type,
    read,
    slots,
)
from copyrator.api.structs import replace
from copyrator.bundles.features import listed

ENGINE_STATUS: Final[tuple[type[Record], ...]] = (AgeStatus, ClusterStatus, ConsentStatus)
"""Parts of a status that the engine has: most Bundles don't have them."""


@cache
def spec_parts() -> tuple[type[Part], ...]:
    """What the features add to a spec, in their order."""
    return tuple(listed("fields", "SPEC"))


@cache
def status_parts() -> tuple[type[Record], ...]:
    """What the features, and the engine, add to a status, by the names of their types."""
    found = {*ENGINE_STATUS, *listed("fields", "STATUS")}  # two may have the same
    return tuple(sorted(found, key=lambda part: part.__name__))


@cache
def bundle_conditions() -> Mapping[str, BundleCondition]:
    """Those of the engine and the features by type, as they are ordered in a status."""
    found = (*ENGINE_CONDITIONS, *listed("fields", "CONDITIONS"))
    return {one.name: one for one in sorted(found, key=lambda one: one.place)}


@cache
def _words() -> Mapping[str, str]:
    """The texts that most statuses have, shared by all of them."""
    own = (Cause, ConditionStatus, GateState, Outcome)
    words = (str(word.value) for kind in (*own, *listed("fields", "TEXTS")) for word in kind)
    return {word: word for word in map(str, (*bundle_reasons(), *bundle_conditions(), *words))}


class Bundle(Root):
    """A werf bundle in an OCI registry, which is deployed.

    It is redeployed whenever the registry, the values or this object change. Deleting the Bundle
    uninstalls the release. Its name is the Helm release's name. Its labels and annotations under
    app.kubernetes.io/, app.k8s.io/ and argocd.argoproj.io/ are set on the release's objects.

    Annotations under operator.werf.dev/:
    - disable-autoupdate (any value) stops requests to the registry and updates.
    - requestedAt, forceAt (any new value) poll the registry and deploy what version names at once,
      even if it is deployed already or failed too often; forceAt passes over minAge, dependsOn and
      windows.
    - skip-digests names digests that are never deployed.
    - pin, as VERSION@DIGEST, rolls back to a version that was deployed before, until it is "none".
    - force-delete "true" deletes the Bundle without uninstalling the release.
    """

    NAMES: ClassVar[Mapping[str, Any]] = {
        "plural": "bundles",
        "singular": "bundle",
        "shortNames": ["bndl"],
        "categories": ["copyrator-all"],
    }
    COLUMNS = (
        Column("Registry", ".spec.registry", "The OCI registry."),
        Column("Repo", ".spec.repo", "The repository in the registry."),
        Column("Target", ".status.target.version", "The tag that spec.version resolves to."),
        Column("Version", ".status.deploy.version", "The tag that is deployed."),
        Column(
            *("Digest", ".status.deploy.shortDigest"),
            "The beginning of the manifest digest that is deployed.",
        ),
        Column("Ready", f"{READY}.status", "Whether the desired version is deployed."),
        REASON,
        UPDATE,
        Column("Full-Digest", ".status.deploy.digest", "The deployed manifest digest.", priority=1),
        MESSAGE,
        AGE,
    )


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

BUNDLE_METADATA: Final = 1_000
"""Labels, and likewise annotations, of a Bundle that are set on its release: each is a variable of
the Job."""

_NAME: Final = 64
"""Characters of a status's field: none of the operator's is longer."""


class Policy(Protocol):
    """What the settings require of Bundles, by a feature."""

    def apply(self, spec: BundleSpec) -> BundleSpec:
        """The spec with that; each one is asked, before its parts are checked."""
        ...


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
    pods: PodDefaults = NO_PODS
    allowed_pod_metadata: tuple[str, ...] = ()
    """Labels and annotations that the pods of gated Bundles may have: ``key`` or ``key=value``."""
    policies: tuple[Policy, ...] = ()
    """What the settings require by features."""

    @property
    def spec(self) -> BundleSpec:
        """What stands in a spec where its author left a field out."""
        return _default_spec(
            interval=self.interval,
            timeout=self.timeout,
            account=self.service_account,
            ttl=self.jobs_ttl,
            retry=(self.retry_limit, self.retry_backoff),
        )


@lru_cache(maxsize=4)
def _default_spec(
    *, interval: float, timeout: float, account: str, ttl: int, retry: tuple[int, float]
) -> BundleSpec:
    """Cached, so that Bundles share its values."""
    return BundleSpec(
        registry="",
        repo="",
        interval=interval,
        timeout=timeout,
        service_account=account,
        job=JobSpec(ttl_seconds_after_finished=ttl),
        retry=Retry(*retry),
    )


def parse_bundle(body: Any, defaults: BundleDefaults) -> BundleSpec | InvalidSpec:
    """Read a Bundle from the API server. Never raises, whatever the JSON."""
    try:
        return _read(body, defaults)
    except SpecError as error:
        return error.invalid


def _read(body: Any, defaults: BundleDefaults) -> BundleSpec:
    metadata = _map(_map(body, "the object").get("metadata"), "metadata")
    namespace = _metadata_text(metadata, "namespace")
    name = _metadata_text(metadata, "name")
    if len(name) > names.MAX_RELEASE_NAME:
        raise SpecError(
            "metadata.name",
            f"has {len(name)} characters; it names the Helm release, which may have at most "
            f"{names.MAX_RELEASE_NAME}: recreate the Bundle with a shorter name",
        )
    annotations = _check_metadata(metadata)
    raw = _map(body.get("spec"), "spec")
    found = read(BundleSpec, raw, "spec", defaults.spec)
    given = {field: value for field, value in raw.items() if value is not None}
    read_parts = [_read_part(kind, given, annotations) for kind in spec_parts()]
    parts = [one for one in read_parts if one is not None]
    spec = replace(_fill(found, namespace, name, defaults), parts=tuple(parts))
    for policy in defaults.policies:
        spec = policy.apply(spec)
    fitted = [_fit(part, spec) for part in spec.parts]
    return replace(spec, parts=tuple(part for part in fitted if part != absent(type(part))))


def _fill(found: BundleSpec, namespace: str, name: str, defaults: BundleDefaults) -> BundleSpec:
    """What doesn't stand in the spec, or is made of several fields of it."""
    ignored = tuple(sorted(filter(names.is_reserved_env, found.env)))
    env = {one: found.env[one] for one in found.env if one not in ignored} if ignored else found.env
    if found.secret_key is not None and names.SECRET_KEY_ENV in env:
        raise SpecError("spec.secretKey", f"sets {names.SECRET_KEY_ENV}; remove that from spec.env")
    image, version = found.werf.image, found.werf.version or defaults.werf_version
    if not found.werf.is_whole:
        image = sys.intern(f"{image or defaults.werf_image}:{version}")
    return replace(
        found,
        namespace=namespace,
        name=name,
        registry=sys.intern(found.registry),
        project_namespace=found.project_namespace or namespace,
        env=env,
        ignored_env=ignored,
        proxies=defaults.proxies,
        pods=defaults.pods,
        allowed_pod_metadata=defaults.allowed_pod_metadata,
        werf_image=image,
    )


def _read_part(
    kind: type[Part], given: Mapping[str, Any], annotations: Mapping[str, Any]
) -> Part | None:
    """A feature's part; None where the spec has nothing of it."""
    if _names(kind).isdisjoint(annotations if kind.ANNOTATION else given):
        return None
    if kind.ANNOTATION:
        text = annotations[kind.ANNOTATION]
        return None if text is None else kind.read_annotation(text)
    if kind.FIELD:
        return read(kind, given[kind.FIELD], f"spec.{kind.FIELD}")
    return read(kind, given, "spec")


@cache
def _names(kind: type[Part]) -> frozenset[str]:
    """The names by which a spec, or annotations, have something of a part."""
    one = kind.ANNOTATION or kind.FIELD
    return frozenset([one] if one else [slot.name for slot in slots(kind)])


def _fit(part: Part, spec: BundleSpec) -> Part:
    try:
        return part.fit(spec)
    except SpecError as error:
        raise below(error, f"spec.{part.FIELD}".removesuffix(".")) from None


def _map(found: Any, path: str) -> Mapping[str, Any]:
    """A map; empty where it is absent."""
    if found == TOO_MANY:
        raise SpecError(path, f"{TOO_MANY}; reduce it")
    if found is not None and not isinstance(found, Mapping):
        raise SpecError(path, f"must be a map, not {json_type(found)}")
    return found or {}


def _metadata_text(metadata: Mapping[str, Any], name: str) -> str:
    if metadata.get(name) is None:
        raise SpecError(f"metadata.{name}", "is required")
    return check_text(metadata[name], f"metadata.{name}")


def _check_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations; too many for a release are refused, and likewise labels."""
    for name in ("labels", "annotations"):
        found = _map(metadata.get(name), f"metadata.{name}")
        if len(found) <= BUNDLE_METADATA:
            continue
        count = sum(key.startswith(RELEASE_METADATA_PREFIXES) for key in found)
        if count > BUNDLE_METADATA:
            raise SpecError(
                f"metadata.{name}",
                f"{count} of them are copied to the release's objects; at most "
                f"{BUNDLE_METADATA:,} may begin with {', '.join(RELEASE_METADATA_PREFIXES)}",
            )
    return _map(metadata.get("annotations"), "metadata.annotations")


def parse_status(body: Any, *fields: str) -> BundleStatus:
    """Read the status of a Bundle's body, or only some fields of it; never raises.

    Those that a rule's status has, too, are read of a rule alike.
    """
    raw = body.get("status") if isinstance(body, dict) else None
    if fields and isinstance(raw, dict):
        raw = {name: raw[name] for name in fields if name in raw}
    return BundleStatus.compose(status_parts(), raw, dict(_words()))


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


@cache
def bundle_reasons() -> Mapping[str, Reason]:
    """Those of Ready, UpdatePending, gates and attempts, by their words."""
    kinds = (BundleReason, *listed("reasons", "REASONS"))
    return {str(row): row for kind in kinds for row in kind}


def read_reason(word: str) -> AnyReason:
    """The row of such a word of a status; the word itself where there is none."""
    return bundle_reasons().get(word) or KeptReason(word)
