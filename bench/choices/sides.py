"""Figures of several sides, and their table: a figure a row, a side a column."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.scenario import Result

_SIDED = re.compile(r"(?P<figure>.+) \[(?P<side>.+)\]")


class Sides:
    """The figures of one run, by figure and side."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def add(self, side: str, figures: Mapping[str, float]) -> None:
        """Take in figures of one side."""
        self.figures |= {f"{figure} [{side}]": value for figure, value in figures.items()}


def is_sided(result: Result) -> bool:
    """Whether a result's figures are of several sides."""
    return any(_SIDED.fullmatch(name) for name in result.figures)


def table(result: Result) -> str:
    """A Markdown table of medians; empty where a side has no such figure."""
    rows: dict[str, dict[str, float]] = {}
    sides: list[str] = []
    for name, figure in result.figures.items():
        if found := _SIDED.fullmatch(name):
            rows.setdefault(found["figure"], {})[found["side"]] = figure.median
            if found["side"] not in sides:
                sides.append(found["side"])
    lines = [f"| {result.title} | {' | '.join(sides)} |", f"|---|{'---|' * len(sides)}"]
    for row, values in rows.items():
        cells = " | ".join(_number(values.get(side)) for side in sides)
        lines.append(f"| {row} | {cells} |")
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
