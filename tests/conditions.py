"""Conditions of a status, of maps as they are in an object."""

from __future__ import annotations

from typing import Any

from copyrator.api.conditions import Condition


def conditions(*maps: dict[str, Any]) -> tuple[Condition, ...]:
    return tuple(map(Condition.parse, maps))
