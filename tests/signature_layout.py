"""Signatures as cosign and notation lay them out in a registry; their content isn't signed.

Sources: cosign 3.1 (pkg/oci/remote/write.go), notation-go 1.3 (registry/repository.go).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

IMAGE_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
NOTATION_TYPE: Final = "application/vnd.cncf.notary.signature"
PAYLOAD_TYPE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
JWS_TYPE: Final = "application/jose+json"
SIGN: Final = "https://sigstore.dev/cosign/sign/v1"
PREDICATE: Final = "dev.sigstore.bundle.predicateType"
CREATED: Final = "org.opencontainers.image.created"

EMPTY: Final = b"{}"


def digest_of(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def descriptor(media_type: str, content: bytes, **more: object) -> dict[str, Any]:
    return {
        "mediaType": media_type,
        "digest": digest_of(content),
        "size": len(content),
        **more,
    }


def bundle_of_chart(content: str) -> bytes:
    """The manifest of something that is signed."""
    return _encoded({"config": descriptor(EMPTY_TYPE, EMPTY), "layers": [], "content": content})


def sigstore_bundle(
    subject: bytes, blob: bytes, *, predicate: str = SIGN, created: str = "2026-01-01T00:00:00Z"
) -> dict[str, Any]:
    """The manifest by which cosign 3 attaches a bundle."""
    return _referrer(
        subject,
        BUNDLE_TYPE,
        descriptor(BUNDLE_TYPE, blob),
        {"dev.sigstore.bundle.content": "dsse-envelope", PREDICATE: predicate, CREATED: created},
    )


def notation(subject: bytes, envelope: bytes, media_type: str = JWS_TYPE) -> dict[str, Any]:
    """The manifest by which notation attaches an envelope."""
    return _referrer(
        subject,
        NOTATION_TYPE,
        descriptor(media_type, envelope),
        {"io.cncf.notary.x509chain.thumbprint#S256": '["ab"]', CREATED: "2026-01-01T00:00:00Z"},
    )


def payloads(*signatures: tuple[bytes, str]) -> dict[str, Any]:
    """The manifest of the tag sha256-HEX.sig: payloads, each with the signature of it."""
    return {
        "schemaVersion": 2,
        "mediaType": IMAGE_TYPE,
        "config": descriptor("application/vnd.oci.image.config.v1+json", EMPTY),
        "layers": [
            descriptor(
                PAYLOAD_TYPE, payload, annotations={"dev.cosignproject.cosign/signature": signature}
            )
            for payload, signature in signatures
        ],
    }


def index(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": list(entries)}


def listed(manifest: bytes) -> dict[str, Any]:
    """The entry of a referrer in a list, as the specification has it."""
    read = json.loads(manifest)
    return descriptor(
        read["mediaType"],
        manifest,
        artifactType=read.get("artifactType") or read["config"]["mediaType"],
        annotations=read.get("annotations") or {},
    )


def encoded(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest).encode()


def fallback_tag(digest: str) -> str:
    return digest.replace(":", "-")


def _referrer(
    subject: bytes, artifact_type: str, layer: dict[str, Any], annotations: dict[str, str]
) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": IMAGE_TYPE,
        "artifactType": artifact_type,
        "config": descriptor(EMPTY_TYPE, EMPTY),
        "layers": [layer],
        "subject": descriptor(IMAGE_TYPE, subject),
        "annotations": annotations,
    }


def _encoded(fields: dict[str, Any]) -> bytes:
    return encoded({"schemaVersion": 2, "mediaType": IMAGE_TYPE, **fields})
