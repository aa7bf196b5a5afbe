"""Reads when the certificates of an object end.

Only blocks that are marked as certificates are parsed; blocks that can't be parsed are skipped,
since the text between the markers may be anything. They count as certificates do, as parsing them
takes as long.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.certificates import (
    MAX_CERTIFICATES,
    MAX_COMMON_NAME,
    MAX_SOURCE,
    Certificate,
    soonest,
    whole_seconds,
)

if TYPE_CHECKING:
    from cryptography import x509

CERTIFICATE_KEYS: Final = 1000
"""Keys of one source that are searched for certificates."""

CERTIFICATE_BYTES: Final = 2 * 1024 * 1024
"""Bytes of one source that are searched for certificates: more than an object may have."""

CERTIFICATES_READ: Final = 1000
"""Certificates of one source that are read, some 20 us each, and blocks of PEM that turn out to be
none; the bundles of browsers have 150 certificates."""

CERTIFICATE_PEM: Final = 16 * 1024
"""Characters of one certificate in PEM; longer ones are skipped."""

_SHORTEST: Final = 200
"""Characters: no certificate is shorter."""
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_BLOCK: Final = re.compile(
    _BEGIN + rb"([A-Za-z0-9+/=\s]{1,%d}+)-----END CERTIFICATE-----" % CERTIFICATE_PEM
)
_ENCODED: Final = {("Secret", "data"), ("ConfigMap", "binaryData")}
"""Fields with values in base64."""
_PLAIN: Final = {("ConfigMap", "data")}

_Read = tuple[datetime, datetime, "x509.Certificate"]
"""A certificate after its end and its beginning."""
_Found = tuple[datetime, datetime, "x509.Certificate", str]
"""The same with its key."""


def certificates_in(
    kind: str,
    payload: Mapping[str, Any],
    source: str,
    *,
    copied: Callable[[str], bool] = lambda _key: True,
    ignored: Container[bytes] = (),
) -> tuple[Certificate, ...]:
    """The certificates of an object that end soonest; none of other kinds.

    ``copied``: whether a key of the object is copied; ``ignored``: certificates, by their DER.
    """
    first = sorted(_all(kind, payload, copied, ignored), key=lambda one: one[0])
    kept: dict[Certificate, None] = {}
    for ends, begins, certificate, key in first:  # names are read only of those that are kept
        one = Certificate(ends, source[:MAX_SOURCE], key[:MAX_SOURCE], _name(certificate), begins)
        kept[one] = None
        if len(kept) == MAX_CERTIFICATES:
            break
    return soonest(kept)


def _all(
    kind: str,
    payload: Mapping[str, Any],
    copied: Callable[[str], bool],
    ignored: Container[bytes],
) -> Iterator[_Found]:
    left, blocks = CERTIFICATE_BYTES, CERTIFICATES_READ
    for key, value in _values(kind, payload):
        left -= len(value)
        if left < 0:
            return
        if _BEGIN not in value or not copied(key):
            continue
        for block in _BLOCK.finditer(value):
            blocks -= 1
            if blocks < 0:
                return
            certificate = _read(block[1], ignored)
            if certificate is not None:
                yield *certificate, key


def _values(kind: str, payload: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    for field in ("data", "binaryData"):
        encoded = (kind, field) in _ENCODED
        values = payload.get(field)
        if not (encoded or (kind, field) in _PLAIN) or not isinstance(values, Mapping):
            continue
        for key, value in islice(values.items(), CERTIFICATE_KEYS):
            if not isinstance(value, str) or not _SHORTEST <= len(value) <= CERTIFICATE_BYTES:
                continue
            try:
                yield str(key), binascii.a2b_base64(value) if encoded else value.encode()
            except ValueError:
                continue  # not base64, or not text


def _read(block: bytes, ignored: Container[bytes]) -> _Read | None:
    from cryptography import x509  # noqa: PLC0415 - most rules copy no certificates

    try:
        der = binascii.a2b_base64(block)
        if der in ignored:
            return None
        certificate = x509.load_der_x509_certificate(der)
        ends = whole_seconds(certificate.not_valid_after_utc)
        begins = whole_seconds(certificate.not_valid_before_utc)
    except Exception:
        return None
    return ends, begins, certificate


def _name(certificate: x509.Certificate) -> str:
    """The common name, without what a terminal or a log could take for a command."""
    from cryptography import x509  # noqa: PLC0415

    try:
        found = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
        value = found[0].value if found else ""
    except Exception:
        return ""
    text = value if isinstance(value, str) else ""
    return "".join(one for one in text[:MAX_COMMON_NAME] if one.isprintable())
