"""How long the Jobs of plans are kept."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import LATER, NOW, PLANNED, with_plan

from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.api.text import format_time
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.drift.fields import DriftCheck, DriftStatus
from copyrator.bundles.features.drift.record import keep_check
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.features.previews.record import keep_preview
from copyrator.bundles.jobs.pod import Kept

JOB = "shop-plan-1"
DAYS = 24 * 3600
YEAR = NOW + timedelta(days=365)


def checked(**fields: str) -> BundleStatus:
    return BundleStatus().with_part(DriftStatus(check=DriftCheck(job=JOB, **fields)))


@pytest.mark.parametrize(
    ("status", "seconds"),
    [
        (with_plan(), None),
        (with_plan(expires_at=format_time(YEAR)), None),
        (with_plan(outcome="Running", expires_at=None), None),
        (with_plan(expires_at=format_time(NOW)), 3 * DAYS),
        (with_plan(decision="Approved"), 3 * DAYS),
        (with_plan(decision="Rejected"), 3 * DAYS),
        (with_plan(outcome="Failed"), 3 * DAYS),
        (replace(with_plan(), attempted=Attempted(plan_job=JOB)), 3 * DAYS),
        (BundleStatus(), 120),
        (with_plan(job="another"), 120),
        (BundleStatus().with_part(PLANNED).with_part(PreviewPlan(job=JOB)), None),
        (BundleStatus().with_part(PreviewPlan(job=JOB, outcome="Running")), None),
        (BundleStatus().with_part(PreviewPlan(job=JOB, outcome="Planned")), DAYS),
        (BundleStatus().with_part(PreviewPlan(job=JOB, outcome="Failed")), DAYS),
        (checked(outcome="Running"), None),
        (checked(outcome="Planned"), 120),
        (checked(outcome="Failed"), 120),
        (checked().with_part(DriftStatus(found_job=JOB)), None),
    ],
)
def test_a_plan_that_waits_is_kept_as_long_as_it_waits(
    status: BundleStatus, seconds: int | None
) -> None:
    kept = deploy_record.keep_plan(JOB, status, NOW) or keep_preview(JOB, status)
    kept = kept or keep_check(JOB, status) or Kept(120)
    assert kept.seconds == seconds


def test_it_is_asked_again_when_the_time_to_decide_is_over() -> None:
    assert deploy_record.waits_until(with_plan(), NOW) == LATER
    assert deploy_record.waits_until(with_plan(), LATER) is None
    assert deploy_record.waits_until(BundleStatus(), NOW) is None
