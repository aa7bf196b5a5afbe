"""A walk over the pages of `copyrator ui` by their links, and the server that it begins at."""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from tests.kubeconfigs import write_plain

from copyrator.cli.core.cluster import Target
from copyrator.cli.ui import command
from copyrator.cli.ui.server import Server

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
DRAWN = {"circle", "ellipse", "line", "path", "polygon", "polyline", "rect", "stop", "use"}
"""Elements of SVG, which may end with their start tag."""


@asynccontextmanager
async def serving_pages(url: str, folder: Path) -> AsyncIterator[Server]:
    """The server of `copyrator ui` for the cluster at this URL, as the command makes it."""
    kubeconfig = write_plain(folder, url)
    made: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    serve = command._serve

    async def tell(server: Server, listener: socket.socket) -> None:
        made.set_result(server)
        await serve(server, listener)

    with pytest.MonkeyPatch.context() as patch, command._listener(0) as listener:
        patch.setattr(command, "_serve", tell)
        patch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        target = Target(kubeconfig=kubeconfig)
        running = asyncio.create_task(command._show(target, None, listener))
        await asyncio.wait((made, running), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
        server = made.result()
        while not server.port:
            await asyncio.sleep(0.01)
        while server.live.now.loading:
            await asyncio.sleep(0.01)
        yield server
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


def shape(path: str) -> str:
    """What pages of one template have in common: their address without names and values."""
    parts = urlsplit(path)
    first, *rest = parts.path.strip("/").split("/")
    kept = 2 if first == "do" else 0
    words = [word if number < kept or number > 1 else "*" for number, word in enumerate(rest)]
    if first in ("do", "copies"):
        words[kept:] = ["*"] * len(words[kept:])
    query = ",".join(sorted(key for key, _ in parse_qsl(parts.query, keep_blank_values=True)))
    return "/".join(("", first, *words)) + (f"?{query}" if query else "")


@dataclass
class Walk:
    """Which pages are still to be opened: of each shape at most so many, beside the first ones."""

    most: int
    first: Iterable[str] = ("/",)
    seen: Counter[str] = field(default_factory=Counter)
    _known: set[str] = field(default_factory=set)
    _queue: deque[str] = field(default_factory=deque)

    def __post_init__(self) -> None:
        for path in self.first:
            self._known.add(path)
            self._queue.append(path)

    def __iter__(self) -> "Walk":
        return self

    def __next__(self) -> str:
        if not self._queue:
            raise StopIteration
        path = self._queue.popleft()
        self.seen[shape(path)] += 1
        return path

    def add(self, links: Iterable[str]) -> None:
        """Take a page's links; those that begin with ``/`` are ours."""
        queued = Counter(map(shape, self._queue)) + self.seen
        for link in links:
            path = link.partition("#")[0]
            if path.startswith("/") and path not in self._known and queued[shape(path)] < self.most:
                self._known.add(path)
                self._queue.append(path)
                queued[shape(path)] += 1


class PageReader(HTMLParser):
    """Reads a page, and keeps what is wrong in it."""

    def __init__(self, path: str) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.links: list[str] = []
        self.faults: list[str] = []
        self.ids: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self._open: list[str] = []
        self._needed: list[str] = []
        """Identifiers that other elements name."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        for name, given in attrs:
            value = given or ""
            if name in ("style", "srcdoc") or name.startswith("on"):
                self.fault(f"<{tag} {name}>")
            elif name in ("href", "src", "action"):
                self.read_link(tag, value)
            elif name == "id":
                self.ids[value] += 1
            elif name in ("for", "aria-labelledby", "aria-describedby", "aria-controls"):
                self._needed += value.split()
        if len({name for name, _ in attrs}) < len(attrs):
            self.fault(f"<{tag}> has an attribute twice")
        if tag == "script" and dict(attrs).get("src") != "/assets/live.js":
            self.fault("a script that isn't ours")
        if tag in ("style", "iframe", "object", "img"):
            self.fault(f"<{tag}>")

    def read_link(self, tag: str, value: str) -> None:
        if value and not value.startswith(("/", "#", "?")) and value != "data:,":
            self.fault(f"<{tag}> leads to {value[:60]}")
        if tag == "a" or (tag == "form" and value):
            target = urlsplit(self.path).path + value if value.startswith("?") else value
            self.links.append(target)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag in DRAWN:
            self._open.pop()
        elif tag not in VOID:
            self.fault(f"<{tag}/> isn't closed")

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self._open or self._open.pop() != tag:
            self.fault(f"</{tag}> closes another element")

    def fault(self, text: str) -> None:
        self.faults.append(f"{self.path}: {text}")

    def finish(self) -> list[str]:
        """All faults."""
        self.close()
        if self._open:
            self.fault(f"not closed: {self._open}")
        for name, number in self.ids.items():
            if number > 1:
                self.fault(f'id="{name}" is there {number} times')
        for name in self._needed:
            if name not in self.ids:
                self.fault(f"no element has the id {name}")
        for tag in ("h1", "main", "nav", "header", "footer"):
            if self.tags[tag] != 1:
                self.fault(f"<{tag}> is there {self.tags[tag]} times")
        return self.faults
