"""What `copyrator top` does: problems, in a terminal, kept up to date."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.text import Text

from copyrator.api.keys import ObjectName
from copyrator.api.text import printable
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.objects import SINGULAR
from copyrator.cli.core.output import GAP, Format, Kind, console, dump, identity, narrowed, typed
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.live import Live
from copyrator.cli.view.overview import Overview, OverviewRow, Snapshot, overview
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import RuleView, Validity

LOOK: Final = 1.0
"""Seconds between two updates, at least; ages are updated as often while nothing changes."""
_STYLES: Final = {
    State.FAILING: "bold red",
    State.WAITING: "yellow",
    State.SUSPENDED: "yellow",
    State.READY: "green",
}
_CERTIFICATES: Final = {Validity.EXPIRED: "bold red", Validity.EXPIRING: "yellow"}

_KEY: Final = re.compile(rb"\x1b[\[O][0-9;]*[A-Za-z~]|[^\x1b]")
"""A key, as a terminal in its ordinary or its application mode sends it."""
_QUIT: Final = frozenset({b"q", b"Q"})
_LINES: Final = {b"k": -1, b"\x1b[A": -1, b"\x1bOA": -1, b"j": 1, b"\x1b[B": 1, b"\x1bOB": 1}
_PAGES: Final = {b"\x1b[5~": -1, b"b": -1, b"\x1b[6~": 1, b" ": 1}
_FIRST: Final = frozenset({b"g", b"\x1b[H", b"\x1bOH", b"\x1b[1~"})
_LAST: Final = frozenset({b"G", b"\x1b[F", b"\x1bOF", b"\x1b[4~"})


@dataclass(slots=True)
class Scroll:
    """The rows that a screen shows."""

    first: int = 0
    room: int = 1
    """Rows of a screen."""
    total: int = 0

    def fit(self, total: int, room: int) -> None:
        """Keep to the rows that there are."""
        self.total, self.room = total, room
        self.first = max(min(self.first, total - room), 0)

    def press(self, key: bytes) -> None:
        """Move by a key; others do nothing."""
        if key in _FIRST | _LAST:
            self.first = 0 if key in _FIRST else self.total
        self.first += _LINES.get(key, 0) + _PAGES.get(key, 0) * self.room
        self.fit(self.total, self.room)


async def show_problems(
    target: Target, home: str | None, shape: Format | None, *, once: bool
) -> None:
    """Print them, once or until the user quits."""
    out = console()
    once = once or shape is not None or not out.is_terminal
    async with (
        target.connect() as client,
        Live(
            client, target.namespace_option, target.namespace, patient=once, operator=home
        ) as live,
    ):
        if shape is not None:
            dump(typed(Kind.OVERVIEW, document(live.now, datetime.now(UTC))), shape)
        elif once:
            out.print(rendered(live.now, out, lines=None))
        else:
            await _follow(live, out)


async def _follow(live: Live, out: Console) -> None:
    """Keep the screen up to date until the user quits."""
    scroll, quits = Scroll(), asyncio.Event()

    def draw() -> RenderableType:
        return rendered(live.now, out, out.height, scroll)

    with Screen(draw(), console=out, screen=True) as screen:

        def press(keys: Sequence[bytes]) -> None:
            if _QUIT.intersection(keys):
                quits.set()
                live.tell()
            for key in keys:
                scroll.press(key)
            screen.update(draw(), refresh=True)

        with _keyboard(press):
            seen = live.version
            while not quits.is_set():
                seen = await live.wait(seen, LOOK)
                screen.update(draw(), refresh=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(quits.wait(), LOOK / 4)


@contextmanager
def _keyboard(press: Callable[[Sequence[bytes]], None]) -> Iterator[None]:
    """Pass on the keys that are pressed, which the terminal doesn't print meanwhile."""
    if not sys.stdin.isatty():
        yield
        return
    file = sys.stdin.fileno()
    loop, before = asyncio.get_running_loop(), termios.tcgetattr(file)

    def read() -> None:
        keys = os.read(file, 1024)
        if not keys:
            loop.remove_reader(file)
        press(_KEY.findall(keys))

    tty.setcbreak(file)
    loop.add_reader(file, read)
    try:
        yield
    finally:
        loop.remove_reader(file)
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def document(seen: Snapshot, now: datetime) -> dict[str, Any]:
    """As in -o json."""
    view = overview(seen, now)
    return {
        "counts": {state.lower(): view.number(state) for state in State},
        "copies": {"desired": view.desired, "ready": view.ready},
        "items": [_item(row, seen, now) for row in view.all],
        "certificates": [
            {
                "rule": {"namespace": row.namespace, "name": row.name},
                **row.certificate.to_dict(),
                "state": str(row.validity),
            }
            for row in view.certificates
        ],
        "outdated": [*seen.down, *seen.faults],
        "denied": list(seen.denied),
    }


def _item(row: OverviewRow, seen: Snapshot, now: datetime) -> dict[str, Any]:
    name = ObjectName(row.namespace, row.name)
    body = (seen.rules if row.what == "rules" else seen.bundles)[name]
    found = {
        "object": identity(body),
        "state": str(row.state),
        "ready": rows.ready(body).status,
        "reason": rows.ready(body).reason,
        "since": rows.ready(body).since,
        "message": row.message,
    }
    if row.what == "rules":
        return found | {"copies": RuleView(body, now).counts.to_dict()}
    status = BundleView(body, now).summary
    return found | {
        "deployed": rows.version(status.deployed),
        "available": rows.version(status.available),
    }


def rendered(
    seen: Snapshot, out: Console, lines: int | None, scroll: Scroll | None = None
) -> RenderableType:
    """The text, limited to so many lines, with the rows that were scrolled to; None: all of it."""
    now = datetime.now(UTC)
    view = overview(seen, now)
    head = [Text(printable(text), style="yellow") for text in seen.alerts]
    head.append(_counts(view))
    for row in view.certificates[:1]:
        text = f"First certificate to expire: {row.certificate.to_string()} {row.text}"
        head.append(Text(printable(text), _CERTIFICATES.get(row.validity, "dim")))
    head += [Text(printable(text), style="yellow") for text in seen.remarks]
    found, scroll = view.all, scroll or Scroll()
    room = len(found)
    if lines is not None:
        used = sum(len(text.wrap(out, out.width)) for text in head)
        room = max(lines - used - 3, 1)
    scroll.fit(len(found), room)
    last = min(scroll.first + room, len(found))
    parts: list[RenderableType] = [*head, Text(), _table(found[scroll.first : last], out)]
    if lines is not None:
        which = f"{scroll.first + 1} to {last} of {len(found)}, the worst first; arrows, PgUp and "
        which += "PgDn scroll, q quits"
        text = which if len(found) > room else "q quits"
        parts.append(Text(text, style="dim"))
    return Group(*parts)


def _counts(view: Overview) -> Text:
    text = Text()
    for state in State:
        number = view.number(state)
        if number or state is not State.SUSPENDED:
            text.append(f"{number} {state}", _STYLES[state] if number else "dim").append("   ")
    text.append(f"{view.ready}/{view.desired} copies are ready")
    return text


def _table(found: Sequence[OverviewRow], out: Console) -> Text:
    """A row a line; SINCE and COPIES/VERSION only where the other columns keep their width."""
    lines = [["STATUS", "NAME", "REASON", "SINCE", "COPIES/VERSION", "MESSAGE"]]
    for row in found:
        texts = (row.reason, row.since, row.numbers, row.message)
        lines.append([row.state, f"{SINGULAR[row.what]} {row.shown}", *map(_plain, texts)])
    wanted, widths = _widths(lines, out)
    if widths != wanted:
        lines = [[*line[:3], line[-1]] for line in lines]
        _, widths = _widths(lines, out)
    heads, *cells = (_line(line, widths, out) for line in lines)
    heads.stylize("dim")
    for text, row in zip(cells, found, strict=True):
        text.stylize(_STYLES[row.state], 0, len(row.state))
    return Text("\n").join([heads, *cells])


def _widths(lines: Sequence[Sequence[str]], out: Console) -> tuple[list[int], list[int]]:
    """The widths of columns, as wanted and as they fit."""
    wanted = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    return wanted, narrowed(wanted, out.width - GAP * (len(wanted) - 1))


def _line(cells: Sequence[str], widths: Sequence[int], out: Console) -> Text:
    *front, last = map(_shortened, cells, widths)
    padded = (set_cell_size(cell, width + GAP) for cell, width in zip(front, widths, strict=False))
    text = Text("".join([*padded, last]))
    text.truncate(out.width, overflow="ellipsis")
    text.rstrip()
    return text


def _shortened(cell: str, width: int) -> str:
    """Its beginning and its end, so that names that begin alike stay apart."""
    if cell_len(cell) <= width:
        return cell
    end = (width - 1) // 2
    return f"{set_cell_size(cell, width - 1 - end)}…{set_cell_size(cell[::-1], end)[::-1]}"


def _plain(text: str) -> str:
    """What others wrote, in one line."""
    return printable(text).replace("\n", " ")
