"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.age import AgeSpec

SPEC: Final = (AgeSpec,)
