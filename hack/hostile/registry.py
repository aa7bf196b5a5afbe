"""A registry that answers whatever may hurt its client; the repository's first part chooses how."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import itertools
import json
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache

from aiohttp import web

from hostile import contents, texts

MANIFEST = json.dumps({"schemaVersion": 2, "config": {"digest": "sha256:" + "0" * 64}}).encode()
MEGABYTE = 2**20

STRAYED = "strayed"
"""Requests that answer the challenge of a redirect's target, or one in quotes."""

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@cache
def _page_of_short_tags() -> bytes:
    """8 MB: 1.6 million tags of two letters."""
    return b'{"name":"x","tags":[' + b'"ab",' * ((8 * MEGABYTE - 40) // 5) + b'"ac"]}'


@cache
def _many_tags() -> bytes:
    """200,000 tags without pages, which is accepted."""
    return json.dumps({"tags": [f"0.{n}.0" for n in range(200_000)]}).encode()


@cache
def _tags_of_digits() -> bytes:
    """Versions whose numbers Python's int() doesn't take."""
    tags = [f"{texts.digits(4_400)}.0.{n}" for n in range(500)]
    return json.dumps({"tags": [*tags, *(f"1.0.{'9' * 120}{n}" for n in range(5_000))]}).encode()


@cache
def _zipped() -> bytes:
    """64 MB of tags in 64 KB."""
    return gzip.compress(b'{"tags":[' + b" " * (64 * MEGABYTE) + b"]}", 9)


class Registry:
    """Counts what it is asked, by the kind of its repositories."""

    def __init__(self) -> None:
        self.host = ""
        self.other = ""
        """Another origin, which nothing but the redirects of `moved` leads to."""
        self.asked: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        parts = request.path.split("/")
        kind = parts[2] if len(parts) > 2 and parts[1] == "v2" else "token"
        self.asked[kind] += 1
        if request.host == self.other and (kind != "moved" or "Authorization" in request.headers):
            self.asked[STRAYED] += 1
        try:
            answer: Answer = getattr(self, f"_serve_{kind}", self._serve_good)
            return await answer(request)
        except ConnectionError:  # the client has seen enough
            return web.Response()

    # --- tag lists -------------------------------------------------------------------------------

    async def _serve_good(self, request: web.Request) -> web.StreamResponse:
        """Nothing wrong: three tags, and a manifest each."""
        if request.path.endswith("/tags/list"):
            return web.json_response({"tags": ["0.9.0", "1.0.0", "1.1.0"]})
        digest = "sha256:" + hashlib.sha256(MANIFEST).hexdigest()
        return web.Response(body=MANIFEST, headers={"Docker-Content-Digest": digest})

    async def _serve_pages(self, request: web.Request) -> web.StreamResponse:
        return self._listed(request, _page_of_short_tags(), more=True)

    async def _serve_endless(self, request: web.Request) -> web.StreamResponse:
        tags = [f"0.{next(self._numbers)}.{n}" for n in range(1_000)]
        return self._listed(request, json.dumps({"tags": tags}).encode(), more=True)

    async def _serve_many(self, request: web.Request) -> web.StreamResponse:
        return self._listed(request, _many_tags())

    async def _serve_digits(self, request: web.Request) -> web.StreamResponse:
        if next(self._numbers) % 2:
            return self._listed(request, b'{"tags": [' + texts.digits(1_000_000).encode() + b"]}")
        return self._listed(request, _tags_of_digits())

    async def _serve_deep(self, request: web.Request) -> web.StreamResponse:
        return self._listed(request, b'{"tags": ' + b"[" * MEGABYTE + b"]" * MEGABYTE + b"}")

    # --- signatures and charts ---------------------------------------------------------------

    async def _serve_signed(self, request: web.Request) -> web.StreamResponse:
        return self._contents("signed", request)

    async def _serve_charts(self, request: web.Request) -> web.StreamResponse:
        return self._contents("charts", request)

    def _contents(self, kind: str, request: web.Request) -> web.StreamResponse:
        """What `contents` has for ``/v2/KIND/appNUMBER/WHAT/NAME``."""
        found = re.fullmatch(r"/v2/[a-z]+/app(\d{0,4})/([a-z]+)/(.+)", request.path)
        if found is None:
            return web.Response(status=404)
        number, what, name = found.groups()
        if what == "tags":
            return web.json_response({"tags": contents.TAGS})
        repository = contents.repository(kind, int(number or 0))
        body = repository.answer(what, name)
        if body is None:
            return web.Response(status=404)
        headers = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        if what == "manifests":
            headers["Docker-Content-Digest"] = contents.digest(body)
        elif what == "referrers" and repository.more:
            headers["Link"] = f'<{request.path}?last={next(self._numbers)}>; rel="next"'
        return web.Response(body=body, headers=headers)

    def _listed(
        self, request: web.Request, body: bytes, *, more: bool = False
    ) -> web.StreamResponse:
        """A list of tags; what isn't one is a manifest with the same body, cut to 4 MB."""
        if not request.path.endswith("/tags/list"):
            return web.Response(body=body[: 4 * MEGABYTE])
        link = f'<{request.path}?n=1000&last={next(self._numbers)}>; rel="next"'
        return web.Response(
            body=body, content_type="application/json", headers={"Link": link} if more else {}
        )

    # --- bodies ----------------------------------------------------------------------------------

    async def _serve_zipped(self, _: web.Request) -> web.StreamResponse:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=_zipped(), headers=headers)

    async def _serve_huge(self, request: web.Request) -> web.StreamResponse:
        """100 MB without a length."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        if request.method != "HEAD":
            for _ in range(100):
                await answer.write(b" " * MEGABYTE)
        return answer

    async def _serve_slow(self, request: web.Request) -> web.StreamResponse:
        """A byte now and then."""
        answer = web.StreamResponse(headers={"Content-Length": "1000"})
        await answer.prepare(request)
        for _ in range(1_000):
            await answer.write(b" ")
            await asyncio.sleep(2)
        return answer

    async def _serve_stalls(self, _: web.Request) -> web.StreamResponse:
        """No answer."""
        await asyncio.sleep(3_600)
        return web.Response()

    async def _serve_junk(self, _: web.Request) -> web.StreamResponse:
        number = next(self._numbers)
        body = texts.MEAN[number % len(texts.MEAN)].encode("utf-8", "replace")
        return web.Response(body=body, headers={"Docker-Content-Digest": "sha256:" + "z" * 7_000})

    async def _serve_headers(self, _: web.Request) -> web.StreamResponse:
        headers = {f"X-H{n}": "x" * 7_000 for n in range(200)}
        link = ",".join(["<x>; rel=next"] * 500)
        return web.Response(headers={**headers, "Link": link})

    async def _serve_later(self, _: web.Request) -> web.StreamResponse:
        wait = (texts.digits(5_000), "-1", "NaN", "1e309", "Fri, 31 Dec 9999 23:59:59 GMT", "ü")
        headers = {"Retry-After": wait[next(self._numbers) % len(wait)]}
        return web.Response(status=(429, 503)[next(self._numbers) % 2], headers=headers)

    # --- elsewhere -------------------------------------------------------------------------------

    async def _serve_hosts(self, request: web.Request) -> web.StreamResponse:
        """To a host that was never seen before, three in a row."""
        host = f"n{next(self._numbers)}.invalid:{next(self._numbers) % 60_000 + 1}"
        raise web.HTTPTemporaryRedirect(f"http://{host}{request.path}")

    async def _serve_circle(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPTemporaryRedirect(f"http://{self.host}{request.path}?{next(self._numbers)}")

    async def _serve_astray(self, request: web.Request) -> web.StreamResponse:
        """Where only the operator can go."""
        raise web.HTTPTemporaryRedirect(f"http://{self._forbidden()}{request.path}")

    def _forbidden(self) -> str:
        hosts = (
            *("169.254.169.254", "[::1]:1", "127.0.0.1:1", "localhost:1", "0.0.0.0:1", "0:1"),
            *(
                "[::ffff:127.0.0.1]:1",
                "[64:ff9b::a9fe:a9fe]",
                "2130706433:1",
                "0x7f.1:1",
                "[fe80::1]",
            ),
            *("100.100.100.200", "168.63.129.16", "[fd00:ec2::254]", "x" * 200, "a@b:1", "%"),
            *("[fd20:ce::254]", "[fd00:ec2::23]", "[64:ff9b:1::a9fe:a9fe]"),
        )
        return hosts[next(self._numbers) % len(hosts)]

    async def _serve_moved(self, request: web.Request) -> web.StreamResponse:
        """To another origin, which wants credentials for a token server of its own."""
        if request.host != self.other:
            raise web.HTTPTemporaryRedirect(f"http://{self.other}{request.path}")
        return _challenged(f'Bearer realm="http://{self.other}/token",service="s"')

    async def _serve_quoted(self, _: web.Request) -> web.StreamResponse:
        """A challenge within the quotes of another one."""
        ends = ('"', "", '\\\\"x"')
        end = ends[next(self._numbers) % len(ends)]
        return _challenged(f'Basic realm="the shop, Bearer realm=http://{self.other}/token, x{end}')

    async def _serve_realm(self, _: web.Request) -> web.StreamResponse:
        realms = (
            f"http://{self._forbidden()}/token",
            f"http://{self.host}/token?{'x' * 6_000}",
            "file:///etc/passwd",
            "http://",
            '"' * 3_000,
        )
        realm = realms[next(self._numbers) % len(realms)]
        return _challenged(f'Bearer realm="{realm}",service="{"s" * 3_000}"')

    async def _serve_loopback(self, _: web.Request) -> web.StreamResponse:
        return _challenged('Bearer realm="http://127.0.0.1:1/token",service="s"')

    async def _serve_tokens(self, request: web.Request) -> web.StreamResponse:
        """Tokens of a megabyte, which are never good."""
        return _challenged(f'Bearer realm="http://{self.host}/token/{request.path[-20:]}"')

    async def _serve_token(self, _: web.Request) -> web.StreamResponse:
        bodies = (
            {"token": "x" * MEGABYTE, "expires_in": 10**12},
            {"access_token": "a\r\nX: y", "expires_in": -1},
            {"token": {"a": "b"}, "expires_in": "x"},
            {"token": "good", "expires_in": 1e308, "issued_at": "9999-99-99"},
        )
        number = next(self._numbers)
        if number % 5 == 4:
            return web.Response(body=b'{"token":"x","expires_in":' + b"9" * 5_000 + b"}")
        return web.json_response(bodies[number % len(bodies)])


KINDS = tuple(
    name.removeprefix("_serve_")
    for name in vars(Registry)
    if name.startswith("_serve_") and name not in ("_serve_good", "_serve_token")
)
"""The first parts of the paths of its bad repositories."""


def _challenged(challenge: str) -> web.Response:
    return web.Response(status=401, headers={"WWW-Authenticate": challenge})


@asynccontextmanager
async def serving() -> AsyncIterator[Registry]:
    """Serve on two ports of loopback."""
    registry = Registry()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", registry.serve)
    # What the answers make the client send isn't always HTTP, which is nothing to be told of.
    logger = logging.getLogger("hostile")
    logger.disabled = True
    runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for _ in range(2):
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        registry.host, registry.other = (f"{host}:{port}" for host, port, *_ in runner.addresses)
        yield registry
    finally:
        await runner.cleanup()
