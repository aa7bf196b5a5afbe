"""Typed fields of objects: specs are read strictly, statuses tolerantly; the CRDs are made of both.

A map of a spec is a ``Form``: a Struct whose fields are annotated with what the field takes::

    class RetrySpec(Form):
        limit: Annotated[int, number(0, 1000)] | None = None
        \"\"\"How often a failed digest is retried. Default: the operator's setting.\"\"\"

A field without a default is required. The text below a field is its description in the CRD. What
concerns several fields is checked in ``__post_init__`` (``fail``), and by the API server by
``RULES``. ``read`` reads a map into a Form; its errors name the path, the fault and the remedy. The
CRDs check most of this before an object is stored. It is all checked again, because an object may
have been stored under an older CRD, and because CEL can't read untyped fields.

A status may have been written by an older or newer operator, by the original, or by a user with
``--subresource=status``. So reading takes the fields that it knows, keeps unknown ones in
``extra`` and drops values of the wrong type; it never raises. ``valuesHash`` is ``values_hash``.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NoReturn,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec
from msgspec import structs

from copyrator.api.text import (
    API_VERSION_PATTERN,
    DATA_KEY_PATTERN,
    KIND_PATTERN,
    LABEL,
    QUALIFIED,
    SUBDOMAIN,
    Check,
    check_api_version,
    check_data_key,
    check_kind,
    check_label_key,
    check_label_value,
    check_namespace,
    check_object_name,
    format_duration,
    format_time,
    meant,
    member,
    parse_duration,
    parse_time,
    printable_start,
    quoted,
    truncate,
)

# JSON from outside -------------------------------------------------------------------------------

OBJECT_CONTAINERS: Final = 100_000
"""Maps and lists of one object that are decoded, which takes some 30 ms. Of an object with more,
the largest fields are left out: it isn't copied, and a rule or Bundle is InvalidSpec."""


class UnreadableJsonError(ValueError):
    """The text isn't JSON that can be encoded again; the message quotes nothing of it."""


def _read_float(text: str) -> float:
    """A number as Python reads it: msgspec takes 40 times as long for one such as ``1e308``."""
    number = float(text)
    if math.isinf(number):
        raise ValueError("the number is too large")
    return number


DECODER: Final = msgspec.json.Decoder(float_hook=_read_float)
"""Of JSON of any form; raises msgspec.MsgspecError, or RecursionError."""


def read_json(text: bytes | str) -> Any:
    """Decode a text.

    Raises:
        UnreadableJsonError: it isn't JSON, is nested too deeply for a parser, or has half of a
            surrogate pair, which can't be encoded.
    """
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        raise UnreadableJsonError("not valid JSON") from None


PROBLEM_PATH: Final = 512
"""Characters of the path of an invalid field: its keys are the author's and may be long."""
PROBLEM_TEXT: Final = 1024
"""Characters of what is said of it, which may quote its author."""

E = TypeVar("E", bound=StrEnum)

NOT_WHOLE: Final = "notReadWhole"
"""In the metadata of an object that was truncated when read (kube.client.answers): why."""

MAX_DURATION: Final = 30 * 24 * 3600.0
"""Seconds."""

TOO_DEEP: Final = "it is nested too deeply"
TOO_MANY: Final = f"it has more than {OBJECT_CONTAINERS:,} maps and lists"
"""In place of what isn't read."""

_JSON_NAMES: dict[type, str] = {
    dict: "a map",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class InvalidSpec:
    """An invalid spec: the field at fault and the remedy, in bounded, printable texts."""

    reason: ClassVar[str] = "InvalidSpec"

    path: str
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", _plain(self.path, PROBLEM_PATH))
        object.__setattr__(self, "message", _plain(self.message, PROBLEM_TEXT))

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SpecError(Exception):
    """Raised inside the parsers only; ``parse_rule`` and ``parse_bundle`` return InvalidSpec."""

    def __init__(self, path: str, message: str) -> None:
        self.invalid = InvalidSpec(path, message)
        super().__init__(str(self.invalid))

    @property
    def path(self) -> str:
        """The field at fault."""
        return self.invalid.path

    @property
    def message(self) -> str:
        """The fault and the remedy."""
        return self.invalid.message


def _plain(text: str, most: int) -> str:
    return printable_start(truncate(text, most), most)


def json_type(value: Any) -> str:
    """A value's type in the terms of a manifest's author."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def check_text(value: Any, path: str, check: Check | None = None) -> str:
    """Return a non-empty string that passes ``check``, or raise SpecError."""
    if not isinstance(value, str):
        hint = f'; write it in quotes: "{str(value).lower()}"' if is_scalar(value) else ""
        raise SpecError(path, f"must be a string, not {json_type(value)}{hint}")
    if not value:
        raise SpecError(path, "must not be empty; set it or remove the field")
    if check is not None and (problem := check(value)):
        raise SpecError(path, problem)
    return value


def is_scalar(value: Any) -> bool:
    """A boolean or number as the API server stores it.

    Greater integers exist in JSON, but Python refuses to write those with thousands of digits.
    """
    return isinstance(value, (bool, float)) or (
        isinstance(value, int) and -(2**63) <= value < 2**63
    )


def unreadable(error: Exception) -> InvalidSpec:
    """The spec of an object whose parser failed with an unexpected error."""
    return InvalidSpec("spec", f"can't be read ({type(error).__name__}); simplify it")


def map_in(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The map in a field of an object that isn't checked; empty where there is another value."""
    value = found.get(name)
    return value if isinstance(value, Mapping) else {}


def maps_in(found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The maps in the list in such a field."""
    value = found.get(name)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def text_in(found: Mapping[str, Any], name: str) -> str:
    """The text in such a field; empty where there is another value."""
    value = found.get(name)
    return value if isinstance(value, str) else ""


class Fields:
    """One map of a manifest. ``null`` counts as absent, as in the API server.

    For what isn't a spec of its own, where a Form takes more code than it saves: a
    kubeconfig, whose empty fields count as absent; what is checked of any object in a template; the
    metadata beside a spec; a configuration of which the rest is used where a field has a fault.
    """

    __slots__ = ("path", "raw")

    def __init__(self, raw: Any, path: str) -> None:
        if raw == TOO_MANY:
            raise SpecError(path or "the object", f"{TOO_MANY}; reduce it")
        if raw is not None and not isinstance(raw, Mapping):
            raise SpecError(path or "the object", f"must be a map, not {json_type(raw)}")
        self.raw: Mapping[str, Any] = raw or {}
        self.path = path

    def at(self, name: str) -> str:
        """The path of a field of this map."""
        return f"{self.path}.{name}" if self.path else name

    def has(self, name: str) -> bool:
        """Whether the field is present and not null."""
        return self.raw.get(name) is not None

    def get(self, name: str) -> Any:
        """The raw value, or None."""
        return self.raw.get(name)

    def fail(self, name: str, message: str) -> NoReturn:
        """Raise SpecError for a field."""
        raise SpecError(self.at(name), message)

    def sub(self, name: str) -> Fields:
        """A nested map; empty when absent."""
        return Fields(self.raw.get(name), self.at(name))

    def required_text(self, name: str, check: Check | None = None) -> str:
        """A required non-empty string."""
        if not self.has(name):
            self.fail(name, "is required")
        return check_text(self.raw[name], self.at(name), check)

    def text(self, name: str, check: Check | None = None) -> str | None:
        """A non-empty string, or None when absent."""
        if not self.has(name):
            return None
        return check_text(self.raw[name], self.at(name), check)

    def items(self, name: str) -> Sequence[Any]:
        """A list of anything; empty when absent."""
        value = self.raw.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fail(name, f"must be a list, not {json_type(value)}")
        return value

    def text_map(self, name: str) -> dict[str, str]:
        """A map of string to string; empty when absent. Empty values are allowed."""
        found: dict[str, str] = {}
        fields = self.sub(name)
        for word, text in fields.raw.items():
            check_text(word, fields.path)
            if text != "":
                check_text(text, f"{fields.path}{member(word)}")
            found[word] = text
        return found


# Specs -------------------------------------------------------------------------------------------

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
UPDATE: Final = Column(
    *("Update", '.status.conditions[?(@.type=="UpdatePending")].reason'),
    "Why a newer version waits; UpToDate where none does, empty without gates.",
)
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
    return Takes(schema, check=check)


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
            raise SpecError("", f"{quoted(value)} isn't a valid duration; {hint}")
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
            word = min(unknown)
            fail(truncate(word, 64), f"is unknown; {what} has {known}{meant(word, names)}")
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
            raise SpecError("", f"{quoted(value)} must match {pattern}")
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
            advice = meant(value, words) if isinstance(value, str) else ""
            raise SpecError("", f"must be one of {', '.join(words)}{advice}")
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
                raise below(error, member(name)) from None
        return found

    return read_map


NAMESPACE: Final = text(check_namespace, most=63, pattern=LABEL)
OBJECT_NAME: Final = text(check_object_name, most=253, pattern=SUBDOMAIN)
KIND: Final = text(check_kind, most=63, pattern=KIND_PATTERN)
API_VERSION: Final = text(check_api_version, most=253, pattern=API_VERSION_PATTERN)
LABEL_KEY: Final = text(check_label_key, most=317)
LABEL_VALUE: Final = text(check_label_value, most=63, least=0, pattern=f"({QUALIFIED})?")
DATA_KEY: Final = text(check_data_key, most=253, pattern=DATA_KEY_PATTERN)


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


# Statuses ----------------------------------------------------------------------------------------

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

        Equal ones in it share the ``texts``; others are added.
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
        return _tolerant_list_reader(
            _reader(*split(get_args(kind)[0])), takes.schema.get("maxItems")
        )
    if origin is Packed:
        read_list = _tolerant_list_reader(_reader(get_args(kind)[0]))
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


def _tolerant_list_reader(read: _Read, most: int | None = None) -> _Read:
    def read_list(value: Any, texts: _Texts) -> Any:
        if not isinstance(value, list):
            return None
        found = [one for item in value[:most] if (one := read(item, texts)) is not None]
        return tuple(found)

    return read_list
