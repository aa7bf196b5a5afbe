"""Lists of rules and Bundles, the search, and a table of rules by namespaces, in pages. Pure.

A `Query` is what the address of a page has: whoever opens the same address sees the same. The table
shows where which rule has copies, and where it fails. Of all rules and namespaces it may have
millions of cells, so a page of it is made: at most ROWS rules and COLUMNS namespaces; the rest is
counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from copyrator.api.selectors import Globs, is_wild
from copyrator.api.text import one_line
from copyrator.cli.view.overview import (
    ORDER,
    OverviewRow,
    SeenCopies,
    Snapshot,
    kinds_of,
    order,
    rule_row,
)
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import RuleView

ROWS: Final = 50
"""Rules or Bundles of a page, also of the table."""
HITS: Final = 20
"""Hits of a kind that the search shows."""
SLICE: Final = 5000
"""Copies that are looked through at once: it takes milliseconds."""
LONGEST: Final = 200
"""Characters of what is looked for."""
RULE, BUNDLE, NAMESPACE = "Rule", "Bundle", "Namespace"
_WORDS: Final = {"rules": RULE, "bundles": BUNDLE}
_OTHERS: Final = (RULE, BUNDLE, NAMESPACE)
"""Kinds that aren't those of copies."""
_READ: Final = 1000
"""Characters of a message that are looked through."""
_MOST_DIGITS: Final = 18
"""Of a number in a version: more aren't compared as a number."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and how it is listed."""

    text: str = ""
    """A part of a name, ``namespace/name``, a reason or a message; or a glob of a name."""
    state: State | None = None
    namespace: str = ""
    """A part of its name, or a glob."""
    kind: str = ""
    """``Rule``, ``Bundle``, ``Namespace``, or the kind of copies."""
    sort: str = "status"
    """A key of `SORTS`."""
    descending: bool = False
    page: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether it finds all."""
        return not (self.text or self.state or self.namespace or self.kind)

    @property
    def parameters(self) -> dict[str, str]:
        """As in an address, without what is by default."""
        found = {
            "q": self.text,
            "state": str(self.state or ""),
            "namespace": self.namespace,
            "kind": self.kind,
            "sort": ("-" if self.descending else "") + self.sort,
            "page": str(self.page),
        }
        usual = {"sort": "status", "page": "1"}
        return {name: value for name, value in found.items() if value != usual.get(name, "")}

    def of(self, rows: Sequence[OverviewRow]) -> list[OverviewRow]:
        """Those rules and Bundles that are what is looked for."""
        finds = self.finder()
        return [row for row in rows if finds(row)]

    def finder(self) -> Callable[[OverviewRow], bool]:
        """Whether a rule or Bundle is what is looked for."""
        names, places = match_names(self.text), match_text(self.namespace)
        text, kind = self.text.lower(), self.kind.lower()

        def finds(row: OverviewRow) -> bool:
            return (
                self.state in (None, row.state)
                and places(row.namespace)
                and kind in ("", _WORDS[row.what].lower(), row.kind.lower())
                and (
                    names(row.namespace, row.name)
                    or text in row.reason.lower()
                    or text in row.message[:_READ].lower()
                )
            )

        return finds


def read_query(given: Mapping[str, str]) -> Query:
    """The query of an address; what has no meaning in it is ignored."""
    state = given.get("state", "").strip().lower()
    sort = given.get("sort", "").strip()
    name = sort.removeprefix("-")
    return Query(
        text=_read(given, "q"),
        state=next((one for one in State if one.lower() == state), None),
        namespace=_read(given, "namespace"),
        kind=_read(given, "kind"),
        sort=name if name in SORTS else "status",
        descending=sort.startswith("-") and name in SORTS,
        page=read_number(given.get("page")),
    )


def _read(given: Mapping[str, str], name: str) -> str:
    return one_line(given.get(name, ""), LONGEST)


def read_number(text: str | None) -> int:
    """The number of a page."""
    plain = text and text.isascii() and text.isdecimal() and len(text) < 7
    return max(int(text), 1) if text and plain else 1


def match_text(text: str) -> Callable[[str], bool]:
    """Whether a text matches a glob, or has it as a part; in any case, and each text once."""
    wanted = text.lower()
    globs = Globs((wanted,)) if is_wild(wanted) else None

    @cache
    def matches(found: str) -> bool:
        return globs.matches(found.lower()) if globs else wanted in found.lower()

    return matches


def match_names(text: str) -> Callable[[str, str], bool]:
    """Whether a text, or a glob, is of an object's namespace or name; or ``namespace/name``."""
    first, slash, last = text.lower().partition("/")
    if not slash:
        matches = match_text(text)
        return lambda namespace, name: matches(name) or matches(namespace)
    if is_wild(text):
        places, names = Globs((first or "*",)), Globs((last or "*",))
        return lambda namespace, name: places.matches(namespace) and names.matches(name.lower())
    return lambda namespace, name: namespace.endswith(first) and name.lower().startswith(last)


def _newest(time: Any) -> tuple[bool, float]:
    return time is None, -time.timestamp() if time else 0.0


def _natural(text: str) -> list[tuple[int, str]]:
    """1.10 comes after 1.9."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return [
        (int(part), "") if part[0].isdecimal() and len(part) <= _MOST_DIGITS else (-1, part)
        for part in parts
    ]


SORTS: Final[Mapping[str, Callable[[OverviewRow], Any]]] = {
    "status": order,
    "name": lambda row: (row.namespace, row.name),
    "kind": lambda row: row.kind,
    "reason": lambda row: row.reason,
    "since": lambda row: _newest(row.changed),
    "copies": lambda row: (row.in_sync / row.desired if row.desired else 1.0, row.desired),
    "version": lambda row: _natural(row.numbers),
    "deployed": lambda row: _newest(row.deployed),
}
"""What a list is sorted by; ascending is the order in which a person expects it."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a list of rules or Bundles."""

    rows: Sequence[OverviewRow]
    query: Query
    """Its page is one that there is."""
    found: int
    """On all pages."""
    total: int
    """Without the filters."""
    states: Mapping[State, int]
    """How many are found of each state, whatever state is looked for."""
    kinds: Sequence[str]
    """Of all rules' copies."""

    @property
    def pages(self) -> int:
        """At least one."""
        return pages_of(self.found, ROWS)


def list_rows(rows: Sequence[OverviewRow], query: Query) -> Listing:
    """The page of a list that a query asks for; the last one for pages beyond it."""
    any_state = replace(query, state=None).of(rows)
    found = [row for row in any_state if query.state in (None, row.state)]
    found.sort(key=SORTS["name"])
    found.sort(key=SORTS[query.sort], reverse=query.descending)
    query = replace(query, page=min(max(query.page, 1), pages_of(len(found), ROWS)))
    return Listing(
        rows=page_of(found, query.page, ROWS),
        query=query,
        found=len(found),
        total=len(rows),
        states=Counter(row.state for row in any_state),
        kinds=kinds_of(rows),
    )


def pages_of(found: int, size: int) -> int:
    """How many pages of a size; at least one."""
    return max(-(-found // size), 1)


def page_of(found: Sequence[T], number: int, size: int) -> Sequence[T]:
    """A page; the nearest where it isn't there."""
    start = (min(max(number, 1), pages_of(len(found), size)) - 1) * size
    return found[start : start + size]


class CopyHit(NamedTuple):
    """A copy that was found."""

    kind: str
    namespace: str
    name: str
    rule: str
    """``namespace/name``."""


@dataclass(frozen=True, slots=True)
class Search:
    """The first hits of each kind, and how many there are."""

    query: Query
    rules: Sequence[OverviewRow]
    rules_found: int
    bundles: Sequence[OverviewRow]
    bundles_found: int
    namespaces: Sequence[str]
    namespaces_found: int
    copies: Sequence[CopyHit]
    copies_found: int
    kinds: Sequence[str]

    @property
    def found(self) -> int:
        """In all."""
        return self.rules_found + self.bundles_found + self.namespaces_found + self.copies_found


@dataclass(slots=True)
class CopySearch:
    """Looks through the copies in slices, between which others may run and copies may change."""

    query: Query
    found: int = 0
    _named: list[CopyHit] = field(default_factory=list)
    """By their own names; they come first."""
    _others: list[CopyHit] = field(default_factory=list)

    @property
    def hits(self) -> Sequence[CopyHit]:
        """The first ones."""
        return (*self._named, *self._others)[:HITS]

    def scan(self, copies: SeenCopies) -> Iterator[None]:
        """Look through all; it yields after each slice."""
        query, left = self.query, SLICE
        kind = query.kind.lower()
        if query.is_empty or query.state or kind in map(str.lower, _OTHERS):
            return
        own, full, places = (
            match_text(query.text),
            match_names(query.text),
            match_text(query.namespace),
        )
        for rule in sorted(copies.rules()):
            for place, names in sorted(copies.of(rule).items()):
                wanted = tuple(names) if places(place) else ()
                for found, name in sorted(wanted) if len(wanted) < SLICE else wanted:
                    if kind in ("", found.lower()) and full(place, name):
                        self.found += 1
                        hits = self._named if own(name) else self._others
                        if len(hits) < HITS:
                            hits.append(CopyHit(found, place, name, rule))
                    left -= 1
                    if left <= 0:
                        left = SLICE
                        yield
                left -= 1
                if left <= 0:
                    left = SLICE
                    yield


def search(
    seen: Snapshot,
    rules: Sequence[OverviewRow],
    bundles: Sequence[OverviewRow],
    copies: CopySearch,
) -> Search:
    """All that a query finds; the copies have been looked through."""
    query = copies.query
    found_rules, found_bundles, places = [], [], []
    if not query.is_empty:
        found_rules, found_bundles = query.of(rules), query.of(bundles)
    if not query.is_empty and not query.state and query.kind.lower() in ("", NAMESPACE.lower()):
        matches, within = match_text(query.text), match_text(query.namespace)
        places = [place for place in seen.namespaces if matches(place) and within(place)]
    found_rules.sort(key=order)
    found_bundles.sort(key=order)
    return Search(
        query=query,
        rules=found_rules[:HITS],
        rules_found=len(found_rules),
        bundles=found_bundles[:HITS],
        bundles_found=len(found_bundles),
        namespaces=places[:HITS],
        namespaces_found=len(places),
        copies=copies.hits,
        copies_found=copies.found,
        kinds=kinds_of(rules),
    )


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
