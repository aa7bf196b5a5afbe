"""Makes operator/copyrator/copies/template/kind_fields.json of an API server's OpenAPI.

    kubectl get --raw /openapi/v2 | hack/run python -m generate.kind_fields

Not part of ``make generate``, as it needs a cluster; tests/e2e/copies/test_templates.py
compares the file with each version of Kubernetes that tests use.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "operator/copyrator/copies/template/kind_fields.json"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"


class _Types:
    """Collects the types that kinds use. A name that several groups use has the group's, too."""

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._uses = Counter(one.rpartition(".")[2] for one in definitions)
        self._names: dict[str, str] = {}
        self._pending: list[str] = []
        self.found: dict[str, dict[str, str]] = {}

    def name(self, definition: str) -> str:
        """The short name of a definition."""
        if definition not in self._names:
            parts = definition.split(".")
            unique = self._uses[parts[-1]] == 1
            self._names[definition] = ".".join(parts[-1:] if unique else parts[-3:])
            self._pending.append(definition)
        return self._names[definition]

    def resolve(self, kinds: set[str]) -> None:
        """Fill `found`. Of a kind's own fields, status isn't one that templates may have."""
        while self._pending:
            definition = self._pending.pop()
            self.found[self._names[definition]] = {
                field: self._type(schema)
                for field, schema in self._definitions[definition]["properties"].items()
                if not (field == "status" and definition in kinds)
            }

    def _type(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            definition = schema["$ref"].rpartition("/")[2]
            if definition == _QUANTITY:
                return "quantity"
            found = self._definitions[definition]
            return self.name(definition) if "properties" in found else self._type(found)
        if schema.get("format") == "int-or-string":
            return "int-or-string"
        match schema.get("type"):
            case "array":
                return "[" + self._type(schema["items"])
            case "object":
                return "{" + self._type(schema.get("additionalProperties", {}))
            case known:
                return str(known or "any")


def kind_fields(openapi: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All namespaced kinds of Kubernetes' own stable versions, and the types of their fields."""
    namespaced = {
        _named(operation["x-kubernetes-group-version-kind"])
        for path, item in openapi["paths"].items()
        if "/namespaces/{namespace}/" in path and path.endswith("/{name}")
        for operation in item.values()
        if isinstance(operation, dict) and "x-kubernetes-group-version-kind" in operation
    }
    kinds: dict[str, str] = {}
    for definition, schema in openapi["definitions"].items():
        named = [_named(one) for one in schema.get("x-kubernetes-group-version-kind", ())]
        stable = len(named) == 1 and not ("alpha" in named[0] or "beta" in named[0])
        if stable and named[0] in namespaced and definition.startswith("io.k8s.api."):
            kinds[named[0]] = definition
    types = _Types(openapi["definitions"])
    found = {named: types.name(definition) for named, definition in sorted(kinds.items())}
    types.resolve(set(kinds.values()))
    return {"kinds": found, "types": types.found}


def _named(one: Mapping[str, str]) -> str:
    return f"{one['group']}/{one['version']}/{one['kind']}".lstrip("/")


def main() -> None:
    """Read the OpenAPI from stdin, and write the file: a line for each kind and type."""
    parts = []
    for part, entries in kind_fields(json.load(sys.stdin)).items():
        lines = [
            f"{json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in sorted(entries.items())
        ]
        parts.append(f'"{part}": {{\n' + ",\n".join(lines) + "\n}")
    TARGET.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
