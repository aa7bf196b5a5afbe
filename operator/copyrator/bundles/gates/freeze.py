"""The gate of freezes: no deploy begins while its namespace, or all of them, are frozen. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.freeze import in_force, sentence
from copyrator.bundles.gates.gate import PASSED, Candidate, Facts, Gate, Occasion, Verdict, Waiting

NAME: Final = "freeze"


def _judge(_spec: BundleSpec, _candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    found = in_force(facts.freezes, now)
    if not found:
        return PASSED
    text = "; ".join(sentence(one) for one in found)
    unreadable = any(one.fault for one in found)
    reason = BundleReason.FREEZE_UNREADABLE if unreadable else BundleReason.FROZEN
    ends = [one.until for one in found if one.until is not None]
    return Waiting(reason, text, max(ends) if len(ends) == len(found) else None)


def gate(concerns: Callable[[BundleSpec], bool]) -> Gate:
    """The gate; ``concerns`` returns whether a freeze is in force for a Bundle."""
    return Gate(
        name=NAME,
        concerns=concerns,
        occasions=frozenset(Occasion),
        judge=_judge,
        is_permanent=False,
    )
