"""The floor: the same writes by a client that has nothing else to do.

A process of its own, as the operator is, as a service account, as the operator is, so that priority
and fairness hold for both: aiohttp, one session, a fixed number of requests in flight.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml

_TYPES = {"PATCH": "application/merge-patch+json"}

IN_FLIGHT = 32
"""The knee of the API server on two cores."""


def writes(kubeconfig: Path, method: str, requests: list[tuple[str, Any]]) -> None:
    """Make all requests, in a process of its own.

    Args:
        kubeconfig: with a token.
        method: of all of them.
        requests: path and body of each.

    Raises:
        subprocess.CalledProcessError: one was refused; stderr says which.
    """
    work = json.dumps({"kubeconfig": str(kubeconfig), "method": method, "requests": requests})
    subprocess.run([sys.executable, "-m", "bench.bare"], input=work, text=True, check=True)


async def _work(config: Any, method: str, requests: list[tuple[str, Any]]) -> None:
    cluster = config["clusters"][0]["cluster"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    headers = {
        "Authorization": f"Bearer {config['users'][0]['user']['token']}",
        "Content-Type": _TYPES.get(method, "application/json"),
    }
    bodies = [(path, json.dumps(body).encode()) for path, body in reversed(requests)]
    connector = aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT)
    async with aiohttp.ClientSession(
        cluster["server"], headers=headers, connector=connector
    ) as session:

        async def worker() -> None:
            while bodies:
                path, body = bodies.pop()
                while True:
                    async with session.request(method, path, data=body) as answer:
                        await answer.read()
                    if answer.status != 429:
                        break
                    await asyncio.sleep(float(answer.headers.get("Retry-After", 1)))
                if answer.status >= 300:
                    sys.exit(f"{method} {path}: {answer.status}")

        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


if __name__ == "__main__":
    given = json.load(sys.stdin)
    credentials = yaml.safe_load(Path(given["kubeconfig"]).read_text())
    asyncio.run(_work(credentials, given["method"], given["requests"]))
