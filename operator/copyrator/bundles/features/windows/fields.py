"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.windows import WindowsSpec

SPEC: Final = (WindowsSpec,)
