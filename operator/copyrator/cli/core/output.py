"""Tables, JSON, YAML and names, as in kubectl; colours only on a terminal."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import click
import yaml
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GAP = 2
"""Spaces between two columns."""
NARROWEST = 24
"""Characters that a column needs to be readable when its text is wrapped."""

NARROW = 10
"""Characters that every column has at least where there isn't room for its longest text."""

_UNUSUAL = re.compile(r"[^\n\t -~]")

_STYLES = {"True": "green", "False": "bold red", "Unknown": "yellow"}


Command = TypeVar("Command", bound=Callable[..., Any])


class Format(enum.StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def _output(
    allowed: Sequence[Format], default: Format | None, text: str
) -> Callable[[Command], Command]:
    choice = click.Choice(allowed, case_sensitive=False)
    return click.option(
        "-o", "--output", "shape", type=choice, default=default, help=text, metavar="FORMAT"
    )


output_option = _output(
    list(Format), Format.TABLE, "Output format: table, wide, json, yaml or name."
)
MACHINE = (Format.JSON, Format.YAML, Format.NAME)
object_option = _output(MACHINE, None, "Output format: json, yaml or name.")
"""For commands that print a sentence about one object; without it ``shape`` is None."""
answer_option = _output(MACHINE[:2], None, "Output format: json or yaml.")
"""For commands that print sentences or findings; without it ``shape`` is None."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, and its cell for a row."""

    head: str
    value: Callable[[Any], str]
    wide: bool = False
    """Only -o wide has it."""
    below: bool = False
    """On a terminal it is no column: the text follows on a line of its own, where it isn't empty.
    """
    spare: int = 0
    """On a terminal that is too narrow the column with the highest number above 0 is omitted
    first."""


def console(**options: Any) -> Console:
    """The console of all output; a pipe gets plain text without wrapping."""
    return Console(highlight=False, emoji=False, markup=False, **options)


class Table:
    """Rows below heads. Once printed, further rows keep to its widths (--watch).

    On a terminal a row continues in the next line after a cell that is too long for its column, and
    the last cell is truncated if it is longer than a line; `whole` wraps it instead. Wide tables
    have lines of any length.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        wide: bool = False,
        whole: bool = False,
        heads: bool = True,
    ) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        self._wide = wide
        self._whole = whole
        self._heads = heads
        self._console = console()
        self._below: list[Column] = []
        self._widths: list[int] = []
        if self._console.is_terminal and not wide:
            self._below = [column for column in self._columns if column.below]
            self._columns = [column for column in self._columns if not column.below]

    def print(self, rows: Iterable[Any]) -> None:
        """Print rows; the first time with heads."""
        rows = list(rows)
        if not self._widths:
            self._fit(rows)
            if self._heads:
                self._line([column.head for column in self._columns], "dim")
        for row in rows:
            self._line([column.value(row) for column in self._columns])
            for column in self._below:
                if text := column.value(row):
                    _print_broken(self._console, Text(f"  {text}"), 2)

    @property
    def _room(self) -> int | None:
        """Characters of a line; None where lines may have any length."""
        return self._console.width if self._console.is_terminal and not self._wide else None

    def _fit(self, rows: Sequence[Any]) -> None:
        """Set the widths; on a terminal that is too narrow some columns are left out."""
        self._widths = [
            max(cell_len(text) for text in (column.head, *map(column.value, rows)))
            for column in self._columns
        ]
        spare = max(self._columns, key=lambda column: column.spare)
        gaps = GAP * (len(self._widths) - 1)
        if self._room and sum(self._widths) + gaps > self._room and spare.spare:
            self._columns.remove(spare)
            self._fit(rows)
        elif self._room:
            self._shorten(self._room - gaps)

    def _shorten(self, room: int) -> None:
        """Narrow the widest columns: a row with a longer cell continues in the next line."""
        last = min(self._widths[-1], NARROWEST)
        while sum(self._widths[:-1]) + last > room:
            index = max(range(len(self._widths) - 1), key=self._widths.__getitem__)
            if self._widths[index] <= NARROW:
                break
            self._widths[index] -= 1

    def _line(self, cells: Sequence[str], style: str = "") -> None:
        """One row."""
        text, indent = Text(style=style), 0
        *front, last = cells
        for cell, width in zip(front, self._widths, strict=False):
            indent += width + GAP
            text.append(cell, _STYLES.get(cell, ""))
            if self._room and cell_len(cell) > width:
                text = self._next_line(text, indent)
            else:
                text.append(" " * max(indent - text.cell_len, GAP))
        size = cell_len(last)
        if self._room and not self._whole and size + GAP <= self._room < size + indent:
            text = self._next_line(text, GAP)
        text.append(last, _STYLES.get(last, ""))
        text.rstrip()
        if self._room is None:
            self._console.print(text, soft_wrap=True)
        elif self._whole and self._room - indent >= NARROWEST:
            _print_broken(self._console, text, indent)
        else:
            text.truncate(self._room, overflow="ellipsis")
            self._console.print(text, soft_wrap=True)

    def _next_line(self, text: Text, indent: int) -> Text:
        """Print the beginning of a row; return that of its next line."""
        text.rstrip()
        self._console.print(text, soft_wrap=True)
        return Text(" " * indent, style=text.style)


def prose(lines: Iterable[str | Text], *, err: bool = False) -> None:
    """Print sentences, or values after their labels; on a terminal wrapped between words."""
    out = console(stderr=err)
    for line in lines:
        text = Text(line) if isinstance(line, str) else line
        label = re.match(r"\w[\w ]*: {2,}", text.plain)
        blanks = len(text.plain) - len(text.plain.lstrip())
        _print_broken(out, text, label.end() if label else blanks + 4)


def _print_broken(out: Console, text: Text, indent: int) -> None:
    """Print a text; on a terminal it is wrapped, with all lines but the first indented."""
    if not out.is_terminal or text.cell_len <= out.width:
        out.print(text, soft_wrap=True)
        return
    begin, rest = text.divide([indent])
    for line in rest.wrap(out, max(out.width - indent, NARROWEST)):
        line.rstrip()
        out.print(begin.append_text(line), soft_wrap=True)
        begin = Text(" " * indent)


def dump(value: Any, shape: Format) -> None:
    """Print a value as JSON or YAML."""
    if shape is Format.JSON:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip())


def reference(body: Mapping[str, Any]) -> str:
    """What ``kubectl -o name`` prints and accepts: ``secret/a``, ``bundle.operator.werf.dev/b``."""
    group, slash, _ = str(body["apiVersion"]).rpartition("/")
    word = str(body["kind"]).lower() + (f".{group}" if slash else "")
    return f"{word}/{body['metadata']['name']}"


def show(body: Mapping[str, Any], shape: Format) -> None:
    """Print one object."""
    show_all([body], shape, single=True)


def show_all(bodies: Sequence[Mapping[str, Any]], shape: Format, *, single: bool = False) -> None:
    """Print objects: as JSON or YAML in a List, except a single one that was asked for."""
    if shape is Format.NAME:
        for body in bodies:
            click.echo(reference(body))
    else:
        dump(plain(bodies[0]) if single else items(bodies), shape)


def show_result(body: Mapping[str, Any], sentence: str, shape: Format | None) -> None:
    """Print what was done to an object, or in a shape the object as it is then."""
    if shape is None:
        prose([sentence])
    else:
        show(body, shape)


def items(bodies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Objects in a List, as kubectl prints them."""
    return {"apiVersion": "v1", "kind": "List", "items": [plain(body) for body in bodies]}


def plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """An object without managedFields."""
    metadata = {k: v for k, v in body["metadata"].items() if k != "managedFields"}
    return {**body, "metadata": metadata}


def printable(text: str) -> str:
    """A text that others wrote, without what moves a terminal's cursor or hides or reorders text.

    Line feeds and tabs stay; other characters that aren't printable are shown as escapes.
    """
    return _UNUSUAL.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "replace").decode("ascii")


MOST: Final = 256
"""Characters of a text of the status that are shown; more than an ID or a user's name has."""


def said(value: object, most: int = MOST) -> str:
    """A text of a status, which may be forged, in one line; a dash where there is none."""
    text = str(value) if value not in (None, "") else "-"
    text = printable(text[:most] + ("…" if len(text) > most else ""))
    return text.replace("\n", " ").replace("\t", " ")


@dataclass(frozen=True, slots=True)
class Detail:
    """A part of a description, for a terminal or a page; others' text is escaped by `printable`."""

    label: str
    value: object = ""
    below: Sequence[str] = ()
    """Lines."""

    @property
    def line(self) -> str:
        """``Label:     value``, with the values of all parts aligned."""
        value = printable(str(self.value))
        return f"{self.label + ':':<15}{value}" if value else f"{self.label}:"

    @property
    def lines(self) -> list[str]:
        """For a terminal."""
        return [self.line, *(f"  {printable(one)}" for one in self.below)]

    @property
    def text(self) -> str:
        """For a page: all but the label."""
        return printable("\n".join((str(self.value), *self.below))).strip()


def detail_lines(parts: Iterable[Detail]) -> list[str]:
    """The lines of parts."""
    return [line for part in parts for line in part.lines]
