"""The figures as JSON, as a table and plots in the docs, and in tables that compare tools."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.scenario import REGISTRY, Figure, Goal, Result
from demo.chart import ROOT

DOCUMENT = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "performance"
CURVES = {
    "namespaces_time": ("Time to copy one Secret", "namespaces", "seconds"),
    "copies_memory": ("Resident memory after a restart", "copies in sync", "MB"),
    "copies_cpu": ("Processor time of a restart", "copies in sync", "seconds"),
    "bundles_memory": ("Resident memory", "rules, and as many Bundles", "MB"),
}
"""The title, and what the axes are, of what is drawn."""
COMPARED = {
    "1 object into 1,000 namespaces": ("fan-out", "create_seconds", "s"),
    "requests per copy": ("fan-out", "writes_a_copy", ""),
    "its update": ("fan-out", "update_seconds", "s"),
    "memory at 1,000 namespaces": ("fan-out", "rss_mb", "MB"),
    "writes after a restart with 10,000 copies in sync": ("restart", "writes", ""),
    "an edited or deleted copy is restored": ("drift", "p50_ms", "ms"),
    "CPU of 1,000 objects a minute": ("repositories", "cpu_a_minute", "s"),
}
"""Rows of tables with a column Copyrator: the scenario and the figure of the cell, and its unit."""
COMPARISON = ROOT / "docs" / "comparison.md"
_MARKS = ("<!-- figures: begin -->", "<!-- figures: end -->")
_STEP = re.compile(r"(.+)_at_(\d+)")


def write_json(results: Sequence[Result], path: Path) -> list[Result]:
    """Write all figures of all runs; those of other scenarios that a file has stay in it.

    Returns:
        all results of the file, in the order of the scenarios.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    measured = {result.scenario for result in results}
    kept = [one for one in read_json(path) if one.scenario not in measured] if path.exists() else []
    order = {name: number for number, name in enumerate(REGISTRY)}
    results = sorted([*results, *kept], key=lambda result: order.get(result.scenario, len(order)))
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    found = {"machine": machine, "results": [asdict(result) for result in results]}
    path.write_text(json.dumps(found, indent=1) + "\n")
    return results


def read_json(path: Path) -> list[Result]:
    """The figures that were written."""
    results = []
    for body in json.loads(path.read_text())["results"]:
        figures = {name: _figure(one) for name, one in body.pop("figures").items()}
        results.append(Result(**body, figures=figures))
    return results


def _figure(body: dict[str, Any]) -> Figure:
    return Figure(body["name"], Goal(**body["goal"]), body["values"])


def table(results: Sequence[Result], *, details: bool = True) -> str:
    """A Markdown table: what, goal, median, spread, whether the goal is met.

    With `details` it has all figures, and the requests of each scenario by verb; both are in the
    file of results, too.
    """
    two = len({result.tree for result in results}) > 1
    rows = ["| scenario | figure | goal | median | spread | |", "|---|---|---|---|---|---|"]
    for result in results:
        title = f"{result.title} ({result.tree})" if two else result.title
        for figure in result.figures.values():
            goal = figure.goal
            if _STEP.fullmatch(figure.name) or (goal.detail and not details):
                continue
            most = "" if goal.most is None else f"≤ {_shown(goal.most, goal.unit)}"
            low, high = min(figure.values), max(figure.values)
            spread = "" if len(figure.values) < 2 else f"{_number(low)} to {_number(high)}"
            met = {None: "", True: "met", False: "**missed**"}[figure.met]
            median = _shown(figure.median, goal.unit)
            rows.append(f"| {title} | {goal.text} | {most} | {median} | {spread} | {met} |")
            title = ""
        if details and result.requests:
            rows.append(f"|  | requests of a run |  | {_by_verb(result.requests)} |  |  |")
    return "\n".join(rows)


def _by_verb(requests: Sequence[Mapping[str, int]]) -> str:
    """The median of each verb, the most frequent first."""
    verbs = {verb for run in requests for verb in run}
    medians = {verb: statistics.median(run.get(verb, 0) for run in requests) for verb in verbs}
    shown = sorted(medians.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{_number(count)} {verb}" for verb, count in shown if count)


def _shown(value: float, unit: str) -> str:
    return f"{_number(value)} {unit}".strip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def write_document(path: Path) -> None:
    """Put the table and the plots of a file of figures into docs/performance.md."""
    results = read_json(path)
    machine = json.loads(path.read_text())["machine"]
    days = sorted({result.date for result in results if result.date})
    measured = f", measured on {' to '.join(sorted({days[0], days[-1]}))}" if days else ""
    where = f"{machine['cores']} cores, which the control plane shares"
    lines = [
        f"{where}; Python {machine['python']}{measured}.",
        "",
        table(results, details=False),
    ]
    for name in plot(results):
        title, sizes, unit = CURVES[name]
        lines += ["", f"![{title} in {unit}, by {sizes}](performance/{name}.svg)"]
    text = DOCUMENT.read_text()
    before, rest = text.split(_MARKS[0])
    _, after = rest.split(_MARKS[1])
    DOCUMENT.write_text("\n".join([f"{before}{_MARKS[0]}", "", *lines, "", f"{_MARKS[1]}{after}"]))
    COMPARISON.write_text(compared(COMPARISON.read_text(), results))


def compared(text: str, results: Sequence[Result]) -> str:
    """A document whose rows of COMPARED have the medians of these results in their first cell."""
    medians = {
        (result.scenario, figure.name): figure.median
        for result in results
        if result.tree == "this"
        for figure in result.figures.values()
    }
    for label, (scenario, figure, unit) in COMPARED.items():
        if (median := medians.get((scenario, figure))) is not None:
            row = rf"^(\| {re.escape(label)} \| )[^|]*( \|)"
            cell = rf"\g<1>{_shown(median, unit)}\g<2>"
            text = re.sub(row, cell, text, flags=re.MULTILINE)
    return text


def plot(results: Sequence[Result]) -> list[str]:
    """Draw what was measured at several sizes; returns the names of the files."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for result in results:
        for figure in result.figures.values():
            if (step := _STEP.fullmatch(figure.name)) and step[1] in CURVES:
                curves.setdefault(step[1], []).append((int(step[2]), figure.median))
    if not curves:
        return []
    import matplotlib as mpl  # noqa: PLC0415 - it takes a second, and most runs draw nothing

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "copyrator"  # the same figures give the same file
    mpl.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot as plt  # noqa: PLC0415

    PLOTS.mkdir(exist_ok=True)
    for name, points in curves.items():
        sizes, values = zip(*sorted(points), strict=True)
        title, xlabel, ylabel = CURVES[name]
        drawing, axes = plt.subplots(figsize=(5, 3))
        axes.plot(sizes, values, marker="o", label="measured")
        twice = [values[0] * size / sizes[0] for size in sizes]
        axes.plot(sizes, twice, linestyle=":", label="in proportion")
        axes.set(title=title, xlabel=xlabel, ylabel=ylabel, ylim=(0, None))
        axes.legend()
        drawing.tight_layout()
        drawing.savefig(PLOTS / f"{name}.svg", metadata={"Date": None})
        plt.close(drawing)
    return list(curves)
