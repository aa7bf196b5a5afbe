"""How long plan Jobs are kept after their end, as their logs have the diffs. Pure."""

from __future__ import annotations

from datetime import datetime

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.plan_status import PlanOutcome
from copyrator.bundles.deploy.pod import LONG_TTL
from copyrator.bundles.plan import record as plan_record


def plan_ttl(job: str, status: BundleStatus, other: int, now: datetime) -> int | None:
    """Seconds after its end for which a plan's Job is kept.

    It is derived from the status, so that a restart changes nothing.

    Args:
        job: its name.
        status: of its Bundle.
        other: the seconds for Jobs that the status doesn't name any more.
        now: the time.

    Returns:
        None where it must not be deleted: its plan isn't read yet, or waits for a decision; or it
        found drift, until the next check is read.
    """
    if job == status.plan.job:
        waits = status.plan.outcome == PlanOutcome.RUNNING or plan_record.waits_until(status, now)
        return None if waits else LONG_TTL
    if job == status.preview.job:
        return None if status.preview.outcome == PlanOutcome.RUNNING else plan_record.PREVIEW_KEPT
    drift = status.drift
    is_read = job != drift.check.job or drift.check.outcome != PlanOutcome.RUNNING
    return other if is_read and job != drift.found_job else None
