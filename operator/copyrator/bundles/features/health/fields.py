"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.health import HealthSpec

SPEC: Final = (HealthSpec,)
