"""The gate of freezes. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Gates,
    Occasion,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.freeze.fields import FreezeFindings, in_force, sentence


def _judge_freezes(
    _spec: BundleSpec, _candidate: Candidate, facts: Facts, now: datetime
) -> Verdict:
    there = facts.findings.of(FreezeFindings)
    found = in_force(there.freezes if there else (), now)
    if not found:
        return PASSED
    text = "; ".join(sentence(one) for one in found)
    unreadable = any(one.fault for one in found)
    reason = BundleReason.FREEZE_UNREADABLE if unreadable else BundleReason.FROZEN
    ends = [one.until for one in found if one.until is not None]
    return Waiting(reason, text, max(ends) if len(ends) == len(found) else None)


GATE: Final = Gate(
    name="freeze",
    concerns=lambda _: True,
    occasions=frozenset(Occasion),
    judge=_judge_freezes,
    is_permanent=False,
    ends=lambda _: "the freeze ends",
    delays_retries=True,
)
"""No deploy begins while its namespace, or all of them, are frozen."""

GATES: Final = Gates(moment=(GATE,))
