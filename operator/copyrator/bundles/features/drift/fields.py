"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.drift import DriftSpec, DriftStatus

SPEC: Final = (DriftSpec,)
STATUS: Final = (DriftStatus,)
