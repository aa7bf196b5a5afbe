"""Registries of ours, in a thread of their own: one that misbehaves before the real one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry

_PASSED_ON = ("Content-Type", "Docker-Content-Digest", "Link")


@dataclass
class Front(FakeRegistry):
    """The registry `behind`, by a server that wants tokens, until a `fault` answers instead."""

    auth: str = "bearer"
    behind: str = ""
    times: list[float] = field(default_factory=list)
    """When it was asked."""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.times.append(time.monotonic())
        if self.fault_for(request) or request.path == "/token":
            return await super()._serve(request)
        return self._refusal(request) or await self._forward(request)

    async def _forward(self, request: web.Request) -> web.Response:
        url = f"http://{self.behind}{request.path_qs}"
        accept = {"Accept": request.headers.get("Accept", "*/*")}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, headers=accept) as answer,
        ):
            headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
            return web.Response(status=answer.status, body=await answer.read(), headers=headers)


@contextmanager
def serving(*registries: FakeRegistry) -> Iterator[None]:
    """Let registries run in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        for registry in registries:
            asyncio.run_coroutine_threadsafe(registry.start(), loop).result(30)
        yield
    finally:
        for registry in registries:
            asyncio.run_coroutine_threadsafe(registry.stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def stalling(_: web.Request) -> web.Response:
    """No answer."""
    await asyncio.sleep(3600)
    return web.Response()
