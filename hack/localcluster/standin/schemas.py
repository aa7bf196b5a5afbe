"""What werf 3 refuses before it asks for anything: objects that don't fit their schema.

werf has the schemas of Kubernetes built in; here they are the API server's own, and only types and
required fields are checked, as kubeconform does it without `strict`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import manifests
from .client import Client
from .errors import failure
from .manifests import Key, Object

_WORDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number"}
_GROUPS = ("", "apps", "autoscaling", "batch", "policy")
"""Kubernetes' API groups without a dot."""


def check(wanted: Mapping[Key, Object], client: Client) -> None:
    """Compare objects with their schemas; those without any are right.

    Raises:
        WerfError: with a line for each fault.
    """
    found: dict[str, Object] = {}
    faults = []
    for key, body in wanted.items():
        group, _, version = body["apiVersion"].rpartition("/")
        if group not in _GROUPS and not group.endswith(".k8s.io"):
            continue
        if body["apiVersion"] not in found:
            found[body["apiVersion"]] = client.schemas(body["apiVersion"])
        schemas = found[body["apiVersion"]]
        kind = {"group": group, "kind": body["kind"], "version": version}
        own = (s for s in schemas.values() if kind in s.get("x-kubernetes-group-version-kind", []))
        if schema := next(own, None):
            title = manifests.titled(key)
            faults += [f"validate {title}: {fault}" for fault in _faults(body, schema, schemas)]
    if faults:
        raise failure("locally validate resources: validate resource schemas", faults)


def _faults(
    value: Any, schema: Object, schemas: Object, path: str = "", optional: str = ""
) -> Iterator[str]:
    """Yield what of a value isn't as its schema says, as `/PATH: FAULT`.

    Built-in schemas allow a null for whatever isn't required; `optional` says so.
    """
    while part := next(iter(schema.get("allOf", [])), schema if "$ref" in schema else None):
        schema = schemas[part["$ref"].rpartition("/")[2]]
    wanted = schema.get("type")
    if value is None or wanted is None or "oneOf" in schema:  # werf leaves nulls out
        return
    got = _WORDS.get(type(value), "number")
    if got != ("number" if wanted == "integer" else wanted):
        yield f"{path}: got {got}, want {optional}{wanted}"
    elif isinstance(value, dict):
        if missing := [f"'{name}'" for name in schema.get("required", []) if name not in value]:
            word = "property" if len(missing) == 1 else "properties"
            yield f"{path}: missing {word} {', '.join(missing)}"
        known = schema.get("properties", {})
        for name, inner in value.items():
            of = known.get(name, schema.get("additionalProperties"))
            if isinstance(of, dict):
                nullable = "" if name in schema.get("required", []) else "null or "
                yield from _faults(inner, of, schemas, f"{path}/{name}", nullable)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            items = schema.get("items", {})
            yield from _faults(inner, items, schemas, f"{path}/{number}", "null or ")
