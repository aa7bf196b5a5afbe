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
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
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

GATES = ROOT / "docs/adr/0021-gates.md"
"""It has the patch of an invented gate."""

SOURCE = ROOT / "operator"
PACKAGE = "copyrator"
RULED = ("bundles", "copies")
"""The packages for which the rules of modules and classes hold; the others follow later."""
QUEUES = ("queue", "scheduler", "schedule")
"""The attributes that hold the work queue, the scheduler or their owner; `_queue` counts too."""
REQUEUES = ("changed", "set_due")
"""The functions that end in the work queue or the scheduler."""
EVENT_SOURCES = (
    "controller",  # handlers, pushes, answers of registries
    "reconciler",  # the due times of steps
    "status",  # what the answer to a write means for other Bundles
    "polling",  # pushes
    "jobs",  # the watch of Jobs; logs of plans that were read
    "queue",  # slots for plans
    "permissions",  # reviews of permissions
    "blocked",  # service accounts that exist now
    "logins",  # of clouds, for Jobs
    "consents",
    "freezes",
    "watches",  # objects that Bundles name
    "store",  # the signature policy
    "attester",  # statements that were pushed
    "monitor",  # objects of releases
)
"""The modules of `bundles` that may report events to the owner of the queue, by their last name."""

MOST_METHODS = 12
"""Public methods and properties of a class."""

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
    """The stored figures and lists."""
    return tomllib.loads(STORED.read_text())


def store(found: Findings) -> None:
    """Store these figures and lists; the others stay."""
    stored = load()
    for name, figure in stored["figures"].items():
        if name in found:
            figure["now"] = len(found[name])
    for name in stored["exceptions"]:
        stored["exceptions"][name] = found.get(name, stored["exceptions"][name])
    parts = [STORED.read_text().partition("\n\n")[0] + "\n"]
    for name, figure in stored["figures"].items():
        rows = [f"{key} = {json.dumps(value)}\n" for key, value in figure.items()]
        parts.append(f"\n[figures.{name}]\n" + "".join(rows))
    parts.append("\n[exceptions]\n")
    for name, listed in stored["exceptions"].items():
        rows = [f"    {json.dumps(one)},\n" for one in listed]
        parts.append(f"{name} = [\n" + "".join(rows) + "]\n")
    STORED.write_text("".join(parts))


def show(found: Findings) -> None:
    """Print all that was counted."""
    for name, listed in found.items():
        print(f"{name}: {len(listed)}", *listed, sep="\n  ")


def differences(found: Findings) -> list[str]:
    """How these figures and lists differ from the stored ones, a line each, with what to do."""
    if os.environ.get(WRITE):
        store(found)
    stored, lines = load(), []
    for name, figure in stored["figures"].items():
        if name not in found:
            continue
        counted, allowed = len(found[name]), figure.get("slack", 0)
        if counted > figure["now"] + allowed:
            lines.append(f"{name}: {counted}, stored {figure['now']}; make it fewer again")
            lines += [f"  {one}" for one in found[name] if counted < 50]
        elif counted < figure["now"] - allowed:
            lines.append(f"{name}: only {counted}, stored {figure['now']}: {_UPDATE}")
    for name, listed in stored["exceptions"].items():
        if name in found:
            lines += [f"{name}: {one} is new" for one in found[name] if one not in listed]
            lines += [
                f"{name}: {one} is gone: {_UPDATE}" for one in listed if one not in found[name]
            ]
    return lines


_UPDATE = "store it by `hack/run python -m places --write`"


def count_source() -> Findings:
    """All that is counted without running anything."""
    ruled: list[str] = []
    elsewhere: list[str] = []
    for name, at in sorted(_classes().items()):
        listed = ruled if any(path in _ruled() for path in at) else elsewhere
        listed += [name] * (len(at) - 1)
    return {
        "lines_of_all": [line for path in _paths("") for line in _text(path).splitlines()],
        "requeuing_modules": list(_requeuing()),
        "modules_in_circles": list(_in_circles()),
        "classes_of_one_name": ruled,
        "classes_of_one_name_elsewhere": elsewhere,
        "large_classes": sorted(_large_classes()),
        "files_of_a_gate": re.findall(r"^\+\+\+ b/(.+)$", GATES.read_text(), re.MULTILINE),
    }


def _requeuing() -> Iterator[str]:
    """The modules of `bundles` that hold the queue or the scheduler, or call what ends there.

    By names: a function that is handed on under another name isn't seen.
    """
    names = {*REQUEUES, *QUEUES, *(f"_{name}" for name in QUEUES)}
    for path in _paths("bundles"):
        nodes = list(ast.walk(_tree(path)))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        used |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)} & {*REQUEUES}
        if names & used and path.stem not in EVENT_SOURCES:
            yield str(path)


def _in_circles() -> Iterator[str]:
    """The modules that import each other in a circle; imports for type hints count."""
    imports = grimp.build_graph(PACKAGE, cache_dir=None)
    for name in sorted(imports.modules):
        if any(
            imports.chain_exists(importer=other, imported=name)
            for other in imports.find_modules_directly_imported_by(name)
        ):
            yield name


def _large_classes() -> Iterator[str]:
    for path in _ruled():
        for node in ast.walk(_tree(path)):
            if isinstance(node, ast.ClassDef) and len(_public_methods(node)) > MOST_METHODS:
                yield node.name


def _public_methods(node: ast.ClassDef) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [one.name for one in node.body if isinstance(one, kinds) and one.name[0] != "_"]


def _classes() -> dict[str, list[Path]]:
    """The modules that define a class of this name, by its name."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in _paths(""):
        for node in _tree(path).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return found


def _ruled() -> list[Path]:
    return [path for name in RULED for path in _paths(name)]


@cache
def _paths(package: str) -> list[Path]:
    """All modules of a package, `__init__.py` too, from the source root."""
    return sorted(path.relative_to(SOURCE) for path in (SOURCE / PACKAGE / package).rglob("*.py"))


@cache
def _text(path: Path) -> str:
    return (SOURCE / path).read_text()


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


if __name__ == "__main__":
    sys.exit(main())
