"""A registry that is pushed to: with and without a list of referrers, and as unwilling as told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from tests.component.oci.fake_registry import Handler
from tests.component.oci.signed_registry import NAME, SignedRegistry
from tests.signature_layout import digest_of, fallback_tag, listed

from copyrator.api.schema import read_json

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass
class PushedRegistry(SignedRegistry):
    """Takes blobs and manifests, and deletes manifests."""

    sends_subject: bool = True
    """Whether it sends OCI-Subject, as one with a list of referrers should."""
    refusals: dict[tuple[str, str], Handler] = field(default_factory=dict)
    """By method and the beginning of the path in the repository: answers in its place."""
    location: str = ""
    """Of an upload, instead of its own."""
    writes: list[str] = field(default_factory=list)
    """Method and path of each request that changes something, in the repository."""
    overwritten: list[bytes] = field(default_factory=list)
    """What another client puts under the fallback tag after each write of it, the last first."""

    @property
    def index(self) -> list[dict[str, Any]]:
        """The entries of the fallback tag's index."""
        found = self.manifests.get((NAME, fallback_tag(self.digest)))
        entries: list[dict[str, Any]] = read_json(found)["manifests"] if found else []
        return entries

    def fault_for(self, request: web.Request) -> Handler | None:
        where = request.path.removeprefix(f"/v2/{NAME}/")
        for (method, start), handler in self.refusals.items():
            if request.method == method and where.startswith(start):
                return handler
        return super().fault_for(request)

    async def respond(self, request: web.Request) -> web.StreamResponse:
        kind, _, name = request.path.removeprefix(f"/v2/{NAME}/").partition("/")
        if request.method in ("POST", "PUT", "DELETE"):
            self.writes.append(f"{request.method} {kind}/{name}")
        if request.method == "POST":
            location = self.location or f"/v2/{NAME}/blobs/uploads/one?state=a%2Fb"
            return web.Response(status=202, headers={"Location": location})
        if request.method == "PUT" and kind == "blobs":
            return await self._take_blob(request)
        if request.method == "PUT":
            return await self._take_manifest(name, await request.read())
        if request.method == "DELETE":
            return self._remove(name)
        return await super().respond(request)

    async def _take_blob(self, request: web.Request) -> web.Response:
        blob = await request.read()
        if request.query.get("digest") != digest_of(blob) or request.query["state"] != "a/b":
            return web.Response(status=400)
        self.store(blob)
        return web.Response(status=201)

    async def _take_manifest(self, reference: str, body: bytes) -> web.Response:
        is_digest = _DIGEST.fullmatch(reference)
        if is_digest and reference != digest_of(body):
            return web.Response(status=400)
        manifest = read_json(body)
        for layer in (manifest["config"], *manifest["layers"]) if "layers" in manifest else ():
            if layer["digest"] not in self.blobs:
                return web.Response(status=400)
        self.push(body, "" if is_digest else reference)
        if self.overwritten and not is_digest:
            self.push(self.overwritten.pop(), reference)
        headers = {}
        if self.has_referrers and (subject := manifest.get("subject")):
            self.entries = [one for one in self.entries if one["digest"] != digest_of(body)]
            self.entries.append(listed(body))
            headers = {"OCI-Subject": subject["digest"]} if self.sends_subject else {}
        return web.Response(status=201, headers=headers)

    def _remove(self, digest: str) -> web.Response:
        if self.untagged.pop((NAME, digest), None) is None:
            return web.Response(status=404)
        self.entries = [one for one in self.entries if one["digest"] != digest]
        return web.Response(status=202)
