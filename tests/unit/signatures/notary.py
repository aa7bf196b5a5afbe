"""Makes what a signer with notation has: certificates, envelopes, RFC 3161 time stamps."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from copyrator.signatures.model import Artifact, NotationTrust, Signature, SignatureFormat
from localcluster.signing import key_usage

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SCHEME = "io.cncf.notary.signingScheme"
SIGNING_TIME = "io.cncf.notary.signingTime"
AUTHENTIC_TIME = "io.cncf.notary.authenticSigningTime"
EXPIRY = "io.cncf.notary.expiry"
TIME_STAMP = "io.cncf.notary.timestampSignature"
ARTIFACT = Artifact("sha256:" + "a" * 64, "application/vnd.oci.image.manifest.v1+json", 1234)


Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_CURVES: dict[str, type[ec.EllipticCurve]] = {
    "P-256": ec.SECP256R1,
    "P-384": ec.SECP384R1,
    "P-521": ec.SECP521R1,
    "P-224": ec.SECP224R1,
    "K-256": ec.SECP256K1,
}
_HASHES: dict[str, Any] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}


@cache
def make_key(kind: str, label: object = "") -> Key:
    """A key of a kind, ``RSA-2048`` or ``P-256``; with each label another one, kept."""
    if kind == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    if kind in _CURVES:
        return ec.generate_private_key(_CURVES[kind]())
    return rsa.generate_private_key(65537, int(kind.removeprefix("RSA-")))


@dataclass(frozen=True)
class Holder:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: Key

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


def make_certificate(
    name: str,
    issuer: Holder | None = None,
    *,
    key: Key | None = None,
    ca: bool | None = False,
    path_length: int | None = None,
    start: datetime = NOW - 10 * DAY,
    end: datetime = NOW + 10 * DAY,
    usages: Sequence[str] | None = None,
    usage_critical: bool = True,
    purposes: Sequence[x509.ObjectIdentifier] = (ExtendedKeyUsageOID.CODE_SIGNING,),
    purposes_critical: bool = False,
    constraints_critical: bool = True,
    digest: Any = None,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
) -> Holder:
    """A certificate with this subject (RFC 4514), self-signed without an issuer.

    ``ca`` None: without basicConstraints. ``usages``: of keyUsage, where not the usual ones;
    an empty list: without keyUsage. ``purposes``: of a certificate that isn't a CA's.
    """
    key = key or make_key("P-256", name)
    subject = x509.Name.from_rfc4514_string(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
    if ca is not None:
        constraints = x509.BasicConstraints(ca, path_length if ca else None)
        builder = builder.add_extension(constraints, constraints_critical)
    if usages is None:
        usages = ["key_cert_sign"] if ca else ["digital_signature"]
    if usages:
        builder = builder.add_extension(key_usage(*usages), usage_critical)
    if purposes and not ca:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), purposes_critical)
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    signer = issuer.key if issuer else key
    if not isinstance(signer, ed25519.Ed25519PrivateKey):
        digest = digest or hashes.SHA256()
    return Holder(builder.sign(signer, digest), key)


def resign(holder: Holder, old: bytes, new: bytes) -> Holder:
    """A self-signed ECDSA certificate with other content of the same length, signed again."""
    content = holder.certificate.tbs_certificate_bytes
    assert old in content
    changed = content.replace(old, new)
    assert isinstance(holder.key, ec.EllipticCurvePrivateKey)
    signature = holder.key.sign(changed, ec.ECDSA(hashes.SHA256()))
    algorithm = bytes.fromhex("300a06082a8648ce3d040302")
    der = changed + algorithm + asn1.encode_der(asn1.BitString(signature, 0))
    der = b"\x30\x82" + len(der).to_bytes(2) + der
    return Holder(x509.load_der_x509_certificate(der), holder.key)


SUBJECT = "CN=releases,O=example.com,ST=WA,C=US"


@cache
def make_ca(name: str = "CN=root,O=example.com,ST=WA,C=US", kind: str = "P-256") -> Holder:
    """A root, the same one for the same arguments."""
    return make_certificate(name, key=make_key(kind, 1), ca=True, end=NOW + 100 * DAY)


@cache
def make_chain(kind: str = "P-256") -> tuple[Holder, ...]:
    """A signer with a key of this kind, an intermediate CA and ``make_ca()``."""
    root = make_ca()
    middle = make_certificate("CN=issuing,O=example.com,ST=WA,C=US", root, ca=True, path_length=0)
    return make_certificate(SUBJECT, middle, key=make_key(kind, 2)), middle, root


def make_trust(*roots: Holder, **changes: Any) -> NotationTrust:
    """An entry with these roots, by default ``make_ca()``, and the subject of make_chain."""
    pem = b"".join(root.pem for root in roots or (make_ca(),))
    return NotationTrust(**{"name": "notation", "ca": pem, "subjects": (SUBJECT,), **changes})


def make_payload(artifact: Artifact = ARTIFACT, **changes: Any) -> bytes:
    """The payload for an artifact."""
    target = {"mediaType": artifact.media_type, "digest": artifact.digest, "size": artifact.size}
    return json.dumps({"targetArtifact": {**target, **changes}}).encode()


def make_headers(algorithm: str = "ES256", **changes: Any) -> dict[str, Any]:
    """Protected headers of the scheme notary.x509; None takes one out."""
    headers = {
        "alg": algorithm,
        "cty": "application/vnd.cncf.notary.payload.v1+json",
        "crit": [SCHEME],
        SCHEME: "notary.x509",
        SIGNING_TIME: "2026-02-28T12:00:00Z",
        **changes,
    }
    return {name: value for name, value in headers.items() if value is not None}


def encode(content: bytes) -> str:
    """Base64 as in JWS."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def sign(key: Key, algorithm: str, text: bytes, salt_length: Any = None) -> bytes:
    """The signature of a JWS; for RSA with a salt as long as the hash, or as is said."""
    digest = _HASHES[algorithm[2:]]
    if isinstance(key, rsa.RSAPrivateKey):
        salt_length = padding.PSS.DIGEST_LENGTH if salt_length is None else salt_length
        salt = padding.PSS(padding.MGF1(digest), salt_length)
        return key.sign(text, salt, digest)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(text)  # of no algorithm that is accepted
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    size = (key.key_size + 7) // 8
    numbers = utils.decode_dss_signature(key.sign(text, ec.ECDSA(digest)))
    return b"".join(number.to_bytes(size) for number in numbers)


def make_envelope(
    chain: Sequence[Holder] = (),
    *,
    headers: Mapping[str, Any] | bytes | None = None,
    payload: bytes | None = None,
    unprotected: Mapping[str, Any] | None = None,
    stamp: Callable[[bytes], bytes] | None = None,
) -> dict[str, Any]:
    """An envelope by the first of a chain; ``stamp`` makes a time stamp over its signature."""
    chain = chain or make_chain()
    headers = make_headers() if headers is None else headers
    text = headers if isinstance(headers, bytes) else json.dumps(headers).encode()
    protected, content = encode(text), encode(make_payload() if payload is None else payload)
    algorithm = "ES256" if isinstance(headers, bytes) else headers.get("alg", "ES256")
    signature = sign(chain[0].key, algorithm, f"{protected}.{content}".encode())
    header: dict[str, Any] = {
        "x5c": [base64.b64encode(holder.der).decode() for holder in chain],
        "io.cncf.notary.signingAgent": "notation/1.3.2",
    }
    if stamp:
        header[TIME_STAMP] = base64.b64encode(stamp(signature)).decode()
    return {
        "payload": content,
        "protected": protected,
        "header": {**header, **(unprotected or {})},
        "signature": encode(signature),
    }


def as_signature(envelope: Mapping[str, Any] | bytes) -> Signature:
    """The envelope as the finder gives it."""
    blob = envelope if isinstance(envelope, bytes) else json.dumps(envelope).encode()
    return Signature(SignatureFormat.NOTATION, "sha256:" + hashlib.sha256(blob).hexdigest(), blob)
