"""One side of `choices-client`: makes requests, and reports what they cost as JSON.

Usage: ``python -m bench.choices.client_child SIDE WORK``. WORK is the path of a JSON file:
kubeconfig, broken (a kubeconfig that leads to a proxy which answers a GET of the Secret ``busy``
with 429, and that of ``slow`` late), namespace, count.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from bench.choices.own import peak

SIDES = {
    "kube/": ("clients_today", "Today"),
    "kubernetes.aio": ("clients_kubernetes", "Raw"),
    "lightkube": ("clients_lightkube", "Lightkube"),
    "kr8s": ("clients_kr8s", "Kr8s"),
}
"""Module and class of each."""

OWN_ENVIRONMENT = ("kube/", "kubernetes.aio")
"""The sides that run with what the product has installed."""

IN_FLIGHT = 32
CANCELLED = 200
"""Requests that are given up; more than any pool holds."""

WATCH_SECONDS = 60

CONTENT = base64.b64encode(b"x" * 2048).decode()


class Meter:
    """Processor time of this process."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    async def each(
        self, what: str, numbers: range, act: Callable[[int], Awaitable[object]]
    ) -> None:
        """Do something for each number, 32 at a time."""
        left = iter(numbers)

        async def worker() -> None:
            for number in left:
                await act(number)

        began = time.process_time()
        await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
        self.figures[f"CPU of a {what}, µs"] = 1e6 * (time.process_time() - began) / len(numbers)


async def main(side: str, work: dict[str, Any]) -> dict[str, float]:
    """Everything once."""
    space, count = f"{work['namespace']}", int(work["count"])
    began = time.process_time()
    module, name = SIDES[side]
    make = getattr(importlib.import_module(f"bench.choices.{module}"), name)
    client = await make.connect(work["kubeconfig"])
    meter = Meter()
    with contextlib.suppress(Exception):
        await client.read(space, "nobody")
    meter.figures["CPU of import and connection, ms"] = 1000 * (time.process_time() - began)
    meter.figures["memory before, MB"] = peak()

    def body(number: int, turn: int) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": space, "name": f"s-{number}"},
            "data": {"content": CONTENT, "turn": base64.b64encode(b"%d" % turn).decode()},
        }

    numbers = range(count)
    await meter.each("create", numbers, lambda n: client.create(body(n, 0)))
    await meter.each("read", numbers, lambda n: client.read(space, f"s-{n}"))
    _, version = await client.list(space, metadata_only=False)
    await meter.each("replace", numbers, lambda n: client.replace(body(n, 1)))
    patch = {"metadata": {"labels": {"patched": "yes"}}}
    await meter.each("patch", numbers, lambda n: client.patch(space, f"s-{n}", patch))
    meter.figures["memory after the writes, MB"] = peak()
    meter.figures |= await _listed(client, space, count)
    meter.figures |= await _watched(client, space, version, 2 * count)
    meter.figures["memory at the end, MB"] = peak()
    await meter.each("delete", numbers, lambda n: client.delete(space, f"s-{n}"))
    await client.close()
    return meter.figures | await _broken(make, work["broken"], space)


async def _listed(client: Any, space: str, count: int) -> dict[str, float]:
    figures = {}
    for words, metadata_only in (("listed object", False), ("listed object's metadata", True)):
        began = time.process_time()
        try:
            found, _ = await client.list(space, metadata_only=metadata_only)
        except NotImplementedError:
            continue
        assert found == count, (found, count)
        figures[f"CPU of a {words}, µs"] = 1e6 * (time.process_time() - began) / count
    return figures


async def _watched(client: Any, space: str, version: str, count: int) -> dict[str, float]:
    """A watch that goes on where a list was, over all that happened since."""
    began, seen = time.process_time(), 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WATCH_SECONDS), aclosing(client.watch(space, version)) as events:
            async for _ in events:
                seen += 1
                if seen == count:
                    break
    return {
        "CPU of a watched event, µs": 1e6 * (time.process_time() - began) / max(seen, 1),
        f"events that didn't come within {WATCH_SECONDS} s": float(count - seen),
    }


async def _broken(make: Any, kubeconfig: str, space: str) -> dict[str, float]:
    """What it does with a 429, and whether requests that were given up hold anything back."""
    client = await make.connect(kubeconfig)
    figures: dict[str, float] = {}
    began = time.monotonic()
    try:
        async with asyncio.timeout(10):
            await client.read(space, "busy")
    except Exception as error:
        print(type(error).__name__, str(error)[:200], file=sys.stderr)
        figures["a 429's Retry-After is told"] = float(client.retry_after(error) == 1.0)
    figures["seconds until a 429 is told"] = time.monotonic() - began
    given_up = [asyncio.create_task(client.read(space, "slow")) for _ in range(CANCELLED)]
    await asyncio.sleep(1)
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    began = time.monotonic()
    try:
        async with asyncio.timeout(10):
            await client.read("default", "good")
        usable = 1.0
    except TimeoutError:
        usable = 0.0
    except Exception:
        usable = 1.0  # a 404 is an answer
    figures[f"usable after {CANCELLED} requests were cancelled"] = usable
    await client.close()
    return figures


if __name__ == "__main__":
    asked = json.loads(Path(sys.argv[2]).read_text())
    print(json.dumps(asyncio.run(main(sys.argv[1], asked))))
