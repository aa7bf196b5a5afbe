"""One side of `choices-checks`: checks rules, and reports what it costs and finds as JSON.

Usage: ``python -m bench.choices.checks_child SIDE WORK``. WORK is the path of a JSON file: count,
and schema (of a rule's CRD).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.choices.own import peak

PARSERS = "api/ parsers"
MSGSPEC = "msgspec"
SCHEMA = "cli/schema.py"
JSONSCHEMA = "jsonschema"
SIDES = (PARSERS, MSGSPEC, SCHEMA, JSONSCHEMA)

Check = Callable[[dict[str, Any]], list[str]]
"""The faults of a manifest, as texts."""

GOOD: dict[str, Any] = {
    "apiVersion": "flant.com/v1",
    "kind": "CopyratorRule",
    "metadata": {"namespace": "copyrator", "name": "good"},
    "spec": {
        "source": {"kind": "Secret", "namespace": "default", "name": "registry-creds"},
        "targets": {
            "namespaces": ["team-*"],
            "exclude": ["kube-*"],
            "selector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["a"]}]},
        },
        "transform": {"name": "{{ source.name }}", "keys": {"include": ["tls.*"]}},
        "limit": 1000,
        "mode": "Apply",
    },
}

FAULTS: dict[str, dict[str, Any]] = {
    "unknown field": {"tragets": {}},
    "no such word": {"mode": "Aply"},
    "text for a number": {"limit": "1000"},
    "number for a text": {"targets": {"namespaces": ["team-*", 5]}},
    "below the least": {"limit": 0},
    "no name": {"source": {"kind": "Secret", "name": "UPPER_case"}},
    "no glob": {"targets": {"namespaces": ["team *"]}},
    "two that exclude each other": {"source": {"kind": "Secret", "name": "a", "selector": {}}},
    "one of two missing": {"source": None},
    "an operator without its values": {
        "targets": {"selector": {"matchExpressions": [{"key": "env", "operator": "In"}]}}
    },
}
"""What replaces fields of GOOD's spec; each is refused by the API server or the operator."""


def parsers(_schema: Any) -> Check:
    """The operator's own."""
    from copyrator.api.fields import InvalidSpec
    from copyrator.api.rule import parse_rule

    def check(body: dict[str, Any]) -> list[str]:
        found = parse_rule(body)
        return [str(found)] if isinstance(found, InvalidSpec) else []

    return check


def with_msgspec(_schema: Any) -> Check:
    """Structs that say what types and texts there may be; no code of ours."""
    import msgspec

    from bench.choices.checks_structs import Rule

    def check(body: dict[str, Any]) -> list[str]:
        try:
            msgspec.convert(body, Rule)
        except msgspec.ValidationError as error:
            return [str(error)]
        return []

    return check


def own_schema(schema: Any) -> Check:
    """`copyrator validate`, without the parsers that it asks, too."""
    from copyrator.cli.schema import problems

    return lambda body: [f"{one.field}: {one.message}" for one in problems(body, schema)]


def with_jsonschema(schema: Any) -> Check:
    """The CRD's schema taken for JSON Schema."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)
    return lambda body: [
        f"{error.json_path}: {error.message}" for error in validator.iter_errors(body)
    ]


MAKERS = dict(zip(SIDES, (parsers, with_msgspec, own_schema, with_jsonschema), strict=True))


def main(side: str, work: dict[str, Any]) -> dict[str, float]:
    """Everything once."""
    began, count = time.process_time(), int(work["count"])
    check = MAKERS[side](work["schema"])
    imported = time.process_time()
    if found := check(GOOD):
        raise AssertionError(found)
    began_checks = time.process_time()
    for _ in range(count):
        check(GOOD)
    spent = time.process_time() - began_checks
    told = {name: check({**GOOD, "spec": {**GOOD["spec"], **bad}}) for name, bad in FAULTS.items()}
    for name, texts in told.items():
        print(f"{side}, {name}: {texts}", file=sys.stderr)
    return {
        "CPU of import and preparation, ms": 1000 * (imported - began),
        "CPU of a check, µs": 1e6 * spent / count,
        f"faults found, of {len(FAULTS)}": float(sum(map(bool, told.values()))),
        "memory, MB": peak(),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(Path(sys.argv[2]).read_text()))))
