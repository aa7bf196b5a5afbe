"""A tolerant codec between status maps and dataclasses, and the patch between two such maps.

A status may have been written by an older or newer operator, by the original, or by a user with
``--subresource=status``. So decoding takes the fields that it knows, keeps unknown ones in
``extra`` and drops values of the wrong type; it never raises. ``valuesHash`` is ``values_hash``.
"""

from __future__ import annotations

import types
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, Final, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch by RFC 7396 (JSON merge patch) that turns one JSON map into another.

    Only what differs: ``None`` removes a field, a list is replaced whole. ``after`` contains no
    None: the format can't set one.
    """
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        known = before.get(name)
        if isinstance(value, Mapping) and isinstance(known, Mapping):
            if inner := merge_patch(known, value):
                patch[name] = inner
        elif known != value or type(known) is not type(value):
            patch[name] = value
    return patch


R = TypeVar("R", bound="Record")
_Decode = Callable[[Any, dict[str, str]], Any]

_NOTHING: Final[Mapping[str, Any]] = types.MappingProxyType({})
"""Shared by all records without unknown fields: a status has dozens, an empty dict takes 64 B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A map of a status. Every field of a subclass has a default, which means "absent"."""

    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING, hash=False)
    """Fields that this version doesn't know, unchanged."""

    @classmethod
    def parse(cls: type[R], raw: Any, texts: dict[str, str] | None = None) -> R:
        """Parse a map; anything else is parsed as an empty one.

        Args:
            raw: the map, of JSON.
            texts: those that are shared by equal ones in the map; others are added.
        """
        if not isinstance(raw, dict):
            return cls()
        texts = {} if texts is None else texts
        known = _plan(cls)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in raw.items():
            if (slot := known.get(name)) is None:
                extra[name] = value
            elif (decoded := slot.decode(value, texts)) is not None:
                found[slot.attribute] = decoded
        return cls(**found, extra=extra or _NOTHING)

    def to_dict(self) -> dict[str, Any]:
        """The map for the status; absent fields are left out."""
        encoded: dict[str, Any] = dict(self.extra)
        for name, slot in _plan(type(self)).items():
            value = getattr(self, slot.attribute)
            if isinstance(value, Packed):
                value = value.to_list()
                if not value:
                    continue
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


_FASTEST: Final = 1
"""The level of compression: a history of ten takes 12 µs and is as short as with the default."""


@dataclass(frozen=True, slots=True)
class Packed(Generic[R]):
    """Records that are rarely read, as compressed JSON: a third of the text."""

    compressed: bytes = zlib.compress(b"[]", _FASTEST)

    @classmethod
    def pack(cls, records: Iterable[R]) -> Packed[R]:
        """Pack records."""
        text = msgspec.json.encode([one.to_dict() for one in records])
        return cls(zlib.compress(text, _FASTEST))

    def to_list(self) -> list[Any]:
        """The records' maps."""
        found: list[Any] = msgspec.json.decode(zlib.decompress(self.compressed))
        return found

    def unpack(self, record: type[R]) -> tuple[R, ...]:
        """The records, of this class."""
        return tuple(record.parse(one) for one in self.to_list())


def json_name(attribute: str) -> str:
    """``values_hash`` as ``valuesHash``."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


def json_fields(record: type[Record]) -> dict[str, Any]:
    """JSON names of a record's fields, each with its type: a Record, ``tuple``, or a scalar."""
    return {
        name: types.GenericAlias(tuple, (*get_args(slot.wanted), ...))
        if get_origin(slot.wanted) is Packed
        else slot.wanted
        for name, slot in _plan(record).items()
    }


@dataclass(frozen=True, slots=True)
class _Slot:
    """A field: its attribute and type, and its parser, which returns None for a wrong type."""

    attribute: str
    wanted: Any
    decode: _Decode


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


def _decoder(wanted: Any) -> _Decode:
    if get_origin(wanted) is tuple:
        return _list_decoder(_decoder(get_args(wanted)[0]))
    if get_origin(wanted) is Packed:
        decode = _list_decoder(_decoder(get_args(wanted)[0]))
        return lambda value, texts: _packed(decode(value, texts))
    if is_dataclass(wanted):
        record = cast("type[Record]", wanted)
        return lambda value, texts: record.parse(value, texts) if type(value) is dict else None
    if get_origin(wanted) is dict:
        return _map
    if wanted is str:
        return lambda value, texts: texts.setdefault(value, value) if type(value) is str else None
    # A bool isn't an int here, and JSON has no other subclasses.
    return lambda value, _: value if type(value) is wanted else None


def _packed(records: tuple[Record, ...] | None) -> Packed[Record] | None:
    return None if records is None else Packed.pack(records)


def _map(value: Any, texts: dict[str, str]) -> dict[str, Any] | None:
    """A map as it is, with shared texts."""
    if not isinstance(value, dict):
        return None
    return {
        name: texts.setdefault(one, one) if type(one) is str else one for name, one in value.items()
    }


def _list_decoder(decode: _Decode) -> _Decode:
    def decode_list(value: Any, texts: dict[str, str]) -> Any:
        if not isinstance(value, list):
            return None
        items = (decode(item, texts) for item in value)
        return tuple([item for item in items if item is not None])

    return decode_list
