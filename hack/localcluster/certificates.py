"""Self-signed certificates, for tests and the demo."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from localcluster.signing import new_key

KEY: Final = new_key()
"""Of all certificates that are made here."""
PRIVATE: Final = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def self_signed(*names: str, begins: datetime, ends: datetime) -> str:
    """A certificate in PEM; with one common name for each of the names."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name) for name in names])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .sign(KEY, hashes.SHA256())
    )
    return made.public_bytes(Encoding.PEM).decode()
