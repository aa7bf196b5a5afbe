"""When what is deployed is checked for drift, and what prevents a check. Pure.

A Bundle's checks are at multiples of the interval plus a phase, which is derived from its uid to
spread all checks. So no time has to be stored, and a restart changes none.
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
"""Time after a deploy in which a baseline proves that nothing has drifted; drift before a later one
is part of it, and isn't found."""
HINDRANCES: Final = frozenset(
    {
        BundleReason.SUSPENDED,
        BundleReason.AUTOUPDATE_DISABLED,
        DriftReason.NOT_AS_DEPLOYED,
    }
)
"""Reasons for which no check is made, independent of the last check's result."""
AT_ONCE: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class NotComparable:
    """Why what is deployed can't be compared now."""

    reason: str
    message: str


def needs_baseline(spec: BundleSpec) -> bool:
    """Whether a plan of what is deployed is made after each deploy, as the baseline."""
    return spec.drift.is_enabled or spec.approval.mode is ApprovalMode.ON_RISK


def has_baseline(status: BundleStatus) -> bool:
    """Whether the baseline was made of what is deployed now."""
    return status.deployed.digest is not None and (
        content_of(status.baseline) == content_of(status.deployed)
    )


def is_broken_off(status: BundleStatus) -> bool:
    """Whether the last attempt was a correction that was interrupted.

    It isn't retried as a deploy is: another check finds what is left to correct.
    """
    attempted = status.attempted
    return bool(attempted.correction) and attempted.outcome == Outcome.INTERRUPTED


def not_comparable(
    status: BundleStatus, spec: BundleSpec, spec_hash: str, values_hash: str | None
) -> NotComparable | None:
    """Why the deployed digest can't be planned with these values; None where it can be."""
    there, attempted = status.deployed, status.attempted
    if spec.suspend:
        return NotComparable(
            BundleReason.SUSPENDED, "nothing is compared while spec.suspend is true"
        )
    if there.digest is None:
        return NotComparable(DriftReason.NOT_AS_DEPLOYED, "nothing is deployed yet")
    if attempted.outcome not in (None, Outcome.SUCCEEDED) and not is_broken_off(status):
        text = f"the deploy of {attempted.version} hasn't succeeded"
        return NotComparable(DriftReason.NOT_AS_DEPLOYED, text)
    if there.spec_hash != spec_hash or there.reference != spec.reference:
        text = "the spec isn't the one that was deployed"
        return NotComparable(DriftReason.NOT_AS_DEPLOYED, text)
    if there.values_hash != values_hash:
        text = "the values aren't the ones that were deployed"
        return NotComparable(DriftReason.NOT_AS_DEPLOYED, text)
    return None


def due_at(status: BundleStatus, spec: BundleSpec, spec_hash: str, uid: str) -> datetime | None:
    """When the next check is due if the values don't change; AT_ONCE: now.

    None while a check is running, and where none is needed or possible.
    """
    is_running = status.drift.check.outcome == PlanOutcome.RUNNING
    if is_running or not needs_baseline(spec):
        return None
    if not_comparable(status, spec, spec_hash, status.deployed.values_hash) is not None:
        return None
    if not has_baseline(status):
        return _baseline_due(status, spec, uid)
    return _check_due(status, spec, uid) if spec.drift.is_enabled else None


def _baseline_due(status: BundleStatus, spec: BundleSpec, uid: str) -> datetime:
    """When the baseline is made: at once, with retries within PROVEN_WITHIN, then regularly."""
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
    """When the check after a correction is due: at once, or after the delay of a retry."""
    if not is_broken_off(status):
        return AT_ONCE
    again = parse_time(status.attempted.next_retry_at)
    if again is None or (status.attempted.interruptions or 0) > spec.retry.limit:
        return regular
    return min(again, regular)


def next_slot(uid: str, interval: float, after: datetime) -> datetime:
    """The first of a Bundle's check times after a moment.

    In whole seconds, as in a status, so that no check is due again in the second of its beginning.
    """
    period = max(int(interval), 1)
    phase = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % period
    number = (int(after.timestamp()) - phase) // period + 1
    return datetime.fromtimestamp(number * period + phase, UTC)


def slots_between(uid: str, interval: float, after: datetime, until: datetime) -> int:
    """The number of a Bundle's check times after ``after``, up to ``until``."""
    if until <= after:
        return 0
    first = next_slot(uid, interval, after)
    return 0 if first > until else 1 + int((until - first).total_seconds() / max(interval, 1.0))


def is_regular(status: BundleStatus, spec: BundleSpec, uid: str, began: str | None) -> bool:
    """Whether a check that began then was a scheduled one, not the one right after a correction.

    It was if one of the Bundle's check times has passed since the last attempt.
    """
    then, ended = parse_time(began), parse_time(status.attempted.finished_at)
    if then is None or ended is None:
        return True
    return slots_between(uid, spec.drift.interval, ended, then) > 0
