"""The table of the chart's README, from the comments in values.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from demo.chart import CHART

BEGIN, END = "<!-- values: made by `make generate` -->\n", "<!-- end of values -->\n"


def table(text: str) -> str:
    """The table: value, default, meaning, in the order of values.yaml.

    Raises:
        ValueError: a value has no comment.
    """
    values = yaml.safe_load(text)
    rows = ["| value | default | meaning |", "|---|---|---|"]
    for path, meaning in _commented(text):
        default = _shown(_at(values, path))
        rows.append(f"| `{path}` | {default} | {meaning} |")
    return "\n".join(rows) + "\n"


def _commented(text: str) -> Iterator[tuple[str, str]]:
    """Each value with the comment above it. A key without one only groups those below it."""
    parents: list[tuple[int, str]] = []
    comment, inside = "", -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            comment = ""
        elif line.lstrip().startswith("# "):
            comment = f"{comment} {line.strip()[2:]}".strip()
        elif found := re.match(r" *([A-Za-z_]+):( \S.*)?$", line):
            if inside >= 0 and indent > inside:
                continue
            inside = -1
            parents = [parent for parent in parents if parent[0] < indent]
            path = ".".join([*(name for _, name in parents), found[1]])
            if comment:
                yield path, comment
                inside = indent
            elif found[2]:
                raise ValueError(f"values.yaml: {path} has no comment above it")
            else:
                parents.append((indent, found[1]))
            comment = ""


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def _shown(default: Any) -> str:
    if default == "":
        return ""
    if isinstance(default, list) and len(default) > 1:
        return ", ".join(f"`{one}`" for one in default)
    return f"`{default if isinstance(default, str) else json.dumps(default)}`"


def rewritten(readme: str, values: str) -> str:
    """The README with the table of these values."""
    before, _, rest = readme.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}{table(values)}{END}{after}"


def _readme() -> str:
    values, readme = ((CHART / name).read_text() for name in ("values.yaml", "README.md"))
    return rewritten(readme, values)


FILES = {CHART / "README.md": _readme}
