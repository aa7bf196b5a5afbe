"""The record of a plan that a user asks for of another version."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.unit.bundles.plans.plan_samples import CREATE, DELETE, NOW, PLANNED, RECREATE

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.text import format_time
from copyrator.bundles.features.approval.record import requested_plan
from copyrator.bundles.features.previews import record as preview_record
from copyrator.bundles.features.previews.feature import PreviewFeature
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.features.previews.record import PREVIEW, PreviewRequest
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import OperationCounts, PlanRequests, PlanStatus
from copyrator.bundles.plans.operations import Plan
from copyrator.bundles.plans.record import PlanFault, PlanResult, PlanTarget

if TYPE_CHECKING:
    from copyrator.bundles.engine.context import Context

FEATURE = PreviewFeature(cast("Context", None))
REQUEST = PreviewRequest("now", "1.*")
BEFORE = BundleStatus().with_part(PLANNED).with_part(PlanRequests(last_handled_plan="before"))


@pytest.mark.parametrize(
    ("annotations", "plan", "wanted"),
    [
        ({}, None, None),
        ({"plan-at": "now"}, "now", None),
        ({"plan-version": "1.*"}, None, None),
        ({"plan-at": "now", "plan-version": "1.*"}, None, REQUEST),
        ({"plan-at": "before", "plan-version": "1.*"}, None, None),
        ({"plan-at": "before"}, None, None),
    ],
)
def test_a_request_is_for_the_plan_or_for_a_preview(
    annotations: dict[str, str], plan: str | None, wanted: PreviewRequest | None
) -> None:
    named = {f"operator.werf.dev/{name}": value for name, value in annotations.items()}
    assert requested_plan(named, BEFORE) == plan
    assert preview_record.requested_preview(named, BEFORE) == wanted


FOUND = PlanTarget(version="1.2.0", digest="sha256:c", values_hash="v", spec_hash="", job_hash="")


def begun(status: BundleStatus = BEFORE) -> BundleStatus:
    status = preview_record.request_preview(status, REQUEST)
    return plan_record.record_plan(status, PREVIEW, FOUND, "job", NOW)


def test_a_preview_is_recorded_beside_the_plan() -> None:
    status = begun()
    assert status.part(PlanStatus) == PLANNED
    assert status.part(PlanRequests).last_handled_plan == "now"
    assert status.part(PreviewPlan) == PreviewPlan(
        number=1,
        job="job",
        outcome="Running",
        requested_version="1.*",
        version="1.2.0",
        digest="sha256:c",
        values_hash="v",
        started_at=format_time(NOW),
    )
    assert "job" in FEATURE.needed_jobs(status)


def made(*operations: Any, **more: Any) -> PlanResult:
    return PlanResult(Plan(3, operations), more.pop("missing", None), **more)


def test_a_preview_says_what_it_does_for_a_day() -> None:
    running = plan_record.set_message(begun(), PREVIEW, "blocked")
    what = made(CREATE, DELETE, RECREATE, baseline=Plan(2, (RECREATE,)))
    status = preview_record.record_preview_result(running, what, NOW)
    found = status.part(PreviewPlan)
    assert (found.outcome, found.message, found.revision) == ("Planned", None, 3)
    assert (found.operations, found.counts) == (
        3,
        OperationCounts(create=1, delete=1, recreate=1),
    )
    assert (found.risky, found.risky_operations) == ((str(DELETE),), 1)
    end = NOW + timedelta(days=1)
    assert (found.made_at, found.expires_at) == (format_time(NOW), format_time(end))
    assert status.part(PlanStatus) == PLANNED
    assert "job" not in FEATURE.needed_jobs(status)
    assert preview_record.remove_expired_preview(status, end - timedelta(seconds=1)) is status
    assert preview_record.remove_expired_preview(status, end).part(PreviewPlan) == PreviewPlan(
        number=1
    )


@pytest.mark.parametrize(
    ("drawn", "bound"),
    [((), None), (("templates/app.yaml, line 3: lookup",), False)],
    ids=["nothing known", "the templates say so"],
)
def test_one_render_tells_that_a_deploy_would_be_unbound_but_never_that_it_would_be_bound(
    drawn: tuple[str, ...], bound: bool | None
) -> None:
    plan = Plan(3, (CREATE,), "a" * 64, image="werf@sha256:0", drawn=drawn)

    found = preview_record.record_preview_result(begun(), PlanResult(plan, None), NOW).part(
        PreviewPlan
    )

    assert (found.bound, found.unbound) == (bound, drawn)
    assert found.exact is None


def test_one_plan_tells_that_none_is_compared_but_never_that_it_would_be() -> None:
    plan = Plan(3, (CREATE,), "a" * 64, image="werf@sha256:0")
    saved, drawn = replace(plan, exact="1" * 64), replace(plan, inexact=Inexact.DRAWN)
    for one, is_exact in ((saved, None), (drawn, False)):
        found = preview_record.record_preview_result(begun(), PlanResult(one, None), NOW).part(
            PreviewPlan
        )
        assert found.exact is is_exact


def test_what_can_not_be_planned_is_recorded_for_a_day_and_has_no_job() -> None:
    plan = PlanStatus(number=7)  # of a deploy: numbers of previews are their own
    there = begun().with_part(plan)
    asked = preview_record.request_preview(there, replace(REQUEST, version="x" * 300))
    status = preview_record.refuse_preview(asked, PlanFault("no", "Reason"), Retry(), NOW)
    assert status.part(PreviewPlan) == PreviewPlan(
        number=2,
        outcome="Failed",
        reason="Reason",
        message="no",
        requested_version="x" * 256,
        started_at=format_time(NOW),
        expires_at=format_time(NOW + timedelta(days=1)),
    )
    assert status.part(PlanRequests).last_handled_plan == "now"


def preview_fails(status: BundleStatus) -> BundleStatus:
    return plan_record.record_failure(status, PREVIEW, PlanFault("no"), Retry(), NOW)


def test_a_failed_preview_keeps_what_it_is_of() -> None:
    failed = preview_fails(begun()).part(PreviewPlan)
    assert (failed.job, failed.version, failed.outcome) == ("job", "1.2.0", "Failed")


def test_numbers_are_never_used_again() -> None:
    failed = preview_fails(begun())
    ended = preview_record.remove_expired_preview(failed, NOW + timedelta(days=2))
    assert begun(ended).part(PreviewPlan).number == 2


def test_an_equal_message_is_no_change() -> None:
    status = plan_record.set_message(begun(), PREVIEW, "blocked")
    assert status.part(PreviewPlan).message == "blocked"
    assert plan_record.set_message(status, PREVIEW, "blocked") is status
    assert plan_record.set_message(status, PREVIEW, None).part(PreviewPlan).message is None
