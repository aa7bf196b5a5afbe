"""The gate of the annotation skip-digests: a digest that a user names is never chosen. Pure.

It judges what is deployed too: a named digest isn't uninstalled, but isn't deployed again, except
by a correction of drift, which chooses no version.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.names import ANN_SKIP_DIGESTS
from copyrator.bundles.gates.gate import PASSED, Candidate, Facts, Gate, Occasion, Refused, Verdict


def _judge(spec: BundleSpec, candidate: Candidate, _facts: Facts, _now: datetime) -> Verdict:
    if candidate.digest not in spec.skip_digests:
        return PASSED
    text = f"the annotation {ANN_SKIP_DIGESTS} names {candidate.digest}"
    return Refused(BundleReason.SKIPPED, text, is_retried=True)


GATE: Final = Gate(
    name="skip-digests",
    concerns=lambda spec: bool(spec.skip_digests),
    occasions=frozenset(Occasion) - {Occasion.CORRECTION},
    judge=_judge,
)
