"""Counts how many places of the code a reader passes; the figures are in tests/places.toml.

`python -m places` prints them with their goals, as `make check` does. `python -m places --write`
counts again and stores what it counted: figures that have become better. Tests compare:
tests/unit/test_places.py what is counted in the source, test_places.py in tests/component/bundles
and tests/component/copies what is counted while a Bundle is deployed and a rule copies.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / "tests" / "places.toml"
WRITE = "COPYRATOR_WRITE_PLACES"
"""A variable: tests store what they count instead of comparing it."""
RUN_TESTS = (
    "tests/component/bundles/test_places.py",
    "tests/component/copies/test_places.py",
)

SOURCE = ROOT / "operator"
PACKAGE = "copyrator"
ORDER = (
    *("controller", "features", "plans"),
    *("evidence", "reconciler", "uninstall", "deploy", "attempt"),
    *("accounts", "sealed", "choose", "registry", "remembered", "status"),
    *("feature", "references", "job_client", "conditions", "context", "schedule"),
    *("step", "deciding", "gate", "links", "bundle", "poll", "lookup", "engine"),
    *("jobs", "tags", "words", "fields", "list"),
)
"""The modules of `bundles.engine`, and the others of `bundles`, each above what it may import.

`list` is the list of features, which knows their names alone.
"""
ABOVE = ("plans", "features")
"""The folders above the engine."""
QUEUES = ("queue", "scheduler", "schedule")
"""The attributes that hold the work queue, the scheduler or their owner; `_queue` counts too."""
REQUEUES = ("changed", "set_due")
"""The functions that end in the work queue or the scheduler."""
EVENT_SOURCES = (
    "controller",  # handlers, pushes, answers of registries
    "reconciler",  # the due times of steps
    "feature",  # what a change of a Bundle means for others
    "choose",  # is told what is stale
    "job_client",  # the watch of Jobs
    "accounts",  # service accounts that exist now
    "references",  # objects that Bundles name
)
"""The modules of `bundles` that may report events to the owner of the queue, by their last name;
those of ``ABOVE`` may, too."""

Findings = dict[str, list[str]]
"""What is counted, by the figure's name."""


def main() -> int:
    """Print the stored figures, or count again and store them."""
    if sys.argv[1:] == ["--write"]:
        store(count_source())
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *RUN_TESTS]
        subprocess.run(command, cwd=ROOT, env={**os.environ, WRITE: "1"}, check=True)
    for figure in load()["figures"].values():
        print(f"{figure['now']:>6} (goal {figure['goal']:>5})  {figure['counts']}")
    return 0


def load() -> dict[str, Any]:
    """The stored figures."""
    return tomllib.loads(STORED.read_text())


def store(found: Findings) -> None:
    """Store these figures; the others stay."""
    stored = load()
    for name, figure in stored["figures"].items():
        if name in found:
            figure["now"] = len(found[name])
    parts = [STORED.read_text().partition("\n\n")[0] + "\n"]
    for name, figure in stored["figures"].items():
        rows = [f"{key} = {json.dumps(value)}\n" for key, value in figure.items()]
        parts.append(f"\n[figures.{name}]\n" + "".join(rows))
    STORED.write_text("".join(parts))


def show(found: Findings) -> None:
    """Print all that was counted."""
    for name, listed in found.items():
        print(f"{name}: {len(listed)}", *listed, sep="\n  ")


def differences(found: Findings) -> list[str]:
    """How these figures differ from the stored ones, a line each, with what to do."""
    if os.environ.get(WRITE):
        store(found)
    lines = []
    for name, figure in load()["figures"].items():
        if name not in found:
            continue
        counted, allowed = len(found[name]), figure.get("slack", 0)
        if counted > figure["now"] + allowed:
            lines.append(f"{name}: {counted}, stored {figure['now']}; make it fewer again")
            lines += [f"  {one}" for one in found[name] if counted < 50]
        elif counted < figure["now"] - allowed:
            lines.append(f"{name}: only {counted}, stored {figure['now']}: {_UPDATE}")
    return lines


_UPDATE = "store it by `hack/run python -m places --write`"


def count_source() -> Findings:
    """All that is counted without running anything."""
    imports = grimp.build_graph(PACKAGE, cache_dir=None)
    return {
        "requeuing_modules": list(_requeuing()),
        "modules_in_circles": list(_in_circles(imports)),
        "arrows_back_up": sorted(_arrows_back_up(imports)),
    }


def _requeuing() -> Iterator[str]:
    """The modules of `bundles` that hold the queue or the scheduler, or call what ends there.

    By names: a function that is handed on under another name isn't seen.
    """
    names = {*REQUEUES, *QUEUES, *(f"_{name}" for name in QUEUES)}
    bundles = SOURCE / PACKAGE / "bundles"
    for path in sorted(bundles.rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)} & {*REQUEUES}
        is_source = path.stem in EVENT_SOURCES or path.relative_to(bundles).parts[0] in ABOVE
        if names & used and not is_source:
            yield str(path.relative_to(SOURCE))


def _in_circles(imports: grimp.ImportGraph) -> Iterator[str]:
    """The modules that import each other in a circle; imports for type hints count."""
    for name in sorted(imports.modules):
        if any(
            imports.chain_exists(importer=other, imported=name)
            for other in imports.find_modules_directly_imported_by(name)
        ):
            yield name


def _arrows_back_up(imports: grimp.ImportGraph) -> set[str]:
    """Imports inside `bundles` against its order, of one folder or module each."""
    within = f"{PACKAGE}.bundles."
    parts = {name: name.split(".")[2:] for name in imports.modules if name.startswith(within)}
    places = {
        name: (part[1:] or part)[0] if part[0] == "engine" else part[0]
        for name, part in parts.items()
    }
    places[f"{within}features"] = "list"
    return {
        f"{place} -> {places[other]}"
        for name, place in places.items()
        for other in imports.find_modules_directly_imported_by(name) & places.keys()
        if ORDER.index(places[other]) < ORDER.index(place)
    }


if __name__ == "__main__":
    sys.exit(main())
