"""The schema of the chart's values.

Types come from the defaults, descriptions from the comments in values.yaml, bounds of settings from
their table, and other bounds from chart_schema.yaml beside this module.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import yaml

from copyrator.settings.options import Items, Pairs, Text, row_of, sentence
from demo.chart import CHART
from generate.chart_readme import at, commented
from generate.settings import OF_CHART, Setting

_BOUNDS = Path(__file__).with_suffix(".yaml")
_TYPES = {
    bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"
}  # fmt: skip


def schema() -> str:
    """The schema.

    Raises:
        ValueError: there are bounds of a value that doesn't exist.
    """
    text = (CHART / "values.yaml").read_text()
    bounds = yaml.safe_load(_BOUNDS.read_text())
    del bounds["shared"]
    top: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": bounds.pop("definitions"),
        "title": "Values of the copyrator chart",
        **_section(),
    }
    top["properties"] = bounds.pop("besides")
    values = yaml.safe_load(text)
    for one in commented(text):
        *parents, name = one.path.split(".")
        section = top
        for parent in parents:
            section = section["properties"].setdefault(parent, _section())
        own = {"type": _TYPES.get(type(at(values, one.path)))}
        field = OF_CHART.get(one.path)
        own |= bounds.pop(one.path, {}) if field is None else bounds_of(field, at(values, one.path))
        section["properties"][name] = {"description": sentence(one.comment), **own}
    if bounds:
        raise ValueError(f"{_BOUNDS.name}: the chart has no {', '.join(bounds)}")
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def _section() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def bounds_of(field: Setting, default: Any) -> dict[str, Any]:
    """What the schema says of a setting's value, with its default in the chart."""
    takes = row_of(field).takes
    if isinstance(takes, Pairs):
        value: dict[str, Any] = {"type": "string", "pattern": whole(takes.value)}
        if takes.several:
            value = {"type": "array", "items": value, "uniqueItems": True}
        elif default:
            value["type"] = ["string", "null"]  # Helm's way to remove a default
        names = {"pattern": whole(takes.key)}
        return {"type": "object", "propertyNames": names, "additionalProperties": value}
    if isinstance(takes, Items):
        items = {"type": "string", "pattern": whole(takes.pattern)}
        found = {"type": "array", "items": items, "uniqueItems": True}
        return found if takes.none or not default else {**found, "minItems": 1}
    if isinstance(takes, Text):
        pattern = whole(takes.pattern) if default else f"^({takes.pattern})?$"
        return {"type": "string", "pattern": pattern}
    if isinstance(takes, click.Choice):
        return {"type": "string", "enum": [one.value for one in takes.choices]}
    if isinstance(takes, click.IntRange | click.FloatRange):
        lowest = "exclusiveMinimum" if takes.min_open else "minimum"
        limits = {lowest: takes.min, "maximum": takes.max}
        kind = "integer" if isinstance(takes, click.IntRange) else "number"
        return {"type": kind, **{k: v for k, v in limits.items() if v is not None}}
    return {}


def whole(pattern: str) -> str:
    """A pattern of the whole text."""
    return f"^({pattern})$" if "|" in pattern else f"^{pattern}$"


FILES = {CHART / "values.schema.json": schema}
