"""X.509 certificates and their chains, by the Notary Project's requirements.

Certificates come from registries: ``cryptography`` reads parts of them lazily, so every access can
raise one of UNREADABLE.

Paths (signatures, validity, path lengths, name constraints) are built by
``cryptography.x509.verification``. It is made for TLS; its client verifier with custom extension
policies doesn't require a subjectAltName, and verifies chains for code signing and for time stamps.
The Notary Project's further requirements for certificates are checked here: kind and size of keys,
hashes, basicConstraints, keyUsage, extendedKeyUsage.

It is stricter than notation: the root itself has to be trusted (notation accepts any certificate of
the chain); an extension that is marked critical and isn't understood is refused (RFC 5280, 4.2);
name constraints are checked; no two certificates of a chain have the same name, as the library
would try all their orders. Revocation lists aren't queried.
Source: signature specification of the Notary Project, "Certificate Requirements".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID

from copyrator.signatures.model import InvalidSignatureError, NotYetValidError

SIGNATURE_CHAIN: Final = 10
"""Certificates in a signature's chain."""

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


_OTHER_PURPOSES: Final = {
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.CLIENT_AUTH,
    ExtendedKeyUsageOID.EMAIL_PROTECTION,
    ExtendedKeyUsageOID.TIME_STAMPING,
    ExtendedKeyUsageOID.OCSP_SIGNING,
}


class Purpose(Enum):
    """What a chain is for."""

    CODE_SIGNING = "code signing"
    TIME_STAMPING = "time stamps"


def verify_chain(
    chain: Sequence[x509.Certificate],
    roots: Sequence[x509.Certificate],
    purpose: Purpose,
    moment: datetime,
) -> None:
    """Check an ordered chain whose last certificate is one of the roots, all valid at that time.

    It has the signer's certificate, the CAs above it and the root, or a self-signed one alone: at
    least one, at most ``SIGNATURE_CHAIN``.

    Raises:
        Invalid: the chain isn't valid, or a certificate doesn't meet the requirements.
    """
    if chain[-1] not in roots:
        raise InvalidSignatureError(
            f"its chain ends at {describe(chain[-1])}, which is none of the trusted roots"
        )
    for certificate in chain:
        check_strength(certificate, f"certificate {describe(certificate)}")
        _check_validity(certificate, moment)
    try:
        _check_leaf(chain[0], purpose)
        for certificate in chain[1:]:
            _check_ca(certificate, purpose)
        _verify_path(chain, moment)
    except InvalidSignatureError:  # a ValueError
        raise
    except UNREADABLE:
        raise InvalidSignatureError("a certificate of its chain can't be read") from None


def order_chain(
    leaf: x509.Certificate, others: Sequence[x509.Certificate], roots: Sequence[x509.Certificate]
) -> list[x509.Certificate]:
    """The chain from a certificate to one of the roots, for verify_chain to check.

    Each step takes a root that issued the certificate, else one of the others: as many signatures
    are checked as there are certificates of the issuer's name, never all orders of the others.
    """
    chain = [leaf]
    while chain[-1] not in roots and len(chain) < SIGNATURE_CHAIN:
        issuer = next((one for one in (*roots, *others) if is_issued_by(chain[-1], one)), None)
        if issuer is None:
            break
        chain.append(issuer)
    return chain


def _verify_path(chain: Sequence[x509.Certificate], moment: datetime) -> None:
    """Check the path by the library.

    It tries every CA with the issuer's name, so two of one name are refused before.
    """
    if len({certificate.subject.public_bytes() for certificate in chain}) < len(chain):
        raise InvalidSignatureError("its chain has two certificates of the same name")
    anything = verification.ExtensionPolicy.permit_all()
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store([chain[-1]]))
        .time(moment.astimezone(UTC))
        .max_chain_depth(SIGNATURE_CHAIN)
        .extension_policies(
            ca_policy=anything.require_present(
                x509.BasicConstraints, verification.Criticality.CRITICAL, None
            ),
            ee_policy=anything,
        )
        .build_client_verifier()
    )
    try:
        path = verifier.verify(chain[0], list(chain[1:-1])).chain
    except verification.VerificationError as fault:
        reason = str(fault).partition(" (encountered")[0]  # goes on with the certificate
        raise InvalidSignatureError(
            f"the chain of {describe(chain[0])} is not valid: {reason}"
        ) from None
    if path != list(chain):
        raise InvalidSignatureError(
            "its chain is not in order, from the signer's certificate to the root"
        )


def _check_validity(certificate: x509.Certificate, moment: datetime) -> None:
    name = f"certificate {describe(certificate)}"
    if moment < certificate.not_valid_before_utc:
        since = certificate.not_valid_before_utc
        raise NotYetValidError(f"{name} is valid only from {since:%Y-%m-%dT%H:%M:%SZ}", since)
    if moment > certificate.not_valid_after_utc:
        raise InvalidSignatureError(
            f"{name} expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
        )


def _check_ca(certificate: x509.Certificate, purpose: Purpose) -> None:
    """Check a CA's keyUsage; the library has checked its basicConstraints and path length."""
    name = f"certificate {describe(certificate)} of a CA"
    usage = _key_usage(certificate, name, purpose)
    if not usage.key_cert_sign:
        raise InvalidSignatureError(f"{name} has no keyUsage keyCertSign")


def _check_leaf(certificate: x509.Certificate, purpose: Purpose) -> None:
    name = f"certificate {describe(certificate)} of the signer"
    if is_ca(certificate):
        raise InvalidSignatureError(f"{name} is a CA")
    usage = _key_usage(certificate, name, purpose)
    others = (
        usage.key_encipherment,
        usage.data_encipherment,
        usage.key_agreement,
        usage.key_cert_sign,
        usage.crl_sign,
    )  # encipherOnly and decipherOnly are defined only with keyAgreement
    if not usage.digital_signature or any(others):
        raise InvalidSignatureError(f"{name} has other keyUsage than digitalSignature")
    purposes = find_extension(certificate, x509.ExtendedKeyUsage)
    if purpose is Purpose.TIME_STAMPING:
        wanted = [ExtendedKeyUsageOID.TIME_STAMPING]
        if purposes is None or not purposes.critical or list(purposes.value) != wanted:
            raise InvalidSignatureError(
                f"{name} doesn't have exactly the critical extendedKeyUsage timeStamping"
            )
    elif purposes is not None and _OTHER_PURPOSES.intersection(purposes.value):
        raise InvalidSignatureError(f"{name} has an extendedKeyUsage for other than code signing")


def _key_usage(certificate: x509.Certificate, name: str, purpose: Purpose) -> x509.KeyUsage:
    usage = find_extension(certificate, x509.KeyUsage)
    if usage is None:
        raise InvalidSignatureError(f"{name} has no keyUsage")
    if purpose is Purpose.CODE_SIGNING and not usage.critical:
        raise InvalidSignatureError(f"{name} has a keyUsage that isn't critical")
    return usage.value
