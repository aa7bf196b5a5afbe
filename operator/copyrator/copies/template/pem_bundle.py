"""The bundle of certificates in PEM that the filter pem_bundle makes.

It has each certificate once, encoded again from its DER, so that neither a private key nor a
comment can be part of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import ssl
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.copies.template.scope import Meter, SourceObject, TemplateError, origin_of

if TYPE_CHECKING:
    from cryptography import x509

ALL_KEYS: Final = "*"
"""As key: all keys of a source's data, sorted."""
CERTIFICATE_STEPS: Final = 40
"""Steps for each certificate: reading one takes 20 us."""

_TRUSTED: Final = "TRUSTED CERTIFICATE"
"""OpenSSL's form: a certificate, then for what it is trusted."""
_LABELS: Final = ("CERTIFICATE", "X509 CERTIFICATE", _TRUSTED)

_BEGINS: Final = {f"-----BEGIN {label}-----": label for label in _LABELS}
_ENDS: Final = {f"-----END {label}-----": label for label in _LABELS}
_MARK: Final = re.compile(r"(?<!-)-{2,}+\s*+(?:BEGIN|END)\b", re.IGNORECASE)
"""A marker of whatever else is in PEM, of SSH2's keys, or a misspelt one."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)

_TLS_USES: Final = frozenset(
    {
        bytes.fromhex("2b06010505070301"),  # serverAuth
        bytes.fromhex("2b06010505070302"),  # clientAuth
        bytes.fromhex("551d2500"),  # anyExtendedKeyUsage
    }
)
_SEQUENCE: Final = 0x30
_REJECTED: Final = 0xA0
"""The tag of the uses for which a TRUSTED CERTIFICATE is rejected (OpenSSL's X509_CERT_AUX)."""
_LENGTH_OCTETS: Final = 4

Reveal = Callable[[Any], Any]
"""Reads a value, which may be withheld."""


def bundled(
    meter: Meter, values: Sequence[Any], *, key: str | None, now: datetime | None, reveal: Reveal
) -> tuple[str, datetime | None]:
    """The certificates as PEM, in order; without those that ended before `now`.

    Returns:
        The text, and where `now` is given, when the first certificate in it ends.

    Raises:
        TemplateError: something else in PEM is in a value, or no certificate is left.
    """
    found: dict[bytes, bytes] = {}
    until: datetime | None = None
    for value, where in _texts(meter, values, key, reveal):
        for der in _certificates(meter, value, where):
            certificate = _load(der, where)
            if now is not None:
                ends = certificate.not_valid_after_utc
                if ends < now:
                    continue
                until = ends if until is None else min(until, ends)
            found.setdefault(hashlib.sha256(der).digest(), der)
    if not found:
        raise TemplateError("pem_bundle: there is no certificate that could be written")
    meter.make(2 * sum(map(len, found.values())))
    return "".join(map(ssl.DER_cert_to_PEM_cert, found.values())), until


def _texts(
    meter: Meter, values: Sequence[Any], key: str | None, reveal: Reveal
) -> Iterator[tuple[str, str]]:
    """Each text with its origin; of objects the key's."""
    for value in values:
        if isinstance(value, SourceObject):
            yield from _of_object(meter, value, key, reveal)
            continue
        text = reveal(value)
        if not isinstance(text, str):
            raise TemplateError("pem_bundle takes sources, and texts of certificates")
        yield text, origin_of(value)


def _of_object(
    meter: Meter, source: SourceObject, key: str | None, reveal: Reveal
) -> Iterator[tuple[str, str]]:
    where = origin_of(source)
    if key is None:
        raise TemplateError(f"pem_bundle needs the key of {where}: pem_bundle(key='ca.crt')")
    plain = {} if source.get("kind") == "Secret" else source.get("data") or {}
    encoded = source.get("data" if source.get("kind") == "Secret" else "binaryData") or {}
    meter.take(len(plain) + len(encoded) if key == ALL_KEYS else 1)
    for name in sorted({*plain, *encoded}) if key == ALL_KEYS else [key]:
        value = plain.get(name)
        if value is not None:
            yield reveal(value), origin_of(value)
            continue
        value = encoded.get(name)
        if value is None:
            if not source.may_lack_keys:
                raise TemplateError(f"{where} has no key {name}")
            meter.findings.pass_over(where, f"has no key {name}")
            continue
        text = reveal(value)
        meter.take(10, 2 * len(text))
        yield _decoded(text, origin_of(value)), origin_of(value)


def _decoded(text: str, where: str) -> str:
    """The text of a file, which may be in any encoding outside of its certificates."""
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where} isn't in base64") from None
    encoding = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8"
    return content.decode(encoding, "replace")


def _certificates(meter: Meter, text: str, where: str) -> Iterator[bytes]:
    """The DER of each certificate in a text; what is outside of its blocks is skipped."""
    meter.take(10, 4 * len(text))
    lines = [line.strip() for line in text.replace("\ufeff", "").splitlines()]
    any_block = False
    for label, der in _blocks(meter, lines, where):
        any_block = True
        plain = _without_trust(meter, der, where) if label == _TRUSTED else der
        if plain is not None:
            yield plain
    if any_block:
        return
    if any(line and not line.startswith("#") for line in lines):
        raise TemplateError(f"{where}: there is no certificate in PEM")
    meter.findings.pass_over(where, "has no certificate")


def _blocks(meter: Meter, lines: Sequence[str], where: str) -> Iterator[tuple[str, bytes]]:
    """The label and content of each block."""
    block: list[str] | None = None
    label = ""
    for number, line in enumerate(lines, start=1):
        if block is None:
            if line in _BEGINS:
                meter.take(CERTIFICATE_STEPS)
                block, label = [], _BEGINS[line]
            elif not line.startswith("#"):
                _check_outside(line, f"{where}, line {number}")
        elif _ENDS.get(line) == label:
            yield label, _der(block, where, number)
            block = None
        elif _BASE64.fullmatch(line):
            block.append(line)
        else:
            raise TemplateError(f"{where}, line {number}: isn't a line of a certificate in PEM")
    if block is not None:
        raise TemplateError(f"{where}: the last certificate has no end")


def _check_outside(line: str, where: str) -> None:
    """Refuse what is no mere text: keys, other objects in PEM, and misspelt markers."""
    if not _MARK.search(line):
        return
    upper = line.upper()
    if "PRIVATE KEY" in upper:
        raise TemplateError(f"{where}: there is a private key; a bundle is made of certificates")
    if "-----" in line or "KEY" in upper or "CERTIFICATE" in upper:
        raise TemplateError(f"{where}: only certificates in PEM may be in a bundle")


def _der(lines: Sequence[str], where: str, number: int) -> bytes:
    try:
        return base64.b64decode("".join(lines), validate=True)
    except binascii.Error:
        raise TemplateError(f"{where}: the certificate up to line {number} isn't base64") from None


def _without_trust(meter: Meter, der: bytes, where: str) -> bytes | None:
    """The certificate in a TRUSTED CERTIFICATE; None where that isn't trusted for TLS."""
    try:
        plain, trust = der[: _end_of(der)], der[_end_of(der) :]
        uses = dict(_elements(_value(trust))) if trust else {}
        trusted = {value for _, value in _elements(uses.get(_SEQUENCE, b""))}
        rejected = {value for _, value in _elements(uses.get(_REJECTED, b""))}
    except (IndexError, ValueError):
        raise TemplateError(f"{where}: a certificate can't be read") from None
    if rejected & _TLS_USES or (_SEQUENCE in uses and not trusted & _TLS_USES):
        meter.findings.pass_over(where, "has a certificate that isn't trusted for TLS")
        return None
    return plain


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The tags and values of DER elements in a row."""
    while content:
        yield content[0], _value(content)
        content = content[_end_of(content) :]


def _value(content: bytes) -> bytes:
    """The value of the first element."""
    return content[_header(content)[0] : _end_of(content)]


def _end_of(content: bytes) -> int:
    """Where the first element ends.

    Raises:
        IndexError, ValueError: it isn't DER.
    """
    start, length = _header(content)
    if start + length > len(content):
        raise ValueError(content)
    return start + length


def _header(content: bytes) -> tuple[int, int]:
    """The lengths of the first element's header and value."""
    length = content[1]
    if length < 0x80:
        return 2, length
    octets = length & 0x7F
    if not 1 <= octets <= _LENGTH_OCTETS or octets > len(content) - 2:
        raise ValueError(octets)
    return 2 + octets, int.from_bytes(content[2 : 2 + octets])


def _load(der: bytes, where: str) -> x509.Certificate:
    from cryptography import x509  # noqa: PLC0415

    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.not_valid_after_utc  # noqa: B018 - may raise
    except Exception:
        raise TemplateError(f"{where}: a certificate can't be read") from None
    return certificate
