"""Which parts of a template's values may hold pointers, which print as addresses. Pure.

A value is None where it is plain: text, numbers, and lists and dictionaries of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_DEPTH: Final = 12
_FIELDS: Final = 40
_ANY: Final = "\0any"
_UNORDERED: Final = "\0unordered"


@dataclass(frozen=True, slots=True)
class Shape:
    """A value that holds pointers, or may."""

    fields: tuple[tuple[str, Shape | None], ...] = ()
    rest: Shape | None = None
    """All other fields and elements."""
    depth: int = 1

    @property
    def is_unordered(self) -> bool:
        """Whether its elements have an order that is drawn."""
        return any(name == _UNORDERED for name, _ in self.fields)


Value = Shape | None

OPAQUE: Final = Shape(((_ANY, None),))
"""May hold pointers anywhere."""
POINTER: Final = Shape()
"""A pointer to something plain."""


def shape(fields: Mapping[str, Value], rest: Value = None) -> Value:
    """A dictionary, list or struct of these values."""
    if rest is None and all(value is None for value in fields.values()):
        return None
    return _shape(fields, rest)


def _shape(fields: Mapping[str, Value], rest: Value) -> Shape:
    depth = 1 + max((one.depth for one in (*fields.values(), rest) if one), default=0)
    if depth > _DEPTH or len(fields) > _FIELDS:
        return OPAQUE
    return Shape(tuple(sorted(fields.items(), key=lambda item: item[0])), rest, depth)


def field(value: Value, name: str) -> Value:
    """The field or element of this name."""
    if value is None or value == OPAQUE:
        return value
    return next((found for key, found in value.fields if key == name), value.rest)


def element(value: Value) -> Value:
    """Any field or element."""
    if value is None or value == OPAQUE:
        return value
    return joined((*(found for _, found in value.fields), value.rest))


def joined(values: Iterable[Value]) -> Value:
    """A value that is one of these."""
    found: Value = None
    for value in values:
        found = _join(found, value)
    return found


def _join(one: Value, other: Value) -> Value:
    if one is None or other is None or one == other:
        return one or other
    if OPAQUE in (one, other):
        return OPAQUE
    names = dict.fromkeys(name for name, _ in (*one.fields, *other.fields))
    fields = {name: _join(field(one, name), field(other, name)) for name in names}
    return _shape(fields, _join(one.rest, other.rest))


def _known(fields: Mapping[str, Value], rest: Value = None) -> Shape:
    return _shape(fields, rest)


_POINTERS: Final = _known({}, POINTER)
_METADATA: Final = _known({"Maintainers": _POINTERS, "Dependencies": _POINTERS})
_CHART: Final = _known({"Maintainers": _POINTERS, "Dependencies": _POINTERS, "Metadata": _METADATA})
_API_VERSIONS: Final = _known({_UNORDERED: None, "Has": None}, OPAQUE)
_CAPABILITIES: Final = _known({"APIVersions": _API_VERSIONS, "Copy": OPAQUE})
_OF_EACH: Final[dict[str, Value]] = {"Chart": _CHART, "Capabilities": _CAPABILITIES}
_SUBCHARTS: Final = _known({}, _known({**_OF_EACH, "Subcharts": OPAQUE}))
ROOT: Final = _known({**_OF_EACH, "Subcharts": _SUBCHARTS, "AsMap": OPAQUE, "Table": OPAQUE})
"""``.`` of a file, as Helm and nelm build it (engine.go, recAllTpls)."""
