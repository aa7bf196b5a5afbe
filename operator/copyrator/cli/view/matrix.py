"""Rules and namespaces as a table: where which rule has copies, and where it fails. Pure.

A table of all rules and namespaces may have millions of cells, so a page of it is made: at most
ROWS rules and COLUMNS namespaces; the rest is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from copyrator.cli.view.lists import match_names, match_text, page_of, pages_of
from copyrator.cli.view.overview import ORDER, OverviewRow, Snapshot, rule_row
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import RuleView

ROWS: Final = 50
COLUMNS: Final = 100


@dataclass(frozen=True, slots=True)
class View:
    """The part of the table that is shown."""

    rules: str = ""
    """A part, or a glob, of a namespace, a name, or ``namespace/name``; empty: all."""
    namespaces: str = ""
    """The same of a namespace."""
    only_faults: bool = False
    """Only rules with a fault, and namespaces in which one fails."""
    row_page: int = 1
    column_page: int = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """A rule in a namespace."""

    copies: int = 0
    fault: str = ""
    """Reason and message of a failure that the status has."""
    namespace: str = ""
    """Where there is something."""


NOTHING: Final = Cell()


@dataclass(frozen=True, slots=True)
class Line:
    """A rule's row."""

    row: OverviewRow
    cells: Sequence[Cell]
    copies: int
    """In all namespaces."""
    namespaces: int
    """That have copies."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A page of the table."""

    lines: Sequence[Line]
    namespaces: Sequence[str]
    rules_found: int
    namespaces_found: int
    view: View = field(default_factory=View)

    @property
    def row_pages(self) -> int:
        """Pages of rules, at least one."""
        return pages_of(self.rules_found, ROWS)

    @property
    def column_pages(self) -> int:
        """Pages of namespaces, at least one."""
        return pages_of(self.namespaces_found, COLUMNS)


def matrix(seen: Snapshot, view: View, now: datetime) -> Matrix:
    """The page of the table that a view requests; the last one for pages beyond it."""
    wanted, shown = match_names(view.rules), match_text(view.namespaces)
    views = [RuleView(body, now) for name, body in seen.rules.items() if wanted(*name)]
    found = [(rule_row(view), view) for view in views]
    if view.only_faults:
        found = [one for one in found if one[0].state is not State.READY]
    found.sort(key=lambda one: (ORDER[one[0].state], one[0].shown))
    places = [place for place in seen.namespaces if shown(place)]
    if view.only_faults:
        failing = {place for _, rule in found for place in _failures(rule)}
        places = [place for place in places if place in failing]
    columns = page_of(places, view.column_page, COLUMNS)
    lines = [_line(row, rule, seen, columns) for row, rule in page_of(found, view.row_page, ROWS)]
    return Matrix(lines, columns, len(found), len(places), view)


def _line(row: OverviewRow, rule: RuleView, seen: Snapshot, columns: Sequence[str]) -> Line:
    copies, failures = seen.copies.of(row.shown), _failures(rule)
    cells = [
        Cell(len(copies.get(place, ())), failures.get(place, ""), place)
        if place in copies or place in failures
        else NOTHING
        for place in columns
    ]
    return Line(row, cells, sum(map(len, copies.values())), len(copies))


def _failures(rule: RuleView) -> dict[str, str]:
    """The failures that the status has, at most 20, by namespace."""
    return {one.namespace: f"{one.reason}: {one.message}" for one in rule.failures}
