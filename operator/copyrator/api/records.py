"""Statuses: the types of their maps, their tolerant reader and writer, and patches between them.

A status may have been written by an older or newer operator, by the original, or by a user with
``--subresource=status``. So reading takes the fields that it knows, keeps unknown ones in
``extra`` and drops values of the wrong type; it never raises. ``valuesHash`` is ``values_hash``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec import structs

from copyrator.api.fields import SpecError
from copyrator.api.schema import TIME, Takes, slots, split
from copyrator.api.times import format_time, parse_time


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


M = TypeVar("M", bound="StatusMap")
Time = Annotated[str, TIME]
Int32 = Annotated[int, Takes({"type": "integer", "format": "int32"})]

R = TypeVar("R", bound="Record")
C = TypeVar("C", bound="Composed")
_Texts = dict[str, str]
_Read = Callable[[Any, _Texts], Any]
"""Takes a value of JSON and the texts to share; returns None for a value of the wrong type."""


class _Unknown(dict[str, Any]):
    """Fields that this version doesn't know; never changed, and not part of a record's hash."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return 0


_NOTHING: Final[Mapping[str, Any]] = _Unknown()
"""Shared by all records without unknown fields: a status has dozens, an empty dict takes 64 B."""


class StatusMap(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A map of a status, without what this version doesn't know.

    A field without a default is required: a map without it, or with a wrong value there, is left
    out. Every other default means "absent".
    """

    KEEPS_UNKNOWN: ClassVar[bool] = False
    KEEPS_WRONG: ClassVar[bool] = False

    @classmethod
    def read(cls: type[M], raw: Any, texts: _Texts) -> M | None:
        """Read a map; None for anything else, and where a required field is absent or wrong."""
        if not isinstance(raw, dict):
            return None
        known = _readers(cls)
        found: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for name, value in raw.items():
            if (field := known.get(name)) is None:
                if cls.KEEPS_UNKNOWN:
                    extra[name] = value
                continue
            attribute, scalar, reader = field
            if type(value) is scalar:
                found[attribute] = texts.setdefault(value, value) if scalar is str else value
            elif reader is not None and (read := reader(value, texts)) is not None:
                found[attribute] = read
            elif cls.KEEPS_WRONG:
                extra[name] = value
        if extra:
            found["extra"] = _Unknown(extra)
        try:
            return cls(**found)
        except TypeError:
            return None

    def to_dict(self) -> dict[str, Any]:
        """The map for the status; absent fields are left out."""
        writers, is_flat = _writers(type(self))
        extra = getattr(self, "extra", _NOTHING)
        if is_flat and extra is _NOTHING:
            written: dict[str, Any] = msgspec.to_builtins(self)
            return written
        written = dict(extra)
        for name, attribute, default, write, is_shown in writers:
            value = getattr(self, attribute)
            if value is default:  # None, too, where a field may be None
                continue
            if write is None or (value := write(value)) or is_shown:
                written[name] = value
        return written


class Record(StatusMap, frozen=True, kw_only=True, gc=False):
    """A map of a status with what this version doesn't know; every field has a default.

    With ``KEEPS_WRONG`` a value of the wrong type is kept beside it: it isn't read, and stays.
    """

    KEEPS_UNKNOWN: ClassVar[bool] = True

    FIELD: ClassVar[str] = ""
    """The name of the map in a Composed status; empty: its fields stand in the status itself."""

    extra: Mapping[str, Any] = _NOTHING
    """Fields that this version doesn't know, unchanged."""

    @classmethod
    def parse(cls: type[R], raw: Any, texts: _Texts | None = None) -> R:
        """Read a map; anything else is read as an empty one.

        Args:
            raw: the map, of JSON.
            texts: those that are shared by equal ones in the map; others are added.
        """
        found = cls.read(raw, {} if texts is None else texts)
        return cls() if found is None else found


@cache
def absent(kind: type[R]) -> R:
    """The record of an absent map, shared by all."""
    return kind()


class Composed(Record, frozen=True):
    """A status that has parts: records of features, which it doesn't know.

    A part with a ``FIELD`` is the map of that name, the fields of another one stand in the status.
    """

    parts: tuple[Record, ...] = ()
    """Those that aren't empty, ordered by the names of their types."""

    def part(self, kind: type[R]) -> R:
        """The part of a type."""
        found: R = self.find(kind) or absent(kind)
        return found

    def find(self, kind: type[R]) -> R | None:
        """The same; None where the status has nothing of it."""
        for one in self.parts:
            if type(one) is kind:
                return one
        return None

    def with_part(self: C, part: Record) -> C:
        """The status with a part replaced."""
        kept = (one for one in self.parts if type(one) is not type(part))
        return structs.replace(self, parts=_ordered((*kept, part)))

    @classmethod
    def compose(cls: type[C], kinds: Iterable[type[Record]], raw: Any, texts: _Texts) -> C:
        """Read a map with parts of these types; see ``parse``."""
        if not isinstance(raw, dict):
            return cls()
        rest, parts = dict(raw), []
        for kind in kinds:
            if not kind.FIELD:
                if own := {name: rest.pop(name) for name in _readers(kind) if name in rest}:
                    parts.append(kind.parse(own, texts))
            elif kind.FIELD in rest:
                parts.append(kind.parse(rest.pop(kind.FIELD), texts))
        found = cls.parse(rest, texts)
        return structs.replace(found, parts=_ordered(parts)) if parts else found

    def to_dict(self) -> dict[str, Any]:
        """The map for the status, with all parts."""
        written = Record.to_dict(self)
        for one in self.parts:
            found = one.to_dict()
            written |= {one.FIELD: found} if one.FIELD else found
        return written


def _ordered(parts: Iterable[Record]) -> tuple[Record, ...]:
    found = [one for one in parts if one != absent(type(one))]
    return tuple(sorted(found, key=lambda one: type(one).__name__))


_FASTEST: Final = 1
"""The level of compression: a history of ten takes 12 µs and is as short as with the default."""


class Packed(msgspec.Struct, Generic[R], frozen=True, gc=False):
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


_ANY: Final = Takes({})
_SCALARS: Final = (str, int, bool)


@cache
def _readers(record: type[StatusMap]) -> dict[str, tuple[str, Any, _Read | None]]:
    """By a field's name in JSON its attribute, and its type or how it is read.

    Each reconcile of a Bundle reads a status.
    """
    found = slots(record)
    needed = [one.name for one in found if one.is_required]
    assert not (needed and record.KEEPS_UNKNOWN), needed
    return {
        # A bool isn't an int here, and JSON has no other subclasses.
        one.name: (one.attribute, one.kind, None)
        if one.kind in _SCALARS and not _is_checked(one.takes)
        else (one.attribute, None, _reader(one.kind, one.takes))
        for one in found
    }


def _is_checked(takes: Takes) -> bool:
    return takes.read is not None or takes.kept > 0 or "minimum" in takes.schema


@cache
def _writers(
    record: type[StatusMap],
) -> tuple[tuple[tuple[str, str, Any, Callable[[Any], Any] | None, bool], ...], bool]:
    """How the fields are written, and whether it is as msgspec does: no other maps, no lists.

    Of a field its name in JSON, attribute, default, how it is written (None: as it is), and whether
    it is written although it is empty.
    """
    found = slots(record)
    fields = tuple(
        (
            one.name,
            one.attribute,
            None if one.takes.is_shown else one.default,
            _writer(one.kind),
            one.takes.is_shown,
        )
        for one in found
    )
    is_flat = all(one.kind in _SCALARS and one.default is None for one in found)
    return fields, is_flat and {*record.__struct_fields__} == {
        *(one.attribute for one in found),
        "extra",
    }


def _writer(kind: Any) -> Callable[[Any], Any] | None:
    """How a value of a type is written; None: as it is."""
    origin = get_origin(kind)
    if origin is tuple:
        item, _ = split(get_args(kind)[0])
        return list if _writer(item) is None else _list_writer(item)
    if origin is Packed:
        return Packed.to_list
    if kind is datetime:
        return format_time
    is_map = isinstance(kind, type) and issubclass(kind, StatusMap)
    return kind.to_dict if is_map else None


def _list_writer(item: Any) -> Callable[[Any], Any]:
    write = _writer(item)
    assert write is not None
    if not (issubclass(item, StatusMap) and _writers(item)[1]):
        return lambda items: [write(one) for one in items]

    def write_flat(items: Any) -> Any:
        for one in items:
            if one.extra:
                return list(map(write, items))
        return msgspec.to_builtins([*items])

    return write_flat


def _reader(kind: Any, takes: Takes = _ANY) -> _Read:  # noqa: PLR0911 - one for each type
    origin = get_origin(kind)
    if takes.read is not None:
        return _strict_reader(takes.read)
    if origin is tuple:
        return _list_reader(_reader(*split(get_args(kind)[0])), takes.schema.get("maxItems"))
    if origin is Packed:
        read_list = _list_reader(_reader(get_args(kind)[0]))
        return lambda value, texts: _packed(read_list(value, texts))
    if issubclass(kind, StatusMap):
        read_map: _Read = kind.read
        return read_map
    if kind is datetime:
        return lambda value, _: parse_time(value)
    if takes.kept:
        return lambda value, _: value[: takes.kept] if type(value) is str else None
    if "minimum" in takes.schema:
        least, most = takes.schema["minimum"], takes.schema.get("maximum", 2**63 - 1)
        return lambda value, _: value if type(value) is int and least <= value <= most else None
    if kind is str:
        return lambda value, texts: texts.setdefault(value, value) if type(value) is str else None
    return lambda value, _: value if type(value) is kind else None


def _packed(records: tuple[Record, ...] | None) -> Packed[Record] | None:
    return None if records is None else Packed.pack(records)


def _strict_reader(read: Callable[[Any], Any]) -> _Read:
    def read_strictly(value: Any, _texts: _Texts) -> Any:
        try:
            return read(value)
        except SpecError:
            return None

    return read_strictly


def _list_reader(read: _Read, most: int | None = None) -> _Read:
    def read_list(value: Any, texts: _Texts) -> Any:
        if not isinstance(value, list):
            return None
        found = [one for item in value[:most] if (one := read(item, texts)) is not None]
        return tuple(found)

    return read_list
