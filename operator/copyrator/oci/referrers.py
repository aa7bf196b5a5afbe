"""Lists of referrers: which of their entries may be signatures, and which of these are read.

Source: the OCI distribution specification 1.1 ("Listing Referrers", "Referrers Tag Schema").
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from copyrator.oci.reference import DIGEST
from copyrator.oci.signature_manifest import (
    ATTESTATION,
    KNOWN,
    UNCLEAR,
    is_attestation,
    unsupported,
)
from copyrator.oci.skipped import Skipped
from copyrator.settings.limits import REFERRERS_BYTES, SIGNATURES


class _Annotations(msgspec.Struct, gc=False):
    created: str = msgspec.field(name="org.opencontainers.image.created", default="")
    predicate: str = msgspec.field(name="dev.sigstore.bundle.predicateType", default="")


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
        return self.artifact_type in KNOWN, created


class _Index(msgspec.Struct):
    manifests: list[Listed] | None
    """None: ``null``, as Go writes an empty list."""


_indexes = msgspec.json.Decoder(_Index)
_POSSIBLE: Final = KNOWN | UNCLEAR
_OBJECTS: Final = REFERRERS_BYTES // 40
"""JSON objects of a page at most: an entry with annotations has two, and at least 100 bytes."""
BEYOND: Final = f"not read, since at most {SIGNATURES} signatures of a digest are"


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

    def __init__(self, skipped: Skipped) -> None:
        self._skipped = skipped
        self._chosen: dict[str, Listed] = {}

    def __iter__(self) -> Iterator[Listed]:
        """In the order in which they were added."""
        return iter(self._chosen.values())

    def add(self, entries: Sequence[Listed]) -> None:
        """Add entries; where there are too many, keep those with the best rank."""
        named = [one for one in entries if DIGEST.fullmatch(one.digest)]
        if len(named) < len(entries):
            self._skipped.note("referrers whose digest isn't sha256 aren't read")
        for one in named:
            if (kind := one.artifact_type) not in _POSSIBLE and (reason := unsupported(kind)):
                self._skipped.add(reason, one.digest)
        possible = [one for one in named if one.artifact_type in _POSSIBLE]
        others = [one for one in possible if is_attestation(one.predicate)]
        self._skipped.add(ATTESTATION, *(one.digest for one in others))
        self._keep([one for one in possible if not is_attestation(one.predicate)])

    def _keep(self, entries: Iterable[Listed]) -> None:
        known = self._chosen | {one.digest: one for one in entries}
        if len(known) > SIGNATURES:
            best = heapq.nlargest(SIGNATURES, known.values(), key=lambda one: one.rank)
            kept = {one.digest for one in best}
            self._skipped.add(BEYOND, *(digest for digest in known if digest not in kept))
            known = {digest: one for digest, one in known.items() if digest in kept}
        self._chosen = known
