"""Tables, JSON, YAML and names, as in kubectl; colours only on a terminal.

rich is imported for terminals, and for what isn't printable: it takes longer than all else of a
list in a pipe.
"""

# ruff: noqa: PLC0415 - late imports are intended, see above

from __future__ import annotations

import enum
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from copyrator.api.text import meant

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status
    from rich.text import Text


GAP = 2
"""Spaces between two columns."""
NARROWEST = 24
"""Characters that a column needs to be readable when its text is wrapped."""

NARROW = 10
"""Characters that every column has at least where there isn't room for its longest text."""

_STYLES = {
    "True": "green",
    "False": "bold red",
    "Unknown": "yellow",
    "Ready": "green",
    "Failing": "bold red",
    "Waiting": "yellow",
    "Suspended": "yellow",
}


_SIGNS = {"+": "green", "-": "red", "~": "yellow"}
_CHANGES = {"added": "green", "removed": "red"}
"""Of the lines of a difference, by their class (`copyrator.cli.view.diffs`)."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Format(enum.StrEnum):
    """How a list is printed."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


API_VERSION: Final = "cli.copyrator.flant.com/v1"
"""Of what only this program prints; docs/reference/json.md describes its kinds."""


class Kind(enum.StrEnum):
    """The kinds of API_VERSION."""

    ATTEMPT_LIST = "AttemptList"
    ATTESTATION_LIST = "AttestationList"
    BUNDLE_PLAN = "BundlePlan"
    CHECK_LIST = "CheckList"
    DESCRIPTION = "Description"
    EXPLANATION = "Explanation"
    OVERVIEW = "Overview"
    PLAN = "Plan"
    PLAN_LIST = "PlanList"
    PROBLEM_LIST = "ProblemList"
    RESOLUTION = "Resolution"
    VERIFICATION = "Verification"


class Choice(click.Choice[str]):
    """Words, of which the message names the one that was meant."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Click's message, with that."""
        said = super().get_invalid_choice_message(value, ctx)
        return said.removesuffix(".") + meant(str(value), map(str, self.choices))


def _output(allowed: Sequence[Format], default: Format | None) -> Callable[[Command], Command]:
    return click.option(
        "-o",
        "--output",
        "shape",
        type=Choice(allowed, case_sensitive=False),
        default=default,
        help=f"Output format: {', '.join(allowed[:-1])} or {allowed[-1]}.",
        metavar="FORMAT",
    )


output_option = _output(list(Format), Format.TABLE)
MACHINE = (Format.JSON, Format.YAML, Format.NAME)
object_option = _output(MACHINE, None)
"""For commands that print a sentence about one object; without it ``shape`` is None."""
answer_option = _output(MACHINE[:2], None)
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
    signed: bool = False
    """It begins with ``+added ~changed -removed``."""
    spare: int = 0
    """On a terminal that is too narrow the column with the highest number above 0 is omitted
    first."""


def console(**options: Any) -> Console:
    """The console of all output; a pipe gets plain text without wrapping."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, markup=False, **options)


def _terminal(*, err: bool = False) -> Console | None:
    """The console of a terminal; None for a pipe."""
    stream = sys.stderr if err else sys.stdout
    if not stream.isatty() and not any(map(os.environ.get, ("FORCE_COLOR", "TTY_COMPATIBLE"))):
        return None
    found = console(stderr=err)
    return found if found.is_terminal else None


def _print_plain(line: str, *, err: bool = False) -> None:
    """Print a line to a pipe, without control characters."""
    if line.isprintable():
        click.echo(line, err=err)
    else:
        console(stderr=err).print(line, soft_wrap=True)


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii() and text.isprintable():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def narrowed(widths: Sequence[int], room: int) -> list[int]:
    """The widths of columns with the widest narrowed, so that NARROWEST are left for the last."""
    *front, last = widths
    while sum(front) + min(last, NARROWEST) > room and max(front, default=0) > NARROW:
        front[front.index(max(front))] -= 1
    return [*front, last]


class Table:
    """Rows below heads.

    On a terminal a row continues in the next line after a cell that is too long for its column, and
    the last cell is truncated if it is longer than a line; `whole` wraps it instead. Wide tables
    have lines of any length.
    """

    def __init__(
        self, columns: Sequence[Column], *, wide: bool = False, whole: bool = False
    ) -> None:
        self._columns = [column for column in columns if wide or not column.wide]
        self._wide = wide
        self._whole = whole
        self._console = _terminal()
        self._below: list[Column] = []
        self._widths: list[int] = []
        if self._console and not wide:
            self._below = [column for column in self._columns if column.below]
            self._columns = [column for column in self._columns if not column.below]

    def print(self, rows: Iterable[Any]) -> None:
        """Print heads and rows."""
        rows = list(rows)
        lines = [[column.value(row) for column in self._columns] for row in rows]
        self._fit(lines)
        self._print_line([column.head for column in self._columns], "dim")
        for row, line in zip(rows, lines, strict=True):
            self._print_line(line)
            for column in self._below:
                if text := column.value(row):
                    prose([f"  {text}"], indent=2)

    @property
    def _room(self) -> int | None:
        """Characters of a line; None where lines may have any length."""
        return self._console.width if self._console and not self._wide else None

    def _fit(self, lines: Sequence[list[str]]) -> None:
        """Set the widths; on a terminal that is too narrow some columns are left out."""
        heads = [column.head for column in self._columns]
        self._widths = [max(map(_width, texts)) for texts in zip(heads, *lines, strict=True)]
        spare = max(self._columns, key=lambda column: column.spare)
        gaps = GAP * (len(self._widths) - 1)
        if self._room and sum(self._widths) + gaps > self._room and spare.spare:
            index = self._columns.index(spare)
            del self._columns[index]
            for line in lines:
                del line[index]
            self._fit(lines)
        elif self._room:
            self._widths = narrowed(self._widths, self._room - gaps)

    def _print_line(self, cells: Sequence[str], style: str = "") -> None:
        if self._console:
            self._print_styled(self._console, cells, style)
            return
        text, indent = "", 0
        *front, last = cells
        for cell, width in zip(front, self._widths, strict=False):
            indent += width + GAP
            text += cell
            text += " " * max(indent - _width(text), GAP)
        _print_plain(f"{text}{last}".rstrip())

    def _print_styled(self, out: Console, cells: Sequence[str], style: str) -> None:
        from rich.text import Text

        text, indent = Text(style=style), 0
        *front, last = cells
        for cell, width in zip(front, self._widths, strict=False):
            indent += width + GAP
            text.append(cell, _STYLES.get(cell, ""))
            if self._room and _width(cell) > width:
                text = _print_begin(out, text, indent)
            else:
                text.append(" " * max(indent - text.cell_len, GAP))
        size = _width(last)
        if self._room and not self._whole and size + GAP <= self._room < size + indent:
            text = _print_begin(out, text, GAP)
        if self._columns[-1].signed and not style:
            text.append_text(_paint_signs(last))
        else:
            text.append(last, _STYLES.get(last, ""))
        text.rstrip()
        if self._room is None:
            out.print(text, soft_wrap=True)
        elif self._whole and self._room - indent >= NARROWEST:
            _print_broken(out, text, indent)
        else:
            text.truncate(self._room, overflow="ellipsis")
            out.print(text, soft_wrap=True)


def _paint_signs(cell: str) -> Text:
    """``+added ~changed -removed`` in colours; what follows, or another text, without."""
    from rich.text import Text

    text = Text()
    words = cell.split(" ")
    while words and words[0][:1] in _SIGNS:
        word = words.pop(0)
        text.append(word, _SIGNS[word[0]]).append(" " if words else "")
    return text.append(" ".join(words))


def paint_diff(lines: Iterable[tuple[str, str]], indent: str = "") -> Iterator[str | Text]:
    """The lines of a difference, each with its class, in colours on a terminal."""
    paints = _terminal() is not None
    for change, line in lines:
        text = f"{indent}{line}".rstrip()
        if not (paints and change in _CHANGES):
            yield text
            continue
        from rich.text import Text

        yield Text(text, _CHANGES[change])


def _print_begin(out: Console, text: Text, indent: int) -> Text:
    """Print the beginning of a row; return that of its next line."""
    from rich.text import Text

    text.rstrip()
    out.print(text, soft_wrap=True)
    return Text(" " * indent, style=text.style)


def prose(lines: Iterable[str | Text], *, err: bool = False, indent: int | None = None) -> None:
    """Print sentences, or values after their labels; on a terminal wrapped between words.

    Lines that continue one have this indent, else one after its label, or after its own indent.
    """
    out = _terminal(err=err)
    for line in lines:
        plain = line if isinstance(line, str) else line.plain
        if out is None:
            _print_plain(plain, err=err)
            continue
        from rich.text import Text

        label = re.match(r"\w[\w ]*: {2,}", plain)
        blanks = len(plain) - len(plain.lstrip()) + 4
        text = Text(line) if isinstance(line, str) else line
        _print_broken(out, text, indent or (label.end() if label else blanks))


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Tell what is done, on stderr: in one line on a terminal, elsewhere in a line a change."""
    out, told = _terminal(err=True), ""
    is_live = out is not None and out.is_interactive and sys.stderr.isatty()
    with ExitStack() as stack:
        status: Status | None = None

        def tell(text: str) -> None:
            nonlocal told, status
            if text == told:
                return
            told = text
            if out is None or not is_live:
                prose([text], err=True)
                return
            from rich.text import Text

            line = Text(text)
            line.truncate(out.width - GAP, overflow="ellipsis")  # beside the spinner
            if status is None:
                status = stack.enter_context(out.status(line))
            status.update(line)

        yield tell


def _print_broken(out: Console, text: Text, indent: int) -> None:
    """Print a text on a terminal: it is wrapped, with all lines but the first indented."""
    from rich.text import Text

    if text.cell_len <= out.width:
        out.print(text, soft_wrap=True)
        return
    begin, rest = text.divide([indent])
    for line in rest.wrap(out, max(out.width - indent, NARROWEST)):
        line.rstrip()
        out.print(begin.append_text(line), soft_wrap=True)
        begin = Text(" " * indent)


def typed(kind: Kind, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A document that only this program prints."""
    return {"apiVersion": API_VERSION, "kind": str(kind), **fields}


def dump(document: Mapping[str, Any], shape: Format) -> None:
    """Print an object of the cluster, or a `typed` document, as JSON or YAML."""
    value = {"apiVersion": document["apiVersion"], "kind": document["kind"], **document}
    if shape is Format.JSON:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True).rstrip())


def reference(body: Mapping[str, Any]) -> str:
    """What ``kubectl -o name`` prints and accepts: ``secret/a``, ``bundle.operator.werf.dev/b``."""
    group, slash, _ = str(body["apiVersion"]).rpartition("/")
    word = str(body["kind"]).lower() + (f".{group}" if slash else "")
    return f"{word}/{body['metadata']['name']}"


def identity(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an object is called, as in documents about it."""
    kind = {"apiVersion": body.get("apiVersion"), "kind": body.get("kind")}
    metadata = body["metadata"]
    return {**kind, "namespace": metadata.get("namespace"), "name": metadata["name"]}


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
