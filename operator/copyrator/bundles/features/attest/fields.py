"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.attest import AttestationsStatus, AttestSpec, AttestState

SPEC: Final = (AttestSpec,)
STATUS: Final = (AttestationsStatus,)
TEXTS: Final = (AttestState,)
