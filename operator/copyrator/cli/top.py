"""`copyrator top`: what isn't well, in a terminal, kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import click
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.table import Table
from rich.text import Text

from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.live import Live, Snapshot
from copyrator.cli.objects import SINGULAR
from copyrator.cli.output import console, printable
from copyrator.cli.overview import Overview, Row, State, overview

LOOK: Final = 1.0
"""Seconds between two updates, at least; ages are updated as often while nothing changes."""
_STYLES: Final = {State.FAULT: "bold red", State.WAITS: "yellow", State.GOOD: "green"}
ROOMY: Final = 100
"""Columns of a terminal from which on there is room for more than the most important."""


@click.command()
@cluster_options()
@click.option("--once", is_flag=True, help="Print it once, instead of keeping it up to date.")
def top(target: Target, *, once: bool) -> None:
    """Show rules and Bundles in the terminal, the worst first, until Ctrl-C.

    All namespaces are shown as far as you may list them; -n shows one. Without a terminal it is
    printed once.
    """
    run(_top(target, once=once))


async def _top(target: Target, *, once: bool) -> None:
    out = console()
    async with (
        target.connect() as client,
        Live(client, target.namespace_option, target.namespace) as live,
    ):
        if once or not out.is_terminal:
            out.print(_view(live.now, out, lines=None))
            return
        with Screen(_view(live.now, out, out.height), console=out, screen=True) as screen:
            while True:
                await live.wait(LOOK)
                screen.update(_view(live.now, out, out.height), refresh=True)
                await asyncio.sleep(LOOK / 4)


def _view(seen: Snapshot, out: Console, lines: int | None) -> RenderableType:
    """What fits into so many lines; None: all."""
    now = datetime.now(UTC)
    view = overview(seen, now)
    head = [_counts(view), *(_note(text) for text in _notes(seen))]
    found = view.all
    room = len(found)
    if lines is not None:
        used = sum(len(text.wrap(out, out.width)) for text in head)
        room = max(lines - used - 3, 1)
    parts: list[RenderableType] = [*head, Text(), _table(found[:room], out)]
    if len(found) > room:
        parts.append(Text(f"and {len(found) - room} more, none of them worse", style="dim"))
    return Group(*parts)


def _counts(view: Overview) -> Text:
    text = Text()
    for state, words in (
        (State.FAULT, "with a fault"),
        (State.WAITS, "waiting"),
        (State.GOOD, "good"),
    ):
        text.append(
            f"{view.number(state)} {words}", _STYLES[state] if view.number(state) else "dim"
        )
        text.append("   ")
    text.append(f"{view.right}/{view.desired} copies are right")
    return text


def _notes(seen: Snapshot) -> Iterator[str]:
    for fault in seen.faults:
        yield f"This may be out of date: {fault}"
    if seen.denied:
        yield f"Not shown, because you have no permission to list them: {', '.join(seen.denied)}."


def _note(text: str) -> Text:
    return Text(printable(text), style="yellow")


def _table(found: Sequence[Row], out: Console) -> Table:
    """A row a line; where it is too long, the end of the message is cut off."""
    cells = {"STATE": [row.state for row in found], "NAME": [_named(row) for row in found]}
    cells["REASON"] = [row.reason for row in found]
    if out.width >= ROOMY:
        cells["SINCE"] = [row.since for row in found]
        cells["COPIES/VERSION"] = [row.numbers for row in found]
    cells["MESSAGE"] = [printable(row.message).replace("\n", " ") for row in found]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, texts in cells.items():
        longest = max(map(cell_len, (name, *texts)))
        least = None if name == "MESSAGE" else min(longest, out.width // 3)
        table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=least, max_width=least)
    for row, texts in zip(found, zip(*cells.values(), strict=True), strict=True):
        table.add_row(
            *(
                Text(text, style)
                for text, style in zip(texts, _styles(row, len(texts)), strict=True)
            )
        )
    return table


def _named(row: Row) -> str:
    """``rule team-a/creds``."""
    return f"{SINGULAR[row.what]} {row.shown}"


def _styles(row: Row, number: int) -> list[str]:
    return [_STYLES[row.state], *[""] * (number - 1)]
