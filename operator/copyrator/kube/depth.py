"""JSON of any depth: what is nested too deeply is cut off, not refused with all its neighbours.

The API server takes 10,000 levels wherever a CRD leaves a field open; Python's parsers give up at a
thousand or so. One such object, five kilobytes long, would hide all others from us.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final

import msgspec

from copyrator.api.fields import NOT_WHOLE

MOST: Final = 256
"""Levels that are kept: more than any spec of ours may have, so that its parser refuses the rest,
and fewer than any code minds."""

TOO_DEEP: Final = b'"(nested too deeply)"'

_ROUNDS: Final = 8
"""After so many rounds of taking pairs out, an ordinary object has no bracket left."""

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
        parts += (raw[kept:start], TOO_DEEP)
        kept = end + 1 if end >= 0 else len(raw)
    return b"".join((*parts, raw[kept:])) if parts else raw


def _levels(text: bytes) -> Iterator[int]:
    """The level of nesting behind each character of a text without strings."""
    return accumulate(array("b", text.translate(_STEPS)))


def _is_shallow(raw: bytes, most: int) -> bool:
    """Tell quickly of what isn't too deep that it isn't.

    A list's page is as long as hundreds of objects. Strings end at each second quotation mark that
    isn't escaped; pairs of brackets are taken out first, which leaves little of an ordinary object.
    """
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    removed = 0
    while removed < min(_ROUNDS, most // 2) and brackets:
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        removed += 1
    # A map in a list goes with it: up to two levels a round.
    return max(_levels(brackets), default=0) + 2 * removed <= most


def read(raw: bytes) -> Any:
    """Decode one object; a part of it that is too deep is missing, and its metadata says so.

    Raises:
        msgspec.MsgspecError: it isn't JSON.
    """
    flat = flattened(raw)
    decoded = msgspec.json.decode(flat)
    if flat is not raw and isinstance(decoded, dict) and isinstance(decoded.get("metadata"), dict):
        decoded["metadata"][NOT_WHOLE] = True
    return decoded
