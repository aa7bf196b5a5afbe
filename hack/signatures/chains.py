"""Certificate authorities and the certificates of notation's signers and time stampers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from localcluster.signing import SigningKey, issue, key_usage, private_key

CODE_SIGNING = ExtendedKeyUsageOID.CODE_SIGNING
TIME_STAMPING = ExtendedKeyUsageOID.TIME_STAMPING
SUBJECT = "CN={name},O=Example,ST=Washington,C=US"
# Tests judge as of when the material was made, people may look at it later.
LONG = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Holder:
    """A key with its certificate and those above it, the root last."""

    key: SigningKey
    chain: tuple[x509.Certificate, ...]

    @property
    def root(self) -> str:
        """The root's certificate, PEM."""
        return self.chain[-1].public_bytes(serialization.Encoding.PEM).decode()

    @property
    def subject(self) -> str:
        """The certificate's subject as trust policies write it."""
        return self.chain[0].subject.rfc4514_string()

    def write(self, directory: Path, name: str) -> None:
        """Write ``NAME.key`` and ``NAME.crt``, the chain."""
        (directory / f"{name}.key").write_text(private_key(self.key), encoding="ascii")
        pem = [one.public_bytes(serialization.Encoding.PEM) for one in self.chain]
        (directory / f"{name}.crt").write_bytes(b"".join(pem))


def authority(name: str, above: Holder | None = None) -> Holder:
    """A CA: a root, or one below another."""
    return leaf(name, above, purposes=(), digital_signature=False, is_ca=True)


def leaf(
    name: str,
    above: Holder | None,
    key: SigningKey | None = None,
    *,
    validity: timedelta = LONG,
    purposes: Sequence[ObjectIdentifier] = (CODE_SIGNING,),
    digital_signature: bool = True,
    is_ca: bool = False,
    critical: bool = False,
) -> Holder:
    """A signer's certificate.

    Args:
        name: its common name.
        above: who issues it; None: itself.
        key: ECDSA P-256 without it.
        validity: from now on.
        purposes: the extended key usage; empty: no such extension.
        digital_signature: whether its key usage is that; else key encipherment.
        is_ca: whether it is a CA too.
        critical: whether the extended key usage is critical.
    """
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name.from_rfc4514_string(SUBJECT.format(name=name))
    # A little earlier: certificates have whole seconds.
    begin = datetime.now(UTC) - timedelta(seconds=1)
    uses = {"key_cert_sign": is_ca, "digital_signature": digital_signature}
    chosen = [name for name, wanted in uses.items() if wanted] or ["key_encipherment"]
    issuer = (above.chain[0].subject, above.key) if above else (subject, key)
    certificate = issue(
        subject,
        key,
        issuer,
        (begin, begin + validity),
        (x509.BasicConstraints(ca=is_ca, path_length=None), True),
        (key_usage(*chosen), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer[1].public_key()), False),
        *([(x509.ExtendedKeyUsage(purposes), critical)] if purposes else []),
    )
    return Holder(key, (certificate, *(above.chain if above else ())))
