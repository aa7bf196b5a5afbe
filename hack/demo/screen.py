"""What the demo prints: chapters, steps with the time they took, and small tables of real objects.

Eighty columns are enough, and without a terminal (a log file, CI) everything is plain lines.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Rows:
    """A table of objects: column heads and the rows below them, as kubectl would print."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


class Screen:
    """Prints the walk; the only place that knows about rich."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _console()
        self._spins = self.console.is_terminal and not self.console.record
        utf8 = (self.console.encoding or "").lower().startswith("utf")
        self._done, self._failed = ("✓", "✗") if utf8 else ("ok", "FAILED")
        self._dots = "…" if utf8 else "..."
        self._last: Rows | None = None

    def title(self, text: str, *lines: str) -> None:
        """Print the head of the walk."""
        self.console.print(Text(text, style="bold"))
        for line in lines:
            self.console.print(Text(line, style="dim"))

    def chapter(self, text: str) -> None:
        """Print the head of a group of steps."""
        self.console.print()
        self.console.rule(Text(text, style="bold cyan"), align="left", characters="-")

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Show `title` while the step runs, then that it is done and how long it took."""
        begun = time.monotonic()
        try:
            if self._spins:
                with self.console.status(escape(f"{title} {self._dots}")):
                    yield
            else:
                yield
        except BaseException:
            self._line(self._failed, "bold red", title, time.monotonic() - begun)
            raise
        self._line(self._done, "bold green", title, time.monotonic() - begun)

    started = step
    """The same for what happens before the first chapter."""

    def done(self, text: str) -> None:
        """Print how the walk ended."""
        self.console.print()
        self.console.print(Text(text, style="bold green"))

    def typed(self, texts: Sequence[str]) -> None:
        """Print commands (after "$ ") and parts of manifests as they are, below their step."""
        for text in texts:
            style = "" if text.startswith(("$ ", "staging $ ")) else "dim"
            lines = text.replace("\n", "\n    ")
            self.console.print(Text(f"    {lines}", style=style), soft_wrap=True)

    def table(self, shown: Rows) -> None:
        """Print objects below their step: equal ones in a line, and an equal table not again."""
        if shown == self._last:
            self.note(f"The same {len(shown.rows)} objects as above.")
            return
        self._last = shown
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for head in shown.heads:
            table.add_column(head, overflow="fold")
        for cells, rows in groupby(shown.rows, key=lambda row: row[1:]):
            table.add_row(Text(", ".join(row[0] for row in rows)), *map(Text, cells))
        self.console.print(Padding(table, (0, 0, 0, 4), expand=False))

    def note(self, text: str) -> None:
        """Print a remark below a step."""
        self.console.print(Padding(Text(text, style="dim"), (0, 0, 0, 4), expand=False))

    def plain(self, text: str = "") -> None:
        """Print text as it is, without colours or wrapping: commands to be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def fault(self, text: str) -> None:
        """Print why the walk ended."""
        self.console.print()
        self.console.print(Text(text, style="bold red"))

    def _line(self, mark: str, style: str, title: str, seconds: float) -> None:
        took = f"{seconds:.1f} s"
        room = self.console.width - cell_len(mark) - 1 - len(took) - 2
        if cell_len(title) > room:
            title = title[: room - 1] + self._dots[:1]
        line = Text.assemble((mark, style), " ", title)
        line.append(" " * max(1, self.console.width - line.cell_len - len(took)))
        line.append(took, style="cyan")
        self.console.print(line, soft_wrap=True)


def recording(file: IO[str]) -> Screen:
    """A screen that keeps what it shows, for a picture.

    Args:
        file: where it shows it as well.
    """
    options: Any = {"record": True, "force_terminal": True, "color_system": "256"}
    return Screen(Console(file=file, highlight=False, width=WIDTH, **options))


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal or console.width > 100:
        return Console(highlight=False, width=WIDTH)
    return console
