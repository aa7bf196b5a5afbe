"""Secret values never leave through an error: what a server quotes back is taken out."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any


def redact(message: str, secret: Any) -> str:
    """Take the values of a Secret that was sent out of a message that came back.

    Webhooks and older API servers quote what they were sent. Values of fewer than four characters
    are left: they would take ordinary words apart.
    """
    for value in sorted(_values(secret), key=len, reverse=True):
        if len(value) >= 4:
            message = message.replace(value, "<redacted>")
    return message


def _values(secret: Any) -> Iterable[str]:
    for value in (secret.get("data") or {}).values():
        if isinstance(value, str):
            yield value
            try:
                yield base64.b64decode(value, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError):
                continue
    for value in (secret.get("stringData") or {}).values():
        if isinstance(value, str):
            yield value
