"""Which Jobs' Secrets are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import PLANNED

from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.bundles.engine.bundle import Memories
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.features.drift.feature import DriftFeature
from copyrator.bundles.features.drift.fields import DriftCheck, DriftStatus
from copyrator.bundles.features.previews.feature import PreviewFeature
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.plans.fields import ApprovedPlan, Baseline, PlanStatus

if TYPE_CHECKING:
    from copyrator.bundles.engine.context import Context

NONE = cast("Context", None)
FEATURES = Features([ApprovalFeature(NONE), PreviewFeature(NONE), DriftFeature(NONE)], Memories())


def needed_jobs(status: BundleStatus) -> set[str | None]:
    return {*FEATURES.needed_jobs(status)} - {None}


@pytest.mark.parametrize(
    ("plan", "attempted", "jobs"),
    [
        (PLANNED, Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Running"), Attempted(), {"shop-plan-1"}),
        (replace(PLANNED, outcome="Failed"), Attempted(job="d", plan_job="shop-plan-1"), set()),
        (
            replace(PLANNED, approved=ApprovedPlan(job="shop-plan-0")),
            Attempted(outcome="Running", job="shop-deploy-1", plan_job="shop-plan-x"),
            {"shop-plan-0", "shop-plan-1", "shop-deploy-1", "shop-plan-x"},
        ),
    ],
)
def test_secrets_are_kept_for_the_jobs_that_need_them(
    plan: PlanStatus, attempted: Attempted, jobs: set[str]
) -> None:
    status = BundleStatus(attempted=attempted).with_part(plan).with_part(Baseline(job="base"))
    assert needed_jobs(status) == jobs | {"base"}


@pytest.mark.parametrize(
    ("outcome", "jobs"), [("Running", {"preview", "check", "found"}), ("Planned", {"found"})]
)
def test_secrets_of_previews_and_checks_are_kept_while_they_run(
    outcome: str, jobs: set[str]
) -> None:
    status = (
        BundleStatus()
        .with_part(PreviewPlan(job="preview", outcome=outcome))
        .with_part(DriftStatus(check=DriftCheck(job="check", outcome=outcome), found_job="found"))
    )
    assert needed_jobs(status) == jobs
