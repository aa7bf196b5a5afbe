"""What is kept of an object of which only its changes matter: its version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """An object as a watch of metadata saw it last."""

    resource_version: str
    """No two objects have the same one, nor has one that was deleted and made anew."""


def seen(body: Mapping[str, Any]) -> Seen:
    """Decode for a watch; as a function of a module it lets equal watches be shared."""
    return Seen(str(body["metadata"].get("resourceVersion", "")))
