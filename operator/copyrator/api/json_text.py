"""Decodes JSON from outside: registries, token servers, Secrets, werf, webhooks."""

from __future__ import annotations

from typing import Any

import msgspec


class UnreadableJsonError(ValueError):
    """The text isn't JSON that can be encoded again; the message quotes nothing of it."""


def read_json(text: bytes | str) -> Any:
    """Decode a text.

    Raises:
        UnreadableJsonError: it isn't JSON, is nested too deeply for a parser, or has half of a
            surrogate pair, which can't be encoded.
    """
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        raise UnreadableJsonError("not valid JSON") from None
