"""Promises about the tree itself that no linter checks."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import copyrator

ROOT = Path(__file__).resolve().parents[2]


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
