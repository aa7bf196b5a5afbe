"""What the docs say of tests, gates, reasons and versions of werf is so."""

import ast
import configparser
import re
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from tests.steps import STEP_SECONDS

from copyrator import __version__
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.gate import Occasion, load_gates
from copyrator.bundles.engine.poll import Rhythm, poll_retry
from copyrator.runtime.watchdog import LOGGED_SECONDS, NOTED_SECONDS
from generate import reasons
from localcluster import pins
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


def test_each_attack_on_an_approval_says_what_stops_it_and_which_test_shows_it() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    section = text.partition("## What evades no approval\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert 30 <= len(lines) <= 40
    for line in lines:
        attack, stopped, tests = (cell.strip() for cell in line.strip("|").split(" | "))
        assert attack, line
        assert stopped, line
        assert all(map(TEST.fullmatch, tests.split(", "))), line


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
GATES = [gate for gate in load_gates() if not gate.judges_chart]
"""Those of charts are asked wherever signature is, and have no column."""
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


def test_each_reason_is_documented_and_made() -> None:
    blocks = [
        found[2] for page in reasons.PAGES for found in reasons.BLOCK.finditer(page.read_text())
    ]
    assert sorted(", ".join(blocks).split(", ")) == sorted(reasons.KINDS)
    code = "".join(path.read_text() for path in (ROOT / "operator").rglob("*.py"))
    errors = re.findall(
        r"^class (\w+)\(\w+\):",
        (ROOT / "operator/copyrator/oci/errors.py").read_text(),
        re.MULTILINE,
    )
    rows = [one for kind in reasons.KINDS.values() for one in kind]
    assert len(rows) > 150
    assert [one for one in rows if "('" in one.meaning + one.remedy] == [], "another row's repr"
    unused = [one for one in rows if not re.search(rf"\b{type(one).__name__}\.{one.name}\b", code)]
    assert [one for one in unused if one not in errors] == []


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


README = (ROOT / "README.md").read_text()


def test_the_readme_names_the_supported_versions_and_the_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((ROOT / "charts" / "copyrator" / "Chart.yaml").read_text())
    oldest = chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0")
    others = [path.name.partition("-")[2] for path in pins.GO_DIR.glob("kubernetes-*")]
    default = ".".join(
        pins.pinned_version(pins.GO_DIR / "cluster", "k8s.io/kubernetes")[1:].split(".")[:2]
    )
    first, second, last = sorted([*others, default])
    assert oldest == first
    assert f"{oldest} or later, tested on {first}, {second} and {last};" in README
    lowest, beyond = re.findall(r"3\.(\d+)", project["requires-python"])
    assert f"Python 3.{lowest} to 3.{int(beyond) - 1}" in README
    assert project["license"] == "Apache-2.0"
    assert "[Apache-2.0](LICENSE)" in README
    assert f"/v{__version__}/copyrator-{__version__}-py3-none-any.whl" in README


# Figures that the code has -----------------------------------------------------------------------


def test_the_order_of_layers_is_the_one_that_is_enforced() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    _, *layers = contracts["importlinter:contract:layers"]["layers"].split("\n")[1:]
    for name in ("CONTRIBUTING.md", "docs/architecture.md"):
        assert f"\n    {' > '.join(layers)}\n" in (ROOT / name).read_text(), name


def test_a_missing_signature_is_looked_for_after_the_seconds_that_are_said() -> None:
    now, first = datetime(2026, 11, 27, tzinfo=UTC), BundleTiming().poll_retry
    rhythm = Rhythm(interval=3600.0, phase=0.0)
    delays = [poll_retry(rhythm, failures, now, first=first) - now for failures in (1, 2, 3)]
    seconds = ", ".join(f"{delay.total_seconds():.0f}" for delay in delays)
    assert f"is checked again after {seconds} s\n" in (ROOT / "docs/signatures.md").read_text()


def test_how_long_a_step_may_take_is_what_the_limits_are_chosen_for() -> None:
    text = (ROOT / "docs/security.md").read_text()
    assert f"for more than {STEP_SECONDS * 1000:.0f} ms of CPU time" in text
    assert f"more than {NOTED_SECONDS * 1000:.0f} ms. Those of more than" in text
    assert f"more than {LOGGED_SECONDS * 1000:.0f} ms are logged" in text


def test_the_restore_that_is_promised_is_a_goal_that_the_last_benchmark_met() -> None:
    text = (ROOT / "docs/performance.md").read_text()
    assert re.search(r"edit to restored, 99th percentile \| ≤ 500 ms \| \d+ ms \|  \| met \|", text)
    assert "99 of 100 within half a second" in " ".join(
        (ROOT / "docs/index.md").read_text().split()
    )
