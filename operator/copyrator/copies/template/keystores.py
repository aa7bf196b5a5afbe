"""Trust stores of certificates, JKS and PKCS#12, in which the same input makes the same bytes.

Copies are compared by their content, so nothing in a store may be random or a time of writing.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

Certificates = Mapping[bytes, "Certificate"]
"""By their DER, in order."""

ALIAS_NAME: Final = 200
"""Characters of a subject in an alias."""
SUBJECT: Final = 512
"""Bytes of a subject that is read: 0.1 ms. Those of public CAs have at most 213."""
MAC_ROUNDS: Final = 2_048
"""Of OpenSSL; they take 1 ms, and cryptography does them for its own MAC in any case."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_TRUSTED_CERTIFICATE: Final = 2
_SHA256: Final = bytes.fromhex("300d06096086480165030402010500")
"""AlgorithmIdentifier in DER."""
_SEQUENCE, _OCTETS, _INTEGER, _VERSION = 0x30, 0x04, 0x02, 0xA0
_BLOCK: Final = 64
"""Bytes of a block of SHA-256."""


def jks(certificates: Certificates, password: str) -> bytes:
    """Java's own format, version 2 (sun.security.provider.JavaKeyStore).

    An entry's time is the beginning of the certificate, as trust-manager writes it.
    """
    parts = [struct.pack(">III", 0xFEEDFEED, 2, len(certificates))]
    for der, alias in _aliases(certificates):
        begins = (certificates[der].not_valid_before_utc - _EPOCH) // _MILLISECOND
        parts += [struct.pack(">I", _TRUSTED_CERTIFICATE), _utf(alias), struct.pack(">q", begins)]
        parts += [_utf("X.509"), struct.pack(">I", len(der)), der]
    body = b"".join(parts)
    secret = password.encode("utf-16-be")
    check = hashlib.sha1(secret + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + check.digest()


def pkcs12(certificates: Certificates, password: str) -> bytes:
    """PKCS#12 (RFC 7292), not encrypted; with a password it has a MAC, without none.

    The attribute by which Java trusts a certificate is cryptography's part.
    """
    from cryptography.hazmat.primitives.serialization import NoEncryption  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415
        PKCS12Certificate,
        serialize_java_truststore,
    )

    entries = [
        PKCS12Certificate(certificates[der], alias.encode())
        for der, alias in _aliases(certificates)
    ]
    made = serialize_java_truststore(entries, NoEncryption())  # with a MAC, whose salt is random
    ((_, pfx, _),) = elements(made)
    _version, (_, content_info, end) = islice(elements(pfx), 2)
    result = pfx[:end]
    if password:
        _, (_, explicit, _) = elements(content_info)
        ((_, safe, _),) = elements(explicit)
        result += _mac(safe, password)
    return _element(_SEQUENCE, result)


def _mac(safe: bytes, password: str) -> bytes:
    """MacData.

    The salt is a hash of the content alone: with one of the password, guesses would need no rounds.
    """
    salt = hashlib.sha256(safe).digest()[:16]
    secret = password.encode("utf-16-be") + b"\0\0"
    key = bytes([3]) * _BLOCK + _filled(salt) + _filled(secret)
    for _ in range(MAC_ROUNDS):
        key = hashlib.sha256(key).digest()
    digest = hmac.digest(key, safe, "sha256")
    return _element(
        _SEQUENCE,
        _element(_SEQUENCE, _SHA256 + _element(_OCTETS, digest))
        + _element(_OCTETS, salt)
        + _element(_INTEGER, MAC_ROUNDS.to_bytes(2)),
    )


def _filled(text: bytes) -> bytes:
    """Repeated up to whole blocks (RFC 7292, appendix B.2)."""
    length = -(-len(text) // _BLOCK) * _BLOCK
    return (text * (length // len(text) + 1))[:length]


def _aliases(certificates: Certificates) -> Iterator[tuple[bytes, str]]:
    """A name for each, as trust-manager's: a part of the fingerprint, then the subject.

    Java drops one of two entries with one name, and finds those in lower case only.
    """
    taken = set[str]()
    for der, certificate in certificates.items():
        fingerprint = hashlib.sha256(der).hexdigest()
        short = fingerprint[:8]
        yield der, f"{fingerprint if short in taken else short}|{_subject(certificate)}"
        taken.add(short)


def _subject(certificate: Certificate) -> str:
    """Without what a terminal could take for a command, or Java writes in a form of its own."""
    try:
        if _subject_length(certificate) > SUBJECT:
            return ""
        found = certificate.subject.rfc4514_string()
    except Exception:
        return ""
    shown = (c if c.isprintable() and c <= "\uffff" else "?" for c in found[:ALIAS_NAME])
    return "".join(shown).lower()


def _subject_length(certificate: Certificate) -> int:
    ((_, content, _),) = elements(certificate.tbs_certificate_bytes)
    fields = [value for tag, value, _ in islice(elements(content), 6) if tag != _VERSION]
    return len(fields[4])  # after serial number, algorithm, issuer and validity


def _utf(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _element(tag: int, content: bytes) -> bytes:
    """In DER."""
    length = len(content)
    if length < 0x80:
        return bytes([tag, length]) + content
    octets = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes([tag, 0x80 | len(octets)]) + octets + content


_LENGTH_OCTETS: Final = 4


def elements(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """DER elements in a row: the tag and the value of each, and where it ends.

    Raises:
        IndexError, ValueError: it isn't DER.
    """
    end = 0
    while end < len(content):
        tag, length, start = content[end], content[end + 1], end + 2
        if length >= 0x80:
            octets = length & 0x7F
            if not 1 <= octets <= _LENGTH_OCTETS or octets > len(content) - start:
                raise ValueError(octets)
            length, start = int.from_bytes(content[start : start + octets]), start + octets
        end = start + length
        if end > len(content):
            raise ValueError(end)
        yield tag, content[start:end], end
