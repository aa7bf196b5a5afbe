"""JSON of any shape: what is too deep or too much is left out, not refused with all its neighbours.

The API server takes 10,000 levels wherever a CRD leaves a field open; Python's parsers give up at a
thousand or so. One such object, five kilobytes long, would hide all others from us. And of 1.4 MB
of nothing but brackets Python makes 700,000 lists, which takes a quarter of a second.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import msgspec

from copyrator.api.fields import NOT_WHOLE, TOO_DEEP, TOO_MANY
from copyrator.settings.limits import OBJECT_CONTAINERS

MOST: Final = 256
"""Levels that are kept: more than any spec of ours may have, so that its parser refuses the rest,
and fewer than any code minds."""

_TOO_DEEP: Final = msgspec.json.encode(TOO_DEEP)

_ROUNDS: Final = 8
"""After so many rounds of taking pairs out, an ordinary object has no bracket left."""

_field_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes(1 if code in b"[{" else 255 if code in b"]}" else 0 for code in range(256))
"""As signed bytes: one level up for an opening bracket, one down for a closing one."""


def flattened(raw: bytes, most: int = MOST) -> bytes:
    """The same JSON, with a text in place of every map and list beyond `most` levels.

    All loops over characters are C's: 1.4 MB of brackets take a tenth of a second.
    """
    if raw.count(b"{") + raw.count(b"[") <= most or _is_shallow(raw, most):
        return raw
    masked = _STRING.sub(lambda string: b'"' * len(string[0]), raw)
    deep = bytes(map(most.__lt__, _levels(masked)))
    parts: list[bytes] = []
    kept = 0
    while (start := deep.find(b"\1", kept)) >= 0:
        end = deep.find(b"\0", start)
        parts += (raw[kept:start], _TOO_DEEP)
        kept = end + 1 if end >= 0 else len(raw)
    return b"".join((*parts, raw[kept:])) if parts else raw


def _levels(text: bytes) -> Iterator[int]:
    """The level of nesting behind each character of a text without strings."""
    return accumulate(array("b", text.translate(_STEPS)))


def _is_shallow(raw: bytes, most: int) -> bool:
    """Tell quickly of what isn't too deep that it isn't.

    Pairs of brackets are taken out first, which leaves little of an ordinary object.
    """
    brackets = _brackets(raw)
    removed = 0
    while removed < min(_ROUNDS, most // 2) and brackets:
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        removed += 1
    # A map in a list goes with it: up to two levels a round.
    return max(_levels(brackets), default=0) + 2 * removed <= most


def _brackets(raw: bytes) -> bytes:
    """The brackets that aren't part of a string: these end at each quotation mark not escaped."""
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    return b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)


def _containers(raw: bytes) -> int:
    """How many maps and lists there are; of a few, how many there may be."""
    most = raw.count(b"{") + raw.count(b"[")
    return most if most <= OBJECT_CONTAINERS else len(_brackets(raw)) // 2


def read(raw: bytes) -> Any:
    """Decode one object; of a part that is too deep or too large a text is left in its place.

    Its metadata has the reason then, under NOT_WHOLE.

    Raises:
        msgspec.MsgspecError: it isn't JSON, or has too many maps and lists and isn't a map.
    """
    if _containers(raw) > OBJECT_CONTAINERS:
        return _read_small_fields(raw)
    flat = flattened(raw)
    decoded = msgspec.json.decode(flat)
    if flat is not raw and isinstance(decoded, dict) and isinstance(decoded.get("metadata"), dict):
        decoded["metadata"][NOT_WHOLE] = TOO_DEEP
    return decoded


def _read_small_fields(raw: bytes) -> dict[str, Any]:
    """Decode what is small of an object, and of its metadata."""
    fields = _fields(raw)
    metadata = fields.pop("metadata", None)
    found = _small_ones(fields)
    if metadata is not None:
        found["metadata"] = _small_ones(_fields(bytes(metadata))) | {NOT_WHOLE: TOO_MANY}
    return found


def _fields(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _field_decoder.decode(raw)
    except RecursionError:
        return _field_decoder.decode(flattened(raw))


def _small_ones(fields: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """Decode the smallest, as many as half of an object may hold together."""
    left = OBJECT_CONTAINERS // 2
    found: dict[str, Any] = {}
    for key, value in sorted(fields.items(), key=lambda field: len(bytes(field[1]))):
        text = bytes(value)
        left -= _containers(text)
        found[key] = msgspec.json.decode(flattened(text)) if left >= 0 else TOO_MANY
    return found
