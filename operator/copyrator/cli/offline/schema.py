"""Validates a value against a CRD's structural schema, as the API server would, offline.

Only the keywords that our CRDs use. CEL rules aren't evaluated: the operator's own parsers, which
`validate` calls too, check all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

Step = str | int
Schema = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A field's fault and the remedy."""

    path: tuple[Step, ...]
    message: str

    @property
    def field(self) -> str:
        """The path in the usual form: ``spec.valuesFrom[0].kind``."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}"
        return text.lstrip(".")


def problems(value: Any, schema: Schema, path: tuple[Step, ...] = ()) -> Iterator[Problem]:
    """All violations of the schema in a value."""
    if value is None:
        return  # the API server drops it
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield Problem(path, "must be a number or a string")
        return
    wanted = schema.get("type")
    if wanted and not _is(value, wanted):
        article = "an" if wanted[0] in "aeiou" else "a"
        yield Problem(path, f"must be {article} {wanted}, not {_shown(value)}")
        return
    if isinstance(value, dict):
        yield from _map(value, schema, path)
    elif isinstance(value, list):
        yield from _list(value, schema, path)
    else:
        yield from _scalar(value, schema, path)


def _is(value: Any, wanted: str) -> bool:
    if isinstance(value, bool) and wanted != "boolean":
        return False
    return isinstance(value, _TYPES[wanted])


def _map(value: dict[str, Any], schema: Schema, path: tuple[Step, ...]) -> Iterator[Problem]:
    known: Mapping[str, Schema] = schema.get("properties") or {}
    rest = schema.get("additionalProperties")
    free = rest is not None or schema.get("x-kubernetes-preserve-unknown-fields")
    top = not path
    free = free or path == ("metadata",)  # the API server's own, of which CRDs only limit the name
    for name, item in value.items():
        here = (*path, name)
        if name in known:
            yield from problems(item, known[name], here)
        elif isinstance(rest, Mapping):
            yield from problems(item, rest, here)
        elif not free and not (top and name in ("apiVersion", "kind", "metadata")):
            close = closest(name, known)
            others = f"; known fields: {', '.join(known)}" if known else "; remove it"
            advice = f"; did you mean {close}?" if close else others
            yield Problem(here, f"is an unknown field{advice}")
    for name in schema.get("required") or ():
        if value.get(name) is None:
            yield Problem(path, f"{name} is required")
    if "maxProperties" in schema and len(value) > schema["maxProperties"]:
        yield Problem(path, f"must have at most {schema['maxProperties']} entries")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was meant: one is part of the other, or they are spelt much alike."""
    word = word.lower()
    lower = {one.lower(): one for one in known}
    if word in lower:
        return lower[word]
    part = [one for one in lower if min(len(one), len(word)) > 3 and (one in word or word in one)]
    found = [min(part, key=lambda one: abs(len(one) - len(word)))] if part else []
    found = found or get_close_matches(word, lower, n=1, cutoff=0.7)
    return lower[found[0]] if found else None


def _list(value: list[Any], schema: Schema, path: tuple[Step, ...]) -> Iterator[Problem]:
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield Problem(path, f"must have at most {schema['maxItems']} items")
    if "minItems" in schema and len(value) < schema["minItems"]:
        yield Problem(path, f"must have at least {schema['minItems']} items")
    for index, item in enumerate(value):
        yield from problems(item, schema.get("items") or {}, (*path, index))


def _scalar(value: Any, schema: Schema, path: tuple[Step, ...]) -> Iterator[Problem]:
    if "enum" in schema and value not in schema["enum"]:
        yield Problem(path, f"{_shown(value)} isn't one of {', '.join(map(str, schema['enum']))}")
        return
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            yield Problem(path, "must not be empty")
        elif "maxLength" in schema and len(value) > schema["maxLength"]:
            yield Problem(path, f"must have at most {schema['maxLength']} characters")
        elif "pattern" in schema and not re.search(schema["pattern"], value):
            yield Problem(path, f"{_shown(value)} doesn't match {schema['pattern']}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value < schema.get("minimum", value):
            yield Problem(path, f"must be at least {schema['minimum']}")
        if value > schema.get("maximum", value):
            yield Problem(path, f"must be at most {schema['maximum']}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
