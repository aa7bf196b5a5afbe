"""The patch that turns one JSON map into another, as RFC 7396 (JSON merge patch) defines it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Only what differs: ``None`` removes a field, a list is replaced whole.

    ``after`` contains no None: the format can't set one.
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
