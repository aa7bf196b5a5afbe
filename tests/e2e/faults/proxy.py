"""A reverse proxy between the operator and the API server that misbehaves when it is told to.

It speaks TLS with the API server's own certificate and passes the operator's token on, so that
nothing but the port in the kubeconfig differs. It runs in a thread of its own; tests are
synchronous. TCP-level tools (toxiproxy) can't do a 429, a 410 or an event out of order, and
mitmproxy would bring forty dependencies and still not end a watch early, so it is written here, on
aiohttp, which is there anyway.
"""

import asyncio
import json
import ssl
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web

from copyrator.connections import Connector
from localcluster import Cluster

_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "date"}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A request of the operator's, in RBAC's words."""

    at: float
    verb: str
    resource: str
    """Plural, with the subresource; empty for discovery and /version."""
    path: str
    query: Mapping[str, str]

    @property
    def page(self) -> int:
        """Which page of a list: 1, or 2 for every later one."""
        return 2 if self.query.get("continue") else 1


def seen(request: web.Request) -> Seen:
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    verb = _VERBS.get(request.method, "get")
    if verb == "get" and len(rest) == 1:
        verb = "watch" if request.query.get("watch") in ("1", "true") else "list"
    resource = "/".join(rest[:1] + rest[2:])
    return Seen(time.monotonic(), verb, resource, request.path, dict(request.query))


@dataclass(eq=False)
class Exchange:
    """A request on its way, and what can be done about it."""

    proxy: "FaultProxy"
    seen: Seen
    request: web.Request
    body: bytes
    query: dict[str, str]
    mute: bool = False
    """Whether nothing is passed on any more, not even the end."""

    @property
    def watch(self) -> bool:
        return self.seen.verb == "watch"

    def abort(self) -> None:
        """Break the connection to the operator: no FIN, no end of TLS."""
        if self.request.transport:
            self.request.transport.abort()

    async def ask(self) -> aiohttp.ClientResponse:
        """Ask the API server the same thing."""
        headers = {k: v for k, v in self.request.headers.items() if k.lower() not in _HOP}
        return await self.proxy.session.request(
            self.request.method,
            self.proxy.upstream + self.request.path,
            params=self.query,
            data=self.body or None,
            headers=headers,
        )

    async def begin(self, answer: aiohttp.ClientResponse | None = None) -> web.StreamResponse:
        """Send the headers of `answer`, or of a good watch."""
        if answer is None:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
        else:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
        await response.prepare(self.request)
        return response

    async def lines(self, answer: aiohttp.ClientResponse) -> Any:
        """The events of a watch, each with its line end."""
        rest = b""
        async for chunk in answer.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line + b"\n"


Fault = Callable[[Exchange], Awaitable[web.StreamResponse]]
Chosen = Callable[[Seen], bool]


def everything(_: Seen) -> bool:
    return True


def only(*verbs: str, of: tuple[str, ...] = (), page: int | None = None) -> Chosen:
    """The requests of these verbs, about these resources."""

    def chosen(one: Seen) -> bool:
        return (
            (not verbs or one.verb in verbs)
            and (not of or one.resource.split("/")[0] in of)
            and (page is None or one.page == page)
        )

    return chosen


async def relay(exchange: Exchange) -> web.StreamResponse:
    """No fault."""
    async with await exchange.ask() as answer:
        response = await exchange.begin(answer)
        async for chunk in answer.content.iter_any():
            if exchange.mute:
                break
            await response.write(chunk)
    if exchange.mute:
        await asyncio.sleep(3600)
    return response


def answers(status: int, reason: str, *, retry_after: int | None = None) -> Fault:
    """An error as the API server words it, at once."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": f"the proxy says {reason}",
        "reason": reason,
        "code": status,
    }
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}

    async def fault(exchange: Exchange) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return fault


def delays(seconds: float) -> Fault:
    """The right answer, late."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await relay(exchange)

    return fault


def holds(released: threading.Event) -> Fault:
    """No answer until it is let go, and then the right one."""

    async def fault(exchange: Exchange) -> web.StreamResponse:
        await asyncio.to_thread(released.wait)
        return await relay(exchange)

    return fault


async def cuts(exchange: Exchange) -> web.StreamResponse:
    """Half of an answer that was announced whole, or of an event; then the connection breaks."""
    async with await exchange.ask() as answer:
        if exchange.watch:
            response = await exchange.begin(answer)
            await response.write(await _half_an_event(exchange, answer))
        else:
            whole = await answer.read()
            response = web.StreamResponse(status=answer.status)
            response.content_type = "application/json"
            response.content_length = len(whole)
            await response.prepare(exchange.request)
            await response.write(whole[: len(whole) // 2])
        await asyncio.sleep(0.05)  # let it leave
        exchange.abort()
        return response


def fails_somehow(random: Random) -> Fault:
    """An error that says nothing about what was asked: 500, 503, half an answer, rarely a 429."""
    faults = {
        answers(500, "InternalError"): 40,
        answers(503, "ServiceUnavailable"): 40,
        cuts: 19,
        answers(429, "TooManyRequests", retry_after=1): 1,  # each one slows everything down
    }

    async def fault(exchange: Exchange) -> web.StreamResponse:
        (chosen,) = random.choices(list(faults), list(faults.values()))
        return await chosen(exchange)

    return fault


async def truncates(exchange: Exchange) -> web.StreamResponse:
    """Half a document or event, ended in order."""
    async with await exchange.ask() as answer:
        if exchange.watch:
            response = await exchange.begin(answer)
            await response.write(await _half_an_event(exchange, answer) + b"\n")
            return response
        whole = await answer.read()
        return web.Response(
            status=answer.status, body=whole[: len(whole) // 2], content_type="application/json"
        )


async def _half_an_event(exchange: Exchange, answer: aiohttp.ClientResponse) -> bytes:
    """Of the next event, or of a made one where none comes soon."""
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"nobody"}}}\n'
    try:
        async with asyncio.timeout(1.5):
            line = await anext(exchange.lines(answer))
    except (TimeoutError, StopAsyncIteration):
        pass
    return line[: len(line) // 2]


async def closes_at_once(exchange: Exchange) -> web.StreamResponse:
    """A watch that is accepted and ends in the same moment."""
    return await exchange.begin()


async def silent(exchange: Exchange) -> web.StreamResponse:
    """A watch that is accepted and on which nothing ever comes."""
    response = await exchange.begin()
    await asyncio.sleep(3600)
    return response


async def goes_silent(exchange: Exchange) -> web.StreamResponse:
    """As `silent`, and watches that stand aren't cut: nothing more comes on them either."""
    return await silent(exchange)


def fails_within(code: int, reason: str) -> Fault:
    """A watch that is accepted and tells an error: 410 Expired is how compaction looks."""
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"the proxy: {reason}"}
    line = json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"

    async def fault(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.begin()
        await response.write(line)
        return response

    return fault


async def pages_of_one(exchange: Exchange) -> web.StreamResponse:
    """A list in pages of one object each, so that small ones have several."""
    exchange.query["limit"] = "1"
    return await relay(exchange)


async def disorders(exchange: Exchange) -> web.StreamResponse:
    """Each event twice, and each two in the wrong order (where two come within half a second)."""
    async with await exchange.ask() as answer:
        response = await exchange.begin(answer)
        lines = exchange.lines(answer)
        held = b""
        while True:
            step = asyncio.ensure_future(anext(lines, b""))
            try:
                while not (await asyncio.wait({step}, timeout=0.5))[0]:
                    await response.write(held)
                    held = b""
                line = step.result()
            finally:
                step.cancel()
                await asyncio.gather(step, return_exceptions=True)
            if not line:
                return response
            if held:
                await response.write(line + line + held + held)
                held = b""
            else:
                held = line


@dataclass
class _Rule:
    chosen: Chosen
    fault: Fault


class FaultProxy:
    """A context manager. `fault` makes it misbehave for the length of a block."""

    def __init__(self, cluster: Cluster) -> None:
        self.upstream = cluster.server
        self.session: aiohttp.ClientSession
        self.log: list[Seen] = []
        self._met: list[Seen] = []
        self._pki = cluster.layout.pki
        self._rules: list[_Rule] = []
        self._open: set[Exchange] = set()
        self._peers: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy")
        self._port = 0
        self._runner: web.AppRunner

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_exception: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # --- the test's side -------------------------------------------------------------------------

    def kubeconfig(self, original: Path, to: Path) -> Path:
        """A copy of a kubeconfig that leads here."""
        document = yaml.safe_load(original.read_text())
        for entry in document["clusters"]:
            entry["cluster"]["server"] = f"https://127.0.0.1:{self._port}"
        to.write_text(yaml.safe_dump(document))
        return to

    @contextmanager
    def fault(
        self, fault: Fault, chosen: Chosen = everything, *, cut: bool = True
    ) -> Iterator[None]:
        """Misbehave. Watches that are open and concerned are cut, so that they meet the fault."""
        rule = _Rule(chosen, fault)
        self._run(self._begin(rule, cut=cut))
        try:
            yield
        finally:
            self._run(self._end(rule))

    def since(self, start: float, chosen: Chosen = everything) -> list[Seen]:
        """The requests that came after a moment (time.monotonic)."""
        return [one for one in self.log if one.at >= start and chosen(one)]

    def met(self, since: float) -> list[Seen]:
        """The requests that met a fault since a moment."""
        return [one for one in self._met if one.at >= since]

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(30)

    async def _start(self) -> None:
        trusted = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        own.load_cert_chain(self._pki / "apiserver.crt", self._pki / "apiserver.key")
        self.session = aiohttp.ClientSession(
            connector=Connector(limit=0, ssl=trusted),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, shutdown_timeout=0.1, handler_cancellation=True, access_log=None
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=own).start()
        self._port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        for exchange in list(self._open):
            exchange.abort()
        await self._runner.cleanup()
        for peer in self._peers:  # one that doesn't close its side would stay open
            peer.abort()
        await self.session.close()
        # What is still connecting to the API server would leave its socket behind.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _begin(self, rule: _Rule, *, cut: bool) -> None:
        self._rules.append(rule)
        for exchange in self._concerned(rule.chosen) if cut else ():
            if rule.fault is goes_silent:
                exchange.mute = True
                self._met.append(replace(exchange.seen, at=time.monotonic()))
            else:
                exchange.abort()

    async def _end(self, rule: _Rule) -> None:
        self._rules.remove(rule)

    def _concerned(self, chosen: Chosen) -> list[Exchange]:
        return [one for one in self._open if one.watch and chosen(one.seen)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport:
            self._peers.add(request.transport)
        body = await request.read()
        exchange = Exchange(self, seen(request), request, body, dict(request.query))
        self.log.append(exchange.seen)
        self._open.add(exchange)
        try:
            for rule in self._rules:
                if rule.chosen(exchange.seen):
                    self._met.append(exchange.seen)
                    return await rule.fault(exchange)
            return await relay(exchange)
        except (aiohttp.ClientError, ConnectionError):
            exchange.abort()  # the API server isn't there, or broke off: so does the proxy
            return web.Response(status=502)
        finally:
            self._open.discard(exchange)
