"""What somebody who can push, but has no key, makes of notation's signatures."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from localcluster.bundle import descriptor
from localcluster.repository import Repository, Stored
from signatures import notation
from signatures.material import Workshop
from signatures.registries import WITH, WITHOUT

JOSE = "application/jose+json"
ARTIFACT_TYPE = "application/vnd.cncf.notary.signature"

Json = dict[str, Any]


def make(shop: Workshop) -> None:
    """All of them."""

    def altered(envelope: Json, target: Json) -> None:
        envelope["payload"] = encode(json.dumps({"targetArtifact": target}).encode())

    texts = {
        "copied": "The envelope of another digest attached to this one.",
        "altered": "The payload of another digest's envelope altered to name this one.",
    }
    for registry in (WITH, WITHOUT):
        for name, text in texts.items():
            case = f"notation-{name}-{registry}"
            repository, signed = shop.artifact(case, registry)
            _, other = shop.artifact(case, registry, 1)
            notation.sign(shop, "es256", repository, signed)
            manifest, envelope = _read(repository, signed)
            if name == "altered":
                altered(envelope, descriptor(other.media_type, other.content))
            attach(repository, other, envelope, manifest["annotations"])
            shop.add(case, text, repository, other, notation.POLICIES)


def encode(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _read(repository: Repository, artifact: Stored) -> tuple[Json, Json]:
    """The manifest of the first envelope of an artifact, and the envelope."""
    stored = repository.get(repository.referrers(artifact.digest)[0]["digest"])
    assert stored is not None
    return stored.body, json.loads(repository.blob(stored.body["layers"][0]["digest"]))


def attach(
    repository: Repository, artifact: Stored, envelope: Json, annotations: Mapping[str, str]
) -> None:
    """Store an envelope as a referrer of an artifact."""
    layer = (JOSE, json.dumps(envelope).encode())
    # By the specification of notation: config.mediaType is the artifact's type there.
    repository.refer(artifact, layer, ARTIFACT_TYPE, annotations, ARTIFACT_TYPE)
