"""A registry on loopback that can be told to misbehave; counts what it is asked."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import re
import ssl
import tarfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_network
from typing import Any, Self

from aiohttp import web
from aiohttp.test_utils import TestServer

from copyrator.metrics import Metrics
from copyrator.oci.auth import Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.exchange import Repository
from copyrator.oci.transport import Network, Rate

UNHURRIED = Rate(per_second=10_000.0)
"""Of tests that aren't about the rate."""
LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"),)
"""Where tests' registries are; the operator asks none there unless it is told to."""

_KIND = re.compile(r"/(?:manifests|blobs|referrers|tags)/")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def registry_client(
    timeout: float = 5.0,
    *,
    metrics: Metrics | None = None,
    allowed: tuple[Network, ...] = LOOPBACK,
    rate: Rate = UNHURRIED,
    clock: Callable[[], float] = time.monotonic,
) -> RegistryClient:
    """A client that may ask the tests' registries."""
    return RegistryClient(
        metrics=metrics or Metrics(), timeout=timeout, allowed=allowed, rate=rate, clock=clock
    )


def packed(files: dict[str, str]) -> bytes:
    """A chart as werf packs it."""
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as archive:
        for name, text in files.items():
            about = tarfile.TarInfo(f"app/{name}")
            about.size = len(text)
            archive.addfile(about, io.BytesIO(text.encode()))
    return found.getvalue()


CHART = packed({"Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n"})
"""Of all bundles that ``put`` pushes."""


def digest_of(manifest: bytes) -> str:
    return "sha256:" + hashlib.sha256(manifest).hexdigest()


def answering(status: int, body: str = "", **headers: str) -> Handler:
    """Always the same answer."""

    async def answer(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, text=body, headers=named)

    return answer


@dataclass
class FakeRegistry:
    """Serves manifests, tags and tokens."""

    auth: str = ""
    """"", "basic" or "bearer"."""
    users: dict[str, str] = field(default_factory=dict)
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """By repository and tag; likewise ``untagged`` by digest."""
    untagged: dict[tuple[str, str], bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    """By digest, of all repositories."""
    page: int = 0
    """Tags a page; 0 sends all."""
    expires_in: float | None = 300
    token_answer: str = ""
    """Sent in place of a token, with TOKEN in it replaced by one."""
    digest_header: bool = True
    fault: Handler | None = None
    """Answers in place of the registry, while it is set."""
    fault_at: str = ""
    """Paths that the fault answers: those that contain this."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path of every request, tokens' too."""
    seen_authorization: list[str | None] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    in_flight: int = 0
    most_in_flight: int = 0
    gate: asyncio.Event | None = None
    """While set and not passed, manifests wait for it."""
    server: TestServer | None = None
    scheme: str = "http"
    tls: ssl.SSLContext | None = None

    async def start(self, tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self.server = TestServer(app, host=address)
        await self.server.start_server(ssl=tls or self.tls)
        self.scheme = self.server.scheme

    async def stop(self) -> None:
        if "client" in vars(self):
            await self.client.close()
        if self.server is not None:
            await self.server.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @cached_property
    def client(self) -> RegistryClient:
        """One that asks it; closed with it."""
        return registry_client(60.0)

    @property
    def app(self) -> Repository:
        return self.repo("team/app")

    def repo(self, name: str) -> Repository:
        return Repository(self.host, name, plain_http=self.scheme == "http")

    async def tags(self, credential: Credential | None = None) -> list[str]:
        """Those of ``team/app``."""
        found: list[str] = []

        async def take(tags: list[str]) -> None:
            found.extend(tags)

        await self.client.tags(self.app, credential, take)
        return found

    async def resolve(self, credential: Credential | None = None, tag: str = "1.0.0") -> str:
        """The digest of a tag of ``team/app``, by its client."""
        return await self.client.digest(self.app, tag, credential)

    @property
    def host(self) -> str:
        assert self.server is not None
        return f"127.0.0.1:{self.server.port}"

    def put(self, repo: str, tag: str, content: str) -> str:
        """Push; what the tag named before can still be had by its digest."""
        digest = digest_of(CHART)
        self.blobs[digest] = CHART
        layer = {"mediaType": "application/tar+gzip", "digest": digest, "size": len(CHART)}
        found = {"schemaVersion": 2, "content": content, "layers": [layer]}
        manifest = json.dumps(found).encode()
        if before := self.manifests.get((repo, tag)):
            self.untagged[repo, digest_of(before)] = before
        self.manifests[repo, tag] = manifest
        return digest_of(manifest)

    def put_chart(
        self,
        repo: str,
        tag: str,
        layer: bytes,
        *,
        media_type: str = "application/tar+gzip",
        layers: list[Any] | None = None,
    ) -> str:
        """Push a bundle as werf does; ``layers`` replaces fields of its one layer, or adds more."""
        digest = digest_of(layer)
        self.blobs[digest] = layer
        found = {"mediaType": media_type, "digest": digest, "size": len(layer)}
        described = [
            {**found, **one} if isinstance(one, dict) else one
            for one in ([{}] if layers is None else layers)
        ]
        manifest = json.dumps({"schemaVersion": 2, "layers": described}).encode()
        self.manifests[repo, tag] = manifest
        if "sha256:" not in tag:
            self.untagged[repo, digest_of(manifest)] = manifest
        return digest_of(manifest)

    def untag(self, repo: str, tag: str) -> None:
        """Delete a tag; what it named can still be had by its digest."""
        manifest = self.manifests.pop((repo, tag))
        self.untagged[repo, digest_of(manifest)] = manifest

    def count(self, method: str, contains: str = "") -> int:
        return sum(1 for one, path in self.asked if one == method and contains in path)

    def forget_tokens(self) -> None:
        """What happens to all tokens when a registry is restarted with a new key."""
        self.tokens.clear()

    def fault_for(self, request: web.Request) -> Handler | None:
        """What answers this request in place of the registry."""
        return self.fault if self.fault_at in request.path else None

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path_qs))
        self.seen_authorization.append(request.headers.get("Authorization"))
        if fault := self.fault_for(request):
            return await fault(request)
        if request.path == "/token":
            return await self._token(request)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return await self.respond(request)
        finally:
            self.in_flight -= 1

    async def respond(self, request: web.Request) -> web.StreamResponse:
        """What a well-behaved registry answers to somebody who may read."""
        if request.path.endswith("/tags/list"):
            return self._tags(request)
        if "/blobs/" in request.path:
            return self._blob(request)
        return self._manifest(request)

    def _refusal(self, request: web.Request) -> web.Response | None:
        sent = request.headers.get("Authorization", "")
        if self.auth == "basic" and not self._knows(sent):
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="r, x"'})
        if self.auth == "bearer" and sent.removeprefix("Bearer ") not in self.tokens:
            repo = _KIND.split(request.path.removeprefix("/v2/"))[0]
            challenge = (
                f'Bearer realm="{self.scheme}://{self.host}/token",service="fake",'
                f'scope="repository:{repo}:pull"'
            )
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        return None

    async def _token(self, request: web.Request) -> web.Response:
        form = dict(await request.post()) if request.method == "POST" else dict(request.query)
        known = self._knows(request.headers.get("Authorization", ""))
        if request.method == "POST":
            known = form.get("refresh_token") == "refresh"
        if self.users and not known:
            return web.Response(status=401)
        token = f"token-{form.get('scope', '')}-{len(self.asked)}"
        self.tokens.add(token)
        if self.token_answer:
            return web.Response(text=self.token_answer.replace("TOKEN", token))
        body: dict[str, object] = {"token": token}
        if self.expires_in is not None:
            body["expires_in"] = self.expires_in
        return web.json_response(body)

    def _knows(self, authorization: str) -> bool:
        if not authorization.startswith("Basic "):
            return False
        user, _, password = base64.b64decode(authorization[6:]).decode().partition(":")
        return self.users.get(user) == password

    def _manifest(self, request: web.Request) -> web.Response:
        repo, _, tag = request.path.removeprefix("/v2/").rpartition("/manifests/")
        manifest = self.manifests.get((repo, tag)) or self.untagged.get((repo, tag))
        if manifest is None and "sha256:" in tag:
            tagged = (one for (name, _), one in self.manifests.items() if name == repo)
            manifest = next((one for one in tagged if digest_of(one) == tag), None)
        if manifest is None:
            return web.Response(status=404)
        headers = {"Docker-Content-Digest": digest_of(manifest)} if self.digest_header else {}
        return web.Response(body=manifest, headers=headers)

    def _blob(self, request: web.Request) -> web.Response:
        blob = self.blobs.get(request.path.rpartition("/blobs/")[2])
        return web.Response(status=404) if blob is None else web.Response(body=blob)

    def _tags(self, request: web.Request) -> web.Response:
        repo = request.path.removeprefix("/v2/").removesuffix("/tags/list")
        tags = sorted(tag for name, tag in self.manifests if name == repo)
        after = request.query.get("last", "")
        rest = [tag for tag in tags if tag > after]
        headers = {}
        if self.page and len(rest) > self.page:
            rest = rest[: self.page]
            headers["Link"] = f'</v2/{repo}/tags/list?n={self.page}&last={rest[-1]}>; rel="next"'
        return web.json_response({"name": repo, "tags": rest}, headers=headers)
