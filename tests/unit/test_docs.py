"""What the docs say of tests, gates, reasons and versions of werf is so."""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest
import yaml

from copyrator.api.bundle_status import BundleReason
from copyrator.api.rule_status import FailureReason, RuleReason
from copyrator.bundles.gates.catalog import VENDORED, all_gates
from copyrator.bundles.gates.gate import Occasion
from localcluster.standin import settings

ROOT = Path(__file__).resolve().parents[2]
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


PAGE = Path(__file__).resolve().parents[2] / "docs" / "bundles.md"
GATES = [gate for gate in all_gates() if gate.name != VENDORED.name]
"""Vendored is asked wherever signature is, and has no column."""
OCCASIONS = (
    Occasion.NEW_DIGEST,
    Occasion.EDIT,
    Occasion.REQUEST,
    Occasion.FORCE,
    Occasion.RETRY,
    Occasion.ROLLBACK,
    Occasion.INTERRUPTED,
    Occasion.CORRECTION,
)


def test_the_table_says_on_which_occasions_each_gate_is_asked() -> None:
    lines = PAGE.read_text().partition("\n## Gates\n")[2].partition("\n## ")[0].splitlines()
    head, _, *rows = [line for line in lines if line.startswith("|")]
    assert head.count("|") == len(GATES) + 2
    said = [
        [cell.strip() == "asked" for cell in row.strip("|").split("|")[1:]]
        for row in rows[: len(OCCASIONS)]
    ]
    assert said == [[occasion in gate.occasions for gate in GATES] for occasion in OCCASIONS]
    assert set(OCCASIONS) == set(Occasion)


DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "troubleshooting.md"


@pytest.mark.parametrize(
    ("heading", "reasons"),
    [
        ("Reasons of a rule", RuleReason),
        ("Reasons of a copy", FailureReason),
        ("Reasons of a Bundle", BundleReason),
    ],
)
def test_each_reason_is_explained_once(heading: str, reasons: type[StrEnum]) -> None:
    section = DOCUMENT.read_text().split(f"### {heading}\n")[1].split("\n##")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    explained = [reason for cell in cells for reason in re.findall(r"`(\w+)`", cell)]
    assert sorted(explained) == sorted(reasons)


SECTION = (ROOT / "docs/bundles.md").read_text().split("## Versions of werf\n")[1].split("\n## ")[0]
VERSIONS = dict(re.findall(r"^\| (\d\S+) \| (.*) \|$", SECTION, re.MULTILINE))


def test_the_table_has_the_versions_that_the_stand_in_plays() -> None:
    assert set(VERSIONS) == {each.removeprefix("v") for each in settings.VERSIONS}


def test_the_charts_version_is_in_the_table_as_its_default() -> None:
    values = yaml.safe_load((ROOT / "charts/copyrator/values.yaml").read_text())

    assert values["bundles"]["werfTag"] == "2.75.3"
    defaults = [each for each, text in VERSIONS.items() if "the chart's default" in text]
    assert defaults == ["2.75.3"]
    assert f"`bundles.werfTag` names ({defaults[0]})" in SECTION
    assert settings.version({}) == "v2.75.3", "what the tests run"


def test_werf_3_is_said_to_be_tried_and_in_channel_dev() -> None:
    assert VERSIONS["3.2.0"].startswith("dev | tried")


KUBECTL_BUNDLE = re.compile(
    r"kubectl\b[^`\n]*?\b(?:get|describe|annotate|patch|delete|wait|label|edit|explain) "
    r"(?:-n \S+ )?(?:[a-z]+,)*bundles?\b(?!\.)"
)


def test_kubectl_is_given_the_short_name_which_no_other_kind_has() -> None:
    """Rancher Fleet and trust-manager have a kind Bundle, too."""
    files = [*ROOT.glob("docs/*.md"), ROOT / "README.md", *ROOT.glob("charts/**/NOTES.txt")]
    assert len(files) > 20
    found = [
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if KUBECTL_BUNDLE.search(line) and "Rancher Fleet" not in line
    ]
    assert found == []
