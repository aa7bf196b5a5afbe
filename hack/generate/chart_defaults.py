"""The defaults of the chart's sections, which its templates take in place of null."""

from __future__ import annotations

import json
from typing import Any

import yaml

from demo.chart import CHART


def defaults() -> str:
    """Those of values.yaml; of maps of free form only those in sections, each under ``*``."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    found = _sections(values, schema)
    apart = [name for name, one in found.items() if isinstance(one, dict) and "*" in one]
    kept = {name: one for name, one in found.items() if name not in apart}
    return json.dumps(kept, separators=(",", ":")) + "\n"


def _sections(values: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        described = schema["properties"][name]
        if isinstance(value, dict):
            is_section = described.get("additionalProperties") is False
            found[name] = _sections(value, described) if is_section else {"*": value}
        elif value is not None:
            found[name] = value
    return found


FILES = {CHART / "files" / "defaults.json": defaults}
