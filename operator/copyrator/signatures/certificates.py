"""Single X.509 certificates: their readable parts, and the strength of their key and hash.

Certificates come from registries: ``cryptography`` reads parts of them lazily, so every access can
raise one of UNREADABLE.
"""

from __future__ import annotations

from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from copyrator.signatures.model import InvalidSignatureError

UNREADABLE: Final = (
    ValueError,
    TypeError,
    LookupError,
    OverflowError,
    AssertionError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
    UserWarning,
)
"""The exceptions that ``cryptography`` raises for malformed certificates and extensions, among them
its warning, where warnings are errors."""

RSA_BITS: Final = range(2048, 8192 + 1)
"""Sizes of RSA keys; the upper end bounds the time of a check."""

_CURVES: Final = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_HASHES: Final = (hashes.SHA256, hashes.SHA384, hashes.SHA512)

_T = TypeVar("_T", bound=x509.ExtensionType)


def describe(certificate: x509.Certificate) -> str:
    """The subject for messages of Invalid, which replaces unprintable characters."""
    try:
        text = certificate.subject.rfc4514_string()
    except UNREADABLE:
        return "with an unreadable name"
    return f'"{text[:117]}..."' if len(text) > 120 else f'"{text}"'


def check_strength(certificate: x509.Certificate, name: str) -> None:
    """Refuse keys other than RSA of 2048 to 8192 bits and P-256, P-384, P-521; and SHA-1, MD5.

    Raises:
        Invalid: with this name of the certificate.
    """
    try:
        key, algorithm = certificate.public_key(), certificate.signature_hash_algorithm
    except UNREADABLE:
        raise InvalidSignatureError(
            f"{name} has a key or a signature of an unsupported kind"
        ) from None
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in RSA_BITS:
            raise InvalidSignatureError(
                f"{name} has an RSA key of {key.key_size} bits, not of 2048 to 8192"
            )
    elif not (isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES)):
        raise InvalidSignatureError(
            f"{name} has a key that is neither RSA nor of P-256, P-384 or P-521"
        )
    if not isinstance(algorithm, _HASHES):
        raise InvalidSignatureError(f"{name} is not signed with SHA-256, SHA-384 or SHA-512")


def is_self_signed(certificate: x509.Certificate) -> bool:
    """Whether its own key signed it, and it names itself as its issuer."""
    return is_issued_by(certificate, certificate)


def is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Whether the issuer's key signed it, and it names the issuer."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, *UNREADABLE):
        return False
    return True


def is_ca(certificate: x509.Certificate) -> bool:
    """Whether its basicConstraints say that it may issue certificates.

    Raises:
        Invalid: an extension can't be read.
    """
    try:
        constraints = find_extension(certificate, x509.BasicConstraints)
    except UNREADABLE:
        raise InvalidSignatureError("an extension of a certificate can't be read") from None
    return constraints is not None and constraints.value.ca


def find_extension(certificate: x509.Certificate, kind: type[_T]) -> x509.Extension[_T] | None:
    """An extension, or None. Raises one of UNREADABLE."""
    try:
        return certificate.extensions.get_extension_for_class(kind)
    except x509.ExtensionNotFound:
        return None
