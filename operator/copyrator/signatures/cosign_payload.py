"""cosign's older signatures: layers of the tag ``sha256-HEX.sig``, simple signing.

As ``cosign verify --key --insecure-ignore-tlog`` (2.6, ``verifyInternal`` in pkg/cosign/verify.go),
and stricter: the claimed type has to be cosign's, names of members have to be written as cosign
writes them, and an ECDSA signature has to be in ASN.1.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from cryptography import x509

from copyrator.signatures import keys
from copyrator.signatures.model import (
    Artifact,
    CosignKeys,
    InvalidSignatureError,
    NotYetValidError,
    Signature,
)
from copyrator.signatures.strict_json import decode, decode_base64

MEDIA_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
"""The layer's; the finder accepts no other."""
SIGNATURE = "dev.cosignproject.cosign/signature"
"""Annotation: the signature of the payload's bytes, in base64."""
CERTIFICATE = "dev.sigstore.cosign/certificate"
"""Annotation: a certificate in PEM, where one was given to ``cosign sign --certificate``."""
TYPE = "cosign container image signature"


class _Image(msgspec.Struct):
    docker_manifest_digest: str = msgspec.field(name="docker-manifest-digest")


class _Critical(msgspec.Struct):
    image: _Image
    type: str


class _Payload(msgspec.Struct):
    critical: _Critical
    optional: dict[str, Any] | None = None


def verify(
    artifact: Artifact, signature: Signature, entry: CosignKeys, now: datetime
) -> datetime | None:
    """Verify that one of the keys signed this artifact.

    Returns:
        The end of the verdict's validity: None, or that of a certificate in the annotations. cosign
        doesn't check its issuer, but refuses it once expired, also with a key.

    Raises:
        Invalid: the signature isn't accepted.
    """
    text = signature.annotations.get(SIGNATURE)
    if text is None:
        raise InvalidSignatureError(f"the layer has no annotation {SIGNATURE}")
    read = signature.once(decode_base64, f"the annotation {SIGNATURE}", text)
    keys.signer(entry.keys, read, signature.blob)
    payload = signature.once(decode, "the payload", signature.blob, _Payload)
    if payload.critical.type != TYPE:
        raise InvalidSignatureError(f"the payload's critical.type is not {TYPE!r}")
    claimed = payload.critical.image.docker_manifest_digest
    if claimed != artifact.digest:
        raise InvalidSignatureError(f"the signature is for another digest: {claimed}")
    certificate = signature.annotations.get(CERTIFICATE)
    return None if not certificate else _end_of(certificate, now)


def _end_of(pem: str, now: datetime) -> datetime:
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        raise InvalidSignatureError(f"the annotation {CERTIFICATE} is not a certificate") from None
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start <= now <= end:
        reason = f"the certificate beside the signature is valid from {start} to {end} only"
        raise NotYetValidError(reason, start) if now < start else InvalidSignatureError(reason)
    return end
