"""Roots of trust: files of certificates that an entry names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from cryptography import x509

from copyrator.settings import limits
from copyrator.signatures.certificates import UNREADABLE, check_strength, is_ca, is_self_signed
from copyrator.signatures.model import InvalidSignatureError, TrustError

_PEM_LABEL: Final = re.compile(rb"-----BEGIN ([^\n-]{1,60})-----")


def read_roots(file_name: str, pem: bytes) -> None:
    """Check a file of roots: of signers, of signing authorities or of time stamp authorities.

    Raises:
        TrustError: it is empty or too large, has something other than certificates in PEM (as a
            private key), a weak key or hash, a certificate that is neither a CA nor self-signed, or
            no root.
    """
    load_roots(file_name, pem)


@lru_cache(maxsize=32)
def load_roots(file_name: str, pem: bytes) -> tuple[x509.Certificate, ...]:
    """The self-signed certificates of a file; CAs below them are left out.

    Raises:
        TrustError: as read_roots.
    """
    roots = []
    for number, certificate in enumerate(_load_pem(file_name, pem), 1):
        try:
            check_strength(certificate, f"certificate {number}")
            is_root = is_self_signed(certificate)
            is_usable = is_root or is_ca(certificate)
        except InvalidSignatureError as fault:
            raise TrustError(f"{file_name}: {fault}; use another CA") from None
        if not is_usable:
            raise TrustError(
                f"{file_name}: certificate {number} is no CA; put its CA's root certificate there"
            )
        roots += [certificate] * is_root
    if not roots:
        raise TrustError(f"{file_name} has no root: its CAs are issued by others; add the root")
    return tuple(roots)


def _load_pem(file_name: str, pem: bytes) -> list[x509.Certificate]:
    if len(pem) > limits.SIGNATURE_ROOT_BYTES:
        size, limit = len(pem), limits.SIGNATURE_ROOT_BYTES
        raise TrustError(f"{file_name} has {size} bytes, more than {limit}; keep only roots there")
    labels = _PEM_LABEL.findall(pem)
    if any(b"PRIVATE KEY" in label for label in labels):
        raise TrustError(
            f"{file_name} has a private key; put only certificates there, replace that key"
        )
    if not labels:
        raise TrustError(
            f"{file_name} has no certificate in PEM; put the CA's root certificate there"
        )
    if any(label != b"CERTIFICATE" for label in labels):
        raise TrustError(
            f"{file_name} has something other than certificates; put only certificates there"
        )
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except UNREADABLE:
        certificates = []
    if len(certificates) != len(labels):
        raise TrustError(f"{file_name} has a certificate that can't be read; put it there again")
    return certificates
