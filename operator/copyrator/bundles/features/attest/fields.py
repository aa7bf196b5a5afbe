"""``spec.attest`` and ``status.attest``: what is attested in the registry of a digest."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

import msgspec

from copyrator.api import names
from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import REGISTRY_FAULTS, BundleCondition
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import (
    DATA_KEY,
    OBJECT_NAME,
    Form,
    Record,
    Rule,
    Takes,
    Time,
    duration,
    fail,
    items,
)
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.promotion.fields import ENVIRONMENT

ATTESTED: Final = "Attested"
MAX_ATTESTED: Final = 10
"""Digests of which a status lists what was attested."""

_NO_KEY: Final = "is required: name the Secret and its key with the private key"


class AttestKey(Form):
    """The Secret with the private key of attestations, or the operator's key."""

    secret: Annotated[str, OBJECT_NAME] = msgspec.field(default="", name="secretName")
    """Name of the Secret."""
    key: Annotated[str, DATA_KEY] = ""
    """Its key with the private key: ECDSA (P-256, P-384) or Ed25519, PKCS#8 in PEM."""
    password_key: Annotated[str, DATA_KEY] | None = None
    """Its key with the password of an encrypted private key."""
    operator: bool = False
    """The key in the operator's namespace, for environments that attest.environments of the chart
    gives this namespace."""

    RULES = (
        Rule(
            "has(self.operator) && self.operator ? !has(self.secretName) && !has(self.key) && "
            "!has(self.passwordKey) : has(self.secretName) && has(self.key)",
            "keyFrom must have secretName and key, or only operator",
        ),
    )

    def __post_init__(self) -> None:
        if self.operator and (self.secret or self.key or self.password_key):
            fail("operator", "must be alone: it is the operator's key, or that of a Secret")
        if not self.operator and not (self.secret and self.key):
            fail("key" if self.secret else "secretName", _NO_KEY)


OPERATORS_KEY: Final = AttestKey(names.ATTEST_SECRET, names.ATTEST_KEY, names.ATTEST_PASSWORD)


class AttestSpec(Part):
    """What the operator attests."""

    FIELD: ClassVar[str] = "attest"
    """Attests in the registry which digest is deployed here, so that Bundles of other clusters are
    promoted by it (promoteFrom.attestations). What breaks a soak withdraws it. That it can't be
    pushed never holds a deploy up."""

    environment: Annotated[str, ENVIRONMENT]
    """The environment's name, which others name in promoteFrom.attestations."""
    key_from: Annotated[AttestKey, Takes({}, required=_NO_KEY)]
    """The private key that signs: of a Secret in the Bundle's namespace, or the operator's. Not one
    that is trusted for signatures."""
    after: Annotated[float, duration("after")] = 0.0
    """How long a digest must have stood before it is attested, by the rules of a soak; by default
    it is attested at once, and with health when it is Healthy."""
    auth: Annotated[str, OBJECT_NAME] | None = None
    """Secret with the credential that may push, as spec.auth; default: the Bundle's own, of
    spec.auth or spec.provider."""
    renew: Annotated[float, duration("renew", 60.0)] = 24 * 3600.0
    """After how long a newer statement is made while the digest stands; default 24h. Half of the
    readers' maxAge, or less."""

    @property
    def refs(self) -> tuple[tuple[str, LocalObjectRef], ...]:
        """The Secrets with the key and the credential."""
        secrets = {"keyFrom": self.own_key and self.own_key.secret, "auth": self.auth}
        return tuple(
            (f"spec.attest.{field}", LocalObjectRef(name, ValuesKind.SECRET))
            for field, name in secrets.items()
            if name
        )

    @property
    def own_key(self) -> AttestKey | None:
        """The key in the Bundle's namespace; None: the operator's."""
        return None if self.key_from.operator else self.key_from


class AttestState(StrEnum):
    """What was last said about a digest in the registry, or is about to be."""

    ATTESTING = "Attesting"
    """The statement is recorded, and may be in the registry."""
    RENEWING = "Renewing"
    """The same, while an older one is in the registry."""
    ATTESTED = "Attested"
    WITHDRAWING = "Withdrawing"
    """The same of its withdrawal."""
    WITHDRAWN = "Withdrawn"
    GONE = "Gone"
    """Withdrawn, and the registry has the digest no more. It may come back, with the statement."""


class AttestStatus(Record, frozen=True):
    """The newest statement about a digest.

    It is written before it is pushed, so that another process pushes the same.
    """

    digest: str | None = None
    """Manifest digest."""
    version: str | None = None
    """Tag."""
    environment: str | None = None
    """Name of the environment."""
    reference: str | None = None
    """Repository that it is pushed to."""
    state: str | None = None
    """Attesting, Renewing, Attested, Withdrawing, Withdrawn, or Gone: withdrawn, and the registry
    has the version no more."""
    issued_at: Time | None = None
    """Its date; later than that of each older statement."""
    since: Time | None = None
    """When the newest stretch began."""
    until: Time | None = None
    """Up to when it stood."""
    seconds: int | None = None
    """How long it stood, in the longest stretch that an operator saw."""
    revision: int | None = None
    """Revision of the release."""
    reason: str | None = None
    """Why it is withdrawn."""
    requested_for: Time | None = None
    """Of a withdrawal that a user requested: when the stretch began that isn't attested again."""
    manifest: str | None = None
    """Manifest digest of the attestation that was pushed last."""
    left: int | None = None
    """How many older attestations the registry didn't delete."""

    @property
    def is_positive(self) -> bool:
        """Whether it says that the digest stands there."""
        return self.state in (AttestState.ATTESTING, AttestState.RENEWING, AttestState.ATTESTED)

    @property
    def is_pending(self) -> bool:
        """Whether it isn't known to be in the registry."""
        return self.state in (
            AttestState.ATTESTING,
            AttestState.RENEWING,
            AttestState.WITHDRAWING,
            AttestState.GONE,
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is amiss while it is pending."""
        return self.state in (AttestState.RENEWING, AttestState.GONE)


class AttestationsStatus(Record, frozen=True):
    """The statements about the digests that were deployed."""

    attest: Annotated[tuple[AttestStatus, ...], items(MAX_ATTESTED)] = ()
    """With spec.attest: the newest statement about each digest, oldest first. It is recorded here
    before it is pushed."""
    last_handled_withdrawal: str | None = None
    """The value of the annotation operator.werf.dev/withdraw that was handled last."""


PUSH_FAULTS: Final = frozenset(
    {
        *REGISTRY_FAULTS,
        BundleReason.PUSH_REFUSED,
        AttestReason.ATTEST_KEY_INVALID,
        BundleReason.FORBIDDEN,
    }
)
"""Reasons of a AttestFault."""

StatementKey = tuple[str | None, str | None, str | None, bool]


def key_of(record: AttestStatus) -> StatementKey:
    """What names a statement, whatever its dates: its failures are counted by it."""
    return record.digest, record.environment, record.reference, record.is_positive


def describe_record(record: AttestStatus) -> str:
    """How messages name a statement; those of its faults begin with it."""
    what = "the statement" if record.is_positive else "the withdrawal of the statement"
    version = f"{record.version} ({(record.digest or '')[:19]})"
    return f"{what} that {version} stands in {record.environment}"


SPEC: Final = (AttestSpec,)
STATUS: Final = (AttestationsStatus,)
TEXTS: Final = (AttestState,)
CONDITIONS: Final = (
    BundleCondition(ATTESTED, 7, "the registry has the statement about what is deployed"),
)
