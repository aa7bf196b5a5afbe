"""Lists and manifests of signatures: what may be one, what it signs, its format and layers.

Sources: the OCI distribution specification 1.1 ("Listing Referrers", "Referrers Tag Schema");
cosign's bundle specification and its pkg/oci/remote; the Notary Project's signature specification
1.1; the OCI image specification 1.1.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from copyrator.oci.exchange import DIGEST
from copyrator.signatures.model import ATTESTATIONS, SIGNATURE_BYTES, SIGNATURES, SignatureFormat

REFERRERS_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one page of referrers, or of the index of the fallback tag, as of a manifest: some
10,000 referrers."""

_BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
_BUNDLES: Final = "application/vnd.dev.sigstore.bundle"
_NOTATION: Final = "application/vnd.cncf.notary.signature"
_JWS: Final = "application/jose+json"
_PAYLOAD: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_COSIGN_REFERRER: Final = "application/vnd.dev.cosign.artifact.sig.v1+json"
_EMPTY: Final = "application/vnd.oci.empty.v1+json"

_KNOWN: Final = frozenset({_BUNDLE_TYPE, _NOTATION})
"""Types of manifests of signatures that can be read."""
_POSSIBLE: Final = _KNOWN | {None, "", _EMPTY}
"""Types of list entries that may be signatures: go-containerregistry lists cosign's with the type
of their config, which is empty."""

_SIGN: Final = "https://sigstore.dev/cosign/sign/v1"
_PREDICATE: Final = "dev.sigstore.bundle.predicateType"
"""Annotation by cosign: the type of the statement in a bundle."""
_ATTESTATION: Final = "an attestation, not a signature"


class UnusableError(ValueError):
    """A signature that isn't read; the message has the reason, without a full stop."""


class OthersError(UnusableError):
    """A bundle that isn't one of our attestations, whatever it says of its predicate type."""


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

    @property
    def kind(self) -> str:
        """The type of what is stored."""
        return self.artifact_type or (self.config.media_type if self.config else "")


class Stored(msgspec.Struct):
    """A signature that is a referrer."""

    format: SignatureFormat
    layer: Layer
    annotations: Mapping[str, str]
    """The manifest's."""


_manifests = msgspec.json.Decoder(_SignatureManifest)


@dataclass(frozen=True, slots=True)
class ReferrerFilter:
    """What is searched: signatures, or the attestations of one predicate type."""

    predicate: str
    most: int
    """Of one digest."""
    most_bytes: int
    """Of each."""

    @property
    def is_signature(self) -> bool:
        """Whether it is signatures, also those that aren't bundles."""
        return self.predicate == _SIGN

    def excludes(self, predicate: str) -> bool:
        """Whether a bundle that is annotated with this predicate type is none of them."""
        return predicate not in ("", self.predicate)


SIGNATURES_WANTED: Final = ReferrerFilter(_SIGN, SIGNATURES, SIGNATURE_BYTES)


def _unsupported(artifact_type: str | None) -> str | None:
    """Why a type of signatures isn't supported; None: it is, or isn't a type of signatures."""
    if not artifact_type or artifact_type in _KNOWN:
        return None
    if artifact_type.startswith(_BUNDLES):
        return f"{_type_named(artifact_type)} isn't supported, only version 0.3 of bundles"
    if artifact_type == _COSIGN_REFERRER:
        return "cosign's experimental format for referrers isn't supported"
    return None


def read_stored(
    body: bytes, subject: str, wanted: ReferrerFilter = SIGNATURES_WANTED
) -> Stored | None:
    """The signature or attestation in a referrer's manifest; None: it is none.

    Raises:
        UnusableError: it is one that can't be used, or doesn't refer to ``subject``.
        OthersError: it isn't laid out as our attestations are, which are searched.
    """
    if not wanted.is_signature:
        return _read_attestation(body, subject, wanted)
    manifest = _decode(body)
    kind = manifest.kind
    annotations = manifest.annotations or {}
    if reason := _unsupported(kind):
        raise UnusableError(reason)
    if kind not in _KNOWN:
        return None
    if manifest.subject is None or manifest.subject.digest != subject:
        raise UnusableError("it is listed for this digest, but refers to another one")
    if len(manifest.layers) != 1:
        raise UnusableError("its manifest doesn't have exactly one layer")
    layer = manifest.layers[0]
    if kind == _BUNDLE_TYPE:
        if wanted.excludes(annotations.get(_PREDICATE, "")):
            raise UnusableError(_ATTESTATION)
        _require(layer, _BUNDLE_TYPE, "version 0.3 of bundles")
        return Stored(SignatureFormat.SIGSTORE_BUNDLE, layer, annotations)
    _require(layer, _JWS, "JWS envelopes")
    return Stored(SignatureFormat.NOTATION, layer, annotations)


def _read_attestation(body: bytes, subject: str, wanted: ReferrerFilter) -> Stored | None:
    try:
        manifest = _decode(body)
    except UnusableError:
        return None  # such as an index
    if manifest.kind != _BUNDLE_TYPE:
        return None
    annotations = manifest.annotations or {}
    if (predicate := annotations.get(_PREDICATE, "")) == _SIGN:
        return None
    if wanted.excludes(predicate):
        raise OthersError(f"it is of the predicate type {_type_named(predicate)}")
    if manifest.subject is None or manifest.subject.digest != subject:
        raise OthersError("it refers to another digest")
    if [layer.media_type for layer in manifest.layers] != [_BUNDLE_TYPE]:
        raise OthersError("its manifest doesn't have a bundle as its one layer")
    if not DIGEST.fullmatch(manifest.layers[0].digest):
        raise OthersError("the digest of its layer isn't sha256")
    return Stored(SignatureFormat.SIGSTORE_BUNDLE, manifest.layers[0], annotations)


def read_payloads(body: bytes) -> list[Layer]:
    """The layers of the manifest of the tag ``sha256-HEX.sig``; their types aren't checked.

    Raises:
        UnusableError: it can't be used.
    """
    return _decode(body).layers


def require_payload(layer: Layer) -> None:
    """Raise UnusableError for a layer of that tag that isn't a signature's payload."""
    _require(layer, _PAYLOAD, "payloads of signatures")


def _require(layer: Layer, media_type: str, what: str) -> None:
    if layer.media_type != media_type:
        raise UnusableError(f"{_type_named(layer.media_type)} isn't supported, only {what}")


def _decode(body: bytes) -> _SignatureManifest:
    try:
        return _manifests.decode(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise UnusableError("its manifest isn't a valid image manifest") from None


SENTENCES: Final = 10
_REASON: Final = 200
"""Characters."""
_OTHER: Final = "not read for other reasons"
_TYPE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+/:;=_#-]{0,99}")


class SkipReasons:
    """Collects reasons, each with the first signature that it applies to."""

    def __init__(self) -> None:
        self._by_reason: dict[str, tuple[str, bool]] = {}

    def note(self, sentence: str) -> None:
        """Add a sentence that isn't about a single signature."""
        self._by_reason.setdefault(self._bounded(sentence), ("", False))

    def add(self, reason: str, *digests: str) -> None:
        """Add the reason why these signatures weren't read."""
        reason = self._bounded(reason)
        for name in digests:
            digest = name if DIGEST.fullmatch(name) else "one without a sha256 digest"
            first, _ = found = self._by_reason.get(reason, (digest, False))
            self._by_reason[reason] = (first, True) if digest != first else found

    def sentences(self) -> tuple[str, ...]:
        """At most SENTENCES sentences without a full stop."""
        return tuple(
            f"{first}{' and others' if more else ''}: {reason}" if first else reason
            for reason, (first, more) in self._by_reason.items()
        )

    def _bounded(self, reason: str) -> str:
        reason = reason if len(reason) <= _REASON else reason[:_REASON] + "…"
        has_room = reason in self._by_reason or len(self._by_reason) < SENTENCES - 1
        return reason if has_room else _OTHER


def _type_named(text: str) -> str:
    """A media type or URI from a registry for a message; another text is replaced."""
    return text if _TYPE.fullmatch(text) else "another type"


class _Annotations(msgspec.Struct, gc=False):
    created: str = msgspec.field(name="org.opencontainers.image.created", default="")
    predicate: str = msgspec.field(name=_PREDICATE, default="")


class Listed(msgspec.Struct, rename="camel", gc=False):
    """An entry of a list of referrers; only its digest is required."""

    digest: str
    size: int = 0
    artifact_type: str | None = None
    annotations: _Annotations | None = None

    @property
    def predicate(self) -> str:
        """The predicate type by cosign's annotation; empty without one."""
        return self.annotations.predicate if self.annotations else ""

    @property
    def rank(self) -> tuple[bool, str]:
        """The sort key: entries that are annotated as signatures first, of those the newest."""
        created = self.annotations.created if self.annotations else ""
        return self.artifact_type in _KNOWN, created


class _Index(msgspec.Struct):
    manifests: list[Listed] | None
    """None: ``null``, as Go writes an empty list."""


_indexes = msgspec.json.Decoder(_Index)
_OBJECTS: Final = REFERRERS_BYTES // 40
"""JSON objects of a page at most: an entry with annotations has two, and at least 100 bytes."""
BEYOND: Final = f"not read, since at most {SIGNATURES} signatures of a digest are"
_BEYOND_ATTESTATIONS: Final = f"not read, since at most {ATTESTATIONS} attestations of a digest are"


def read_index(body: bytes) -> list[Listed]:
    """The entries of a page, or of the fallback tag's index.

    Raises:
        ValueError: it isn't an index.
    """
    if body.count(b"{") > _OBJECTS:
        raise ValueError("not an image index")
    try:
        return _indexes.decode(body).manifests or []
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise ValueError("not an image index") from None


class Candidates:
    """The entries that are read of all that are listed."""

    def __init__(self, skipped: SkipReasons, wanted: ReferrerFilter = SIGNATURES_WANTED) -> None:
        self._skipped = skipped
        self._wanted = wanted
        self._chosen: dict[str, Listed] = {}
        self.others: set[str] = set()
        """Digests of attestations of another predicate type, where attestations are searched."""

    def __iter__(self) -> Iterator[Listed]:
        """In the order in which they were added."""
        return iter(self._chosen.values())

    def add(self, entries: Sequence[Listed]) -> None:
        """Add entries; where there are too many, keep those with the best rank."""
        named = [one for one in entries if DIGEST.fullmatch(one.digest)]
        if len(named) < len(entries) and self._wanted.is_signature:  # the operator pushes sha256
            self._skipped.note("referrers whose digest isn't sha256 aren't read")
        possible = [one for one in named if one.artifact_type in _POSSIBLE]
        others = [one for one in possible if self._wanted.excludes(one.predicate)]
        if self._wanted.is_signature:
            for one in named:
                if reason := _unsupported(one.artifact_type):
                    self._skipped.add(reason, one.digest)
            self._skipped.add(_ATTESTATION, *(one.digest for one in others))
        else:
            self.others |= {one.digest for one in others if one.predicate != _SIGN}
        self._keep([one for one in possible if not self._wanted.excludes(one.predicate)])

    def _keep(self, entries: Iterable[Listed]) -> None:
        known = self._chosen | {one.digest: one for one in entries}
        if len(known) > (most := self._wanted.most):
            best = heapq.nlargest(most, known.values(), key=lambda one: one.rank)
            kept = {one.digest for one in best}
            beyond = BEYOND if self._wanted.is_signature else _BEYOND_ATTESTATIONS
            self._skipped.add(beyond, *(digest for digest in known if digest not in kept))
            known = {digest: one for digest, one in known.items() if digest in kept}
        self._chosen = known
