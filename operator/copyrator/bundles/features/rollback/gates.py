"""The gate of the annotation skip-digests. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.names import ANN_SKIP_DIGESTS
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Refused,
    Verdict,
    uses,
)
from copyrator.bundles.features.rollback.fields import RollbackSpec
from copyrator.bundles.features.rollback.reasons import RollbackReason


def _judge_digest(spec: BundleSpec, candidate: Candidate, _facts: Facts, _now: datetime) -> Verdict:
    if candidate.digest not in spec.part(RollbackSpec).skip_digests:
        return PASSED
    text = f"the annotation {ANN_SKIP_DIGESTS} names {candidate.digest}"
    return Refused(RollbackReason.SKIPPED, text, is_retried=True)


GATE: Final = Gate(
    name="skip-digests",
    concerns=uses(RollbackSpec),
    occasions=frozenset(Occasion) - {Occasion.CORRECTION},
    judge=_judge_digest,
)
"""A digest that a user names is never chosen.

It judges what is deployed too: a named digest isn't uninstalled, but isn't deployed again, except
by a correction of drift, which chooses no version.
"""

GATES: Final = Gates(version=(GATE,))
