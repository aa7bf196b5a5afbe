"""Reads JSON from outside, and its fields into typed values; errors have the path and a remedy.

The CRDs check most of this before an object is stored. The parsers check it all again, because an
object may have been stored under an older CRD, and because CEL can't read untyped fields.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, NoReturn, TypeVar

import msgspec

from copyrator.api.syntax import Check
from copyrator.api.text import printable_start, truncate

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

    For what isn't a spec of its own, where a Form (schema.py) takes more code than it saves: a
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
                check_text(text, f"{fields.path}[{word}]")
            found[word] = text
        return found
