"""Distinguished names that an entry trusts, as notation's identities ``x509.subject: …``.

A name lists attributes of the signing certificate's subject: the subject must have each once, with
an equal value, character for character; it may have others. As with notation, a name needs C, ST
(or S) and O, has no attribute twice, no value in hexadecimal (``=#``) and no element with several
(``+``).
Source: trust store and trust policy specification of the Notary Project; RFC 4514.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from copyrator.signatures.certificates import UNREADABLE, describe
from copyrator.signatures.model import InvalidSignatureError, TrustError

ANY: Final = "*"
"""Any subject, alone in its list."""

_PREFIX: Final = "x509.subject:"
_ELEMENT: Final = re.compile(r"(?:[^\\,]|\\.)+")
_ELEMENTS: Final = re.compile(r"(?:[^\\,]|\\.)+(?:,(?:[^\\,]|\\.)+)*")
_FURTHER_NAMES: Final = {
    "S": NameOID.STATE_OR_PROVINCE_NAME,
    "POSTALCODE": NameOID.POSTAL_CODE,
    "SERIALNUMBER": NameOID.SERIAL_NUMBER,
}
_NEEDED: Final = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "O": NameOID.ORGANIZATION_NAME,
}
_REMEDY: Final = "write it as C=US,ST=WA,O=example.com, with CN=… where only one signer is meant"

Attributes = dict[ObjectIdentifier, str]


def read_subjects(subjects: Sequence[str]) -> tuple[Attributes, ...]:
    """The attributes that each name requires; empty where ``*`` allows any subject.

    Args:
        subjects: names in RFC 4514 form, with or without ``x509.subject:``, in any order of
            attributes; spaces around commas and equals signs don't count.

    Raises:
        TrustError: there is none, one isn't such a name, or ``*`` isn't alone.
    """
    if not subjects:
        raise TrustError('subjects is empty; name the signers, or write "*" for any of this CA')
    if ANY in subjects:
        if len(subjects) > 1:
            raise TrustError('subjects has "*" beside names; leave one of them out')
        return ()
    return tuple(_read_subject(subject) for subject in subjects)


def check_subject(certificate: x509.Certificate, trusted: Sequence[Attributes]) -> None:
    """Compare a certificate's subject with the result of read_subjects.

    Raises:
        Invalid: no name matches, or the subject has an attribute twice.
    """
    if not trusted:
        return
    found: Attributes = {}
    for attribute in _subject(certificate):
        if attribute.oid in found:
            raise InvalidSignatureError("the subject of its certificate has an attribute twice")
        found[attribute.oid] = str(attribute.value)
    if not any(wanted.items() <= found.items() for wanted in trusted):
        raise InvalidSignatureError(
            f"its signer {describe(certificate)} is none of the trusted subjects"
        )


def _subject(certificate: x509.Certificate) -> x509.Name:
    try:
        return certificate.subject
    except UNREADABLE:
        raise InvalidSignatureError("the subject of its certificate can't be read") from None


def _read_subject(subject: str) -> Attributes:
    text = subject.lstrip().removeprefix(_PREFIX)
    if not _ELEMENTS.fullmatch(text):
        raise TrustError(f"subject {_quote(subject)} is not a distinguished name; {_REMEDY}")
    found: Attributes = {}
    for element in _ELEMENT.findall(text):
        oid, value = _read_element(subject, element)
        if oid in found:
            raise TrustError(f"subject {_quote(subject)} has an attribute twice; {_REMEDY}")
        found[oid] = value
    missing = [name for name, oid in _NEEDED.items() if oid not in found]
    if missing:
        raise TrustError(f"subject {_quote(subject)} has no {', '.join(missing)}; {_REMEDY}")
    return found


def _read_element(subject: str, element: str) -> tuple[ObjectIdentifier, str]:
    name, _, value = element.partition("=")
    name, value = name.strip(), _strip_value(value)
    try:
        if not value or value.startswith("#"):
            raise ValueError("no text")
        (attribute,) = x509.Name.from_rfc4514_string(f"{name}={value}", _FURTHER_NAMES)
    except (ValueError, TypeError):
        fault = f"has {_quote(element.strip())}, which is not one attribute with a text"
        raise TrustError(f"subject {_quote(subject)} {fault}; {_REMEDY}") from None
    return attribute.oid, str(attribute.value)


def _strip_value(value: str) -> str:
    """The value without surrounding spaces, except one at the end that a backslash escapes."""
    stripped = value.strip()
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    is_escaped = backslashes % 2 and value.lstrip().startswith(stripped + " ")
    return stripped + " " if is_escaped else stripped


def _quote(text: str) -> str:
    return repr(text if len(text) <= 100 else text[:97] + "...")
