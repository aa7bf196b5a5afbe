"""How a poll changes the status, and whether by the status no poll is due after a restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from copyrator.api.bundle_status import (
    Available,
    BundleReason,
    BundleStatus,
    LastError,
    Outcome,
    Rejected,
    VersionRef,
)
from copyrator.api.conditions import ready_reason
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.policy.plans.drift import is_broken_off


@dataclass(frozen=True, slots=True)
class DesiredVersion:
    """The inputs of a resolution whose change requires a poll at once, not at the next slot."""

    generation: int
    spec_hash: str
    values_hash: str | None
    request: str
    """Token of a request that hasn't been handled yet."""
    login: str
    """Fingerprint of the credential, in memory only."""
    signers: str = ""
    """Hash of the requirements for signatures; empty: none are required."""
    skipped: tuple[str, ...] = ()
    """Digests that aren't chosen."""


def is_answered(status: BundleStatus, desired: DesiredVersion) -> bool:
    """After a restart: whether the desired version has been resolved and handled.

    Then the Bundle waits for its slot like any other, so that a restart doesn't poll everything at
    once.
    """
    last = status.attempted if status.attempted.attempt else status.deployed
    if ready_reason(status.conditions) == BundleReason.DEPLOYED and not status.available.version:
        return False  # deployed by its digest, as the registry had no match: there may be one now
    settled = {
        BundleReason.DEPLOYED,
        BundleReason.QUARANTINED,
        BundleReason.WOULD_DOWNGRADE,
        BundleReason.NO_MATCHING_VERSION,
        status.attempted.reason,
    }
    return (
        status.observed_generation == desired.generation
        and ready_reason(status.conditions) in settled
        and not desired.request
        and last.values_hash == desired.values_hash
        and last.spec_hash == desired.spec_hash
        and (status.verification.policy or "") == desired.signers
    )


def resolved(
    status: BundleStatus, available: Available, next_poll: datetime, now: datetime
) -> BundleStatus:
    """The status with the registry's resolution; an unchanged one keeps its time.

    ``available`` has a tag and its digest; its time is ignored.
    """
    version, digest = available.version, available.digest
    return replace(
        status,
        ready=1,
        available=_dated(available, status.available, now),
        target=VersionRef(digest=digest, version=version),
        next_poll_at=format_time(next_poll),
    )


def unresolved(
    status: BundleStatus, rejected: tuple[Rejected, ...], next_poll: datetime, now: datetime
) -> BundleStatus:
    """The status where the registry has nothing for the Bundle; its target stays."""
    return replace(
        status,
        ready=1,
        available=_dated(Available(rejected=rejected), status.available, now),
        next_poll_at=format_time(next_poll),
    )


def _dated(available: Available, known: Available, now: datetime) -> Available:
    same = (available.version, available.digest) == (known.version, known.digest)
    return replace(available, time=known.time if same and known.time else format_time(now))


def with_error(status: BundleStatus, reason: str, message: str, now: datetime) -> BundleStatus:
    """The status with an error; an equal one keeps its first time: no change at every poll."""
    known = status.last_error
    if (known.reason, known.message) == (reason, message):
        return status
    error = LastError(reason=reason, message=message, time=format_time(now))
    return replace(status, last_error=error)


def retry_at(status: BundleStatus) -> datetime | None:
    """When the failed attempt is retried; None where none failed or none follows."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    failed = failed and not is_broken_off(status)
    return parse_time(status.attempted.next_retry_at) if failed else None


def kept_ready(status: BundleStatus) -> int:
    """The value of ``ready`` where the credentials weren't checked."""
    return 1 if status.ready is None else status.ready
