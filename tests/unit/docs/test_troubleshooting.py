"""The tables of reasons: each reason of the API is explained, and no other."""

import re
from enum import StrEnum
from pathlib import Path

import pytest

from copyrator.api.bundle_status import BundleReason
from copyrator.api.rule_status import FailureReason, RuleReason

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "troubleshooting.md"


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
