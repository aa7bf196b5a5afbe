"""The result of polling a registry for a Bundle."""

from __future__ import annotations

from dataclasses import dataclass

from copyrator.api.bundle_status import BundleReason, Rejected, Verification
from copyrator.bundles.policy.gates import Candidate, Held, Result
from copyrator.oci.errors import RegistryError


@dataclass(frozen=True, slots=True)
class Unresolved:
    """The registry has nothing that fits the spec: the condition's reason and message."""

    reason: BundleReason
    message: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """A tag and its digest, or why there is none: an error, or ``unresolved``."""

    tag: str = ""
    """With ``unresolved`` the deployed tag, where it can be deployed again; else empty."""
    digest: str = ""
    rejected: tuple[Rejected, ...] = ()
    """The tags that a range rejected."""
    unresolved: Unresolved | None = None
    inherited: bool = False
    """The tag is what the original operator deployed; without digest where it changed since."""
    error: RegistryError | None = None
    results: tuple[Result, ...] = ()
    """The version gates' verdicts on this version."""
    held: Held | None = None
    """The newest version that they hold back."""
    deployed: Verification | None = None
    """Whether the signatures of what is deployed are trusted; None where none are required."""
    chosen: Verification | None = None
    """The same of this version."""
    plan_refused: bool = False
    """The version of the waiting plan is no longer trusted, or no longer promoted."""
    correctable: tuple[Result, ...] = ()
    """The verdict on the chart of what is deployed, where a correction of drift would deploy it."""
    seen: tuple[Candidate, ...] = ()
    """The versions that were evaluated, with the digests that their tags have now."""
    soaked: frozenset[str] = frozenset()
    """Digests that are, or have been, deployed in Bundles of ``spec.promoteFrom``."""
