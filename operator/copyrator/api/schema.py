"""Types of specs: what is read of an object, within which bounds; its CRD is generated from them.

A map of a spec is a ``Form``: a Struct whose fields are annotated with what the field takes::

    class RetrySpec(Form):
        limit: Annotated[int, number(0, 1000)] | None = None
        \"\"\"How often a failed digest is retried. Default: the operator's setting.\"\"\"

A field without a default is required. The text below a field is its description in the CRD. What
concerns several fields is checked in ``__post_init__`` (``fail``), and by the API server by
``RULES``. ``read`` reads a map into a Form; its errors name the path, the fault and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NoReturn,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec

from copyrator.api.fields import (
    MAX_DURATION,
    TOO_MANY,
    SpecError,
    check_text,
    json_type,
)
from copyrator.api.syntax import Check, shown
from copyrator.api.text import truncate
from copyrator.api.times import format_duration, parse_duration

F = TypeVar("F", bound="Form")

Read = Callable[..., Any]
"""Takes a value of JSON that isn't null, returns what it means.

Raises SpecError with a path below the value: empty, ``.field`` or ``[index]``.
"""
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of CEL in the CRD: what must hold, and what is said where it doesn't."""

    rule: str
    message: str
    field_path: str = ""


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class FormType(msgspec.StructMeta):
    """Of Structs that are frozen, as their base is."""


class Form(msgspec.Struct, metaclass=FormType, frozen=True, gc=False, rename="camel"):
    """A map of a spec. Nothing in it refers back to it, so the garbage collector passes over it."""

    RULES: ClassVar[tuple[Rule, ...]] = ()
    """Of the map as a whole, for the API server."""


class Column(msgspec.Struct, frozen=True, omit_defaults=True, rename={"path": "jsonPath"}):
    """What `kubectl get` shows of an object."""

    name: str
    path: str
    description: str = ""
    type: str = "string"
    priority: int = 0
    """1: with ``-o wide`` only."""


READY: Final = '.status.conditions[?(@.type=="Ready")]'
REASON: Final = Column("Reason", f"{READY}.reason", "Reason in CamelCase.")
MESSAGE: Final = Column(
    *("Message", f"{READY}.message"), "What is wrong and how to fix it.", priority=1
)
AGE: Final = Column("Age", ".metadata.creationTimestamp", type="date")
"""What both kinds show."""


class Root(Form):
    """A whole object, beside ``apiVersion``, ``kind`` and ``metadata``, for its CRD."""

    NAMES: ClassVar[Mapping[str, Any]]
    """As in the CRD."""
    COLUMNS: ClassVar[tuple[Column, ...]]


def fail(name: str, message: str) -> NoReturn:
    """Refuse a Form because of one of its fields, by its name in JSON; for ``__post_init__``."""
    raise SpecError(f".{name}", message)


@dataclass(frozen=True, slots=True, eq=False)
class Takes:
    """What a field takes: how it is read, and its schema in the CRD."""

    schema: Schema
    read: Read | None = None
    """None: by the field's type, within the bounds of the schema."""
    check: Check | None = None
    """Of a text: its fault and the remedy, or None."""
    required: str = "is required"
    """What is said where it is absent and has no default."""
    noun: str = "items"
    """What a list or map has too many of."""
    remedy: str = ""
    """What to do about too many of them."""
    like: type[msgspec.Struct] | str | None = None
    """The type that the schema of what ``read`` takes is made from, or its name in
    ``hack/generate/pod_fields.py``."""
    repeats: bool = False
    """Whether a list keeps equal texts."""
    kept: int = 0
    """Characters of a status's text that are read; 0: all."""
    is_stored: bool = False
    """Whether the API server writes the default into the object."""
    is_required: bool = False
    """Whether the API server requires it, although it has a default."""
    is_derived: bool = False
    """Whether it isn't in the map at all."""
    is_shown: bool = False
    """Whether a status has it although it is the default."""


STORED: Final = Takes({}, is_stored=True)
"""Beside what a field takes: the API server writes its default into the object."""
REQUIRED: Final = Takes({}, is_required=True)
"""Beside what a field takes: the API server requires it, although it has a default."""

DERIVED: Final = Takes({}, is_derived=True)
"""Of a field that isn't in the map: it is found out when that has been read, or later."""

SHOWN: Final = Takes({}, is_shown=True)
"""Of a field that a status has although it is the default."""
_FLAGS: Final = (STORED, REQUIRED, DERIVED, SHOWN)

OPEN: Final = Takes({"x-kubernetes-preserve-unknown-fields": True})
"""A map that may have other fields than those of its Form."""


def text(
    check: Check | None = None,
    *,
    most: int,
    least: int = 1,
    pattern: str = "",
    rules: tuple[Rule, ...] = (),
    required: str = "is required",
) -> Takes:
    """A string of so many characters, that passes ``check``.

    ``check`` bounds the length itself. ``pattern`` of the whole text is for the API server, or
    ``rules``, which say more.
    """
    schema: Schema = {"type": "string"}
    if least:
        schema["minLength"] = least
    schema["maxLength"] = most
    if pattern:
        schema["pattern"] = f"^{pattern}$"
    if rules:
        schema["x-kubernetes-validations"] = validations(rules)
    return Takes(schema, check=check, required=required)


def number(least: int, most: int | None = None, *, bits: int = 32) -> Takes:
    """A whole number between two, both included."""
    schema: Schema = {"type": "integer", "format": f"int{bits}", "minimum": least}
    if most is not None:
        schema["maximum"] = most
    return Takes(schema)


_DURATION: Final = "^([0-9]{1,9}([.][0-9]{1,9})?(ms|s|m|h))+$"


def duration(name: str, least: float = 1.0, most: float = MAX_DURATION) -> Takes:
    """A duration such as ``1h30m``; in a Form it is in seconds."""
    low, high = format_duration(least), format_duration(most)
    examples = "30m or 24h" if least >= 60.0 else "30s, 5m or 1h30m"
    rule = Rule(
        f"self.matches('{_DURATION}') && duration(self) >= duration('{low}') "
        f"&& duration(self) <= duration('{high}')",
        f"{name} must be between {low} and {high}, written with a unit, for example {examples}",
    )

    def read_duration(value: Any) -> float:
        hint = "write it with a unit, for example 30s, 5m or 1h30m"
        if not isinstance(value, str):
            raise SpecError("", f"must be a duration, not {json_type(value)}; {hint}")
        seconds = parse_duration(value)
        if seconds is None:
            raise SpecError("", f"{shown(value)} isn't a valid duration; {hint}")
        if not least <= seconds <= most:
            raise SpecError("", f"must be between {low} and {high}")
        return seconds

    schema = {"type": "string", "maxLength": 32, "x-kubernetes-validations": validations((rule,))}
    return Takes(schema, read=read_duration)


COUNT: Final = number(0, bits=64)
"""A count, or a generation; absent where it is 0."""
TOTAL: Final = replace(COUNT, is_shown=True)
"""A count that is there although it is 0."""
TIME: Final = Takes({"type": "string", "format": "date-time"})


def kept(most: int) -> Takes:
    """A text of a status, of which so many characters are read; anybody may have written it."""
    return Takes({}, kept=most)


def items(
    most: int,
    least: int = 0,
    *,
    keys: tuple[str, ...] = (),
    rules: tuple[Rule, ...] = (),
    required: str = "is required",
    noun: str = "items",
    remedy: str = "",
    repeats: bool = False,
) -> Takes:
    """A list of so many items; with ``keys`` one that the API server merges by these fields.

    Of equal texts the first is kept, or all with ``repeats``.
    """
    schema: Schema = {"type": "array"}
    if least:
        schema["minItems"] = least
    schema["maxItems"] = most
    if keys:
        schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    if rules:
        schema["x-kubernetes-validations"] = validations(rules)
    return Takes(schema, required=required, noun=noun, remedy=remedy, repeats=repeats)


def entries(most: int, remedy: str = "") -> Takes:
    """A map of so many keys."""
    return Takes({"type": "object", "maxProperties": most}, noun="entries", remedy=remedy)


def custom(
    read: Read,
    schema: Schema | None = None,
    *,
    like: type[msgspec.Struct] | str | None = None,
    rules: tuple[Rule, ...] = (),
    required: str = "is required",
) -> Takes:
    """A value of a type of its own: how it is read, and its schema, or what that is made from."""
    found = dict(schema or {})
    if rules:
        found["x-kubernetes-validations"] = validations(rules)
    return Takes(found, read, required=required, like=like)


def closed(form: type[Form], what: str) -> Takes:
    """A map with no other fields than those of its Form, which the message says of ``what``."""
    read_form = form_reader(form)
    names = [one.name for one in slots(form)]

    def read_closed(raw: Any) -> Form:
        if isinstance(raw, Mapping) and (unknown := set(map(str, raw)).difference(names)):
            known = f"{', '.join(names[:-1])} and {names[-1]}"
            fail(truncate(min(unknown), 64), f"is unknown; {what} has {known}")
        return read_form(raw)

    return custom(read_closed)


def validations(rules: tuple[Rule, ...]) -> list[dict[str, str]]:
    """Rules as in a CRD."""
    return [
        {"rule": one.rule, "message": one.message}
        | ({"fieldPath": one.field_path} if one.field_path else {})
        for one in rules
    ]


def read(form: type[F], raw: Any, path: str, base: F | None = None) -> F:
    """Read a map into a Form. ``null`` counts as absent, as in the API server.

    ``base`` has what stands where the map has nothing, in place of the Form's defaults.

    Raises:
        SpecError: it isn't valid; with the path of the field below ``path``.
    """
    try:
        return form_reader(form)(raw, base)
    except SpecError as error:
        found = below(error, path)
        raise SpecError(found.path.removeprefix("."), found.message) from None


def below(error: SpecError, path: str) -> SpecError:
    """The error with a path that begins with this one."""
    return SpecError(f"{path}{error.path}", error.message)


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a Form."""

    name: str
    """In JSON."""
    attribute: str
    kind: Any
    """Its type, without Annotated and None."""
    takes: Takes
    is_required: bool
    default: Any
    """msgspec.NODEFAULT where there is none, or a factory."""


@cache
def slots(form: type[msgspec.Struct]) -> tuple[Slot, ...]:
    """The fields of a Form, or those of a Record that are its own."""
    found = [(one, *split(one.type)) for one in msgspec.structs.fields(form)]
    return tuple(
        Slot(one.encode_name, one.name, kind, takes, one.required, one.default)
        for one, kind, takes in found
        if not takes.is_derived and one.name not in ("extra", "parts")
    )


def split(hint: Any) -> tuple[Any, Takes]:
    """A type without what it is annotated with, and that."""
    notes: list[Takes] = []
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            notes += more
        elif get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint):
            (hint,) = (one for one in get_args(hint) if one is not NoneType)
        else:
            break
    takes = next((one for one in notes if one not in _FLAGS), Takes({}))
    if flags := [one for one in notes if one in _FLAGS]:
        takes = replace(
            takes,
            is_stored=STORED in flags,
            is_required=REQUIRED in flags,
            is_derived=DERIVED in flags,
            is_shown=SHOWN in flags,
        )
    return hint, takes


def form_reader(form: type[F]) -> Callable[..., F]:
    """How a map is read into a Form, with paths below it; ``base`` as for ``read``."""
    return cast("Callable[..., F]", _form_reader(form))


@cache
def _form_reader(form: type[Form]) -> Read:
    plan = tuple(
        (one.name, one.attribute, reader(one.kind, one.takes), one.is_required, one.takes.required)
        for one in slots(form)
    )

    nested = {one.attribute for one in slots(form) if _is_form(one.kind) and not one.takes.read}

    def read_form(raw: Any, base: Form | None = None) -> Form:
        if raw == TOO_MANY:
            raise SpecError("", f"{TOO_MANY}; reduce it")
        if not isinstance(raw, Mapping):
            raise SpecError("", f"must be a map, not {json_type(raw)}")
        found: dict[str, Any] = {}
        for name, attribute, read_value, is_required, absent in plan:
            value = raw.get(name)
            if value is not None:
                try:
                    if base is not None and attribute in nested:
                        found[attribute] = read_value(value, getattr(base, attribute))
                    else:
                        found[attribute] = read_value(value)
                except SpecError as error:
                    raise below(error, f".{name}") from None
            elif is_required:
                raise SpecError(f".{name}", absent)
        return form(**found) if base is None else msgspec.structs.replace(base, **found)

    return read_form


def _is_form(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Form)


def reader(kind: Any, takes: Takes) -> Read:
    """How a value of a type is read."""
    found: Read
    if takes.read is not None:
        found = takes.read
    elif kind is str:
        found = _text_reader(takes)
    elif kind is bool:
        found = _read_flag
    elif kind is int:
        found = _number_reader(takes.schema)
    elif get_origin(kind) in (tuple, frozenset):
        found = _list_reader(*split(get_args(kind)[0]), takes, get_origin(kind))
    elif get_origin(kind) is not None:
        found = _map_reader(get_args(kind), takes)
    elif issubclass(kind, StrEnum):
        found = _choice_reader(kind)
    else:
        found = form_reader(kind)
    return found


def _text_reader(takes: Takes) -> Read:
    most, check = takes.schema["maxLength"], takes.check
    may_be_empty = "minLength" not in takes.schema
    pattern = takes.schema.get("pattern")
    usable = re.compile(pattern) if pattern and check is None else None

    def read_text(value: Any) -> str:
        if value == "" and may_be_empty:
            return ""
        if type(value) is not str or not value:
            return check_text(value, "")  # which raises
        if check is not None:
            if problem := check(value):
                raise SpecError("", problem)
        elif len(value) > most:
            raise SpecError("", f"must have at most {most} characters")
        elif usable is not None and not usable.fullmatch(value):
            raise SpecError("", f"{shown(value)} must match {pattern}")
        return value

    return read_text


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise SpecError("", f"must be true or false without quotes, not {json_type(value)}")
    return value


def _number_reader(schema: Schema) -> Read:
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)

    def read_number(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SpecError("", f"must be a whole number, not {json_type(value)}")
        if not least <= value <= most:
            raise SpecError("", f"must be between {least} and {most}")
        return value

    return read_number


def _choice_reader(kind: type[StrEnum]) -> Read:
    words = {word.value: word for word in kind}

    def read_choice(value: Any) -> StrEnum:
        if not isinstance(value, str) or value not in words:
            raise SpecError("", f"must be one of {', '.join(words)}")
        return words[value]

    return read_choice


def _list_reader(kind: Any, takes: Takes, of_list: Takes, made: Any) -> Read:
    read_item = reader(kind, takes)
    least, most = of_list.schema.get("minItems", 0), of_list.schema["maxItems"]
    is_unique = kind is str and made is tuple and not of_list.repeats

    def read_list(value: Any) -> Any:
        if not isinstance(value, list):
            raise SpecError("", f"must be a list, not {json_type(value)}")
        if len(value) > most:
            raise _too_many(value, most, of_list)
        if len(value) < least:
            raise SpecError("", of_list.required)
        found = []
        for i, item in enumerate(value):
            try:
                found.append(read_item(item))
            except SpecError as error:
                raise below(error, f"[{i}]") from None
        return made(dict.fromkeys(found) if is_unique else found)

    return read_list


def _too_many(value: Sized, most: int, takes: Takes) -> SpecError:
    remedy = f": {takes.remedy}" if takes.remedy else ""
    return SpecError("", f"has {len(value)} {takes.noun}; at most {most} are allowed{remedy}")


def _map_reader(kinds: tuple[Any, ...], of_map: Takes) -> Read:
    key_kind, value_kind = map(split, kinds)
    most = of_map.schema.get("maxProperties")
    read_key = reader(*key_kind) if key_kind[1].schema else None
    read_value = None if value_kind[0] is Any else reader(*value_kind)

    def read_map(value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise SpecError("", f"must be a map, not {json_type(value)}")
        if most is not None and len(value) > most:
            raise _too_many(value, most, of_map)
        if read_value is None:
            return value
        found = {}
        for name, one in value.items():
            if read_key is not None:
                read_key(name)
            try:
                found[name] = read_value(one)
            except SpecError as error:
                raise below(error, f"[{name}]") from None
        return found

    return read_map
