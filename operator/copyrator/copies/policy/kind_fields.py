"""The types of the fields of Kubernetes' own namespaced kinds, for templates.

They come from kind_fields.json, which hack/generate/kind_fields.py makes of an OpenAPI document. A
type is one of Kubernetes' own (``PodSpec``), ``string``, ``integer``, ``number``, ``boolean``,
``quantity``, ``int-or-string``, ``any``, ``[T`` (a list of T) or ``{T`` (a map to T).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

ANY: Final = "any"
UNKNOWN_KIND: Final = "?"
"""The type of an object of a kind that isn't Kubernetes' own."""

_CUSTOM: Final[Mapping[str, str]] = {
    "metadata": "ObjectMeta",
    "labels": "{string",
    "annotations": "{string",
    "matchLabels": "{string",
    "nodeSelector": "{string",
    "env": "[EnvVar",
    "command": "[string",
    "args": "[string",
}
"""Fields that have these types wherever custom resources have them, by convention."""


@cache
def _known() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
    )
    return found


def type_of(api_version: Any, kind: Any) -> str:
    """The type of a whole object."""
    return str(_known()["kinds"].get(f"{api_version}/{kind}", UNKNOWN_KIND))


def field_type(parent: str, field: str) -> str | None:
    """The type of a field in a value of a type; None: the type hasn't got this field."""
    if parent.startswith("{"):
        return parent[1:]
    fields = fields_of(parent)
    if fields is None:
        return _CUSTOM.get(field, ANY)
    return fields.get(field)


def item_type(parent: str) -> str:
    """The type of the items of a list."""
    return parent[1:] if parent.startswith("[") else ANY


def fields_of(name: str) -> Mapping[str, str] | None:
    """All fields of one of Kubernetes' types; None: it is another type."""
    found: Mapping[str, str] | None = _known()["types"].get(name)
    return found
