"""A tolerant codec between status maps and dataclasses.

A status may have been written by an older or newer operator, by the original, or by a user with
``--subresource=status``. So decoding takes the fields that it knows, keeps unknown ones in
``extra`` and drops values of the wrong type; it never raises. ``valuesHash`` is ``values_hash``.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

R = TypeVar("R", bound="Record")

_NOTHING: Final[Mapping[str, Any]] = types.MappingProxyType({})
"""Shared by all records without unknown fields: a status has dozens, an empty dict takes 64 B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A map of a status. Every field of a subclass has a default, which means "absent"."""

    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, hash=False)
    """Fields that this version doesn't know, unchanged."""

    @classmethod
    def parse(cls: type[R], raw: Any) -> R:
        """Parse a map; anything else is parsed as an empty one."""
        if not isinstance(raw, dict):
            return cls()
        known = _plan(cls)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in raw.items():
            if (slot := known.get(name)) is None:
                extra[name] = value
            elif (decoded := slot.decode(value)) is not None:
                found[slot.attribute] = decoded
        return cls(**found, extra=extra or _NOTHING)

    def to_dict(self) -> dict[str, Any]:
        """The map for the status; absent fields are left out."""
        encoded: dict[str, Any] = dict(self.extra)
        for name, slot in _plan(type(self)).items():
            value = getattr(self, slot.attribute)
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
    return {name: slot.wanted for name, slot in _plan(record).items()}


@dataclass(frozen=True, slots=True)
class _Slot:
    """A field: its attribute and type, and its parser, which returns None for a wrong type."""

    attribute: str
    wanted: Any
    decode: Callable[[Any], Any]


def _plan(record: type[Record]) -> dict[str, _Slot]:
    """JSON name to field; cached for each class: each reconcile of a Bundle parses a status."""
    if (known := _plans.get(record)) is None:
        known = _plans[record] = _make_plan(record)
    return known


_plans: dict[type[Record], dict[str, _Slot]] = {}


def _make_plan(record: type[Record]) -> dict[str, _Slot]:
    hints = get_type_hints(record)
    plan: dict[str, _Slot] = {}
    for slot in fields(record):
        if slot.name == "extra":
            continue
        assert slot.default is not MISSING or slot.default_factory is not MISSING, slot.name
        wanted = _strip_optional(hints[slot.name])
        plan[json_name(slot.name)] = _Slot(slot.name, wanted, _decoder(wanted))
    return plan


def _strip_optional(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(arg for arg in get_args(hint) if arg is not type(None))
    return hint


def _decoder(wanted: Any) -> Callable[[Any], Any]:
    if get_origin(wanted) is tuple:
        return _list_decoder(_decoder(get_args(wanted)[0]))
    if is_dataclass(wanted):
        record = cast("type[Record]", wanted)
        return lambda value: record.parse(value) if isinstance(value, dict) else None
    if get_origin(wanted) is dict:
        return lambda value: dict(value) if isinstance(value, dict) else None
    # A bool isn't an int here, and JSON has no other subclasses.
    return lambda value: value if type(value) is wanted else None


def _list_decoder(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decode_list(value: Any) -> Any:
        if not isinstance(value, list):
            return None
        return tuple(item for item in map(decode, value) if item is not None)

    return decode_list
