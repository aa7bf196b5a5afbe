"""Removes Secret values that a server quotes from its error messages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

SHORTEST = 4
"""Characters; shorter values stay: replacing them would break ordinary words."""


def redact(message: str, secret: Any) -> str:
    """Remove the values of a Secret that was sent from the answer's message.

    Webhooks and older API servers quote what they were sent, as it was sent or decoded.

    Args:
        message: the server's message.
        secret: the body of the request: a Secret, or a patch of one.
    """
    for value in sorted(_values(secret), key=len, reverse=True):
        message = message.replace(value, "<redacted>")
    return message


def _values(secret: Any) -> Iterator[str]:
    if isinstance(secret, Mapping):
        held = [secret.get("data"), secret.get("stringData")]
    else:  # a JSON Patch
        held = [step.get("value") for step in secret or () if isinstance(step, Mapping)]
    for text in _texts(held):
        yield from (form for form in (text, _decoded(text)) if len(form) >= SHORTEST)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
