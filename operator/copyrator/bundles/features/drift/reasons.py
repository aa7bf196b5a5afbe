"""Reasons of its condition."""

from __future__ import annotations

from typing import Final

from copyrator.api.conditions import ConditionType
from copyrator.api.reasons.bundles import DriftReason

CONDITIONS: Final = ((ConditionType.DRIFTED, DriftReason),)
