"""The schemas of the CRDs, from the types of specs and statuses (copyrator.api.schema)."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from copyrator.api.bundle_spec import Part
from copyrator.api.schema import (
    Form,
    Packed,
    Record,
    Schema,
    Slot,
    Takes,
    slots,
    split,
    validations,
)
from copyrator.api.text import format_duration
from generate import pod_fields

_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    datetime: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
}


def schema_of(*forms: type[msgspec.Struct], description: str = "") -> Schema:
    """The schema of a map that has the fields of all these types.

    Raises:
        ValueError: a field isn't described, or the API server wouldn't take it.
    """
    found: Schema = {"type": "object"}
    if description:
        found["description"] = description
    fields = [(form, slot) for form in forms for slot in slots(form)]
    if required := [slot.name for _, slot in fields if slot.is_required or slot.takes.is_required]:
        found["required"] = required
    if rules := [one for form in forms if issubclass(form, Form) for one in form.RULES]:
        found["x-kubernetes-validations"] = validations(tuple(rules))
    found["properties"] = {slot.name: _field(form, slot) for form, slot in fields}
    return found


def composed(
    engine: type[msgspec.Struct], parts: Sequence[type[Part] | type[Record]], *, description: str
) -> Schema:
    """The schema of a spec or status with the features' parts: maps, or fields of its own."""
    flat = (part for part in parts if not part.FIELD)
    found = schema_of(engine, *flat, description=description)
    found["properties"] |= {
        part.FIELD: schema_of(part, description=described(part)["FIELD"])
        for part in parts
        if part.FIELD
    }
    return found


def _field(form: type[msgspec.Struct], slot: Slot) -> Schema:
    description = slot.takes.schema.get("description") or described(form).get(slot.attribute, "")
    if not description:
        raise ValueError(f"{form.__name__}.{slot.attribute} has no text below it: describe it")
    found = _value(slot.kind, slot.takes, description)
    if slot.takes.is_stored:
        found["default"] = _written(slot.default, found)
    return structural(found, f"{form.__name__}.{slot.attribute}")


def _written(default: Any, schema: Schema) -> Any:
    """A default as in JSON."""
    if isinstance(default, Enum):
        return default.value
    return (
        format_duration(default)
        if schema["type"] == "string" and type(default) is float
        else default
    )


def _value(kind: Any, takes: Takes, description: str = "") -> Schema:
    """The schema of a value: its type, description and bounds, and then what is in it."""
    head = dict(_SCALARS.get(kind, {}))
    inner: Schema = {}
    if takes.like is not None:
        like = getattr(pod_fields, takes.like) if isinstance(takes.like, str) else takes.like
        inner = schema_of(like)
        if takes.schema.get("type") == "array":
            inner = {"items": inner}
        else:
            head = {"type": inner.pop("type")}
    elif takes.read is not None:
        head = {}
    elif get_origin(kind) in (tuple, frozenset, Packed):
        head, inner = {"type": "array"}, {"items": _value(*split(get_args(kind)[0]))}
    elif get_origin(kind) is not None:
        head = {"type": "object"}
        inner = {"additionalProperties": _value(*split(get_args(kind)[1]))}
    elif kind in _SCALARS:
        pass
    elif issubclass(kind, StrEnum):
        head, inner = {"type": "string"}, {"enum": [word.value for word in kind]}
    else:
        inner = schema_of(kind)
        head = {"type": inner.pop("type")}
    if "type" in takes.schema:
        head = {"type": takes.schema["type"]}
    if description:
        head["description"] = description
    return head | takes.schema | inner | _rules(takes.schema, inner)


def _rules(*schemas: Schema) -> Schema:
    """The rules of several schemas together."""
    name = "x-kubernetes-validations"
    found = [rule for one in schemas for rule in one.get(name, ())]
    return {name: found} if found else {}


_UNKNOWN = ("$ref", "allOf", "oneOf", "not", "definitions", "nullable")


def structural(schema: Schema, path: str) -> Schema:
    """The schema, if it is one that an API server takes.

    Raises:
        ValueError: it isn't structural.
    """
    if stray := [name for name in _UNKNOWN if name in schema]:
        raise ValueError(f"{path}: {stray[0]} isn't for a structural schema; say it by a rule")
    if "anyOf" in schema and not schema.get("x-kubernetes-int-or-string"):
        raise ValueError(f"{path}: anyOf is for integers or strings only; say it by a rule")
    if "type" not in schema and not any(name.startswith("x-kubernetes-") for name in schema):
        raise ValueError(f"{path}: has no type")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            structural(schema[name], f"{path}.{name}")
    for name, one in schema.get("properties", {}).items():
        structural(one, f"{path}.{name}")
    return schema


@cache
def described(form: type) -> dict[str, str]:
    """The texts below the fields of a type, those of its bases too."""
    found: dict[str, str] = {}
    for one in reversed(form.__mro__):
        if issubclass(one, msgspec.Struct):
            found |= _texts(one)
    return found


def _texts(form: type) -> dict[str, str]:
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(form))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(tree, ast.ClassDef)
    return dict(_pairs(tree.body))


def _pairs(body: Iterable[ast.stmt]) -> Iterable[tuple[str, str]]:
    field = ""
    for one in body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            field = one.target.id
        elif field and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
            yield field, unwrapped(str(one.value.value))
            field = ""
        else:
            field = ""


def unwrapped(text: str) -> str:
    """Paragraphs, and items of lists, which begin with ``- ``, on one line each."""
    parts = re.split(r"(\n\n|\n(?=- ))", inspect.cleandoc(text))
    return "".join(part if part.isspace() else " ".join(part.split()) for part in parts)
