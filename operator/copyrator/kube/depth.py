"""JSON of any depth: what is nested too deeply is cut off, not refused with all its neighbours.

The API server takes 10,000 levels wherever a CRD leaves a field open; Python's parsers give up at a
thousand or so. One such object, five kilobytes long, would hide all others from us.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from copyrator.api.fields import NOT_WHOLE

MOST: Final = 256
"""Levels that are kept: more than any spec of ours may have, so that its parser refuses the rest,
and fewer than any code minds."""

TOO_DEEP: Final = b'"(nested too deeply)"'

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def flattened(raw: bytes, most: int = MOST) -> bytes:
    """The same JSON, with a text in place of every map and list beyond `most` levels."""
    if raw.count(b"{") + raw.count(b"[") <= most or _is_shallow(raw, most):
        return raw
    parts: list[bytes] = []
    kept = depth = 0
    for token in _TOKEN.finditer(raw):
        match token[0]:
            case b"{" | b"[":
                depth += 1
                if depth == most + 1:
                    parts += (raw[kept : token.start()], TOO_DEEP)
            case b"}" | b"]":
                if depth == most + 1:
                    kept = token.end()
                depth -= 1
    return b"".join((*parts, raw[kept:])) if parts else raw


def _is_shallow(raw: bytes, most: int) -> bool:
    """Tell quickly of nearly all that isn't too deep that it isn't; False says nothing.

    A list's page is as long as hundreds of objects, and going through its tokens one by one takes
    longer than decoding it. Of the brackets outside texts each round removes the innermost pairs.
    """
    unescaped = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    for _ in range(most // 2):  # a map in a list goes with it: up to two levels a round
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


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
