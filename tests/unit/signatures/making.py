"""Makes keys and cosign's signatures: the bytes as cosign 2.6 and 3.1 write them."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from copyrator.signatures.model import Artifact, CosignKeys, Signature, SignatureFormat
from localcluster import signing

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
ARTIFACT = Artifact(
    "sha256:" + hashlib.sha256(b"manifest").hexdigest(),
    "application/vnd.oci.image.manifest.v1+json",
    8,
)
OTHER = Artifact(
    "sha256:" + hashlib.sha256(b"another").hexdigest(), ARTIFACT.media_type, ARTIFACT.size
)
SIGNATURE_DIGEST = "sha256:" + hashlib.sha256(b"signature").hexdigest()


@cache
def key(kind: str) -> PrivateKey:
    """One key per kind and process, as RSA takes a second; ``P-256 second`` is another one."""
    name, *_ = kind.split()
    if name == "ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    if name.startswith("RSA-"):
        return rsa.generate_private_key(65537, int(name.removeprefix("RSA-")))
    curves = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.generate_private_key(curves.get(name) or ec.SECP256K1())


def public_pem(private: PrivateKey) -> bytes:
    return signing.public_key(private).encode()


def private_pem(private: PrivateKey, form: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    return private.private_bytes(Encoding.PEM, form, NoEncryption())


def entry(*privates: PrivateKey) -> CosignKeys:
    return CosignKeys(
        "cosign keys of Secret team/keys",
        {f"{number}.pub": public_pem(each) for number, each in enumerate(privates)},
    )


def sign(private: PrivateKey, message: bytes, digest: hashes.HashAlgorithm | None = None) -> bytes:
    digest = digest or hashes.SHA256()
    if isinstance(private, ed25519.Ed25519PrivateKey):
        return private.sign(message)
    if isinstance(private, rsa.RSAPrivateKey):
        return private.sign(message, padding.PKCS1v15(), digest)
    return private.sign(message, ec.ECDSA(digest))


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def payload(artifact: Artifact = ARTIFACT, **changed: Any) -> bytes:
    claims = signing.claims("registry.example.com/team/app", artifact.digest)
    return json.dumps(claims | {"critical": claims["critical"] | changed}).encode()


def payload_signature(
    private: PrivateKey, blob: bytes | None = None, **annotations: str
) -> Signature:
    """A layer of the tag ``.sig``; annotations are named ``signature`` and ``certificate``."""
    blob = payload() if blob is None else blob
    held = {"dev.cosignproject.cosign/signature": text(sign(private, blob))}
    names = {
        "signature": "dev.cosignproject.cosign/signature",
        "certificate": "dev.sigstore.cosign/certificate",
    }
    held |= {names[name]: value for name, value in annotations.items()}
    return Signature(SignatureFormat.COSIGN_PAYLOAD, SIGNATURE_DIGEST, blob, held)


def statement(artifact: Artifact = ARTIFACT, **changed: Any) -> bytes:
    return json.dumps(signing.statement(artifact.digest) | changed).encode()


def envelope(private: PrivateKey, body: bytes, digest: hashes.HashAlgorithm | None = None) -> Any:
    return signing.envelop(body, lambda message: sign(private, message, digest))["dsseEnvelope"]


def bundle(private: PrivateKey, body: bytes | None = None, **changed: Any) -> dict[str, Any]:
    """A bundle as JSON; ``changed`` replaces members."""
    spki = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hint = text(hashlib.sha256(spki).digest())
    body = statement() if body is None else body
    document = signing.envelop(body, lambda message: sign(private, message), hint)
    return {name: each for name, each in (document | changed).items() if each is not None}


def bundle_signature(document: dict[str, Any] | bytes) -> Signature:
    blob = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Signature(SignatureFormat.SIGSTORE_BUNDLE, SIGNATURE_DIGEST, blob)
