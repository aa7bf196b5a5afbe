"""RFC 3161 time stamps over a signature, by a time stamp authority (TSA) that an entry trusts.

``rfc3161_client`` checks the token's own signature, ``certificates`` the certificates of the TSA.
Neither reads the token's reference to its certificate (ESSCertIDv2, RFC 5816): the certificate is
found by issuer and serial number, and has to have the key that signed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import rfc3161_client
from cryptography import x509

from copyrator.settings import limits
from copyrator.signatures.certificates import UNREADABLE, Purpose, order_chain, verify_chain
from copyrator.signatures.model import InvalidSignatureError

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


def read_time(token: bytes, message: bytes, roots: Sequence[x509.Certificate]) -> TimeInterval:
    """The time at which a message existed, by a time stamp token (CMS SignedData in DER).

    Args:
        token: a TimeStampToken.
        message: the stamped bytes: those of a signature.
        roots: the roots of time stamp authorities, from load_roots.

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
    if len(infos) != 1 or len(certificates) > limits.SIGNATURE_CHAIN:
        raise InvalidSignatureError(
            f"its time stamp has not one signer and up to {limits.SIGNATURE_CHAIN} certificates"
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
