"""Manifests of signatures: what they sign, in which format, and the layers that hold it.

Sources: cosign's bundle specification and its pkg/oci/remote; the Notary Project's signature
specification 1.1; the OCI image specification 1.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from copyrator.oci.skipped import type_named
from copyrator.signatures.model import SignatureFormat

BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_BUNDLES: Final = "application/vnd.dev.sigstore.bundle"
_NOTATION: Final = "application/vnd.cncf.notary.signature"
_JWS: Final = "application/jose+json"
_PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_COSIGN_REFERRER: Final = "application/vnd.dev.cosign.artifact.sig.v1+json"
_EMPTY: Final = "application/vnd.oci.empty.v1+json"

KNOWN: Final = frozenset({BUNDLE_TYPE, _NOTATION})
"""Types of manifests of signatures that can be read."""
UNCLEAR: Final = frozenset({None, "", _EMPTY})
"""Types of list entries that may be signatures: go-containerregistry lists cosign's with the type
of their config, which is empty."""

_SIGN: Final = "https://sigstore.dev/cosign/sign/v1"
_PREDICATE: Final = "dev.sigstore.bundle.predicateType"
"""Annotation by cosign: the type of the statement in a bundle."""
ATTESTATION: Final = "an attestation, not a signature"


class UnusableError(ValueError):
    """A signature that isn't read; the message has the reason, without a full stop."""


class Layer(msgspec.Struct, rename="camel"):
    """A layer's descriptor."""

    digest: str
    media_type: str = ""
    size: int = 0
    annotations: dict[str, str] | None = None


class _Config(msgspec.Struct, rename="camel"):
    media_type: str = ""


class _Subject(msgspec.Struct):
    digest: str


class _SignatureManifest(msgspec.Struct, rename="camel"):
    layers: list[Layer]
    artifact_type: str | None = None
    config: _Config | None = None
    subject: _Subject | None = None
    annotations: dict[str, str] | None = None


class Stored(msgspec.Struct):
    """A signature that is a referrer."""

    format: SignatureFormat
    layer: Layer
    annotations: Mapping[str, str]
    """The manifest's."""


_manifests = msgspec.json.Decoder(_SignatureManifest)


def is_attestation(predicate: str) -> bool:
    """Whether a bundle that is annotated with this type of predicate is no signature."""
    return predicate not in ("", _SIGN)


def unsupported(artifact_type: str | None) -> str | None:
    """Why a type of signatures isn't supported; None: it is, or isn't a type of signatures."""
    if not artifact_type or artifact_type in KNOWN:
        return None
    if artifact_type.startswith(_BUNDLES):
        return f"{type_named(artifact_type)} isn't supported, only version 0.3 of bundles"
    if artifact_type == _COSIGN_REFERRER:
        return "cosign's experimental format for referrers isn't supported"
    return None


def read_stored(body: bytes, subject: str) -> Stored | None:
    """The signature in a referrer's manifest; None: it is no signature.

    Raises:
        UnusableError: it is one that can't be used, or doesn't refer to ``subject``.
    """
    manifest = _decoded(body)
    kind = manifest.artifact_type or (manifest.config.media_type if manifest.config else "")
    if reason := unsupported(kind):
        raise UnusableError(reason)
    if kind not in KNOWN:
        return None
    if manifest.subject is None or manifest.subject.digest != subject:
        raise UnusableError("it is listed for this digest, but refers to another one")
    if len(manifest.layers) != 1:
        raise UnusableError("its manifest doesn't have exactly one layer")
    annotations = manifest.annotations or {}
    layer = manifest.layers[0]
    if kind == BUNDLE_TYPE:
        if is_attestation(annotations.get(_PREDICATE, "")):
            raise UnusableError(ATTESTATION)
        _require(layer, BUNDLE_TYPE, "version 0.3 of bundles")
        return Stored(SignatureFormat.SIGSTORE_BUNDLE, layer, annotations)
    _require(layer, _JWS, "JWS envelopes")
    return Stored(SignatureFormat.NOTATION, layer, annotations)


def read_payloads(body: bytes) -> list[Layer]:
    """The layers of the manifest of the tag ``sha256-HEX.sig``; their types aren't checked.

    Raises:
        UnusableError: it can't be used.
    """
    return _decoded(body).layers


def require_payload(layer: Layer) -> None:
    """Raise UnusableError for a layer of that tag that isn't a signature's payload."""
    _require(layer, _PAYLOAD, "payloads of signatures")


def _require(layer: Layer, media_type: str, what: str) -> None:
    if layer.media_type != media_type:
        raise UnusableError(f"{type_named(layer.media_type)} isn't supported, only {what}")


def _decoded(body: bytes) -> _SignatureManifest:
    try:
        return _manifests.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise UnusableError("its manifest isn't a valid image manifest") from None
