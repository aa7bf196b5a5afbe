"""How an attempt begins and ends in the status. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import (
    MAX_HISTORY,
    Attempted,
    BundleStatus,
    Deployed,
    DeployRef,
    HistoryEntry,
    LastError,
    Outcome,
    PassedOver,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Packed
from copyrator.api.structs import replace
from copyrator.api.text import format_time
from copyrator.bundles.deciding import NOT_RETRIED, DesiredDeploy, is_failed_try
from copyrator.bundles.gates.gate import NOTHING_FOUND, Findings
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.revisions import RolledBack
from copyrator.bundles.requests import acknowledge
from copyrator.bundles.rhythm import retry_delay


def begin(
    status: BundleStatus,
    wanted: DesiredDeploy,
    now: datetime,
    passed_over: tuple[PassedOver, ...] = (),
) -> BundleStatus:
    """The status with a new attempt recorded; its Job is created and named in it afterwards."""
    before = status.attempted
    continues = wanted.request is None and is_failed_try(before, wanted)
    request = wanted.request
    attempted = Attempted(
        version=wanted.version,
        digest=wanted.digest,
        reference=wanted.reference,
        namespace=wanted.namespace,
        server=wanted.server,
        attempt=(before.attempt or 0) + 1,
        failures=(before.failures or 0) if continues else 0,
        interruptions=(before.interruptions or 0) if continues else 0,
        outcome=Outcome.RUNNING,
        generation=wanted.generation,
        values_hash=wanted.values_hash,
        spec_hash=wanted.spec_hash,
        request=request.token if request else "",
        passed_over=passed_over,
        started_at=format_time(now),
    )
    changed = replace(status, attempted=attempted)
    return acknowledge(changed, request) if request else changed


@dataclass(frozen=True, slots=True)
class Evidence:
    """Findings about a finished attempt: from its log, and its rollback."""

    printed_digests: tuple[str, ...] = ()
    log_tail: str = ""
    rolled_back: RolledBack | None = None
    found: Findings = NOTHING_FOUND
    """What features have found."""


def finish(
    status: BundleStatus, ending: Ending, evidence: Evidence, retry: Retry, now: datetime
) -> BundleStatus:
    """The status with the running attempt's outcome recorded."""
    stamp = format_time(now)
    attempted = replace(
        status.attempted,
        outcome=ending.outcome,
        reason=ending.reason,
        message=ending.message,
        missing=ending.missing,
        finished_at=stamp,
        next_retry_at=None,
    )
    entry = HistoryEntry(
        version=attempted.version,
        digest=attempted.digest,
        reference=attempted.reference,
        revision=ending.revision,
        outcome=ending.outcome,
        reason=ending.reason,
        job=attempted.job,
        plan=attempted.plan,
        approved_by=attempted.approved_by,
        correction=attempted.correction,
        passed_over=attempted.passed_over,
        time=stamp,
    )
    changed = replace(status, history=Packed.pack(_limit_history((entry, *status.past))))
    if ending.outcome is Outcome.SUCCEEDED:
        return _record_success(changed, attempted, ending, evidence, stamp)
    error = LastError(
        reason=ending.reason, message=ending.message, log_tail=evidence.log_tail or None, time=stamp
    )
    if back := evidence.rolled_back:
        attempted = replace(attempted, rollback=back.rollback)
        revision = back.revision or changed.deployed.revision
        changed = replace(changed, deployed=replace(changed.deployed, revision=revision))
    return replace(changed, attempted=_schedule_retry(attempted, retry, now), last_error=error)


_KEPT_DIGESTS: Final = 3
"""Digests whose last successful deploy stays in the history however many others follow."""


def _limit_history(entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
    """At most MAX_HISTORY, newest first; what can be rolled back to is dropped last."""
    kept = list(entries)
    while len(kept) > MAX_HISTORY:
        newest: dict[str | None, int] = {}
        for at, one in enumerate(kept):
            if one.outcome == Outcome.SUCCEEDED:
                newest.setdefault(one.digest, at)
        targets = list(newest.values())[:_KEPT_DIGESTS]
        del kept[max(at for at in range(len(kept)) if at not in targets)]
    return tuple(kept)


def _record_success(
    status: BundleStatus, attempted: Attempted, ending: Ending, evidence: Evidence, stamp: str
) -> BundleStatus:
    deployed = Deployed(
        version=attempted.version,
        digest=attempted.digest,
        reference=attempted.reference,
        revision=ending.revision or status.deployed.revision,
        namespace=attempted.namespace,
        server=attempted.server,
        values_hash=attempted.values_hash,
        spec_hash=attempted.spec_hash,
        generation=attempted.generation,
        verified=attempted.digest in evidence.printed_digests,
        time=stamp,
    )
    return replace(
        status,
        attempted=replace(attempted, failures=0, interruptions=0),
        deployed=deployed,
        deploy=DeployRef(digest=attempted.digest, version=attempted.version),
        last_error=LastError(),
    )


def _schedule_retry(attempted: Attempted, retry: Retry, now: datetime) -> Attempted:
    """Count a failure or an interruption, and set the time of the next retry."""
    failures, interruptions = attempted.failures or 0, attempted.interruptions or 0
    if attempted.outcome == Outcome.FAILED:
        failures += 1
        if attempted.reason in NOT_RETRIED:  # it would do the same again
            failures = max(failures, retry.limit + 1)
        if failures > retry.limit:
            return replace(attempted, failures=failures)
        delay = retry_delay(retry.backoff, failures)
    elif attempted.reason == BundleReason.FROZEN:
        delay = 0.0  # the freeze gate decides when
    else:
        interruptions += 1
        vanished = attempted.reason == BundleReason.JOB_LOST and interruptions == 1
        delay = 0.0 if vanished else retry_delay(retry.backoff, interruptions)
    return replace(
        attempted,
        failures=failures,
        interruptions=interruptions,
        next_retry_at=format_time(now + timedelta(seconds=delay)),
    )
