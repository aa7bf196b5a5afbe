"""The content hash of a copy: keyed, so that it reveals nothing, and bound to its place.

The annotation holds 24 bytes in base64url: a digest of the wanted content, the same for all copies
of one source, and a tag that binds it to this kind, namespace, name and rule. The tag distinguishes
a copy from an object that was made by editing a copy's manifest: such an object is not ours, and we
never delete what we didn't make.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

KEY_BYTES: Final = 32
DIGEST_BYTES: Final = 16
TAG_BYTES: Final = 8

_FORMAT: Final = b"1"
"""To be changed with what is hashed, or how; every copy is then written once more."""

_encoder = msgspec.json.Encoder(order="deterministic")


class Sealer:
    """Makes and checks content hashes with the operator's own key."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the hash key has {len(key)} bytes instead of {KEY_BYTES}")
        self._key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sealer) and hmac.compare_digest(self._key, other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def digest(self, content: Mapping[str, Any]) -> bytes:
        """DIGEST_BYTES that change whenever the content does."""
        return hashlib.blake2b(
            _encoder.encode(content), digest_size=DIGEST_BYTES, key=self._key, person=_FORMAT
        ).digest()

    def new_hash(self) -> hashlib.blake2b:
        """Begin a keyed hash of any bytes, for other parts of the operator: 64 hex digits."""
        return hashlib.blake2b(digest_size=32, key=self._key, person=_FORMAT + b"text")

    def seal(self, digest: bytes, kind: str, namespace: str, name: str, rule: str) -> str:
        """The annotation's value for one copy."""
        tag = self._tag(digest, kind, namespace, name, rule)
        return base64.urlsafe_b64encode(digest + tag).decode("ascii")

    def open(self, text: str, kind: str, namespace: str, name: str, rule: str) -> bytes | None:
        """The digest in an annotation's value; None where it wasn't made by us for this place."""
        try:
            raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
        except (UnicodeEncodeError, binascii.Error):
            return None
        digest, tag = raw[:DIGEST_BYTES], raw[DIGEST_BYTES:]
        if not hmac.compare_digest(tag, self._tag(digest, kind, namespace, name, rule)):
            return None
        return digest

    def _tag(self, digest: bytes, kind: str, namespace: str, name: str, rule: str) -> bytes:
        place = f"{kind}\0{namespace}\0{name}\0{rule}".encode()
        return hashlib.blake2b(
            digest + place, digest_size=TAG_BYTES, key=self._key, person=_FORMAT + b"tag"
        ).digest()
