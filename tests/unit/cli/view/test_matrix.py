"""Rules and namespaces as a table, a page at a time."""

from datetime import UTC, datetime

import pytest
from tests.unit.cli.view.objects_seen import rule, seen

from copyrator.api.keys import ObjectName
from copyrator.cli.view.lists import COLUMNS, ROWS, View, matrix
from copyrator.cli.view.overview import SeenCopies

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
PLACES = [f"team-{number:04}" for number in range(250)]


def copied(*rules, places=PLACES):
    copies = SeenCopies()
    for name in rules:
        for place in places:
            copies.add(f"infra/{name}", "Secret", ObjectName(place, "s"))
    return copies


def test_a_cell_has_the_number_of_copies_and_a_failure_its_words():
    failures = [
        {"namespace": "team-0001", "name": "a", "reason": "Conflict", "message": "not ours"}
    ]
    body = rule("a", "False", "PartialFailure", failures=failures)
    table = matrix(
        seen(body, copies=copied("a", places=PLACES[:1]), namespaces=PLACES[:3]), View(), NOW
    )
    (line,) = table.lines
    assert table.namespaces == PLACES[:3]
    assert [(cell.copies, cell.fault) for cell in line.cells] == [
        (1, ""),
        (0, "Conflict: not ours"),
        (0, ""),
    ]
    assert (line.copies, line.namespaces) == (1, 1)


def test_a_page_is_bounded_and_counts_what_it_leaves_out():
    rules = [rule(f"r{number:03}") for number in range(120)]
    known = seen(*rules, copies=copied("r000"), namespaces=PLACES)
    table = matrix(known, View(), NOW)
    assert (len(table.lines), len(table.namespaces)) == (ROWS, COLUMNS)
    assert all(len(line.cells) == COLUMNS for line in table.lines)
    assert (table.rules_found, table.namespaces_found) == (120, 250)
    assert (table.row_pages, table.column_pages) == (3, 3)
    assert table.lines[0].copies == 250
    last = matrix(known, View(row_page=3, column_page=3), NOW)
    assert [line.row.name for line in last.lines] == [f"r{number:03}" for number in range(100, 120)]
    assert last.namespaces == PLACES[200:]


@pytest.mark.parametrize("page", [0, -5, 4, 999])
def test_a_page_that_is_not_there_is_the_nearest_one(page):
    table = matrix(seen(rule("a"), namespaces=PLACES), View(column_page=page), NOW)
    assert table.namespaces == (PLACES[:COLUMNS] if page < 1 else PLACES[200:])


@pytest.mark.parametrize(
    ("asked", "found"),
    [("", 250), ("team-000?", 10), ("0001", 1), ("team-*", 250), ("other", 0), ("team-0001", 1)],
)
def test_namespaces_are_chosen_by_a_glob_or_a_part(asked, found):
    table = matrix(seen(rule("a"), namespaces=PLACES), View(namespaces=asked), NOW)
    assert table.namespaces_found == found


def test_only_faults_leaves_the_rules_and_namespaces_with_one():
    failures = [{"namespace": "team-0007", "name": "bad", "reason": "Forbidden", "message": "no"}]
    bad = rule("bad", "False", "PartialFailure", failures=failures)
    known = seen(rule("good"), bad, copies=copied("good"), namespaces=PLACES)
    table = matrix(known, View(only_faults=True), NOW)
    assert [line.row.name for line in table.lines] == ["bad"]
    assert table.namespaces == ["team-0007"]
