"""Readiness probes by httpGet and tcpSocket: they decide a pod's Ready condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

Object = Mapping[str, Any]


async def watch(container: Object, tell: Callable[[bool], None]) -> None:
    """Probe a container for as long as it runs; returns at once when it has no probe."""
    probe = container.get("readinessProbe")
    if not probe:
        return
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    successes = failures = 0
    while True:
        if await _ask(probe, container):
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if successes >= probe.get("successThreshold", 1):
            tell(True)
        elif failures >= probe.get("failureThreshold", 3):
            tell(False)
        await asyncio.sleep(probe.get("periodSeconds", 10))


async def _ask(probe: Object, container: Object) -> bool:
    timeout = probe.get("timeoutSeconds", 1)
    try:
        async with asyncio.timeout(timeout):
            if "httpGet" in probe:
                return await _http(probe["httpGet"], container)
            if "tcpSocket" in probe:
                where = probe["tcpSocket"]
                port = _port(where["port"], container)
                _, writer = await asyncio.open_connection(where.get("host", "127.0.0.1"), port)
                writer.close()
                return True
    except (OSError, TimeoutError, aiohttp.ClientError):
        return False
    return True


async def _http(where: Object, container: Object) -> bool:
    scheme = where.get("scheme", "HTTP").lower()
    port = _port(where["port"], container)
    url = f"{scheme}://{where.get('host', '127.0.0.1')}:{port}{where.get('path', '/')}"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return 200 <= answer.status < 400


def _port(port: int | str, container: Object) -> int:
    if isinstance(port, int):
        return port
    for known in container.get("ports") or []:
        if known.get("name") == port:
            return int(known["containerPort"])
    return 0
