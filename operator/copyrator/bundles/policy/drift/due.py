"""When what is deployed is checked for drift, and what keeps it from being compared. Pure.

Each Bundle's checks have times of their own, spread over the interval by its uid: multiples of the
interval plus a phase. So no time has to be stored, and a restart moves none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import ApprovalMode, BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Outcome
from copyrator.api.drift_status import DriftReason, DriftVerdict
from copyrator.api.plan_status import PlanOutcome
from copyrator.api.times import parse_time
from copyrator.bundles.policy.plans.due import content_of

PROVEN_WITHIN: Final = timedelta(minutes=15)
"""After a deploy: what has drifted until a later baseline was made is part of it, unseen."""
HINDRANCES: Final = frozenset(
    {
        BundleReason.SUSPENDED,
        BundleReason.AUTOUPDATE_DISABLED,
        DriftReason.NOT_AS_DEPLOYED,
    }
)
"""Reasons for which nothing is compared now, whatever the last check found."""
AT_ONCE: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why what is deployed can't be compared now."""

    reason: str
    message: str


def needs_baseline(spec: BundleSpec) -> bool:
    """Whether what is deployed is planned once after its deploy."""
    return spec.drift.is_asked or spec.approval.mode is ApprovalMode.ON_RISK


def has_baseline(status: BundleStatus) -> bool:
    """Whether the baseline is of what is deployed."""
    return status.deployed.digest is not None and (
        content_of(status.baseline) == content_of(status.deployed)
    )


def is_broken_off(status: BundleStatus) -> bool:
    """Whether the last attempt was a correction that wasn't made, or not to its end.

    Another check tells what is left to correct, so it isn't tried again as a deploy is.
    """
    attempted = status.attempted
    return bool(attempted.correction) and attempted.outcome == Outcome.INTERRUPTED


def hindrance(
    status: BundleStatus, spec: BundleSpec, spec_hash: str, values_hash: str | None
) -> Hindrance | None:
    """What keeps the deployed digest from being planned, with these values."""
    there, attempted = status.deployed, status.attempted
    if spec.suspend:
        return Hindrance(BundleReason.SUSPENDED, "nothing is compared while spec.suspend is true")
    if there.digest is None:
        return Hindrance(DriftReason.NOT_AS_DEPLOYED, "nothing is deployed yet")
    if attempted.outcome not in (None, Outcome.SUCCEEDED) and not is_broken_off(status):
        text = f"the deploy of {attempted.version} hasn't succeeded"
        return Hindrance(DriftReason.NOT_AS_DEPLOYED, text)
    if there.spec_hash != spec_hash or there.reference != spec.reference:
        text = "the spec isn't the one that was deployed"
        return Hindrance(DriftReason.NOT_AS_DEPLOYED, text)
    if there.values_hash != values_hash:
        text = "the values aren't the ones that were deployed"
        return Hindrance(DriftReason.NOT_AS_DEPLOYED, text)
    return None


def due_at(status: BundleStatus, spec: BundleSpec, spec_hash: str, uid: str) -> datetime | None:
    """When the next check begins if the values stay as they are; AT_ONCE: now.

    None while one is running, and where none is needed or possible.
    """
    is_running = status.drift.check.outcome == PlanOutcome.RUNNING
    if is_running or not needs_baseline(spec):
        return None
    if hindrance(status, spec, spec_hash, status.deployed.values_hash) is not None:
        return None
    if not has_baseline(status):
        return _baseline_due(status, spec, uid)
    return _check_due(status, spec, uid) if spec.drift.is_asked else None


def _baseline_due(status: BundleStatus, spec: BundleSpec, uid: str) -> datetime:
    """At once; again with doubling delays while it would prove something, then regularly."""
    check = status.drift.check
    began = parse_time(check.started_at)
    has_failed = check.outcome == PlanOutcome.FAILED
    if began is None or not has_failed or content_of(check) != content_of(status.deployed):
        return AT_ONCE
    there = parse_time(status.deployed.time) or began
    passed = max((began - there).total_seconds(), spec.retry.backoff)
    again = began + timedelta(seconds=passed)
    regular = next_slot(uid, spec.drift.interval, began)
    return min(again, regular) if again < there + PROVEN_WITHIN else regular


def _check_due(status: BundleStatus, spec: BundleSpec, uid: str) -> datetime:
    drift = status.drift
    times = (drift.check.started_at, drift.checked_at, status.baseline.made_at)
    known = [time for time in map(parse_time, times) if time is not None]
    if not known:
        return AT_ONCE
    regular = next_slot(uid, spec.drift.interval, max(known))
    if drift.verdict != DriftVerdict.DRIFTED or drift.attempt == status.attempted.attempt:
        return regular
    return _after_correction(status, spec, regular)


def _after_correction(status: BundleStatus, spec: BundleSpec, regular: datetime) -> datetime:
    """What was found may have been corrected: at once, or after the delay of a retry."""
    if not is_broken_off(status):
        return AT_ONCE
    again = parse_time(status.attempted.next_retry_at)
    if again is None or (status.attempted.interruptions or 0) > spec.retry.limit:
        return regular
    return min(again, regular)


def next_slot(uid: str, interval: float, after: datetime) -> datetime:
    """The first of a Bundle's times after a moment.

    Whole seconds, as times in a status are: a check isn't due again in the second of its beginning.
    """
    period = max(int(interval), 1)
    phase = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % period
    number = (int(after.timestamp()) - phase) // period + 1
    return datetime.fromtimestamp(number * period + phase, UTC)


def slots_between(uid: str, interval: float, after: datetime, until: datetime) -> int:
    """How many of a Bundle's times are after ``after``, and not after ``until``."""
    if until <= after:
        return 0
    first = next_slot(uid, interval, after)
    return 0 if first > until else 1 + int((until - first).total_seconds() / max(interval, 1.0))


def is_regular(status: BundleStatus, spec: BundleSpec, uid: str, began: str | None) -> bool:
    """Whether a check that began then isn't the one that follows a correction at once.

    One of the Bundle's times has passed since the last attempt.
    """
    then, ended = parse_time(began), parse_time(status.attempted.finished_at)
    if then is None or ended is None:
        return True
    return slots_between(uid, spec.drift.interval, ended, then) > 0
