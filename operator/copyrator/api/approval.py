"""``spec.approval``: which plans wait for a person before they are deployed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final, Self

from copyrator.api.bundle_spec import Part
from copyrator.api.schema import DERIVED, Takes, duration

DEFAULT_APPROVAL_EXPIRES: Final = 24 * 3600.0


class ApprovalMode(StrEnum):
    """Which plans a person has to approve before they are deployed; in rising order."""

    NEVER = "Never"
    ON_RISK = "OnRisk"
    """Plans with risky operations: see docs/approval.md."""
    ALWAYS = "Always"


class ApprovalSpec(Part):
    """Whether deploys are planned first, and which plans wait for a person."""

    FIELD: ClassVar[str] = "approval"
    """Whether a deploy is planned first, with its operations in status.plan, and which plans wait
    until a person approves them (copyrator approve bundle)."""

    # Without it the API server may have dropped a misspelled one.
    mode: Annotated[
        ApprovalMode, Takes({}, required=f"is required: one of {', '.join(ApprovalMode)}")
    ]
    """Never, OnRisk (only plans with risky operations wait, such as deletions) or Always. The
    operator's settings may ask for more."""
    expires: Annotated[float, duration("expires", 60.0)] = DEFAULT_APPROVAL_EXPIRES
    """How long a plan waits for a decision before it is made anew, such as 24h (the default); at
    least 1m."""
    must_be_bound: Annotated[bool, DERIVED] = False
    """Whether the operator's settings refuse plans that aren't bound."""
    is_required: Annotated[bool, DERIVED] = False
    """Whether the operator's settings require a mode other than Never."""

    @classmethod
    def absent(cls) -> Self:
        """Nothing is planned."""
        return cls(ApprovalMode.NEVER)

    @property
    def is_off(self) -> bool:
        """Whether nothing is planned, unless a user requests it."""
        return self.mode is ApprovalMode.NEVER
