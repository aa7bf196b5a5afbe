"""`copyrator top`: problems, in a terminal, kept up to date."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

import click
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live as Screen
from rich.text import Text

from copyrator.cli.core.cluster import Target, cluster_options, run
from copyrator.cli.core.objects import SINGULAR
from copyrator.cli.core.output import console, printable
from copyrator.cli.view.live import Live
from copyrator.cli.view.overview import Overview, OverviewRow, Snapshot, State, overview
from copyrator.cli.view.rule import Validity

LOOK: Final = 1.0
"""Seconds between two updates, at least; ages are updated as often while nothing changes."""
_STYLES: Final = {
    State.FAULT: "bold red",
    State.WAITS: "yellow",
    State.SUSPENDED: "yellow",
    State.GOOD: "green",
}
_CERTIFICATES: Final = {Validity.ENDED: "bold red", Validity.ENDING: "yellow"}
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
    once = once or not out.is_terminal
    async with (
        target.connect() as client,
        Live(client, target.namespace_option, target.namespace, patient=once) as live,
    ):
        if once:
            out.print(rendered(live.now, out, lines=None))
            return
        with Screen(rendered(live.now, out, out.height), console=out, screen=True) as screen:
            seen = live.version
            while True:
                seen = await live.wait(seen, LOOK)
                screen.update(rendered(live.now, out, out.height), refresh=True)
                await asyncio.sleep(LOOK / 4)


def rendered(seen: Snapshot, out: Console, lines: int | None) -> RenderableType:
    """The text, limited to so many lines; None: all of it."""
    now = datetime.now(UTC)
    view = overview(seen, now)
    head = [_counts(view), *_first_end(view), *(_note(text) for text in _notes(seen))]
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
        (State.SUSPENDED, "suspended"),
        (State.GOOD, "good"),
    ):
        number = view.number(state)
        if number or state is not State.SUSPENDED:
            text.append(f"{number} {words}", _STYLES[state] if number else "dim").append("   ")
    text.append(f"{view.right}/{view.desired} copies are right")
    return text


def _first_end(view: Overview) -> Iterator[Text]:
    """The certificate that ends first, if there is one in any copy."""
    for row in view.certificates[:1]:
        text = f"First certificate to end: {row.certificate.to_string()} {row.text}"
        yield Text(printable(text), _CERTIFICATES.get(row.validity, "dim"))


def _notes(seen: Snapshot) -> Iterator[str]:
    for fault in seen.faults:
        yield f"This may be out of date: {fault}"
    if seen.loading:
        yield f"Still being listed: {', '.join(seen.loading)}."
    if seen.denied:
        yield f"Not shown, because you have no permission to list them: {', '.join(seen.denied)}."


def _note(text: str) -> Text:
    return Text(printable(text), style="yellow")


def _table(found: Sequence[OverviewRow], out: Console) -> Text:
    """A row a line; where it is too long, the end of the message is cut off."""
    heads = ["STATE", "NAME", "REASON"]
    cells = [[row.state, _named(row), _plain(row.reason)] for row in found]
    if out.width >= ROOMY:
        heads += ["SINCE", "COPIES/VERSION"]
        for line, row in zip(cells, found, strict=True):
            line += [row.since, _plain(row.numbers)]
    widths = [
        min(max(map(cell_len, column)), out.width // 3)
        for column in zip(heads, *cells, strict=True)
    ]
    lines = [_line([*heads, "MESSAGE"], widths, "dim", out)]
    for line, row in zip(cells, found, strict=True):
        text = _line([*line, _plain(row.message)], widths, "", out)
        text.stylize(_STYLES[row.state], 0, len(row.state))
        lines.append(text)
    return Text("\n").join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], style: str, out: Console) -> Text:
    text = Text(style=style)
    *front, last = cells
    for cell, width in zip(front, widths, strict=True):
        part = Text(cell)
        part.truncate(width, overflow="ellipsis", pad=True)
        text.append_text(part).append("  ")
    text.append(last)
    text.truncate(out.width, overflow="ellipsis")
    text.rstrip()
    return text


def _plain(text: str) -> str:
    """What others wrote, in one line."""
    return printable(text).replace("\n", " ")


def _named(row: OverviewRow) -> str:
    """``rule team-a/creds``."""
    return f"{SINGULAR[row.what]} {row.shown}"
