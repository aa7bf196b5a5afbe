"""Makes RFC 3161 time stamp tokens: CMS SignedData in DER, as a time stamp authority does."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import cache

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from tests.unit.signatures import notary

_OIDS = {
    "sha1": "1.3.14.3.2.26",
    "sha256": "2.16.840.1.101.3.4.2.1",
    "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
}
_SIGNED_DATA, _TST_INFO = "1.2.840.113549.1.7.2", "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE, _MESSAGE_DIGEST = "1.2.840.113549.1.9.3", "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.47"
_RSA_ENCRYPTION, _ECDSA_SHA256 = "1.2.840.113549.1.1.1", "1.2.840.10045.4.3.2"


@cache
def make_root() -> notary.Holder:
    """The root of a time stamp authority."""
    span = {"start": notary.NOW - 1000 * notary.DAY, "end": notary.NOW + 1000 * notary.DAY}
    return notary.make_certificate("CN=TSA root,O=stamps.example,C=US", ca=True, **span)


def make_tsa(
    root: notary.Holder | None = None, kind: str = "RSA-2048", **changes: object
) -> tuple[notary.Holder, ...]:
    """A time stamp authority and its root."""
    root = root or make_root()
    usual: dict[str, object] = {
        "purposes": [ExtendedKeyUsageOID.TIME_STAMPING],
        "purposes_critical": True,
        "start": notary.NOW - 1000 * notary.DAY,
        "end": notary.NOW + 1000 * notary.DAY,
        **changes,
    }
    key = notary.make_key(kind, "TSA")
    return notary.make_certificate("CN=TSA,O=stamps.example,C=US", root, key=key, **usual), root  # type: ignore[arg-type]


def make_time_stamp(
    message: bytes,
    chain: Sequence[notary.Holder],
    moment: datetime = notary.NOW - notary.DAY,
    *,
    accuracy: int | bytes | None = 1,
    digest: str = "sha256",
    certificates: Sequence[notary.Holder] | None = None,
    is_sorted: bool = True,
    altered: bool = False,
) -> bytes:
    """A token over a message, by the first of a chain, with all of it but the root.

    ``accuracy``: seconds, or the parts in DER. ``certificates``: others in its place. ``altered``:
    the time is changed after signing.
    """
    info = _make_info(message, moment, accuracy, digest)
    signer = chain[0]
    attributes = _der(
        0x31,
        *sorted(
            [
                _attribute(_CONTENT_TYPE, _oid(_TST_INFO)),
                _attribute(_MESSAGE_DIGEST, asn1.encode_der(hashlib.new(digest, info).digest())),
                _attribute(_SIGNING_CERTIFICATE, _reference(signer)),
            ]
        ),
    )
    info = info.replace(b"00Z", b"01Z") if altered else info
    signature, kind = _sign(signer.key, attributes, digest)
    issuer = signer.certificate.issuer.public_bytes()
    serial = asn1.encode_der(signer.certificate.serial_number)
    signer_info = _der(
        0x30,
        asn1.encode_der(1),
        _der(0x30, issuer, serial),
        _algorithm(_OIDS[digest]),
        b"\xa0" + attributes[1:],
        kind,
        asn1.encode_der(signature),
    )
    ders = [holder.der for holder in (chain[:-1] if certificates is None else certificates)]
    signed = _der(
        0x30,
        asn1.encode_der(3),
        _der(0x31, _algorithm(_OIDS[digest])),
        _der(0x30, _oid(_TST_INFO), _der(0xA0, asn1.encode_der(info))),
        _der(0xA0, *(sorted(ders) if is_sorted else sorted(ders, reverse=True))),
        _der(0x31, signer_info),
    )
    return _der(0x30, _oid(_SIGNED_DATA), _der(0xA0, signed))


def _make_info(
    message: bytes, moment: datetime, accuracy: int | bytes | None, digest: str
) -> bytes:
    parts = asn1.encode_der(accuracy) if isinstance(accuracy, int) else accuracy
    imprint = asn1.encode_der(hashlib.new(digest, message).digest())
    return _der(
        0x30,
        asn1.encode_der(1),
        _oid("1.3.6.1.4.1.99999.1"),
        _der(0x30, _algorithm(_OIDS[digest]), imprint),
        asn1.encode_der(4711),
        _der(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode()),
        b"" if parts is None else _der(0x30, parts),
    )


def _sign(key: notary.Key, attributes: bytes, digest: str) -> tuple[bytes, bytes]:
    if isinstance(key, rsa.RSAPrivateKey):
        hash_ = getattr(hashes, digest.upper())()
        signature = key.sign(attributes, padding.PKCS1v15(), hash_)
        return signature, _algorithm(_RSA_ENCRYPTION)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key.sign(attributes, ec.ECDSA(hashes.SHA256())), _der(0x30, _oid(_ECDSA_SHA256))


def _reference(signer: notary.Holder) -> bytes:
    thumbprint = asn1.encode_der(hashlib.sha256(signer.der).digest())
    return _der(0x30, _der(0x30, _der(0x30, thumbprint)))


def _attribute(name: str, value: bytes) -> bytes:
    return _der(0x30, _oid(name), _der(0x31, value))


def _algorithm(oid: str) -> bytes:
    return _der(0x30, _oid(oid), b"\x05\x00")


def _oid(text: str) -> bytes:
    return asn1.encode_der(x509.ObjectIdentifier(text))


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    octets = size.to_bytes((size.bit_length() + 7) // 8)
    return (
        bytes([tag])
        + (bytes([size]) if size < 128 else bytes([128 + len(octets)]) + octets)
        + content
    )
