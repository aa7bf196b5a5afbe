"""The gate of signatures, its record in the status and the condition Verified. Pure.

See docs/signatures.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.verify import Trust, Verification
from copyrator.bundles.engine.gate import (
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Passed,
    Refused,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures.fields import SIGNATURE_GATE, SignaturesSpec


@dataclass(frozen=True, slots=True)
class Signed:
    """The verdict on the signatures of a version."""

    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Verifications:
    """The records of the verdicts on what is deployed, and on the version that was chosen."""

    deployed: Verification | None
    chosen: Verification | None


def _judge(_spec: BundleSpec, candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    if (found := facts.findings.of(Signed)) is None:
        text = f"the signatures of {candidate.digest} haven't been read yet"
        return Waiting(BundleReason.VERIFICATION_UNAVAILABLE, text)
    return found.verdict


def verification(asked: Asked, digest: str, found: Verdict) -> Verification:
    """The record of a verdict."""
    match found:
        case Passed(message):
            trust, reason = Trust.TRUSTED, BundleReason.VERIFIED
        case Refused(reason, message):
            trust = Trust.NOT_TRUSTED
        case Waiting(reason, message):
            trust = Trust.UNKNOWN
    return Verification(
        digest=digest, verdict=trust, reason=reason, message=message, policy=asked.key
    )


def verified_condition(status: BundleStatus) -> FurtherCondition | None:
    """The condition Verified; None where nothing is deployed, or was judged."""
    found = status.part(Verification)
    if found.verdict not in _STATUSES:
        return None
    text = found.message or ""
    if found.verdict == Trust.NOT_TRUSTED:
        text = f"{status.deployed.version} stays deployed, but isn't trusted: {text}"
    return FurtherCondition(
        _STATUSES[Trust(found.verdict)],
        BundleReason.read(found.reason or BundleReason.VERIFIED),
        text,
    )


_STATUSES: Final = {
    Trust.TRUSTED: ConditionStatus.TRUE,
    Trust.NOT_TRUSTED: ConditionStatus.FALSE,
    Trust.UNKNOWN: ConditionStatus.UNKNOWN,
}

GATE: Final = Gate(
    name=SIGNATURE_GATE,
    concerns=uses(SignaturesSpec),
    occasions=frozenset(Occasion),
    judge=_judge,
    vouches=True,
    awaits_registry=True,
    record=Verification,
    unjudged=(
        "set who is trusted with the options of {verify}; the keys that the Bundle and the "
        "operator's policy name aren't read"
    ),
)

GATES: Final = Gates(version=(GATE,))
