"""Decodes JSON from outside: registries, token servers, Secrets, werf, webhooks."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec


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
