"""The table of the chart's README, from the comments in values.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from demo.chart import CHART


class Value(NamedTuple):
    """A value of the chart with its comment, and its lines: a comment's, a key's, the next."""

    path: str
    comment: str
    start: int
    key: int
    end: int


def table(text: str) -> str:
    """The table: value, default, meaning, in the order of values.yaml.

    Raises:
        ValueError: a value has no comment.
    """
    values = yaml.safe_load(text)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for one in commented(text):
        default = _shown(at(values, one.path))
        rows.append(f"| `{one.path}` | {default} | {one.comment} |")
    return "\n".join(rows) + "\n"


def commented(text: str) -> Iterator[Value]:
    """Each value with the comment above it. A key without one only groups those below it."""
    parents: list[tuple[int, str]] = []
    comment, start, inside = "", -1, -1
    lines = text.splitlines()
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            comment = ""
        elif line.lstrip().startswith("# "):
            start = start if comment else number
            comment = f"{comment} {line.strip()[2:]}".strip()
        elif found := re.match(r" *([A-Za-z_]+):( \S.*)?$", line):
            if inside >= 0 and indent > inside:
                continue
            inside = -1
            parents = [parent for parent in parents if parent[0] < indent]
            path = ".".join([*(name for _, name in parents), found[1]])
            if comment:
                following = enumerate(lines[number + 1 :], number + 1)
                deeper = " " * (indent + 1)
                end = next((n for n, one in following if not one.startswith(deeper)), len(lines))
                yield Value(path, comment, start, number, end)
                inside = indent
            elif found[2]:
                raise ValueError(f"values.yaml: {path} has no comment above it")
            else:
                parents.append((indent, found[1]))
            comment = ""


def at(values: Any, path: str) -> Any:
    """The value at a path."""
    for name in path.split("."):
        values = values[name]
    return values


def _shown(default: Any) -> str:
    if default == "":
        return ""
    if isinstance(default, list) and len(default) > 1:
        return ", ".join(f"`{one}`" for one in default)
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def between(text: str, name: str, made: str) -> str:
    """A text with another one between its marks."""
    begin, end = f"<!-- {name}: made by `make generate` -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{made}{end}{rest.partition(end)[2]}"


def _readme() -> str:
    values, readme = ((CHART / name).read_text() for name in ("values.yaml", "README.md"))
    return between(readme, "values", table(values))


FILES = {CHART / "README.md": _readme}
