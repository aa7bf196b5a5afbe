"""The table of what asks which gate is that of the gates."""

from __future__ import annotations

from pathlib import Path

from copyrator.bundles.gates.catalog import VENDORED, all_gates
from copyrator.bundles.gates.gate import Occasion

PAGE = Path(__file__).resolve().parents[3] / "docs" / "bundles.md"
GATES = [gate for gate in all_gates() if gate.name != VENDORED.name]
"""Vendored is asked wherever signature is, and has no column."""
ROWS = (
    Occasion.NEW_DIGEST,
    Occasion.EDIT,
    Occasion.REQUEST,
    Occasion.FORCE,
    Occasion.RETRY,
    Occasion.INTERRUPTED,
    Occasion.CORRECTION,
)


def test_the_table_says_on_which_occasions_each_gate_is_asked() -> None:
    lines = PAGE.read_text().partition("\n## Gates\n")[2].partition("\n## ")[0].splitlines()
    head, _, *rows = [line for line in lines if line.startswith("|")]
    assert head.count("|") == len(GATES) + 2
    said = [
        [cell.strip() == "asked" for cell in row.strip("|").split("|")[1:]]
        for row in rows[: len(ROWS)]
    ]
    assert said == [[occasion in gate.occasions for gate in GATES] for occasion in ROWS]
    assert set(ROWS) == set(Occasion)
