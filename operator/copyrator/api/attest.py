"""``spec.attest``: what the operator attests in the registry of the digest that is deployed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec

from copyrator.api.bundle_spec import Part
from copyrator.api.promotion import ENVIRONMENT
from copyrator.api.schema import Form, Rule, Takes, duration, fail
from copyrator.api.texts import DATA_KEY, OBJECT_NAME

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
    def own_key(self) -> AttestKey | None:
        """The key in the Bundle's namespace; None: the operator's."""
        return None if self.key_from.operator else self.key_from
