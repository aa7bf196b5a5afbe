"""What docs promise of trust and security: the tests that they name exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADING = "## What one tenant can cost\n"
PROMISES = "\n## Tests of these promises\n"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[list[str]]:
    """The cells of the table's rows."""
    section = (ROOT / "docs" / "security.md").read_text().split(HEADING)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def functions_of(path: Path) -> Iterator[str]:
    """The names of all functions of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name


def test_each_row_says_what_bounds_it_what_is_seen_and_which_test_shows_it() -> None:
    assert len(rows()) >= 14
    for row in rows():
        assert len(row) == 4, row
        assert all(row), row
        assert TEST.search(row[3]), row


@pytest.mark.parametrize("name", ["security.md", "trust.md"])
def test_each_section_has_promises_that_name_their_tests(name: str) -> None:
    text = (ROOT / "docs" / name).read_text()
    text, _, table = text.partition(PROMISES)
    table = table.split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    for line in lines:
        promise, tests = line.strip("| ").split(" | ")
        assert promise, line
        assert TEST.search(tests), line
        assert all(map(TEST.fullmatch, tests.split(", "))), line
    sections = {title.lower() for title in re.findall(r"^##+ (.+)$", text, re.MULTILINE)}
    anchors = {re.sub(r"[^\w -]", "", title).replace(" ", "-") for title in sections}
    assert anchors - set(re.findall(r"\(#([\w-]+)\)", table)) == set()


def test_each_oddity_names_what_is_done_what_stays_refused_and_its_tests() -> None:
    lines = [
        line
        for line in (ROOT / "docs" / "compatibility.md").read_text().splitlines()
        if line.startswith("|") and not line.startswith(("| Seen at", "|---"))
    ]
    assert len(lines) >= 5
    for line in lines:
        *cells, tests = line.strip("| ").split(" | ")
        assert len(cells) == 3, line
        assert all(cells), line
        assert all(map(TEST.fullmatch, tests.split(", "))), line


def test_each_test_that_is_named_exists() -> None:
    documents = [
        (ROOT / "docs" / name).read_text()
        for name in ("security.md", "approval.md", "trust.md", "compatibility.md")
    ]
    named = [found for text in documents for found in TEST.findall(text)]
    assert len(named) > 20
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / file).exists() or test not in functions_of(ROOT / file)
    ]
    assert missing == []
