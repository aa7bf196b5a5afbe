"""``spec.promoteFrom``, and the annotations that hold, withdraw and allow promotions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, Self

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.keys import BundleKey
from copyrator.api.names import BUNDLE_REQUEST
from copyrator.api.object_refs import NO_OBJECT, BundleRef, LocalObjectRef, bundle_ref, named
from copyrator.api.schema import (
    NAMESPACE,
    Form,
    Record,
    Rule,
    Takes,
    Time,
    custom,
    duration,
    fail,
    form_reader,
    items,
    text,
)
from copyrator.api.selectors import Globs, is_wild
from copyrator.api.structs import replace
from copyrator.api.text import (
    LABEL,
    SUBDOMAIN,
    check_namespace,
    check_object_name,
    matching,
    one_line,
    parse_duration,
    quoted,
)

PROMOTION_GATE: Final = "promotion"
"""The name of its gate."""
AHEAD: Final = timedelta(minutes=10)
"""By how much the clocks of two clusters may differ."""
DEFAULT_SOAK: Final = 24 * 3600.0
DEFAULT_EVIDENCE_AGE: Final = 7 * 24 * 3600.0
_NEITHER: Final = "is required, or attestations: name where a version must have stood"


MAX_SOAKS: Final = 10
"""Versions whose soak a status lists."""


class PromotionRef(BundleRef, kw_only=True):
    """A Bundle that another one is promoted from."""

    namespace: Annotated[str, NAMESPACE] = ""
    """Its namespace; default that of this Bundle. Another one must allow it by the annotation
    operator.werf.dev/promote-to on that Bundle."""


_SOURCE: Final = bundle_ref(PromotionRef)


class EvidenceKeys(Form):
    """Keys of attestations."""

    keys_from: Annotated[LocalObjectRef, Takes({}, required=NO_OBJECT)]
    """Public keys in PEM, one or more in each key of the object. A key is of one environment, and
    not one that is trusted for signatures."""


def _read_keys(value: Any) -> EvidenceKeys:
    if isinstance(value, Mapping) and (unknown := sorted(map(str, value.keys() - {"keysFrom"}))):
        fail(unknown[0], "isn't for attestations: they are signed with keys (keysFrom)")
    return form_reader(EvidenceKeys)(value)


def _environment(value: str) -> str | None:
    if check_namespace(value) is None:
        return None
    hint = "use at most 63 lower-case letters, digits and '-'"
    return f"{quoted(value)} isn't the name of an environment; {hint}"


ENVIRONMENT: Final = text(_environment, most=63, pattern=LABEL)
"""A DNS label."""
_CLUSTER: Final = matching(
    r"[A-Za-z0-9][-A-Za-z0-9]{0,63}",
    "isn't the uid of a cluster: `kubectl get namespace kube-system -o jsonpath={.metadata.uid}` "
    "prints it there",
)


def _release(value: str) -> str | None:
    namespace, _, name = value.partition("/")
    if check_namespace(namespace) is None and check_object_name(name) is None:
        return None
    return f"{quoted(value)} isn't a release; write it as namespace/name"


class AttestationsFrom(Form):
    """An environment whose evidence a version needs, from attestations of its digest."""

    environment: Annotated[str, ENVIRONMENT]
    """Its name, as the attestations have it."""
    cosign: Annotated[
        EvidenceKeys,
        custom(_read_keys, like=EvidenceKeys, required="is required: name the keys (keysFrom)"),
    ]
    """Whom to believe."""
    soak: Annotated[float, duration("soak")] = 0.0
    """How long it must have stood there, at least; by default what that environment attests is
    enough."""
    max_age: Annotated[float, duration("maxAge")] = DEFAULT_EVIDENCE_AGE
    """The age after which a statement doesn't count any more; default 168h. A withdrawal that a
    registry hides is hidden for that long at most."""
    cluster: Annotated[str, text(_CLUSTER, most=64, pattern="[A-Za-z0-9][-A-Za-z0-9]*")] | None = (
        None
    )
    """The only cluster whose statements count: the uid of its namespace kube-system."""
    release: Annotated[str, text(_release, most=317, pattern=f"{LABEL}/{SUBDOMAIN}")] | None = None
    """The only release whose statements count, as namespace/name."""

    @property
    def keys_from(self) -> LocalObjectRef:
        """The object with its keys."""
        return self.cosign.keys_from


class PromotionSpec(Part):
    """Where a version must have been deployed before it is deployed."""

    FIELD: ClassVar[str] = "promoteFrom"
    """Where a version must have been deployed for some time before it is deployed here: in Bundles
    of this cluster, and in environments of others. It is the digest that counts, whatever
    repository and tag they take it from."""
    RESTRICTS: ClassVar[bool] = True

    bundles: Annotated[
        tuple[Annotated[BundleKey, _SOURCE], ...],
        items(20, 1, required="is empty: name a Bundle, or remove it"),
    ] = ()
    """Bundles in which it must have been deployed, without drift, ill health or a hold. All of them
    count."""
    soak: Annotated[float, duration("soak")] = DEFAULT_SOAK
    """How long it must have been deployed there at a stretch; default 24h."""
    attestations: Annotated[
        tuple[AttestationsFrom, ...],
        items(10, 1, keys=("environment",), required="is empty: name an environment, or remove it"),
    ] = ()
    """Environments, usually of other clusters, whose evidence a version needs: signed attestations
    of its digest in the registry. All of them count."""

    RULES = (
        Rule(
            "has(self.bundles) || has(self.attestations)",
            "promoteFrom must have bundles, attestations or both",
        ),
    )

    @property
    def refs(self) -> tuple[tuple[str, LocalObjectRef], ...]:
        """The objects with the environments' keys."""
        return tuple(("spec.promoteFrom.attestations", one) for one in self.keys)

    @property
    def keys(self) -> tuple[LocalObjectRef, ...]:
        """Those objects, each once."""
        return tuple(dict.fromkeys(one.keys_from for one in self.attestations))

    def __bool__(self) -> bool:
        return bool(self.bundles or self.attestations)

    def fit(self, spec: BundleSpec) -> Self:
        """The same with whole keys of Bundles."""
        return self.within(BundleKey(spec.namespace, spec.name))

    def within(self, own: BundleKey) -> Self:
        """The same of the Bundle ``own``."""
        if not self:
            fail("bundles", _NEITHER)
        known: dict[str, LocalObjectRef] = {}
        for i, one in enumerate(self.attestations):
            path, name, keys = f"attestations[{i}]", one.environment, one.keys_from
            if name in known:
                fail(f"{path}.environment", f"{name} is named twice; remove one of the items")
            if other := next((other for other, ref in known.items() if ref == keys), ""):
                fail(
                    f"{path}.cosign.keysFrom",
                    f"{keys} has the keys of {other}, too; each environment needs keys of its own",
                )
            known[name] = keys
        return replace(self, bundles=named(self.bundles, own, "bundles"))


MAX_HOLD_TEXT: Final = 200
"""Characters of the annotation hold that are shown."""
_MAX_WILD: Final = 64
"""Patterns with a wildcard in one annotation promote-to."""
NO_REASON: Final = "no reason is given"

_WITHDRAWAL: Final = re.compile(
    r"(?:(?P<time>\d{4}-\d\d-\d\dT\S{1,30})\s+)?(?:(?P<digest>sha256:[0-9a-f]{64})(?:\s+|$))?"
)


def read_withdrawal(annotations: Mapping[str, str]) -> tuple[str, str | None, str] | None:
    """The annotation withdraw: its value, the digest (None: what is deployed), and the reason."""
    asked = annotations.get(names.ANN_WITHDRAW)
    if asked is None:
        return None
    found = _WITHDRAWAL.match(asked)
    assert found is not None  # both parts are optional
    return asked, found["digest"], shown_hold(asked[found.end() :])


def allows_promotion(annotations: Mapping[str, str], own: str, namespace: str) -> bool:
    """Whether Bundles of a namespace may be promoted from one in the namespace ``own``."""
    if own == namespace:
        return True
    text = annotations.get(names.ANN_PROMOTE_TO)
    return text is not None and _globs(text).matches(namespace)


@lru_cache(maxsize=256)
def _globs(text: str) -> Globs:
    """Those of an annotation; none where it is longer than what is kept of an annotation."""
    if len(text) >= BUNDLE_REQUEST:
        return Globs()
    parts = sorted({part.strip() for part in text.split(",")} - {""})
    return Globs(tuple(parts)) if sum(map(is_wild, parts)) <= _MAX_WILD else Globs()


def hold_text(annotations: Mapping[str, str]) -> str | None:
    """Why what a Bundle runs isn't promoted, for messages; None where it isn't held."""
    text = annotations.get(names.ANN_HOLD)
    return None if text is None else shown_hold(text)


def shown_hold(text: str) -> str:
    """A reason as messages show it: one line, without control characters, bounded."""
    return one_line(text, MAX_HOLD_TEXT) or NO_REASON


_LONGEST: Final = 1e9
"""Limit for the seconds of a forged status."""


class SoakStatus(Record, frozen=True):
    """How long a version has been deployed here: evidence for promotion from it."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    since: Time | None = None
    """When its newest stretch began."""
    until: Time | None = None
    """When that ended; absent while it lasts."""
    longest: str | None = None
    """Its longest stretch that has ended; absent where it doesn't count (any more)."""
    broken_by: str | None = None
    """What ended the newest stretch."""

    @property
    def longest_period(self) -> timedelta | None:
        """The longest stretch that has ended; None where there is no such evidence."""
        seconds = parse_duration(self.longest) if self.longest else None
        return None if seconds is None else timedelta(seconds=min(seconds, _LONGEST))


class PromotionStatus(Record, frozen=True):
    """The evidence that other Bundles are promoted by."""

    soak: Annotated[tuple[SoakStatus, ...], items(MAX_SOAKS)] = ()
    """Where other Bundles may be promoted from this one, or with spec.attest: how long its versions
    have been deployed here, oldest first."""


SPEC: Final = (PromotionSpec,)
STATUS: Final = (PromotionStatus,)
