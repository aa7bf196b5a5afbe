"""How long the Jobs of plans are kept. Pure."""

from __future__ import annotations

from datetime import datetime

from copyrator.api.approval import PlanStatus
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.drift import DriftStatus
from copyrator.api.plan_status import PlanOutcome, PreviewPlan
from copyrator.bundles.features.approval.record import PREVIEW_KEPT, waits_until
from copyrator.bundles.jobs.client import GRACE_OF_OTHERS, Kept
from copyrator.bundles.pod import LONG_TTL


def keep_plan(job: str, status: BundleStatus, other: int, now: datetime) -> Kept:
    """How long a plan's Job is kept after its end: its log has what people read.

    It must not be deleted while its plan isn't read yet, or waits for a decision; or it found
    drift, until the next check is read.

    Args:
        job: its name.
        status: of its Bundle.
        other: the seconds for Jobs that the status doesn't name any more.
        now: the time.
    """
    is_preview = job == status.part(PreviewPlan).job
    grace, until = PREVIEW_KEPT if is_preview else GRACE_OF_OTHERS, waits_until(status, now)
    return Kept(_seconds(job, status, other, is_awaited=until is not None), grace, until)


def _seconds(job: str, status: BundleStatus, other: int, *, is_awaited: bool) -> int | None:
    plan, preview, drift = (
        status.part(PlanStatus),
        status.part(PreviewPlan),
        status.part(DriftStatus),
    )
    if job == plan.job:
        return None if plan.outcome == PlanOutcome.RUNNING or is_awaited else LONG_TTL
    if job == preview.job:
        return None if preview.outcome == PlanOutcome.RUNNING else PREVIEW_KEPT
    is_read = job != drift.check.job or drift.check.outcome != PlanOutcome.RUNNING
    return other if is_read and job != drift.found_job else None
