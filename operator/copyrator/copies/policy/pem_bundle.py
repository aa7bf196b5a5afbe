"""Bundles certificates: each once, and nothing but certificates.

The output is encoded again from the certificates' DER, so that neither a private key nor a
comment can be part of it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from cryptography import x509

from copyrator.copies.policy.template_meter import Meter, TemplateError
from copyrator.copies.policy.template_values import SourceObject, origin_of

ALL_KEYS: Final = "*"
"""As key: all keys of a source's data, sorted."""
CERTIFICATE_STEPS: Final = 40
"""Steps for each certificate: reading one takes 20 us."""

_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"
_LINE: Final = 64
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)

Reveal = Callable[[Any], Any]
"""Reads a value, which may be withheld."""


def bundled(
    meter: Meter, values: Sequence[Any], *, key: str | None, now: datetime | None, reveal: Reveal
) -> tuple[str, datetime | None]:
    """The certificates as PEM, in order; without those that ended before `now`.

    Returns:
        The text, and where `now` is given, when the first certificate in it ends.

    Raises:
        TemplateError: anything else than certificates is in a value, or no certificate is left.
    """
    found: dict[bytes, bytes] = {}
    until: datetime | None = None
    for value, where in _texts(meter, values, key, reveal):
        for der in _certificates(meter, value, where):
            certificate = _read(der, where)
            if now is not None:
                ends = certificate.not_valid_after_utc
                if ends < now:
                    continue
                until = ends if until is None else min(until, ends)
            found.setdefault(hashlib.sha256(der).digest(), der)
    if not found:
        raise TemplateError("pem_bundle: there is no certificate that could be written")
    meter.make(2 * sum(map(len, found.values())))
    return "".join(map(_pem, found.values())), until


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
    data = source.get("data") or {}
    meter.take(len(data) if key == ALL_KEYS else 1)
    keys = sorted(data) if key == ALL_KEYS else [key]
    for name in keys:
        value = data.get(name)
        if value is None:
            raise TemplateError(f"{where} has no key {name}")
        text = reveal(value)
        if source.get("kind") == "Secret":
            meter.take(10, 2 * len(text))
            text = _decoded(text, origin_of(value))
        yield text, origin_of(value)


def _decoded(text: str, where: str) -> str:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True).decode()
    except (UnicodeError, binascii.Error):
        raise TemplateError(f"{where} isn't text in base64") from None


def _certificates(meter: Meter, text: str, where: str) -> Iterator[bytes]:
    """The DER of each certificate in a text; empty lines and lines with # are skipped."""
    meter.take(10, 4 * len(text))
    block: list[str] | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if block is None:
            if line == _BEGIN:
                meter.take(CERTIFICATE_STEPS)
                block = []
            elif line and not line.startswith("#"):
                raise TemplateError(
                    f"{where}, line {number}: only certificates in PEM may be in a bundle"
                )
        elif line == _END:
            yield _der(block, where, number)
            block = None
        elif _BASE64.fullmatch(line):
            block.append(line)
        else:
            raise TemplateError(f"{where}, line {number}: isn't a line of a certificate in PEM")
    if block is not None:
        raise TemplateError(f"{where}: the last certificate has no end")


def _der(lines: Sequence[str], where: str, number: int) -> bytes:
    try:
        return base64.b64decode("".join(lines), validate=True)
    except binascii.Error:
        raise TemplateError(f"{where}: the certificate up to line {number} isn't base64") from None


def _read(der: bytes, where: str) -> x509.Certificate:
    try:
        certificate = x509.load_der_x509_certificate(der)
        certificate.not_valid_after_utc  # noqa: B018 - may raise
    except Exception:
        raise TemplateError(f"{where}: a certificate can't be read") from None
    return certificate


def _pem(der: bytes) -> str:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""])
