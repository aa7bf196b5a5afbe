"""A tolerant codec between status maps and dataclasses.

A status may have been written by an older or newer operator, by the original, or by a hand with
``--subresource=status``. So decoding takes what it understands, keeps what it doesn't know in
``extra`` and drops values of the wrong type; it never raises. ``valuesHash`` is ``values_hash``.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R", bound="Record")

_NOTHING: Final[Mapping[str, Any]] = types.MappingProxyType({})
"""Shared by all records without unknown fields: a status has dozens, an empty dict takes 64 B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A map of a status. Every field of a subclass has a default, which means "not there"."""

    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, hash=False)
    """Fields that this version doesn't know, kept as they are."""

    @classmethod
    def parse(cls: type[R], raw: Any) -> R:
        """Read a map; anything else is read as an empty one."""
        if not isinstance(raw, Mapping):
            return cls()
        known = _plan(cls)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in raw.items():
            if (slot := known.get(name)) is None:
                extra[name] = value
            elif (decoded := _decode(slot[1], value)) is not None:
                found[slot[0]] = decoded
        return cls(**found, extra=extra or _NOTHING)

    def to_dict(self) -> dict[str, Any]:
        """The map for the status; fields that aren't there are left out."""
        encoded: dict[str, Any] = dict(self.extra)
        for name, (attribute, _) in _plan(type(self)).items():
            value = getattr(self, attribute)
            if value is None or value == ():
                continue
            if isinstance(value, Record):
                value = value.to_dict()
                if not value:
                    continue
            elif isinstance(value, tuple):
                value = [item.to_dict() if isinstance(item, Record) else item for item in value]
            encoded[name] = value
        return encoded


def json_name(attribute: str) -> str:
    """``values_hash`` as ``valuesHash``."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_fields(record: type[Record]) -> dict[str, Any]:
    """JSON names of a record's fields, each with its type: a Record, ``tuple``, or a scalar."""
    return {name: wanted for name, (_, wanted) in _plan(record).items()}


def _plan(record: type[Record]) -> dict[str, tuple[str, Any]]:
    """JSON name to attribute and type; worked out once for each class."""
    if (known := _plans.get(record)) is None:
        known = _plans[record] = _make_plan(record)
    return known


_plans: dict[type[Record], dict[str, tuple[str, Any]]] = {}


def _make_plan(record: type[Record]) -> dict[str, tuple[str, Any]]:
    hints = get_type_hints(record)
    plan: dict[str, tuple[str, Any]] = {}
    for slot in fields(record):
        if slot.name == "extra":
            continue
        assert slot.default is not MISSING or slot.default_factory is not MISSING, slot.name
        plan[json_name(slot.name)] = (slot.name, _strip_optional(hints[slot.name]))
    return plan


def _strip_optional(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(arg for arg in get_args(hint) if arg is not type(None))
    return hint


def _decode(wanted: Any, value: Any) -> Any:
    """The value as ``wanted``, or None when it is junk."""
    if get_origin(wanted) is tuple:
        item = get_args(wanted)[0]
        if not isinstance(value, list):
            return None
        decoded = (_decode(item, entry) for entry in value)
        return tuple(entry for entry in decoded if entry is not None)
    if is_dataclass(wanted):
        record = cast("type[Record]", wanted)
        return record.parse(value) if isinstance(value, Mapping) else None
    if get_origin(wanted) is dict:
        return _shared(value) if isinstance(value, Mapping) else None
    return _scalar(wanted, value)


def _scalar(wanted: Any, value: Any) -> Any:
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        return None
    return sys.intern(value) if type(value) is str else value  # digests stand there many times


def _shared(value: Mapping[str, Any]) -> dict[str, Any]:
    """The map with one string for all equal ones: each JSON decoding makes its own."""
    return {
        sys.intern(str(key)): sys.intern(item) if isinstance(item, str) else item
        for key, item in value.items()
    }
