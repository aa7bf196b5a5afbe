"""Whom to trust: entries of ``spec.verify`` and of the operator's signature policy; the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from copyrator.api.object_refs import NO_OBJECT, LocalObjectRef
from copyrator.api.schema import Form, Record, Rule, fail, items, text
from copyrator.api.tagfilter import TAG_FILTER_LENGTH, FilterError, compile_filter
from copyrator.api.text import matching

SIGNATURE_ENTRIES: Final = 10
"""Entries of one requirement."""

_ISSUER: Final = matching(
    r"(?s)https?://.*", "isn't the URL of an issuer; for example https://accounts.google.com", 512
)


def _pattern(value: str) -> str | None:
    try:
        compile_filter(value)
    except FilterError as error:
        return f"isn't a valid regular expression: {error}"
    return None


class Cosign(Form):
    """Signatures of cosign: by public keys, or without keys by a certificate of a subject."""

    keys_from: LocalObjectRef | None = None
    """Public keys in PEM, one or more in each key of the object; one that signed is enough."""
    issuer: Annotated[str, text(_ISSUER, most=512)] = ""
    """URL of the OIDC issuer of the signer's certificate."""
    subject_pattern: Annotated[str, text(_pattern, most=TAG_FILTER_LENGTH)] = ""
    """Regular expression (RE2) that the whole subject of the certificate must match; an e-mail
    address or a URI."""
    trusted_root_from: LocalObjectRef | None = None
    """The sigstore trusted root (trusted_root.json)."""

    RULES = (
        Rule(
            "has(self.keysFrom) ? !has(self.issuer) && !has(self.subjectPattern) && "
            "!has(self.trustedRootFrom) : has(self.issuer) && has(self.subjectPattern) && "
            "has(self.trustedRootFrom)",
            "cosign must have either keysFrom, or issuer, subjectPattern and trustedRootFrom",
        ),
    )

    def __post_init__(self) -> None:
        identity = {
            "issuer": self.issuer,
            "subjectPattern": self.subject_pattern,
            "trustedRootFrom": self.trusted_root_from,
        }
        if self.keys_from is not None:
            if extra := next((name for name, found in identity.items() if found), ""):
                fail(extra, "must be removed: keysFrom is set; use an entry of its own")
        elif not any(identity.values()):
            fail("keysFrom", "is required, or issuer, subjectPattern and trustedRootFrom")
        elif missing := next((name for name, found in identity.items() if not found), ""):
            fail(missing, NO_OBJECT if missing == "trustedRootFrom" else "is required")


class Notation(Form, kw_only=True):
    """Signatures of notation, by a certificate of a CA, or of a signing authority."""

    ca_from: LocalObjectRef | None = None
    """Root certificates in PEM."""
    subjects: Annotated[
        tuple[Annotated[str, text(most=512)], ...],
        items(20, 1, required='is required; ["*"] accepts every certificate of the CA'),
    ]
    """Subjects of signing certificates, such as C=US, ST=WA, O=example; attributes that aren't
    named may have any value. "*" alone accepts every certificate of the CA."""
    tsa_from: LocalObjectRef | None = None
    """Root certificates in PEM of time stamp authorities. With a time stamp of theirs a signature
    stays valid when its certificate has expired."""
    signing_authority_from: LocalObjectRef | None = None
    """Root certificates in PEM of signing authorities (the scheme notary.x509.signingAuthority),
    whose own signing time is believed."""

    RULES = (
        Rule(
            "has(self.caFrom) || has(self.signingAuthorityFrom)",
            "notation must have caFrom or signingAuthorityFrom",
        ),
    )

    def __post_init__(self) -> None:
        if self.ca_from is None and self.signing_authority_from is None:
            fail("caFrom", "is required, or signingAuthorityFrom")


class VerifyEntry(Form):
    """A signer, of one of the two kinds."""

    cosign: Cosign | None = None
    """Signatures of cosign, by public keys (keysFrom) or by an identity (issuer, subjectPattern and
    trustedRootFrom)."""
    notation: Notation | None = None
    """Signatures of notation, by certificates of a CA."""

    RULES = (
        Rule(
            "has(self.cosign) != has(self.notation)",
            "each entry must have either cosign or notation",
        ),
    )

    def __post_init__(self) -> None:
        if (self.cosign is None) is (self.notation is None):
            fail("cosign", "or notation is required, and only one of them in each entry")

    @property
    def refs(self) -> tuple[LocalObjectRef, ...]:
        """The objects that it names."""
        found: tuple[LocalObjectRef | None, ...] = ()
        if self.cosign is not None:
            found = self.cosign.keys_from, self.cosign.trusted_root_from
        elif self.notation is not None:
            notation = self.notation
            found = notation.ca_from, notation.tsa_from, notation.signing_authority_from
        return tuple(one for one in found if one is not None)


AnyOf = Annotated[
    tuple[VerifyEntry, ...],
    items(
        SIGNATURE_ENTRIES,
        1,
        noun="entries",
        required="is required: name who may sign, or remove the field above it",
    ),
]
"""Signers, of which one is enough."""


def refs_of(entries: Iterable[VerifyEntry]) -> tuple[LocalObjectRef, ...]:
    """The objects that entries name, each once."""
    return tuple(dict.fromkeys(ref for entry in entries for ref in entry.refs))


class Trust(StrEnum):
    """Whether what is deployed satisfies ``spec.verify`` and the operator's signature policy."""

    TRUSTED = "Trusted"
    NOT_TRUSTED = "NotTrusted"
    UNKNOWN = "Unknown"
    """It can't be determined now."""


class Verification(Record, frozen=True):
    """The verdict on the signatures of what is deployed."""

    FIELD: ClassVar[str] = "verification"
    """Whether the signatures of what is deployed satisfy spec.verify and the operator's signature
    policy, where one of them asks for signatures."""

    digest: str | None = None
    """The digest that was judged."""
    verdict: str | None = None
    """Trusted, NotTrusted or Unknown."""
    reason: str | None = None
    """Reason in CamelCase."""
    message: str | None = None
    """By whom it is signed, or why it isn't trusted."""
    policy: str | None = None
    """Hash of all that was asked for, keys included."""
