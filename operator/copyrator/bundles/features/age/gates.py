"""The gate of ``spec.minAge``: a digest must have been known for some time. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import AgeStatus, BundleStatus
from copyrator.api.text import format_duration, format_time, parse_time
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Gate,
    Gates,
    Occasion,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.features.age.fields import AgeSpec
from copyrator.bundles.features.age.reasons import AgeReason


def _changes(spec: BundleSpec, status: BundleStatus, _findings: Findings) -> Iterator[datetime]:
    for one in status.part(AgeStatus).candidates:
        if (seen := parse_time(one.first_seen)) is not None:
            yield seen + timedelta(seconds=spec.part(AgeSpec).min_age)


def first_seen(status: BundleStatus, candidate: Candidate) -> datetime | None:
    """When it was seen first, by the status; None where the status doesn't have it."""
    wanted = candidate.version, candidate.digest
    known = status.part(AgeStatus).candidates
    found = (one for one in known if (one.version or "", one.digest or "") == wanted)
    return next((parse_time(one.first_seen) for one in found), None)


def _judge(spec: BundleSpec, candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    if facts.status.deployed.digest is None or facts.is_deployed(candidate):
        return PASSED
    if facts.occasion is Occasion.ROLLBACK:  # it was deployed before
        return PASSED
    seen = first_seen(facts.status, candidate)
    seen = seen or now.replace(microsecond=0)  # as the status will have it
    until = seen + timedelta(seconds=spec.part(AgeSpec).min_age)
    if now >= until:
        return PASSED
    text = (
        f"{candidate.version} ({candidate.digest[:19]}) was seen first at {format_time(seen)}, and "
        f"spec.minAge requires {format_duration(spec.part(AgeSpec).min_age)}"
    )
    return Waiting(AgeReason.TOO_YOUNG, text, until)


GATE: Final = Gate(
    name="age",
    concerns=uses(AgeSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge,
    changes=_changes,
    remembers=True,
    ends=lambda spec: f"it has been known for {format_duration(spec.part(AgeSpec).min_age)}",
)

GATES: Final = Gates(version=(GATE,))
