"""What comes from the table of settings: its page, and the chart's values and variables."""

from __future__ import annotations

import dataclasses
import json
import re
from itertools import groupby
from typing import Any, cast

import click
import yaml

from copyrator.runtime.flags import groups
from copyrator.settings.options import (
    Pairs,
    Row,
    flag_of,
    joined,
    meaning,
    row_of,
    variable_of,
)
from demo.chart import CHART, ROOT
from generate.cells import Indented
from generate.chart_readme import between, commented

PAGE = ROOT / "docs" / "settings.md"
Setting = dataclasses.Field[Any]

OF_CHART = {
    row.chart.path: field
    for group in groups()
    for field in dataclasses.fields(group)
    if (row := row_of(field)).chart is not None
}
"""The settings that the chart has a value for, by its path."""


def page() -> str:
    """The page with a table of the settings that have the same heading."""
    parts = ["\n"]
    for heading, found in groupby(groups(), key=lambda group: str(group.__doc__)):
        parts.append(f"## {heading.rstrip('.')}\n\n")
        parts.append("| flag | variable | default | meaning |\n|---|---|---|---|\n")
        parts += [f"{_line(field)}\n" for group in found for field in dataclasses.fields(group)]
        parts.append("\n")
    return between(PAGE.read_text(), "settings", "".join(parts))


def _line(field: Setting) -> str:
    row, default = row_of(field), field.default
    form = f"`{row.takes.form}`" if isinstance(row.takes, Pairs) else _choices(row)
    if isinstance(default, tuple):
        default = joined(default)
    shown = row.unset or ("none" if default is None else f"`{default}`")
    text = meaning(row, form).replace("|", "\\|")
    return f"| `{flag_of(field)}` | `{variable_of(field)}` | {shown} | {text} |"


def _choices(row: Row) -> str:
    choices = row.takes.choices if isinstance(row.takes, click.Choice) else ()
    return ", ".join(f"`{one.value}`" for one in choices)


def default_of(field: Setting) -> Any:
    """The chart's default."""
    row, default = row_of(field), cast("Any", field.default)
    assert row.chart is not None
    if row.chart.default is not None:
        return row.chart.default
    if isinstance(row.takes, Pairs):
        return dict(default)
    if isinstance(default, tuple):
        return list(default)
    if isinstance(default, float) and default.is_integer():
        return int(default)
    return default if isinstance(default, bool | int | float) else str(default or "")


def comment_of(field: Setting) -> str:
    """What the chart's values say of a setting."""
    row = row_of(field)
    assert row.chart is not None
    choices = f" ({_choices(row)})" if _choices(row) else ""
    parts = [row.text + choices, row.chart.note]
    if not default_of(field) and (unset := row.chart.unset or row.unset):
        parts.append(f"default: {unset}")
    return re.sub(r"\]\((?=[\w-]+\.md)", "](../../docs/", "; ".join(filter(None, parts)))


def values(text: str) -> str:
    """The chart's values with the comments and defaults of settings; the rest is as it is.

    Raises:
        ValueError: a setting's value isn't among them.
    """
    lines, left = text.splitlines(), dict(OF_CHART)
    for place in reversed(list(commented(text))):
        if (field := left.pop(place.path, None)) is None:
            continue
        name, default = place.path.rpartition(".")[2], default_of(field)
        indent = lines[place.key][: -len(lines[place.key].lstrip())]
        kept = lines[place.key : place.end]
        if yaml.safe_load("\n".join(kept))[name] != default:
            made = yaml.dump({name: default}, Dumper=Indented, sort_keys=False).splitlines()
            suggested = [line for line in kept if line.lstrip().startswith("#")]
            kept = [*(indent + line for line in made), *suggested]
        lines[place.start : place.end] = [f"{indent}# {comment_of(field)}", *kept]
    if left:
        raise ValueError(f"values.yaml lacks {', '.join(left)}: add each where it belongs")
    return "\n".join(lines) + "\n"


def variables() -> str:
    """The variables that the Deployment makes of values; `none`: the text of an empty list."""
    lines = []
    for path, field in OF_CHART.items():
        one = {"name": variable_of(field), "value": path}
        if getattr(row_of(field).takes, "none", False):
            one["none"] = "-"
        lines.append(f"  {json.dumps(one)}")
    return "[\n" + ",\n".join(lines) + "\n]\n"


VALUES = CHART / "values.yaml"
FILES = {
    PAGE: page,
    VALUES: lambda: values(VALUES.read_text()),
    CHART / "files" / "variables.json": variables,
}
