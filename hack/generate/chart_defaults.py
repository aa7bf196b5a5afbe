"""The defaults of the chart's sections, which its templates take in place of null."""

from __future__ import annotations

import json
from typing import Any

import yaml

from demo.chart import CHART


def defaults() -> str:
    """Those of values.yaml, without maps of free form: there, null is an empty map."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return json.dumps(_sections(values, schema), separators=(",", ":")) + "\n"


def _sections(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        described = schema["properties"][name]
        if isinstance(value, dict):
            if described.get("additionalProperties") is False:
                found[name] = _sections(value, described)
        elif value is not None:
            found[name] = value
    return found


FILES = {CHART / "files" / "defaults.json": defaults}
