"""The kubelet's log endpoint, so that `kubectl logs` works, on loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

_POLL = 0.2
_BLOCK = 64 * 1024
_UNSUPPORTED = ("timestamps", "sinceSeconds", "sinceTime")


@asynccontextmanager
async def serve(pods: Path, tls: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve the output of the pods under a directory; yields the port."""
    app = web.Application()
    app["pods"] = pods
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", _logs)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def _logs(request: web.Request) -> web.StreamResponse:
    query = request.query
    unsupported = [name for name in _UNSUPPORTED if query.get(name) not in (None, "false")]
    if unsupported:
        return web.Response(status=501, text=f"a process node has no {', '.join(unsupported)}\n")
    place = request.match_info
    suffix = ".previous.log" if query.get("previous") == "true" else ".log"
    found = _find(request.app["pods"], place["namespace"], place["pod"])
    path = found / (place["container"] + suffix) if found else None
    if path is None or not path.is_file():
        words = f"no output of container {place['container']} of pod {place['pod']}\n"
        return web.Response(status=404, text=words)
    start = await asyncio.to_thread(_start, path, query.get("tailLines"))
    answer = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
    await answer.prepare(request)
    limit = int(query["limitBytes"]) if "limitBytes" in query else None
    await _copy(path, start, limit, answer, follow=query.get("follow") == "true")
    await answer.write_eof()
    return answer


def _find(pods: Path, namespace: str, pod: str) -> Path | None:
    """The directory of the youngest pod of a name; names hold no underscore and no slash."""
    matches = [
        path for path in pods.iterdir() if path.name.rsplit("_", 1)[0] == f"{namespace}_{pod}"
    ]
    return max(matches, key=lambda path: path.stat().st_mtime, default=None)


def _start(path: Path, tail_lines: str | None) -> int:
    """Where the last lines of a file begin."""
    if tail_lines is None:
        return 0
    with path.open("rb") as file:
        lines = [len(line) for line in file]
    return sum(lines[: max(0, len(lines) - int(tail_lines))])


async def _copy(
    path: Path, start: int, limit: int | None, answer: web.StreamResponse, *, follow: bool
) -> None:
    """Send a file from a place on; `follow` goes on until its pod has ended."""
    left = limit
    with path.open("rb") as file:
        file.seek(start)
        while left is None or left > 0:
            block = file.read(_BLOCK if left is None else min(_BLOCK, left))
            if block:
                await answer.write(block)
                left = None if left is None else left - len(block)
            elif not follow or not (path.parent / "root").is_dir():
                return
            else:
                await asyncio.sleep(_POLL)
