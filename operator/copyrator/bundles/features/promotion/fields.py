"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.promotion import PromotionSpec, PromotionStatus

SPEC: Final = (PromotionSpec,)
STATUS: Final = (PromotionStatus,)
