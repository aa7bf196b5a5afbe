"""Sigstore bundles v0.3, as cosign 3 signs images: an in-toto statement in a DSSE envelope.

As ``cosign verify --key --insecure-ignore-tlog`` (3.1, ``VerifyNewBundle`` and
``verifyImageAttestationsSigstoreBundle``), and stricter: the predicate type has to be cosign's for
signatures, where cosign also accepts an attestation, and only JSON in the form of its encoder is
read. With a key, log entries and time stamps are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from copyrator.signatures import keys
from copyrator.signatures.model import Artifact, CosignKeys, InvalidSignatureError, Signature
from copyrator.signatures.strict_json import decode, decode_base64

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
SIGNATURE_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
SUBJECTS = 1024
"""Subjects of one statement, as in sigstore-go."""


class _EnvelopeSignature(msgspec.Struct, forbid_unknown_fields=True):
    sig: str
    keyid: str | None = None


class _DsseEnvelope(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    payload: str
    payload_type: str
    signatures: list[_EnvelopeSignature]


class _Material(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    public_key: dict[str, Any] | None = None
    certificate: dict[str, Any] | None = None
    x509_certificate_chain: dict[str, Any] | None = None
    tlog_entries: Any = None
    timestamp_verification_data: Any = None


class _Bundle(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    media_type: str
    verification_material: _Material
    dsse_envelope: _DsseEnvelope | None = None
    message_signature: dict[str, Any] | None = None


class _StatementSubject(msgspec.Struct):
    digest: dict[str, str] = {}


class _Statement(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    type: str = msgspec.field(name="_type")
    predicate_type: str
    subject: list[_StatementSubject]
    predicate: Any = None


@dataclass(frozen=True, slots=True)
class SignedContent:
    """The signed content of a bundle, not verified yet."""

    payload: bytes
    signature: bytes
    has_certificate: bool
    """Whether it is signed with a certificate in the bundle, else with a key."""

    @property
    def signed(self) -> bytes:
        """The bytes that are signed: DSSE's pre-authentication encoding."""
        kind = PAYLOAD_TYPE.encode()
        return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(self.payload), self.payload)


def verify(
    artifact: Artifact, signature: Signature, entry: CosignKeys, now: datetime
) -> datetime | None:
    """Verify that one of the keys signed this artifact.

    Returns:
        None, as a key has no end.

    Raises:
        Invalid: the signature isn't accepted.
    """
    del now
    envelope = signature.once(read_envelope, signature.blob)
    if envelope.has_certificate:
        raise InvalidSignatureError("it is signed with a certificate (keyless), not with a key")
    keys.signer(entry.keys, envelope.signature, envelope.signed)
    signature.once(check_statement, envelope.payload, artifact)
    return None


def read_envelope(blob: bytes) -> SignedContent:
    """Read a bundle of an image's signature.

    Raises:
        Invalid: it isn't one, or it is of a kind that isn't supported.
    """
    bundle = decode("the bundle", blob, _Bundle)
    if bundle.media_type != MEDIA_TYPE:
        raise InvalidSignatureError(
            f"the bundle's media type {bundle.media_type[:100]!r} is not supported: sign with "
            f"cosign 3, or 2.6 and --new-bundle-format (v0.3)"
        )
    if bundle.message_signature is not None:
        raise InvalidSignatureError(
            "the bundle has a message signature, as `cosign sign-blob` makes it, which is not "
            "supported: sign with `cosign sign`"
        )
    if bundle.dsse_envelope is None:
        raise InvalidSignatureError("the bundle has no DSSE envelope")
    has_certificate = _has_certificate(bundle.verification_material)
    if bundle.dsse_envelope.payload_type != PAYLOAD_TYPE:
        raise InvalidSignatureError(f"the envelope's payload type is not {PAYLOAD_TYPE}")
    if len(bundle.dsse_envelope.signatures) != 1:
        raise InvalidSignatureError("the envelope doesn't have exactly one signature")
    if bundle.dsse_envelope.signatures[0].keyid:
        raise InvalidSignatureError(
            "the envelope's signature has a key id, which cosign doesn't write"
        )
    return SignedContent(
        payload=decode_base64("the envelope's payload", bundle.dsse_envelope.payload),
        signature=decode_base64("the envelope's signature", bundle.dsse_envelope.signatures[0].sig),
        has_certificate=has_certificate,
    )


def check_statement(payload: bytes, artifact: Artifact) -> None:
    """Check the claims of a verified envelope.

    Raises:
        Invalid: it is an attestation, or about another digest.
    """
    statement = decode("the statement", payload, _Statement)
    if statement.predicate_type != SIGNATURE_PREDICATE:
        raise InvalidSignatureError(
            f"it is an attestation ({statement.predicate_type[:100]}), which is not a signature: "
            "sign with `cosign sign`"
        )
    if statement.type != STATEMENT_TYPE:
        raise InvalidSignatureError(
            f"the statement's type is not {STATEMENT_TYPE}, which `cosign sign` writes"
        )
    if len(statement.subject) > SUBJECTS:
        raise InvalidSignatureError(f"the statement has more than {SUBJECTS} subjects")
    claimed = [f"sha256:{each.digest.get('sha256', '')}" for each in statement.subject]
    if artifact.digest not in claimed:
        first = claimed[0] if claimed else "no subject"
        raise InvalidSignatureError(f"the signature is for another digest: {first}")


def _has_certificate(material: _Material) -> bool:
    kinds = (material.public_key, material.certificate, material.x509_certificate_chain)
    if sum(each is not None for each in kinds) != 1:
        raise InvalidSignatureError(
            "the bundle must have either a public key's hint or a certificate"
        )
    if material.x509_certificate_chain is not None:
        raise InvalidSignatureError(
            "the bundle has a chain of certificates, which v0.3 doesn't allow"
        )
    return material.certificate is not None
