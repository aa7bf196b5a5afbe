"""Hostile neighbours: a process that writes bad objects, one after the other, until it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import msgspec

from hostile import registry, texts
from hostile.bad import Bad, Places
from hostile.categories import categories
from localcluster import Cluster

PACE = 0.2
"""Seconds from one bad object to the next, where the API server takes them as fast as that."""
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the process is told.

    Attributes:
        state: the control plane's directory.
        places: where to; the registry is filled in by the process.
        seed: all follows from it.
        categories: those of `categories`; empty: all.
        pace: seconds between two objects.
    """

    state: str
    places: Places
    seed: int
    categories: tuple[str, ...] = ()
    pace: float = PACE


@dataclass(slots=True)
class Done:
    """What it has done, by category (and status), and what its registry was asked."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    milliseconds: Counter[str] = field(default_factory=Counter)
    megabytes: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)

    def written(self) -> str:
        """As `read` takes it."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def read(cls, text: str) -> Done:
        """What another process has printed."""
        found: dict[str, Any] = json.loads(text)
        megabytes = found.pop("megabytes")
        return cls(**{name: Counter(counts) for name, counts in found.items()}, megabytes=megabytes)


class Neighbours:
    """Writes objects as the author of the hostile namespaces would, with all rights in them."""

    def __init__(self, session: aiohttp.ClientSession, server: str, plan: Plan) -> None:
        self._session = session
        self._server = server
        self._plan = plan
        self._random = Random(plan.seed)  # noqa: S311 - nothing is secret here
        self._categories = categories(plan.categories)
        self.done = Done()

    async def go_on(self, over: asyncio.Event) -> None:
        """Write objects until `over`, each category in its turn, in an order that changes."""
        while not over.is_set():
            for category in self._random.sample(self._categories, len(self._categories)):
                began = time.monotonic()
                for _ in range(category.at_once):
                    bad = category.next(self._random, self._plan.places)
                    await self._apply(category.name, bad)
                print(category.name, flush=True)
                if over.is_set():
                    return
                took = time.monotonic() - began
                # Half of the time at most: the API server shall not be what others wait for.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), max(self._plan.pace - took, took))

    async def _apply(self, category: str, bad: Bad) -> None:
        """Create it; where it stands, change it, or delete it now and then."""
        began = time.monotonic()
        if not bad.namespace:
            status = await self._send("PATCH", f"/api/v1/namespaces/{bad.name}", bad.content, bad)
        else:
            status = await self._send("POST", bad.collection, bad.body, bad)
        if status == 409 and self._random.random() < 0.2:
            status = await self._send("DELETE", bad.path, {}, bad)
        elif status == 409:
            change = [
                {"op": "add", "path": f"/{key}", "value": value}
                for key, value in bad.content.items()
                if key != "metadata"
            ]
            metadata = bad.content["metadata"]
            change += [
                {"op": "add", "path": f"/metadata/{key}", "value": metadata[key]}
                for key in ("labels", "annotations")
                if metadata.get(key)
            ]
            status = await self._send("PATCH", bad.path, change, bad)
        if status < 300 and bad.status is not None:
            await self._send("PATCH", f"{bad.path}/status", {"status": bad.status}, bad)
        self.done.milliseconds[category] += int(1000 * (time.monotonic() - began))
        if status < 300:
            self.done.accepted[category] += 1
        else:
            self.done.refused[f"{category} {status}"] += 1

    async def _send(self, method: str, path: str, body: Any, bad: Bad) -> int:
        kind = "json-patch" if isinstance(body, list) else "merge-patch"
        kind = "json" if method != "PATCH" else f"{kind}+json"
        data = texts.encode(body)
        self.done.megabytes += len(data) / 1e6
        try:
            async with self._session.request(
                method,
                f"{self._server}{path}",
                params={"fieldManager": bad.manager} if method != "DELETE" else {},
                data=data,
                headers={"Content-Type": f"application/{kind}"},
            ) as answer:
                async for _ in answer.content.iter_chunked(2**16):
                    pass
                return answer.status
        except aiohttp.ClientError:  # the API server hangs up on a body that is too long
            return 413


async def _work(plan: Plan) -> Done:
    api = Cluster.attach(Path(plan.state)).api()
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, over.set)
    async with (
        registry.serving() as served,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=api.context)) as session,
    ):
        places = replace(plan.places, registry=served.host)
        working = Neighbours(session, api.server, replace(plan, places=places))
        await working.go_on(over)
        working.done.asked = served.asked
    return working.done


@dataclass(slots=True)
class Running:
    """The process, while it runs.

    Attributes:
        turns: how often each category has had its turn so far.
        done: what came of it, once the process has ended.
    """

    turns: Counter[str] = field(default_factory=Counter)
    done: Done | None = None

    def follow(self, lines: Iterable[str]) -> None:
        """Read what the process prints: a name for each turn, and in the end what is done."""
        for line in lines:
            if line.startswith("{"):
                self.done = Done.read(line)
            else:
                self.turns[line.strip()] += 1


@contextmanager
def neighbours(plan: Plan) -> Iterator[Running]:
    """Run them until the block ends.

    Raises:
        RuntimeError: the process failed.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "hostile.neighbours", msgspec.json.encode(plan)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    running = Running()
    thread = threading.Thread(target=running.follow, args=(process.stdout,), name="neighbours")
    thread.start()
    try:
        yield running
        process.stdin.close()
        if code := process.wait(STOP_SECONDS):
            raise RuntimeError(f"the hostile neighbours failed: code {code}; stderr says why")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        thread.join()
        process.stdin.close()
        process.stdout.close()


def main(text: str) -> None:
    """What the process does."""
    done = asyncio.run(_work(msgspec.json.decode(text, type=Plan)))
    print(done.written())


if __name__ == "__main__":
    main(sys.argv[1])
