"""Signatures of the Notary Project (``notation sign``) in JWS envelopes.

One is valid for an entry, as for ``notation verify`` with the level strict and
``verifyTimestamp: afterCertExpiry``, if:

- the envelope is as specified and its signature is by the key of its first certificate;
- its target has the artifact's digest, media type and size;
- scheme notary.x509: its chain leads to a root of ``NotationTrust.ca`` and is valid now, or was at
  the time of an RFC 3161 time stamp over the signature by an authority of ``tsa``;
- scheme notary.x509.signingAuthority: its chain leads to a root of ``signing_authorities`` and was
  valid at the authentic signing time. notation's trust store of that name is separate from ``ca``:
  otherwise a holder of an expired certificate of that CA could claim a time at which it was valid;
- the signer's subject is a trusted one (``x509.subject: …``): it has each of the listed attributes
  once, with an equal value, character for character, and may have others;
- its expiry is not reached.

Not supported: COSE envelopes (the finder names them), notation's verification plugins (refused by
name), and revocation lists and OCSP, which aren't queried.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

import rfc3161_client
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from copyrator.signatures.certificates import (
    SIGNATURE_CHAIN,
    UNREADABLE,
    Purpose,
    check_strength,
    describe,
    is_ca,
    is_issued_by,
    order_chain,
    verify_chain,
)
from copyrator.signatures.jws_envelope import (
    SCHEME_AUTHORITY,
    JwsEnvelope,
    check_target,
    read_envelope,
    verify_signature,
)
from copyrator.signatures.model import (
    SIGNATURE_ROOT_BYTES,
    Artifact,
    InvalidSignatureError,
    NotationTrust,
    NotYetValidError,
    Signature,
    TrustError,
)

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

    As with notation, a name needs C, ST (or S) and O, has no attribute twice, no value in
    hexadecimal (``=#``) and no element with several (``+``). Source: trust store and trust policy
    specification of the Notary Project; RFC 4514.

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


_PEM_LABEL: Final = re.compile(rb"-----BEGIN ([^\n-]{1,60})-----")


@lru_cache(maxsize=32)
def load_roots(file_name: str, pem: bytes) -> tuple[x509.Certificate, ...]:
    """The self-signed certificates of a file; CAs below them are left out.

    The roots are those of signers, of signing authorities or of time stamp authorities.

    Raises:
        TrustError: it is empty or too large, has something other than certificates in PEM (as a
            private key), a weak key or hash, a certificate that is neither a CA nor self-signed, or
            no root.
    """
    roots = []
    for number, certificate in enumerate(_load_pem(file_name, pem), 1):
        try:
            check_strength(certificate, f"certificate {number}")
            is_root = is_issued_by(certificate, certificate)
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
    if len(pem) > SIGNATURE_ROOT_BYTES:
        size, limit = len(pem), SIGNATURE_ROOT_BYTES
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


_COMMON_FAULT: Final = "the trust of this entry can't be used"


def verify(
    artifact: Artifact, signature: Signature, entry: NotationTrust, now: datetime
) -> datetime | None:
    """Judge one envelope for one entry, whose files and subjects were accepted.

    Returns:
        The end of the verdict: the envelope's expiry, and unless a time stamp proves an earlier
        time, the earliest end of the chain's certificates; None: no end.

    Raises:
        Invalid: it isn't valid, with the reason.
    """
    try:
        envelope = signature.once(_read, signature.blob, artifact)
        end = _verify_trust(envelope, entry, now)
        check_subject(envelope.chain[0], read_subjects(entry.subjects))
    except TrustError as fault:
        raise InvalidSignatureError(f"{_COMMON_FAULT}: {fault}") from None
    if envelope.expiry is not None and now >= envelope.expiry:
        raise InvalidSignatureError(f"it expired at {envelope.expiry:%Y-%m-%dT%H:%M:%SZ}")
    return min((one for one in (end, envelope.expiry) if one is not None), default=None)


def _read(blob: bytes, artifact: Artifact) -> JwsEnvelope:
    """The envelope after all checks that are the same for every entry."""
    envelope = read_envelope(blob)
    verify_signature(envelope)
    check_target(envelope, artifact)
    return envelope


def _verify_trust(envelope: JwsEnvelope, entry: NotationTrust, now: datetime) -> datetime | None:
    """The end of the verdict by the certificates; None: it was proven to be signed while valid."""
    if envelope.scheme == SCHEME_AUTHORITY:
        if not entry.signing_authorities:
            raise InvalidSignatureError("it is by a signing authority, and the entry trusts none")
        roots = load_roots("the signing authorities' file", entry.signing_authorities)
        verify_chain(envelope.chain, roots, Purpose.CODE_SIGNING, envelope.signing_time)
        return None
    roots = load_roots("the CA's file", entry.ca)
    try:
        verify_chain(envelope.chain, roots, Purpose.CODE_SIGNING, now)
    except InvalidSignatureError as fault:
        if not envelope.time_stamp:
            raise
        if not entry.tsa:
            raise _both(
                fault, InvalidSignatureError("the entry trusts no time stamp authority")
            ) from None
        try:
            _verify_time_stamp(envelope, roots, entry.tsa, now)
        except InvalidSignatureError as stamp_fault:
            raise _both(fault, stamp_fault) from None
        return None
    if entry.tsa and envelope.time_stamp and _has_time_stamp(envelope, roots, entry.tsa, now):
        return None
    return min(certificate.not_valid_after_utc for certificate in envelope.chain)


def _both(first: InvalidSignatureError, second: InvalidSignatureError) -> InvalidSignatureError:
    since = [one.since for one in (first, second) if isinstance(one, NotYetValidError)]
    reason = f"{first}; {second}"
    return NotYetValidError(reason, min(since)) if since else InvalidSignatureError(reason)


def _has_time_stamp(
    envelope: JwsEnvelope, roots: tuple[x509.Certificate, ...], tsa: bytes, now: datetime
) -> bool:
    try:
        _verify_time_stamp(envelope, roots, tsa, now)
    except InvalidSignatureError:
        return False
    return True


def _verify_time_stamp(
    envelope: JwsEnvelope, roots: tuple[x509.Certificate, ...], tsa: bytes, now: datetime
) -> None:
    tsa_roots = load_roots("the time stamp authorities' file", tsa)
    span = read_time_stamp(envelope.time_stamp, envelope.signature, tsa_roots)
    if span.latest > now:
        raise NotYetValidError("its time stamp is in the future", span.latest)
    for moment in {span.earliest, span.latest}:
        verify_chain(envelope.chain, roots, Purpose.CODE_SIGNING, moment)


_HASHES: Final = {
    x509.ObjectIdentifier("2.16.840.1.101.3.4.2.1"),
    x509.ObjectIdentifier("2.16.840.1.101.3.4.2.2"),
    x509.ObjectIdentifier("2.16.840.1.101.3.4.2.3"),
}
"""SHA-256, SHA-384, SHA-512."""


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """A time within the accuracy that its authority states."""

    earliest: datetime
    latest: datetime


def read_time_stamp(
    token: bytes, message: bytes, roots: Sequence[x509.Certificate]
) -> TimeInterval:
    """The time at which a message existed, by a time stamp token (CMS SignedData in DER).

    ``rfc3161_client`` checks the token's own signature, ``certificates`` the certificates of the
    time stamp authority. Neither reads the token's reference to its certificate (ESSCertIDv2, RFC
    5816): the certificate is found by issuer and serial number, and has to have the key that
    signed. The message is the stamped bytes: those of a signature.

    Raises:
        Invalid: the token can't be read, is for another message, or isn't by one of them.
    """
    try:
        response = rfc3161_client.decode_timestamp_response(_as_response(token))
        signed, stamp = response.signed_data, response.tst_info
        certificates = [x509.load_der_x509_certificate(der) for der in signed.certificates]
        signer = _find_signer(signed.signer_infos, certificates)
        span = _span(stamp)
        algorithms = signed.digest_algorithms
    except InvalidSignatureError:  # a ValueError
        raise
    except UNREADABLE:
        raise InvalidSignatureError("its time stamp can't be read") from None
    if not algorithms <= _HASHES:
        raise InvalidSignatureError(
            "its time stamp has a hash other than SHA-256, SHA-384 and SHA-512"
        )
    others = [certificate for certificate in certificates if certificate != signer]
    chain = order_chain(signer, others, roots)
    for moment in {span.earliest, span.latest}:
        verify_chain(chain, roots, Purpose.TIME_STAMPING, moment)
    verifier = rfc3161_client.VerifierBuilder(roots=[chain[-1]]).build()
    try:
        verifier.verify_message(response, message)
    except (rfc3161_client.VerificationError, ValueError) as fault:
        if "Mismatch" in str(fault):
            raise InvalidSignatureError("its time stamp is for another signature") from None
        raise InvalidSignatureError("the signature of its time stamp is not valid") from None
    return span


def _find_signer(
    infos: set[rfc3161_client.tsp.SignerInfo], certificates: Sequence[x509.Certificate]
) -> x509.Certificate:
    if len(infos) != 1 or len(certificates) > SIGNATURE_CHAIN:
        raise InvalidSignatureError(
            f"its time stamp has not one signer and up to {SIGNATURE_CHAIN} certificates"
        )
    (info,) = infos
    for certificate in certificates:
        if (certificate.issuer, certificate.serial_number) == (info.issuer, info.serial_number):
            return certificate
    raise InvalidSignatureError("its time stamp comes without the certificate of its signer")


def _span(stamp: rfc3161_client.tsp.TimeStampTokenInfo) -> TimeInterval:
    accuracy = stamp.accuracy  # None where the authority states none
    margin = timedelta()
    if accuracy is not None:
        margin = timedelta(
            seconds=accuracy.seconds or 0,
            milliseconds=accuracy.millis or 0,
            microseconds=accuracy.micros or 0,
        )
    return TimeInterval(stamp.gen_time - margin, stamp.gen_time + margin)


def _as_response(token: bytes) -> bytes:
    """The token in a TimeStampResp with the status granted, which the library requires."""
    content = bytes.fromhex("3003020100") + _sort_certificates(token)
    size = len(content)
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([0x30, 0x80 | len(octets)]) + octets + content  # more than 127, as every token


def _sort_certificates(token: bytes) -> bytes:
    """The token with sorted certificates: the library requires a DER set, which is sorted.

    ``openssl ts -chain`` doesn't sort them.

    The certificates aren't part of what is signed, and their order doesn't change any length.
    """
    place, _, _ = _element(token, 0)  # ContentInfo: contentType, [0] content
    _, _, place = _element(token, place)
    place, _, _ = _element(token, place)  # SignedData: version, digests, content, [0] certificates
    place, _, _ = _element(token, place)
    for _ in range(3):
        _, _, place = _element(token, place)
    start, tag, end = _element(token, place)
    if tag != 0xA0:
        return token
    certificates, place = [], start
    while place < end:
        _, _, after = _element(token, place)
        certificates.append(token[place:after])
        place = after
    return token[:start] + b"".join(sorted(certificates)) + token[end:]


def _element(der: bytes, place: int) -> tuple[int, int, int]:
    """Where the content of the element starts, its tag, and where it ends."""
    tag, length, start = der[place], der[place + 1], place + 2
    if length >= 0x80:
        octets = length - 0x80
        length, start = int.from_bytes(der[start : start + octets]), start + octets
    return start, tag, start + length
