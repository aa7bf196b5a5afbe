"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.rollback import PinStatus, RollbackSpec

SPEC: Final = (RollbackSpec,)
STATUS: Final = (PinStatus,)
