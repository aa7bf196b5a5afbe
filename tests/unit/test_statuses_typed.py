"""Statuses and what is printed of them are types: what would go around these is counted."""

from __future__ import annotations

import re
from pathlib import Path

import copyrator

CODE = Path(copyrator.__file__).parent
RAW = re.compile(r"""\b(?:body|seen|rule|bundle)(?:\.get\(|\[)"status"[\])]""")
WRITERS = {
    "api/schema.py": 2,
    "api/bundle_status.py": 1,
}
"""How often a type says itself how it is written as a map."""


def counted(pattern: re.Pattern[str], *folders: str) -> dict[str, int]:
    files = (path for folder in folders for path in (CODE / folder).rglob("*.py"))
    found = {str(path.relative_to(CODE)): pattern.findall(path.read_text()) for path in files}
    return {name: len(hits) for name, hits in sorted(found.items()) if hits}


def test_commands_and_notifications_take_a_status_by_its_reader() -> None:
    assert counted(RAW, "cli", "notify") == {}


def test_types_are_written_by_the_one_writer() -> None:
    found = counted(re.compile(r"def to_dict\("), "")
    assert found == dict(sorted(WRITERS.items()))
