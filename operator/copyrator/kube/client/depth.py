"""JSON of any shape: parts too deep or too large are left out, instead of failing a whole page.

The API server accepts 10,000 levels wherever a CRD leaves a field open; Python's parsers fail at
about a thousand. One such object of 5 KB would make a whole page unreadable. And of 1.4 MB
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
and fewer than cause an error anywhere."""

_TOO_DEEP: Final = msgspec.json.encode(TOO_DEEP)

_BLOCK: Final = 512
"""Bytes whose levels are looked at together; only where some may be too deep, one by one."""

_ROUNDS: Final = 8
"""Rounds of removing pairs after which an ordinary object has no bracket left."""

_field_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes(1 if code in b"[{" else 255 if code in b"]}" else 0 for code in range(256))
"""As signed bytes: one level up for an opening bracket, one down for a closing one."""


def flattened(raw: bytes, most: int = MOST) -> bytes:
    """The same JSON, with a text in place of every map and list beyond `most` levels.

    All loops over characters run in C: where 1.4 MB are at the limit everywhere they take a tenth
    of a second, else a fifth of that.
    """
    if raw.count(b"{") + raw.count(b"[") <= most or _is_shallow(raw, most):
        return raw
    masked = _STRING.sub(lambda string: b'"' * len(string[0]), raw)
    deep = _too_deep(masked, most)
    parts: list[bytes] = []
    kept = 0
    while (start := deep.find(b"\1", kept)) >= 0:
        end = deep.find(b"\0", start)
        parts += (raw[kept:start], _TOO_DEEP)
        kept = end + 1 if end >= 0 else len(raw)
    return b"".join((*parts, raw[kept:])) if parts else raw


def _too_deep(text: bytes, most: int) -> bytes:
    """For each character of a text without strings 1 where it is beyond `most` levels, else 0."""
    parts: list[bytes] = []
    level = 0
    for at in range(0, len(text), _BLOCK):
        block = text[at : at + _BLOCK]
        up = block.count(b"{") + block.count(b"[")
        down = block.count(b"}") + block.count(b"]")
        if level + up <= most:
            parts.append(bytes(len(block)))
        elif level - down > most:
            parts.append(b"\1" * len(block))
        else:
            parts.append(bytes(map(most.__lt__, _levels(block, level))))
        level += up - down
    return b"".join(parts)


def _levels(text: bytes, level: int = 0) -> Iterator[int]:
    """The level of nesting after each character of a text without strings."""
    levels = accumulate(array("b", text.translate(_STEPS)), initial=level)
    next(levels)
    return levels


def _is_shallow(raw: bytes, most: int) -> bool:
    """Fast test that holds for ordinary objects; False doesn't mean that it is too deep.

    Pairs of brackets are removed first, which leaves few of an ordinary object.
    """
    brackets = _brackets(raw)
    removed = 0
    while removed < min(_ROUNDS, most // 2) and brackets:
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        removed += 1
    # A map in a list is removed with it: up to two levels a round.
    return max(_levels(brackets), default=0) + 2 * removed <= most


def _brackets(raw: bytes) -> bytes:
    """The brackets outside strings, which end at each quotation mark that isn't escaped."""
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    return b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)


def _containers(raw: bytes) -> int:
    """The number of maps and lists; where it can't exceed the limit, an upper bound."""
    most = raw.count(b"{") + raw.count(b"[")
    return most if most <= OBJECT_CONTAINERS else len(_brackets(raw)) // 2


def read(raw: bytes) -> Any:
    """Decode one object; a part that is too deep or too large is replaced by a text.

    Its metadata then has the reason, under NOT_WHOLE.

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
    """Decode the small fields of an object and of its metadata."""
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
    """Decode the smallest fields, up to half of an object's limit of maps and lists together."""
    left = OBJECT_CONTAINERS // 2
    found: dict[str, Any] = {}
    for key, value in sorted(fields.items(), key=lambda field: len(bytes(field[1]))):
        text = bytes(value)
        left -= _containers(text)
        found[key] = msgspec.json.decode(flattened(text)) if left >= 0 else TOO_MANY
    return found
