"""Signature envelopes of the Notary Project in JWS: flattened JSON serialisation, RFC 7515.

Source: JWS signature envelope and signature specification of the Notary Project.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from copyrator.api.text import parse_time
from copyrator.signatures.certificates import SIGNATURE_CHAIN, UNREADABLE
from copyrator.signatures.model import SIGNATURE_BYTES, Artifact, InvalidSignatureError
from copyrator.signatures.strict_json import read_members

MEDIA_TYPE: Final = "application/jose+json"
PAYLOAD_TYPE: Final = "application/vnd.cncf.notary.payload.v1+json"
SCHEME_X509: Final = "notary.x509"
SCHEME_AUTHORITY: Final = "notary.x509.signingAuthority"

_SCHEME: Final = "io.cncf.notary.signingScheme"
_SIGNING_TIME: Final = "io.cncf.notary.signingTime"
_AUTHENTIC_TIME: Final = "io.cncf.notary.authenticSigningTime"
_EXPIRY: Final = "io.cncf.notary.expiry"
_PLUGIN: Final = "io.cncf.notary.verificationPlugin"

_FOLDED: Final = {name.casefold(): name for name in (_SIGNING_TIME, _AUTHENTIC_TIME, _EXPIRY)}
"""Optional headers; notation reads them in any case."""

_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_RSA: Final[Mapping[int, tuple[str, hashes.HashAlgorithm]]] = {
    2048: ("PS256", hashes.SHA256()),
    3072: ("PS384", hashes.SHA384()),
    4096: ("PS512", hashes.SHA512()),
}
_CURVES: Final[Mapping[str, tuple[str, hashes.HashAlgorithm]]] = {
    "secp256r1": ("ES256", hashes.SHA256()),
    "secp384r1": ("ES384", hashes.SHA384()),
    "secp521r1": ("ES512", hashes.SHA512()),
}


_T = TypeVar("_T")


class _Header(msgspec.Struct):
    """The unprotected header; others in it, as the signing agent, are informational."""

    x5c: list[str]
    time_stamp: str = msgspec.field(name="io.cncf.notary.timestampSignature", default="")


class _RawJws(msgspec.Struct, forbid_unknown_fields=True):
    payload: str
    protected: str
    header: _Header
    signature: str


class _Protected(msgspec.Struct):
    alg: str
    cty: str
    crit: list[str]
    scheme: str = msgspec.field(name=_SCHEME)
    signing_time: str | None = msgspec.field(name=_SIGNING_TIME, default=None)
    authentic_time: str | None = msgspec.field(name=_AUTHENTIC_TIME, default=None)
    expiry: str | None = msgspec.field(name=_EXPIRY, default=None)


class _Target(msgspec.Struct, rename="camel"):
    media_type: str
    digest: str
    size: int


class _NotationPayload(msgspec.Struct, rename="camel"):
    target_artifact: _Target


@dataclass(frozen=True, slots=True)
class JwsEnvelope:
    """An envelope that follows the specification; its signature isn't checked yet."""

    signing_input: bytes = field(repr=False)
    payload: bytes = field(repr=False)
    algorithm: str
    scheme: str
    """SCHEME_X509 or SCHEME_AUTHORITY."""
    signing_time: datetime
    """Authentic under SCHEME_AUTHORITY, else only what the signer claims."""
    expiry: datetime | None
    chain: tuple[x509.Certificate, ...] = field(repr=False)
    signature: bytes = field(repr=False)
    time_stamp: bytes = field(repr=False)
    """An RFC 3161 TimeStampToken; empty: none."""


def read_envelope(blob: bytes) -> JwsEnvelope:
    """Read an envelope, of at most ``SIGNATURE_BYTES``.

    Raises:
        Invalid: it isn't one, or its headers violate the specification.
    """
    if len(blob) > SIGNATURE_BYTES:
        raise InvalidSignatureError(f"it has {len(blob)} bytes, more than {SIGNATURE_BYTES}")
    envelope = _decode(blob, _RawJws, "it is not a JWS envelope of the Notary Project")
    if len(envelope.header.x5c) > SIGNATURE_CHAIN:
        count = len(envelope.header.x5c)
        raise InvalidSignatureError(
            f"it has a chain of {count} certificates, more than {SIGNATURE_CHAIN}"
        )
    raw = _decode_base64(envelope.protected, "protected", url=True)
    protected = _decode(raw, _Protected, "its protected header is not of the Notary Project")
    _check_header_names(
        protected, _decode(raw, dict[str, Any], "its protected header is no object")
    )
    signing_time, expiry = _read_times(protected)
    return JwsEnvelope(
        signing_input=f"{envelope.protected}.{envelope.payload}".encode("ascii", "replace"),
        payload=_decode_base64(envelope.payload, "payload", url=True),
        algorithm=protected.alg,
        scheme=protected.scheme,
        signing_time=signing_time,
        expiry=expiry,
        chain=tuple(_read_certificate(text) for text in envelope.header.x5c),
        signature=_decode_base64(envelope.signature, "signature", url=True),
        time_stamp=_decode_base64(envelope.header.time_stamp, "timestampSignature", url=False),
    )


def verify_signature(envelope: JwsEnvelope) -> None:
    """Check the signature by the first certificate of the chain, which isn't trusted yet.

    The certificate's key decides the algorithm: RSA of 2048, 3072 and 4096 bits PS256, PS384 and
    PS512; P-256, P-384 and P-521 ES256, ES384 and ES512. Any length of the salt is accepted, as
    in notation.

    Raises:
        Invalid: the header names another algorithm, or the signature isn't valid.
    """
    if not envelope.chain:
        raise InvalidSignatureError("it has no certificate")
    try:
        key = envelope.chain[0].public_key()
    except UNREADABLE:
        raise InvalidSignatureError("its signer has a key of an unsupported kind") from None
    try:
        if isinstance(key, rsa.RSAPublicKey):
            hash_ = _algorithm(_RSA.get(key.key_size), envelope.algorithm)
            salt = padding.PSS(padding.MGF1(hash_), padding.PSS.AUTO)
            key.verify(envelope.signature, envelope.signing_input, salt, hash_)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            hash_ = _algorithm(_CURVES.get(key.curve.name), envelope.algorithm)
            signature = _read_ecdsa(envelope.signature, (key.key_size + 7) // 8)
            key.verify(signature, envelope.signing_input, ec.ECDSA(hash_))
        else:
            raise InvalidSignatureError(
                "its signer has a key that is neither RSA nor elliptic curve"
            )
    except InvalidSignature:
        raise InvalidSignatureError(
            "its signature is not valid: it was altered, or made by another key"
        ) from None


def check_target(envelope: JwsEnvelope, artifact: Artifact) -> None:
    """Compare the payload's target with the artifact.

    Raises:
        Invalid: its digest, media type or size is another one.
    """
    target = _decode(
        envelope.payload, _NotationPayload, "its payload names no target"
    ).target_artifact
    if target.digest != artifact.digest:
        raise InvalidSignatureError("it is for another artifact: its payload has another digest")
    if target.media_type != artifact.media_type:
        raise InvalidSignatureError("its payload has another media type than the artifact")
    if target.size != artifact.size:
        raise InvalidSignatureError("its payload has another size than the artifact")


def _algorithm(
    expected: tuple[str, hashes.HashAlgorithm] | None, named: str
) -> hashes.HashAlgorithm:
    if expected is None:
        raise InvalidSignatureError(
            "its signer has a key that is not of RSA 2048, 3072, 4096, P-256, P-384, P-521"
        )
    if named != expected[0]:
        raise InvalidSignatureError(
            f"its header names another algorithm than {expected[0]}, its key's"
        )
    return expected[1]


def _read_ecdsa(signature: bytes, size: int) -> bytes:
    """The signature in DER, for the library; JWS concatenates both numbers (RFC 7518, 3.4)."""
    if len(signature) != 2 * size:
        raise InvalidSignatureError(f"its signature has {len(signature)} bytes, not {2 * size}")
    numbers = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
    return utils.encode_dss_signature(*numbers)


def _check_header_names(protected: _Protected, names: Mapping[str, object]) -> None:
    if protected.cty != PAYLOAD_TYPE:
        raise InvalidSignatureError(f"its payload is not of the type {PAYLOAD_TYPE}")
    if any(name.startswith(_PLUGIN) for name in names):
        raise InvalidSignatureError(
            "it requires a verification plugin of notation, which is not supported"
        )
    if any(_FOLDED.get(name.casefold(), name) != name for name in names):
        raise InvalidSignatureError("its protected header has a name in other case than specified")
    wanted = {_SCHEME}
    if protected.scheme == SCHEME_AUTHORITY:
        wanted.add(_AUTHENTIC_TIME)
    elif protected.scheme != SCHEME_X509:
        raise InvalidSignatureError(
            f"its signing scheme is neither {SCHEME_X509} nor {SCHEME_AUTHORITY}"
        )
    if protected.expiry is not None:
        wanted.add(_EXPIRY)
    if sorted(protected.crit) != sorted(wanted):
        raise InvalidSignatureError(
            f"its header crit does not list exactly {', '.join(sorted(wanted))}"
        )


def _read_times(protected: _Protected) -> tuple[datetime, datetime | None]:
    """The signing time by the scheme, and the expiry."""
    of_scheme, of_other = protected.signing_time, protected.authentic_time
    if protected.scheme == SCHEME_AUTHORITY:
        of_scheme, of_other = of_other, of_scheme
    if of_other is not None:
        raise InvalidSignatureError(
            f"it has a signing time that is not of the scheme {protected.scheme}"
        )
    if of_scheme is None:
        raise InvalidSignatureError(f"it has no signing time of the scheme {protected.scheme}")
    signing_time = _read_time(of_scheme)
    expiry = None if protected.expiry is None else _read_time(protected.expiry)
    if expiry is not None and expiry <= signing_time:
        raise InvalidSignatureError("its expiry is not after its signing time")
    return signing_time, expiry


def _read_time(text: str) -> datetime:
    moment = parse_time(text) if _RFC3339.fullmatch(text) else None
    if moment is None:
        raise InvalidSignatureError("a time in its protected header is not of RFC 3339")
    return moment


def _read_certificate(text: str) -> x509.Certificate:
    der = _decode_base64(text, "x5c", url=False)
    try:
        return x509.load_der_x509_certificate(der)
    except UNREADABLE:
        raise InvalidSignatureError("a certificate of its chain can't be read") from None


def _decode(text: bytes, kind: type[_T], fault: str) -> _T:
    """Decode JSON; a member twice, in any case, is refused: notation would read the last one."""
    try:
        json.loads(text, object_pairs_hook=read_members)
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise InvalidSignatureError(fault) from None


def _decode_base64(text: str, name: str, *, url: bool) -> bytes:
    """Decode base64 in its canonical form only: one text for the same bytes. JWS has no padding."""
    alphabet = b"-_" if url else b"+/"
    padding_ = "=" * (-len(text) % 4) if url else ""
    try:
        content = base64.b64decode(text + padding_, altchars=alphabet, validate=True)
    except ValueError:
        content = b""
    encoded = base64.b64encode(content, altchars=alphabet).decode()
    if (encoded.rstrip("=") if url else encoded) != text:
        raise InvalidSignatureError(f"its {name} is not base64")
    return content
