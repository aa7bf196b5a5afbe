"""Sign what is in a registry, in the forms of cosign: for tests and the demo.

`sign` writes the tag ``sha256-HEX.sig`` as cosign 2 does, `attach` a sigstore bundle as cosign 3
does in a registry without a list of referrers; `refer` adds any signature there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from localcluster.bundle import MANIFEST_TYPE, descriptor
from localcluster.paths import state_root
from localcluster.repository import Repository, Stored, fallback_tag

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
BUNDLE_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
STATEMENT_TYPE = "application/vnd.in-toto+json"
PREDICATE = "https://sigstore.dev/cosign/sign/v1"

Key = ec.EllipticCurvePrivateKey
SigningKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def new_key() -> Key:
    """A key as ``cosign generate-key-pair`` makes it: ECDSA with P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def public_key(key: PrivateKeyTypes) -> str:
    """Its public key in PEM, the content of ``cosign.pub``."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def key_usage(*uses: str) -> x509.KeyUsage:
    """The extension with these uses, by their names in `x509.KeyUsage`."""
    known = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
        *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: name in uses for name in known})


def private_key(key: PrivateKeyTypes) -> str:
    """The key itself in PEM, PKCS #8, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def sign(key: Key, registry: str, repo: str, digest: str, *, signed: str | None = None) -> None:
    """Add a signature of cosign 2; with ``signed`` it is that digest's, copied over."""
    payload = _json(claims(f"{registry}/{repo}", signed or digest))
    signature = key.sign(payload, ec.ECDSA(hashes.SHA256()))
    add_payload(Repository(registry, repo), digest, payload, signature)


def claims(reference: str, digest: str) -> dict[str, Any]:
    """What cosign 2 signs."""
    critical = {
        "identity": {"docker-reference": reference},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    return {"critical": critical, "optional": None}


def add_payload(
    repository: Repository,
    digest: str,
    payload: bytes,
    signature: bytes,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Add a payload with its signature, and further annotations, to the tag of a digest."""
    layer = descriptor(PAYLOAD_TYPE, payload)
    encoded = base64.b64encode(signature).decode()
    layer["annotations"] = {"dev.cosignproject.cosign/signature": encoded, **more}
    tag = f"{fallback_tag(digest)}.sig"
    before = repository.get(tag)
    config = _json({"architecture": "", "os": "", "rootfs": {"type": "layers", "diff_ids": []}})
    for blob in (payload, config):
        repository.upload(blob)
    repository.put(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [*(before.body["layers"] if before else ()), layer],
        },
        tag,
    )


def attach(key: Key, registry: str, repo: str, digest: str) -> None:
    """Add a signature of cosign 3: a sigstore bundle that refers to the digest."""
    raw = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hint = base64.b64encode(hashlib.sha256(raw).digest()).decode()
    text = _json(statement(digest))
    bundle = envelop(text, lambda message: key.sign(message, ec.ECDSA(hashes.SHA256())), hint)
    about = {"dev.sigstore.bundle.predicateType": PREDICATE}
    refer(registry, repo, digest, _json(bundle), BUNDLE_TYPE, annotations=about)


def statement(digest: str, predicate_type: str = PREDICATE) -> dict[str, Any]:
    """What cosign 3 signs; an in-toto statement of the digest alone."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"digest": {"sha256": digest.removeprefix("sha256:")}}],
        "predicateType": predicate_type,
        "predicate": {},
    }


def envelop(text: bytes, sign: Callable[[bytes], bytes], hint: str = "by hand") -> dict[str, Any]:
    """A sigstore bundle with a statement in a DSSE envelope that `sign` has signed."""
    message = f"DSSEv1 {len(STATEMENT_TYPE)} {STATEMENT_TYPE} {len(text)} ".encode() + text
    return {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}},
        "dsseEnvelope": {
            "payload": base64.b64encode(text).decode(),
            "payloadType": STATEMENT_TYPE,
            "signatures": [{"sig": base64.b64encode(sign(message)).decode()}],
        },
    }


def refer(
    registry: str,
    repo: str,
    digest: str,
    blob: bytes,
    media_type: str,
    *,
    artifact_type: str = "",
    annotations: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Add an artifact of one layer that refers to the digest; of the layer's type by default."""
    repository = Repository(registry, repo)
    artifact = Stored(MANIFEST_TYPE, repository.manifest(digest))
    repository.refer(artifact, (media_type, blob), artifact_type or media_type, annotations)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


KEY: Final = new_key()
"""Of all certificates that are made here."""
PRIVATE: Final = private_key(KEY)


def self_signed(*names: str, begins: datetime, ends: datetime) -> str:
    """A certificate in PEM; with one common name for each of the names."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name) for name in names])
    made = issue(subject, KEY, (subject, KEY), (begins, ends))
    return made.public_bytes(Encoding.PEM).decode()


def issue(
    subject: x509.Name,
    key: SigningKey,
    issuer: tuple[x509.Name, SigningKey],
    validity: tuple[datetime, datetime],
    *extensions: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    """A certificate for a key by an issuer's name and key; of extensions say which are critical."""
    name, issuers_key = issuer
    builder = x509.CertificateBuilder(
        name, subject, key.public_key(), x509.random_serial_number(), *validity
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuers_key, hashes.SHA256())


def own_key() -> Key:
    """The key in the directory of the clusters, which the first use makes."""
    path = state_root() / "cosign.key"
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(private_key(new_key()).encode())
    found = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(found, Key)
    return found
