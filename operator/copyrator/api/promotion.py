"""``spec.promoteFrom``, ``spec.attest``, their annotations, and lists of Bundles in specs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final

from copyrator.api import names, syntax
from copyrator.api.bundle_spec import (
    DEFAULT_EVIDENCE_AGE,
    DEFAULT_RENEWAL,
    DEFAULT_SOAK,
    MIN_RENEWAL,
    Attest,
    AttestationsFrom,
    AttestKey,
    LocalObjectRef,
    PromoteFrom,
)
from copyrator.api.fields import Fields
from copyrator.api.globs import Globs, is_wild
from copyrator.api.keys import BundleKey
from copyrator.api.records import Record, Time
from copyrator.api.schema import items
from copyrator.api.text import one_line
from copyrator.api.verify import read_object
from copyrator.settings import limits


def read_bundles(fields: Fields, name: str, own: BundleKey, *, most: int) -> tuple[BundleKey, ...]:
    """The Bundles of a list, each once; a namespace that is left out is that of ``own``.

    Raises:
        SpecError: it isn't valid, or names ``own``.
    """
    found: dict[BundleKey, None] = {}
    for one in fields.maps(name, most):
        namespace = one.text("namespace", syntax.namespace) or own.namespace
        key = BundleKey(namespace, one.required_text("name", syntax.object_name))
        if key == own:
            one.fail("name", "is this Bundle itself; remove the item")
        found[key] = None
    return tuple(found)


MAX_SOAKS: Final = 10
"""Versions whose soak a status lists."""
MAX_SOURCES: Final = 20
"""Bundles that ``spec.promoteFrom.bundles`` may name."""
MAX_ENVIRONMENTS: Final = 10
"""Environments that ``spec.promoteFrom.attestations`` may name."""

MAX_HOLD_TEXT: Final = 200
"""Characters of the annotation hold that are shown."""
_MAX_WILD: Final = 64
"""Patterns with a wildcard in one annotation promote-to."""
NO_REASON: Final = "no reason is given"


def read_promote_from(fields: Fields, own: BundleKey) -> PromoteFrom:
    """``spec.promoteFrom`` of the Bundle ``own``.

    Raises:
        SpecError: it isn't valid.
    """
    soak = fields.duration("soak", DEFAULT_SOAK)
    if not fields.items("bundles") and not fields.items("attestations"):
        fields.fail("bundles", "is required, or attestations: name where a version must have stood")
    return PromoteFrom(
        read_bundles(fields, "bundles", own, most=MAX_SOURCES), soak, _read_attestations(fields)
    )


def _read_attestations(fields: Fields) -> tuple[AttestationsFrom, ...]:
    found: dict[str, AttestationsFrom] = {}
    named: dict[LocalObjectRef, str] = {}
    for one in fields.maps("attestations", MAX_ENVIRONMENTS):
        environment = one.required_text("environment", _environment)
        if environment in found:
            one.fail("environment", f"{environment} is named twice; remove one of the items")
        cosign = one.sub("cosign")
        if unknown := sorted(map(str, cosign.raw.keys() - {"keysFrom"})):
            cosign.fail(unknown[0], "isn't for attestations: they are signed with keys (keysFrom)")
        keys = read_object(cosign, "keysFrom")
        if (other := named.setdefault(keys, environment)) != environment:
            cosign.fail(
                "keysFrom",
                f"{keys.kind} {keys.name} has the keys of {other}, too; each environment needs "
                "keys of its own",
            )
        found[environment] = AttestationsFrom(
            environment,
            keys,
            one.duration("soak", 0.0),
            one.duration("maxAge", DEFAULT_EVIDENCE_AGE),
            one.text("cluster", _CLUSTER),
            one.text("release", _release),
        )
    return tuple(found.values())


def _environment(value: str) -> str | None:
    if syntax.namespace(value) is None:
        return None
    hint = "use at most 63 lower-case letters, digits and '-'"
    return f"{syntax.shown(value)} isn't the name of an environment; {hint}"


_CLUSTER: Final = syntax.matching(
    r"[A-Za-z0-9][-A-Za-z0-9]{0,63}",
    "isn't the uid of a cluster: `kubectl get namespace kube-system -o jsonpath={.metadata.uid}` "
    "prints it there",
)


def _release(value: str) -> str | None:
    namespace, _, name = value.partition("/")
    if syntax.namespace(namespace) is None and syntax.object_name(name) is None:
        return None
    return f"{syntax.shown(value)} isn't a release; write it as namespace/name"


def read_attest(fields: Fields) -> Attest:
    """``spec.attest``.

    Raises:
        SpecError: it isn't valid.
    """
    return Attest(
        environment=fields.required_text("environment", _environment),
        key_from=_read_key_from(fields),
        after=fields.duration("after", 0.0),
        auth=fields.text("auth", syntax.object_name),
        renew=fields.duration("renew", DEFAULT_RENEWAL, least=MIN_RENEWAL),
    )


def _read_key_from(fields: Fields) -> AttestKey | None:
    key = fields.sub("keyFrom")
    secret = key.text("secretName", syntax.object_name)
    name = key.text("key", syntax.data_key)
    password = key.text("passwordKey", syntax.data_key)
    if key.flag("operator"):
        if secret or name or password:
            key.fail("operator", "must be alone: it is the operator's key, or that of a Secret")
        return None
    if secret is None or name is None:
        missing = "key" if secret else "secretName"
        key.fail(missing, "is required: name the Secret and its key with the private key")
    return AttestKey(secret, name, password)


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
    if len(text) >= limits.BUNDLE_REQUEST:
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


class PromotionStatus(Record, frozen=True):
    """The evidence that other Bundles are promoted by."""

    soak: Annotated[tuple[SoakStatus, ...], items(MAX_SOAKS)] = ()
    """Where other Bundles may be promoted from this one, or with spec.attest: how long its versions
    have been deployed here, oldest first."""
