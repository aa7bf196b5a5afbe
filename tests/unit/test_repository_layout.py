"""Promises about the tree itself that no linter checks."""

from __future__ import annotations

import importlib
import pkgutil
import re
import tomllib
from functools import cache
from pathlib import Path

import yaml

import copyrator
from copyrator.bundles.features import FEATURES
from copyrator.runtime.flags import parameters

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "operator" / "copyrator"


def test_the_source_root_is_not_a_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_every_module_of_the_operator_can_be_imported_by_itself() -> None:
    names = [
        module.name
        for module in pkgutil.walk_packages(copyrator.__path__, "copyrator.")
        # These two act when they are imported, which is what they are for.
        if module.name not in {"copyrator.__main__", "copyrator.kopf_main"}
    ]
    assert len(names) > 20
    for name in names:
        importlib.import_module(name)


def test_locks_name_no_index_but_the_one_that_pip_is_set_up_for() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        text = lock.read_text()
        assert "://" not in text, f"{lock.name} names an address"
        pinned = re.findall(r"^[a-z0-9][a-z0-9._-]*==", text, re.MULTILINE)
        assert len(pinned) > 20
        assert text.count("--hash=sha256:") > len(pinned)


# From a page that is generated to its neighbours, a chart's own, what a release contains.
NOT_CITED = {"../alerts.md", "../settings.md", "how-to-renew.md"}
NOT_CITED |= {"INSTALL.md", "dist/INSTALL.md"}
CITED = re.compile(r"(?<![\w/.:*-])(?:[\w.-]+/)*[\w-]+\.md(?![\w/])")


def test_every_document_that_code_or_a_document_cites_exists() -> None:
    found: dict[str, list[str]] = {}
    sources = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for folder in ("operator", "tests", "hack", "bench"):
        sources += (ROOT / folder).rglob("*.py")
    sources += [*(ROOT / "examples").rglob("*.yaml"), *(ROOT / "crds").glob("*.yaml")]
    for source in sources:
        for name in CITED.findall(source.read_text()):
            homes = (ROOT, source.parent, ROOT / "docs", ROOT / "docs" / "reference")
            if not any((home / name).is_file() for home in homes):
                found.setdefault(name, []).append(str(source.relative_to(ROOT)))
    missing = {name: by for name, by in found.items() if name not in NOT_CITED}
    assert missing == {}


def test_every_file_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, table = text.partition("## Where do I change")
    rows = [row for row in table.partition("## Tests")[0].splitlines() if row.startswith("| ")]
    assert len(rows) > 10
    for row in rows[1:]:
        first, *others = re.findall(r"`([\w./-]+/|[\w./-]+\.\w+)`", row.split("|")[2])
        assert (ROOT / first).exists(), row
        homes = [ROOT, ROOT / "charts" / "copyrator"]
        for name in (first, *others):
            place = ROOT / name
            homes.append(place if place.is_dir() else place.parent)
            assert any((home / name).exists() for home in homes), (name, row)


# The page about tests ---------------------------------------------------------------------------

TESTS = ROOT / "tests"
TEST_PAGE = (TESTS / "README.md").read_text()
LEVELS = [TESTS / level / "bundles" / "features" for level in ("unit", "component", "e2e")]


def test_every_feature_has_folders_of_tests_and_each_such_folder_is_of_one() -> None:
    found = {level: {one.parent.name for one in level.glob("*/test_*.py")} for level in LEVELS}
    assert set(FEATURES) - (found[LEVELS[0]] | found[LEVELS[1]]) == set()
    assert set().union(*found.values()) - set(FEATURES) == set()


def test_the_page_about_tests_names_only_what_exists_and_each_marker() -> None:
    paths = re.findall(r"`(tests/[\w/.-]+)`", TEST_PAGE)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    markers = TEST_PAGE.partition("## Markers")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+)", " ".join(re.findall(r"^\| (.*?) \|", markers, re.MULTILINE)))
    assert set(named) == {re.split(r"\W", option)[0] for option in options["markers"]}


def test_the_page_about_tests_says_where_each_package_is_tested() -> None:
    rows = TEST_PAGE.partition("## Where does a new test go?")[2].partition("Cases of one")[0]
    named = set(re.findall(r"`(?:tests/\w+/)?(\w+)[`/]", rows))
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    tested = {path.name for path in (TESTS / "unit").iterdir() if path.name in packages}
    assert len(tested) > 10
    assert tested - named == set()


# Names in comments, docstrings and documents -----------------------------------------------------

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
DOCUMENTS += [TESTS / "README.md"]
DOCUMENTS += [ROOT / "charts/copyrator/README.md"]
VALUES = yaml.safe_load((ROOT / "charts/copyrator/values.yaml").read_text())
PACKAGES = "|".join(path.parent.name for path in SOURCE.glob("*/__init__.py"))
HEADS = f"{PACKAGES}|{'|'.join(VALUES)}"
DOTTED = re.compile(rf"(?<![\w./-])(?:copyrator\.)?((?:{HEADS})(?:\.\w+)+)(?![\w./-]*[\w/-])")
PATH = re.compile(rf"(?<![\w./{{*-])(?:{PACKAGES}|operator|tests|hack|bench)(?:/[\w.-]*\w)+")
SNAKE = re.compile(r"``(_?[a-z]+(?:_[a-z0-9]+)+)(?:\(\))?``")
ENDINGS = (".md", ".py", ".com", ".dev", ".io", ".go", ".yaml", ".crt", ".key", ".pub")
"""Of what isn't dotted names of modules or of the chart's values."""
OTHERS = {
    "bundles/status": "a subresource",
    "bundles/commands": "a Bundle of the benchmarks",
    "bundles/status.operator.werf.dev": "a subresource",
    "cli/config": "a package of docker/cli",
    "html_url": "of Gitea",
    "image.updated": "of zot",
    "jpd_origin": "of Artifactory",
    "notifications.endpoints": "of CNCF distribution",
    "rules.trace.Burst.add": "in a package that is named apart",
    "runtime/cel/status_evaluator.go": "a file of fluxcd/pkg",
    "settings.posting.enabled": "of kopf",
    "settings.watching.label_selectors": "of kopf",
}
PROSE = re.compile(r'(^ *r?"""[\s\S]*?"""|# .*)|"""[\s\S]*?"""', re.MULTILINE)
"""Docstrings and comments of a module; without a group, other texts of several lines."""


@cache
def is_there(dotted: str) -> bool:
    """Whether a module or what is at its top level, or a value of the chart, has this name."""
    place, names = SOURCE, dotted.split(".")
    while names and (place / names[0]).is_dir():
        place /= names.pop(0)
    module = place / f"{names[0]}.py" if names else place
    if module.is_file():
        names.pop(0)
    else:
        module = place / "__init__.py"
    if not names or re.search(
        rf"^(?:async )?(?:def |class )?{names[0]}\b", module.read_text(), re.MULTILINE
    ):
        return True
    value = VALUES
    for name in dotted.split("."):
        if not isinstance(value, dict) or name not in value:
            return value == {}  # a map without fixed keys
        value = value[name]
    return True


def test_every_name_in_comments_and_documents_exists() -> None:
    code = {path: path.read_text() for path in (ROOT / "operator").rglob("*.py")}
    tools = [
        path for folder in ("tests", "hack", "bench") for path in (ROOT / folder).rglob("*.py")
    ]
    words = {path.stem for path in tools}
    for text in code.values():
        words |= set(re.findall(r"\w+", PROSE.sub(lambda m: "" if m[1] else m[0], text)))
    missing = []
    for path in (*code, *tools, *DOCUMENTS):
        text = path.read_text()
        if path.suffix == ".py":
            text = "\n".join(PROSE.findall(text))
        names = [name for name in DOTTED.findall(text) if not name.endswith(ENDINGS)]
        found = [name for name in names if not is_there(name)]
        homes = (ROOT, SOURCE, ROOT / "tests", path.parent)
        found += [
            name for name in PATH.findall(text) if not any((home / name).exists() for home in homes)
        ]
        if path in code:
            found += [name for name in SNAKE.findall(text) if name not in words]
        missing += [f"{path.relative_to(ROOT)}: {name}" for name in found if name not in OTHERS]
    assert missing == []


VARIABLE = re.compile(r"\b(?:COPYRATOR|WERF_OPERATOR)_[A-Z_]*[A-Z]")


def test_every_variable_that_a_document_names_is_read_somewhere() -> None:
    sources = [ROOT / "Makefile"]
    for folder in ("operator", "tests", "hack", "bench"):
        sources += (ROOT / folder).rglob("*.py")
    known = {name for path in sources for name in VARIABLE.findall(path.read_text())}
    known |= {str(option.envvar) for option in parameters()}
    found = {(path.name, name) for path in DOCUMENTS for name in VARIABLE.findall(path.read_text())}
    assert len(found) > 20
    assert {(path, name) for path, name in found if name not in known} == set()
