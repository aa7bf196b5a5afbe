"""A registry with signatures: with and without a list of referrers, in pages or not."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry
from tests.signature_layout import (
    INDEX_TYPE,
    bundle_of_chart,
    digest_of,
    encoded,
    fallback_tag,
    index,
    listed,
    notation,
    payloads,
    sigstore_bundle,
)

from copyrator.oci.auth import Credential
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import Found

NAME = "team/app"
_TYPE = re.compile(rb'"mediaType": "([^"]+)"')


@dataclass
class SignedRegistry(FakeRegistry):
    """Has one repository, in which a bundle is that may be signed."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    has_referrers: bool = True
    """Otherwise those who sign keep the fallback tag's index."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    """Of the list of referrers."""
    referrers_page: int = 0
    bundle: bytes = bundle_of_chart("1.0.0")

    def __post_init__(self) -> None:
        self.digest = self.push(self.bundle)

    @cached_property
    def finder(self) -> SignatureFinder:
        return SignatureFinder(self.client)

    async def find(self, credential: Credential | None = None) -> Found:
        """The signatures of its bundle."""
        return await self.finder.find(self.app, self.digest, credential)

    @property
    def paths(self) -> list[str]:
        """What was asked for, in the repository."""
        return [path.removeprefix(f"/v2/{NAME}/") for _, path in self.asked]

    def push(self, manifest: bytes | dict[str, Any], tag: str = "") -> str:
        body = manifest if isinstance(manifest, bytes) else encoded(manifest)
        if tag:
            self.manifests[NAME, tag] = body
        self.untagged[NAME, digest_of(body)] = body
        return digest_of(body)

    def store(self, blob: bytes) -> bytes:
        self.blobs[digest_of(blob)] = blob
        return blob

    def attach(self, manifest: dict[str, Any], **entry: object) -> str:
        """Push a referrer, and list it with these fields of its entry."""
        digest = self.push(manifest)
        self.entries.append(listed(encoded(manifest)) | entry)
        if not self.has_referrers:
            self.push(index(*self.entries), fallback_tag(self.digest))
        return digest

    def sign(self, blob: bytes = b"a bundle", **layout: str) -> str:
        """As cosign 3 does."""
        return self.attach(sigstore_bundle(self.bundle, self.store(blob), **layout))

    def sign_by_notation(self, blob: bytes = b"an envelope", *media_type: str) -> str:
        return self.attach(notation(self.bundle, self.store(blob), *media_type))

    def sign_by_tag(self, *signatures: tuple[bytes, str]) -> str:
        """As cosign 2 does: payloads and the signatures of them."""
        for payload, _ in signatures:
            self.store(payload)
        return self.push(payloads(*signatures), fallback_tag(self.digest) + ".sig")

    async def respond(self, request: web.Request) -> web.StreamResponse:
        kind, _, name = request.path.removeprefix(f"/v2/{NAME}/").partition("/")
        if kind == "blobs":
            blob = self.blobs.get(name)
            return web.Response(body=blob) if blob is not None else web.Response(status=404)
        if kind == "referrers":
            return self._referrers(request) if self.has_referrers else web.Response(status=404)
        found = await super().respond(request)
        assert isinstance(found, web.Response)
        if isinstance(found.body, bytes):
            declared = _TYPE.search(found.body, 0, 200)
            found.content_type = declared[1].decode() if declared else "text/plain"
        return found

    def _referrers(self, request: web.Request) -> web.Response:
        start = int(request.query.get("from", "0"))
        some = self.entries[start:] if request.path.endswith(self.digest) else []
        headers = {}
        if self.referrers_page and len(some) > self.referrers_page:
            some = some[: self.referrers_page]
            after = start + self.referrers_page
            headers["Link"] = f'<{request.path}?from={after}>; rel="next"'
        body = encoded(index(*some))
        return web.Response(body=body, content_type=INDEX_TYPE, headers=headers)
