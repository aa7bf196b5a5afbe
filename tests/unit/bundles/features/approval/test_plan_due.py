"""When a plan is made, and for which version."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import (
    DEPLOYED,
    LATER,
    MADE_OF,
    NOW,
    PLANNED,
    TARGET,
    spec,
    with_plan,
)

from copyrator.api.bundle_status import Attempted, BundleStatus
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import (
    Candidate,
    Facts,
    Findings,
    Occasion,
    judge,
    next_verdict_change,
    record_verdicts,
)
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.drift.fields import DriftCheck, DriftStatus
from copyrator.bundles.features.drift.record import keep_check
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.features.previews.record import keep_preview
from copyrator.bundles.features.rollback.fields import PinStatus, RollbackSpec
from copyrator.bundles.jobs.pod import Kept
from copyrator.bundles.plans.fields import ApprovalMode, PlanStatus

THIS, OTHER = (PinStatus(version="1", digest=f"sha256:{one}") for one in "bx")


@pytest.mark.parametrize(
    ("status", "wanted"),
    [
        (BundleStatus(), True),
        (with_plan(), False),
        (with_plan(outcome="Running"), False),
        *[(with_plan(**{name: "other"}), True) for name in MADE_OF],
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), True),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-0")), False),
        (with_plan(outcome="Failed"), False),
        (with_plan(outcome="Failed", next_retry_at=format_time(NOW)), True),
        (with_plan(outcome="Failed", next_retry_at=format_time(LATER)), False),
        (with_plan(expires_at=format_time(NOW)), True),
        (with_plan(expires_at=format_time(NOW), decision="Approved"), False),
        (with_plan(expires_at=format_time(NOW), decision="Rejected"), False),
    ],
)
def test_a_plan_is_made_once_for_what_it_is_made_of(status: BundleStatus, wanted: bool) -> None:
    assert deploy_record.must_plan(status, TARGET, NOW) is wanted


@pytest.mark.parametrize(
    ("status", "found", "version"),
    [
        (with_plan(), "1.2", "1.1"),
        (with_plan(outcome="Running"), "1.2", "1.1"),
        (with_plan(decision="Approved", expires_at=format_time(NOW)), "1.2", "1.1"),
        (with_plan(), "1.1", None),
        (with_plan(outcome="Failed"), "1.2", None),
        (with_plan(decision="Rejected"), "1.2", None),
        (with_plan(expires_at=format_time(NOW)), "1.2", None),
        (with_plan(values_hash="old"), "1.2", None),
        (with_plan(spec_hash="old"), "1.2", None),
        (with_plan(version="2.0"), "1.2", None),
        (with_plan(), "1.0.9", None),  # the registry has 1.1 no longer
        (replace(with_plan(), deployed=DEPLOYED), "1.2", None),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), "1.2", None),
        (BundleStatus(), "1.2", None),
    ],
)
def test_a_newer_version_waits_for_the_decision_about_the_plan(
    status: BundleStatus, found: str, version: str | None
) -> None:
    candidate = Candidate(found, "sha256:b" if found == "1.1" else "sha256:c")
    target = replace(TARGET, version=found, digest=candidate.digest)
    kept = deploy_record.kept_candidate(status, spec(), candidate, target, NOW)
    assert (kept and kept.version) == version


def test_a_digest_that_is_to_be_skipped_waits_for_no_decision() -> None:
    candidate, target = Candidate("1.2", "sha256:c"), replace(TARGET, digest="sha256:c")
    for digest, waits in (("sha256:b", False), ("sha256:c", True)):
        skips = spec(ApprovalMode.ALWAYS, RollbackSpec((digest,)))
        kept = deploy_record.kept_candidate(with_plan(), skips, candidate, target, NOW)
        assert (kept is not None) is waits


@pytest.mark.parametrize("tag", ["latest", "stable"])
def test_the_older_digest_of_a_tag_waits_as_long_as_the_spec_names_the_tag(tag: str) -> None:
    status = with_plan(version="latest")
    candidate = Candidate(tag, "sha256:c")
    target = replace(TARGET, version=tag, digest="sha256:c")
    kept = deploy_record.kept_candidate(status, spec(version=tag), candidate, target, NOW)
    assert (kept is not None) is (tag == "latest")


@pytest.mark.parametrize(
    ("status", "waits"),
    [
        (with_plan(), True),
        (with_plan(outcome="Running"), True),
        (with_plan(outcome="Failed"), False),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-0")), True),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), False),
        (with_plan().with_part(OTHER), False),
        (with_plan().with_part(THIS), True),
        (with_plan(pinned=True).with_part(THIS), True),
        (with_plan(pinned=True), False),
        (BundleStatus(), False),
    ],
)
def test_a_plan_is_awaited_until_its_deploy_begins(status: BundleStatus, waits: bool) -> None:
    assert deploy_record.awaited_plan(status) == (
        status.part(PlanStatus) if waits else PlanStatus()
    )
    candidate, target = Candidate("1.2", "sha256:c"), replace(TARGET, digest="sha256:c")
    kept = deploy_record.kept_candidate(status, spec(), candidate, target, NOW)
    assert (kept is not None) is waits


@pytest.mark.parametrize(
    ("status", "skipped", "ends"),
    [
        (with_plan(), (), False),
        (with_plan(), ("sha256:c",), False),
        (with_plan(), ("sha256:b",), True),
        (with_plan(outcome="Running"), ("sha256:b",), True),
        (with_plan(outcome="Failed"), ("sha256:b",), False),
        (with_plan(job=None), ("sha256:b",), False),
        (replace(with_plan(), attempted=Attempted(plan_job="shop-plan-1")), ("sha256:b",), False),
        (with_plan().with_part(OTHER), (), True),
        (with_plan().with_part(THIS), (), False),
        (with_plan(pinned=True), (), True),
        (BundleStatus(), ("sha256:b",), False),
    ],
)
def test_a_plan_ends_with_its_approval_when_its_version_is_skipped_or_left(
    status: BundleStatus, skipped: tuple[str, ...], ends: bool
) -> None:
    found = deploy_record.withdraw_plan(status, skipped)
    if not ends:
        assert found is status
        return
    assert found.part(PlanStatus).job is None
    assert found.part(PlanStatus).number == 1
    assert found.part(PlanStatus).rejections == 1, "the next plan has another ID"
    again = status.with_part(replace(status.part(PlanStatus), rejections=4))
    assert deploy_record.withdraw_plan(again, skipped).part(PlanStatus).rejections == 5


def test_a_failed_plan_is_made_again_when_the_verdict_of_the_gate_changes() -> None:
    failed = with_plan(outcome="Failed", next_retry_at=format_time(LATER))
    facts = Facts(failed, Occasion.NEW_DIGEST, findings=Findings((TARGET,)))
    candidate = Candidate(TARGET.version, TARGET.digest)
    judged = judge([approval.GATE], spec(), candidate, facts, NOW)
    assert next_verdict_change(record_verdicts(judged)) == LATER
    assert not deploy_record.must_plan(failed, TARGET, LATER - timedelta(seconds=1))
    assert deploy_record.must_plan(failed, TARGET, LATER)


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
