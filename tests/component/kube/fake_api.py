"""A small API server over real HTTP that can be told to misbehave.

Without a script it serves objects, pages, and watches as the real one does. `script(verb, answer)`
makes the next request of that verb get `answer` instead; several are used up in order, and `always`
stays until `behave()`.
"""

import asyncio
import json
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from msgspec.json import decode, encode

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass
class Seen:
    """A request that arrived."""

    verb: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: Any
    at: float


@dataclass(repr=False)  # it holds all that was ever written to it
class FakeApi:
    """ConfigMaps and Secrets, and whatever else is written to it."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    compacted: int = 0
    bookmarks: float | None = 0.1
    """Seconds between bookmarks."""
    _version: int = 100
    _log: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    _scripts: dict[str, deque[Answer]] = field(default_factory=lambda: defaultdict(deque))
    _always: dict[str, Answer] = field(default_factory=dict)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _open: list[web.Request] = field(default_factory=list)

    # --- the test's side -------------------------------------------------------------------------

    def script(self, verb: str, *answers: Answer) -> None:
        self._scripts[verb].extend(answers)

    def always(self, verb: str, answer: Answer) -> None:
        self._always[verb] = answer

    def behave(self) -> None:
        self._scripts.clear()
        self._always.clear()

    def count(self, verb: str) -> int:
        return sum(seen.verb == verb for seen in self.seen)

    def of(self, verb: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.verb == verb]

    @property
    def watches(self) -> int:
        """Watches that are open now."""
        return len(self._open)

    @property
    def version(self) -> int:
        return self._version

    def put(
        self, name: str, namespace: str = "ns", plural: str = "configmaps", **fields: Any
    ) -> int:
        """Create or change an object behind the client's back; returns its resourceVersion."""
        path = f"/api/v1/namespaces/{namespace}/{plural}/{name}"
        kind = "MODIFIED" if path in self.objects else "ADDED"
        body = {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}, **fields}
        return self._store(kind, path, body)

    def remove(self, name: str, namespace: str = "ns", plural: str = "configmaps") -> int:
        path = f"/api/v1/namespaces/{namespace}/{plural}/{name}"
        return self._store("DELETED", path, self.objects[path])

    def forget_history(self) -> None:
        """Compact: no watch can go on from any earlier version."""
        self._version += 1
        self.compacted = self._version

    def cut_watches(self) -> None:
        """Break every open watch's connection."""
        for request in list(self._open):
            if request.transport:
                request.transport.abort()

    # --- the server's side -----------------------------------------------------------------------

    def _store(self, kind: str, path: str, body: dict[str, Any]) -> int:
        self._version += 1
        body = copied(body)
        body["metadata"]["resourceVersion"] = str(self._version)
        if kind == "DELETED":
            del self.objects[path]
        else:
            self.objects[path] = body
        self._log.append((self._version, kind, path, body))
        self._news.set()
        self._news = asyncio.Event()
        return self._version

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        verb = verb_of(request)
        self.seen.append(
            Seen(
                verb,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(raw) if raw else None,
                asyncio.get_running_loop().time(),
            )
        )
        if self._scripts[verb]:
            return await self._scripts[verb].popleft()(request)
        if verb in self._always:
            return await self._always[verb](request)
        return await self.serve(request)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer as the real one does, whatever the script says."""
        answer: Answer = getattr(self, f"_{verb_of(request)}")
        return await answer(request)

    def _found(self, request: web.Request) -> list[tuple[str, dict[str, Any]]]:
        parts = request.path.split("/")
        plural = parts[-1]
        prefix = request.path + "/" if "namespaces" in parts else "/api/v1/namespaces/"
        return [
            (path, body)
            for path, body in sorted(self.objects.items())
            if path.startswith(prefix) and path.split("/")[-2] == plural
        ]

    async def _list(self, request: web.Request) -> web.StreamResponse:
        found = self._found(request)
        limit = int(request.query.get("limit", "0")) or len(found)
        version, start = str(self._version), 0
        if token := request.query.get("continue"):
            version, begin = token.split(":")
            start = int(begin)
        meta: dict[str, Any] = {"resourceVersion": version}
        if start + limit < len(found):
            meta["continue"] = f"{version}:{start + limit}"
        metadata_only = "as=PartialObjectMetadataList" in request.headers["Accept"]
        items = [shown(body, metadata_only) for _, body in found[start : start + limit]]
        return json_response({"kind": "ConfigMapList", "metadata": meta, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return await error(410, "Expired")(request)
        loop = asyncio.get_running_loop()
        end = loop.time() + float(request.query["timeoutSeconds"])
        response = web.StreamResponse()
        await response.prepare(request)
        plural = request.path.split("/")[-1]
        place = request.path.rsplit("/", 1)[0] if "/namespaces/" in request.path else ""
        self._open.append(request)
        try:
            while loop.time() < end:
                for version, kind, path, body in list(self._log):
                    if version > since and path.split("/")[-2] == plural and path.startswith(place):
                        since = version
                        await response.write(line(kind, body))
                pause = min(end - loop.time(), self.bookmarks or 3600)
                try:
                    async with asyncio.timeout(max(pause, 0)):
                        await self._news.wait()
                except TimeoutError:
                    if self.bookmarks:
                        await response.write(bookmark(self._version))
        finally:
            self._open.remove(request)
        return response

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.objects:
            return json_response(self.objects[request.path])
        name = request.path.rsplit("/", 1)[-1]
        return await error(404, "NotFound", details={"name": name, "kind": "configmaps"})(request)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        path = f"{request.path}/{body['metadata']['name']}"
        if path in self.objects:
            return await error(409, "AlreadyExists")(request)
        self._store("ADDED", path, body)
        return json_response(self.objects[path], status=201)

    async def _update(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return await self._get(request)
        body = await request.json()
        expected = body["metadata"].get("resourceVersion")
        if expected not in (None, self.objects[request.path]["metadata"]["resourceVersion"]):
            return await error(409, "Conflict")(request)
        self._store("MODIFIED", request.path, body)
        return json_response(self.objects[request.path])

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return await self._get(request)
        body = self.objects[request.path] | await request.json()
        self._store("MODIFIED", request.path, body)
        return json_response(body)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.objects:
            return await self._get(request)
        self._store("DELETED", request.path, self.objects[request.path])
        return json_response({"kind": "Status", "status": "Success"})


def verb_of(request: web.Request) -> str:
    if request.method == "GET" and request.query.get("watch"):
        return "watch"
    if request.method == "GET" and is_collection(request.path):
        return "list"
    return VERBS.get(request.method, "get")


def is_collection(path: str) -> bool:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    return len(rest) == 1 or (len(rest) == 3 and rest[0] == "namespaces")


def shown(body: dict[str, Any], metadata_only: bool) -> dict[str, Any]:
    return {"metadata": body["metadata"]} if metadata_only else body


def encoded(value: Any) -> bytes:
    """JSON of any value, also of texts that aren't Unicode, nested however deeply."""
    try:
        return encode(value)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(value).encode()


def copied(body: dict[str, Any]) -> dict[str, Any]:
    """What a reader makes of an object that is written."""
    try:
        found: dict[str, Any] = decode(encode(body))
    except (TypeError, ValueError, RecursionError):
        found = json.loads(json.dumps(body))
    return found


def json_response(
    body: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=encoded(body), status=status, headers=headers, content_type="application/json"
    )


def line(kind: str, body: dict[str, Any]) -> bytes:
    return encoded({"type": kind, "object": body}) + b"\n"


def event(kind: str, name: str, version: int, namespace: str = "ns", **fields: Any) -> bytes:
    meta = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
    }
    return line(kind, {"metadata": meta, **fields})


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def status_body(code: int, reason: str, message: str, details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
        "details": details or {},
    }


def error(
    code: int,
    reason: str = "",
    message: str = "no",
    *,
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = status_body(code, reason, message, details)
        return json_response(body, status=code, headers=headers)

    return answer


def raw(body: bytes, content_type: str = "application/json", status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type, status=status)

    return answer


def cut(body: bytes) -> Answer:
    """A body that is announced longer than it is, and a broken connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(body) + 100)})
        await response.prepare(request)
        await response.write(body)
        assert request.transport
        request.transport.close()
        return response

    return answer


def stream(*chunks: bytes, then: str = "end", hold: float = 3600.0) -> Answer:
    """A watch that sends these and then ends in order, is cut, or goes silent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "silence":
            await asyncio.sleep(hold)
        elif then == "cut":
            await asyncio.sleep(0.01)  # let the chunks leave before the connection breaks
            assert request.transport
            request.transport.abort()
        return response

    return answer


def hang(seconds: float = 3600.0) -> Answer:
    """No answer at all."""

    async def answer(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.Response()

    return answer


@contextmanager
def fails_after(seconds: float, what: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise AssertionError(f"not within {seconds} s: {what}") from None


async def turns(count: int = 20) -> None:
    """Let what is on its way between server and client arrive, each hop of which is a turn.

    By the clock alone it needn't: a process that had to wait for a core may take one turn in it.
    """
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], Any], what: str = "", seconds: float = 120.0) -> None:
    """Wait until a condition holds; it is looked at ever less often, at least each 30 ms."""
    pause = 0.005
    with fails_after(seconds, what or condition.__name__):
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(pause)
                pause = min(1.1 * pause, 0.03)
