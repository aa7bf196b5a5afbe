"""The cached record of an object of which only changes matter: its resourceVersion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as last seen by a metadata-only watch."""

    resource_version: str
    """Unique: also different for an object that was deleted and created again."""


def seen(body: Mapping[str, Any]) -> Seen:
    """Decode for a watch; a function of a module, so that equal watches are shared."""
    return Seen(str(body["metadata"].get("resourceVersion", "")))
