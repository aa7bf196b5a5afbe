"""``spec.verify`` and ``status.verification``: who may sign what is deployed, and the verdict."""

from __future__ import annotations

from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleCondition
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.verify import AnyOf, Verification, refs_of

SIGNATURE_GATE: Final = "signature"
"""Name of the gate."""
VERIFIED: Final = "Verified"


class SignaturesSpec(Part):
    """Who may sign what is deployed."""

    FIELD: ClassVar[str] = "verify"
    """Signatures that a version must have to be deployed; others are skipped. The operator's
    signature policy may require more."""
    RESTRICTS: ClassVar[bool] = True

    any_of: AnyOf
    """Signers; a signature by one of them is enough."""

    @property
    def refs(self) -> tuple[tuple[str, LocalObjectRef], ...]:
        """The keys and certificates."""
        return tuple(("spec.verify", ref) for ref in refs_of(self.any_of))


SPEC: Final = (SignaturesSpec,)
STATUS: Final = (Verification,)
CONDITIONS: Final = (BundleCondition(VERIFIED, 4, "who is trusted signed it"),)
