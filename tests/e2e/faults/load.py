"""Namespaces and sources that many users create, change, relabel and delete all the time.

`Load` knows what it did, and so what every copy has to be; it makes its requests side by side on
kept connections, because the client must not be what is slow.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from copyrator.connections import Connector
from localcluster import Api

OURS = "app.kubernetes.io/managed-by"
RULE = "copyrator.flant.com/rule"
RULES = 5
IN_FLIGHT = 16
FILLER = "x" * 500


@dataclass(frozen=True)
class Pace:
    """Seconds between two changes of one sort, on average."""

    sources: float
    namespaces: float
    copies: float


@dataclass
class Load:
    """Some namespaces, each with a copy of some sources; all names begin with `word`."""

    api: Api
    session: aiohttp.ClientSession
    home: str
    word: str
    random: random.Random
    namespaces: dict[str, str] = field(default_factory=dict)
    """Whether they are targets: `on` or `off`."""
    sources: dict[str, tuple[int, str]] = field(default_factory=dict)
    """The rule that selects them, and their value."""
    changes: int = 0
    disturbed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each copy (namespace, name) was edited or deleted."""
    serial: Iterator[int] = field(default_factory=itertools.count)

    # --- changes ---------------------------------------------------------------------------------

    async def begin(self, namespaces: int, sources: int) -> None:
        for rule in range(RULES):
            await self._send("POST", self.rules_path, self._rule(rule))
        await self._many(self._new_namespace() for _ in range(namespaces))
        await self._many(self._new_source() for _ in range(sources))

    async def go_on(self, seconds: float, pace: Pace) -> None:
        """Change things at random for so long."""
        sizes = len(self.namespaces), len(self.sources)
        sorts = (
            (pace.sources, lambda: self._change_sources(sizes[1])),
            (pace.namespaces, lambda: self._change_namespaces(sizes[0])),
            (pace.copies, self._disturb),
        )
        end = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            for every, change in sorts:
                group.create_task(self._go_on(end, every, change))

    async def _go_on(self, end: float, every: float, change: Callable[[], Awaitable[None]]) -> None:
        now = asyncio.get_running_loop().time
        due = now()
        while (due := due + self.random.expovariate(1 / every)) < end:
            await asyncio.sleep(due - now())
            await change()
            self.changes += 1

    async def _change_sources(self, meant: int) -> None:
        name = self.random.choice(sorted(self.sources))
        match self.random.choice(["change", "change", "change", "relabel", "exchange"]):
            case "change":
                await self._put_source(name, self.sources[name][0])
            case "relabel":
                await self._put_source(name, self.random.randrange(RULES))
            case "exchange":
                if len(self.sources) < meant:
                    await self._new_source()
                else:
                    del self.sources[name]
                    await self._send("DELETE", f"{self.sources_path}/{name}")

    async def _change_namespaces(self, meant: int) -> None:
        name = self.random.choice(sorted(self.namespaces))
        match self.random.choice(["relabel", "exchange"]):
            case "relabel":
                self.namespaces[name] = state = "off" if self.namespaces[name] == "on" else "on"
                labels = {"metadata": {"labels": {"load": state}}}
                await self._send("PATCH", f"/api/v1/namespaces/{name}", labels)
            case "exchange":
                if len(self.namespaces) < meant:
                    await self._new_namespace()
                else:
                    del self.namespaces[name]
                    await self._send("DELETE", f"/api/v1/namespaces/{name}")

    async def _disturb(self) -> None:
        """Edit or delete a copy behind the operator's back.

        None more than twice: of a copy that others change a third time the rules rightly say for
        ten minutes that the conflict persists.
        """
        copies = [
            (namespace, name)
            for namespace, state in self.namespaces.items()
            for name in self.sources
            if state == "on" and self.disturbed[namespace, name] < 2
        ]
        if not copies:
            return
        namespace, name = self.random.choice(copies)
        self.disturbed[namespace, name] += 1
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        if self.random.random() < 0.5:
            await self._send("DELETE", path, missing=True)
        else:
            await self._send("PATCH", path, {"data": {"value": "ZHJpZnQ="}}, missing=True)

    async def _new_namespace(self) -> None:
        name = f"{self.word}-{next(self.serial)}"
        self.namespaces[name] = state = "off" if self.random.random() < 0.05 else "on"
        body = {"metadata": {"name": name, "labels": {"load": state}}}
        await self._send("POST", "/api/v1/namespaces", body)

    async def _new_source(self) -> None:
        await self._put_source(f"source-{next(self.serial)}", self.random.randrange(RULES))

    async def _put_source(self, name: str, rule: int) -> None:
        is_new = name not in self.sources
        value = f"value-{next(self.serial)}"
        self.sources[name] = rule, value
        body = {
            "metadata": {"name": name, "labels": {"rule": f"{rule}"}},
            "stringData": {"value": value, "filler": FILLER},
        }
        path = self.sources_path if is_new else f"{self.sources_path}/{name}"
        await self._send("POST" if is_new else "PUT", path, body)

    def _rule(self, number: int) -> dict[str, Any]:
        return {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": f"rule-{number}"},
            "spec": {
                "source": {"kind": "Secret", "selector": {"matchLabels": {"rule": f"{number}"}}},
                "targets": {
                    "namespaces": [f"{self.word}-*"],
                    "selector": {"matchLabels": {"load": "on"}},
                },
            },
        }

    # --- what should be --------------------------------------------------------------------------

    @property
    def wanted(self) -> int:
        """How many copies there should be."""
        return len(self.sources) * sum(state == "on" for state in self.namespaces.values())

    async def unsettled(self) -> list[str]:
        """What rules say that isn't right yet, and what was deleted and still stands."""
        rules = (await self._send("GET", self.rules_path))["items"]
        counts = {
            rule["metadata"]["name"]: rule.get("status", {}).get("copies", {}) for rule in rules
        }
        open_ends = [
            f"{name} says {count}"
            for name, count in counts.items()
            if count.get("desired") != count.get("ready")
        ]
        ready = sum(count.get("ready", 0) for count in counts.values())
        if ready != self.wanted:
            open_ends.append(f"{ready} copies of {self.wanted} are said to be right: {counts}")
        standing = (await self._send("GET", "/api/v1/namespaces"))["items"]
        return open_ends + [
            f"namespace {item['metadata']['name']} still stands: {item.get('status')}"
            for item in standing
            if item["metadata"]["name"].startswith(f"{self.word}-")
            and item["metadata"]["name"] not in self.namespaces
        ]

    async def faults(self) -> list[str]:
        """Look at every copy in the cluster; what isn't as it should be, in words."""
        right, wrong = 0, []
        async for item in self._copies():
            metadata = item["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
            if name not in self.sources or self.namespaces.get(namespace) != "on":
                wrong.append(f"nobody wants the copy {namespace}/{name}")
                continue
            rule, value = self.sources[name]
            owner = metadata["annotations"][RULE]
            held = base64.b64decode(item["data"]["value"]).decode()
            if (owner, held) == (f"{self.home}/rule-{rule}", value):
                right += 1
            else:
                wrong.append(f"{namespace}/{name} is {owner}'s and holds {held}, not {value}")
        if right != self.wanted:
            wrong.append(f"{right} copies of {self.wanted} are right")
        return wrong

    async def _copies(self) -> AsyncIterator[dict[str, Any]]:
        more = ""
        while True:
            query = f"labelSelector={OURS}%3Dcopyrator&limit=1000&continue={more}"
            page = await self._send("GET", f"/api/v1/secrets?{query}")
            for item in page["items"]:
                if item["metadata"]["namespace"].startswith(f"{self.word}-"):
                    yield item
            more = page["metadata"].get("continue")
            if not more:
                return

    # --- requests --------------------------------------------------------------------------------

    @property
    def sources_path(self) -> str:
        return f"/api/v1/namespaces/{self.home}/secrets"

    @property
    def rules_path(self) -> str:
        return f"/apis/flant.com/v1/namespaces/{self.home}/copyrators"

    async def _many(self, changes: Iterator[Any]) -> None:
        async def work() -> None:
            for change in changes:
                await change

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())

    async def _send(
        self, method: str, path: str, body: Any = None, *, missing: bool = False
    ) -> dict[str, Any]:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        async with self.session.request(
            method, self.api.server + path, json=body, headers={"Content-Type": kind}
        ) as answer:
            found: dict[str, Any] = await answer.json()
            assert answer.status < 300 or (missing and answer.status == 404), found
            return found


@asynccontextmanager
async def load(api: Api, home: str, word: str, chance: random.Random) -> AsyncIterator[Load]:
    connector = Connector(ssl=api.context)
    async with aiohttp.ClientSession(connector=connector) as session:
        yield Load(api, session, home, word, chance)
