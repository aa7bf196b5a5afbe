"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.verify import SignaturesSpec, Verification

SPEC: Final = (SignaturesSpec,)
STATUS: Final = (Verification,)
