"""Drift in the status, from the beginning of a check to what it found. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.drift_status import (
    MAX_DRIFTED,
    DriftCheck,
    DriftReason,
    DriftStatus,
    DriftVerdict,
)
from copyrator.api.plan_status import Baseline, PlanOutcome
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.policy.drift import due as drift_due
from copyrator.bundles.policy.drift.findings import Findings, is_ignored, object_of
from copyrator.bundles.policy.gates import Target
from copyrator.bundles.policy.plans.due import content_of
from copyrator.bundles.policy.plans.operations import (
    Operation,
    Plan,
    effects,
    plan_id,
    read_operation,
)


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """The plan that the Job of a check made."""

    plan: Plan
    missing_namespace: str | None
    """The name of the release's namespace where it doesn't exist, else None."""
    bound: bool = False
    """Whether a deploy can't write anything else than was planned."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of a deploy."""
        return effects(self.plan, self.missing_namespace)


def next_number(status: BundleStatus) -> int:
    """The number of the next check."""
    return (status.drift.check.number or 0) + 1


def begun(status: BundleStatus, target: Target, job: str, now: datetime) -> BundleStatus:
    """The status with a new check recorded; its Job is created afterwards."""
    check = DriftCheck(
        job=job,
        number=next_number(status),
        outcome=PlanOutcome.RUNNING,
        version=target.version,
        digest=target.digest,
        values_hash=target.values_hash,
        spec_hash=target.spec_hash,
        job_hash=target.job_hash,
        attempt=status.attempted.attempt,
        started_at=format_time(now),
    )
    return replace(status, drift=replace(status.drift, check=check))


def with_message(status: BundleStatus, message: str | None) -> BundleStatus:
    """The status with the message why the check's Job makes no progress; None removes it."""
    check = replace(status.drift.check, message=message)
    return replace(status, drift=replace(status.drift, check=check))


def broken_off(status: BundleStatus) -> BundleStatus:
    """The status without the running check; another one begins when it is due."""
    check = status.drift.check
    if check.outcome != PlanOutcome.RUNNING:
        return status
    return replace(status, drift=replace(status.drift, check=DriftCheck(number=check.number)))


def switched_off(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status without drift and baseline, where the spec doesn't require them any more."""
    drift = status.drift
    if not drift_due.needs_baseline(spec):
        drift = DriftStatus(check=DriftCheck(number=drift.check.number))
        return replace(status, drift=drift, baseline=Baseline())
    if not spec.drift.is_enabled:
        return replace(status, drift=DriftStatus(check=drift.check))
    return status


def failed(status: BundleStatus, reason: str, message: str) -> BundleStatus:
    """The status where a check had no result; the next one is at the next check time."""
    check = replace(status.drift.check, outcome=PlanOutcome.FAILED, reason=reason, message=message)
    return unknown(replace(status, drift=replace(status.drift, check=check)), reason, message)


def unknown(status: BundleStatus, reason: str, message: str) -> BundleStatus:
    """The status where the last check couldn't determine whether something drifted."""
    drift = replace(
        status.drift,
        verdict=DriftVerdict.UNKNOWN,
        reason=reason,
        message=message,
        objects=(),
        count=None,
        found_job=None,
        differs=None,
    )
    return replace(status, drift=drift)


def made(status: BundleStatus, found: CheckedPlan, seal: str | None, now: datetime) -> BundleStatus:
    """The status with the plan of the check that has ended."""
    check = status.drift.check
    operations = found.operations
    check = replace(
        check,
        outcome=PlanOutcome.PLANNED,
        reason=None,
        message=None,
        made_at=format_time(now),
        id=plan_id(
            digest=check.digest or "",
            values_hash=check.values_hash,
            job={"hash": check.job_hash},
            revision=found.plan.revision,
            operations=operations,
            render=found.plan.render,
        ),
        revision=found.plan.revision,
        operations=len(operations),
        bound=found.bound,
        image=found.plan.image,
        seal=seal,
    )
    return replace(status, drift=replace(status.drift, check=check))


def based(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status with the ended check as the baseline."""
    check, there = status.drift.check, parse_time(status.deployed.time)
    began = parse_time(check.started_at) or now
    unproven = there is None or began - there > drift_due.PROVEN_WITHIN
    baseline = Baseline(
        digest=check.digest,
        values_hash=check.values_hash,
        spec_hash=check.spec_hash,
        job=check.job,
        seal=check.seal,
        made_at=format_time(now),
        bound=check.bound,
        unproven=unproven or None,
    )
    drift = DriftStatus(
        check=check,
        checked_at=format_time(now),
        verdict=DriftVerdict.NOT_DRIFTED,
        attempt=status.attempted.attempt,
    )
    return replace(status, baseline=baseline, drift=drift)


def judged(
    status: BundleStatus,
    found: Findings,
    job: str,
    now: datetime,
    *,
    is_regular: bool,
    differs: bool = False,
) -> BundleStatus:
    """The status with the verdict on a plan of what is deployed.

    Args:
        status: with the baseline that the plan was compared with.
        found: the operations beyond the baseline.
        job: the name of the Job that made the plan.
        now: becomes the time of the check.
        is_regular: whether it was a scheduled check, not the one right after a correction.
        differs: whether a correction may write something else than was deployed.
    """
    before, stamp = status.drift, format_time(now)
    objects = tuple(str(one) for one in found.drifted)
    drift = replace(
        before,
        checked_at=stamp,
        verdict=DriftVerdict.DRIFTED if objects else DriftVerdict.NOT_DRIFTED,
        attempt=status.attempted.attempt,
        reason=None,
        message=None,
        objects=objects[:MAX_DRIFTED],
        count=len(objects) or None,
        since=(before.since or stamp) if objects else None,
        found_job=job if objects else None,
        differs=(differs and bool(objects)) or None,
    )
    if is_regular and not is_same(before, objects):
        drift = replace(drift, corrections=None, corrected=())
    status = replace(status, drift=drift)
    if found.unseen and not objects:
        return unknown(status, DriftReason.BLIND_APPLY, _blind(found.unseen))
    return status


def _blind(unseen: Sequence[Operation]) -> str:
    more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
    return (
        f"{unseen[0]}{more} can't be compared: their dry runs were refused, unlike right after "
        "the deploy. The Job's log says why; check the permissions of its service account"
    )


def is_same(drift: DriftStatus, objects: Sequence[str]) -> bool:
    """Whether something that was corrected has drifted again.

    Objects beyond those that are listed are unknown, so they count as the same.
    """
    if len(drift.corrected) >= MAX_DRIFTED or len(objects) > MAX_DRIFTED:
        return bool(drift.corrected and objects)
    return not {object_of(one) for one in drift.corrected}.isdisjoint(map(object_of, objects))


def noted(status: BundleStatus, why: drift_due.NotComparable | None) -> BundleStatus:
    """The status with the reason why no check is made now; None removes it.

    The last verdict is kept.
    """
    drift = status.drift
    if why is None:
        if drift.reason in drift_due.HINDRANCES:
            drift = replace(drift, reason=None, message=None)
    else:
        drift = replace(drift, reason=why.reason, message=why.message)
    return replace(status, drift=drift)


def without_ignored(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status without drifted objects that ``spec.drift.ignore`` names now."""
    drift = status.drift
    if not drift.objects or (drift.count or 0) > len(drift.objects):
        return status  # the list isn't complete: the next check decides
    kept = tuple(one for one in drift.objects if not _ignored(one, spec))
    if len(kept) == len(drift.objects):
        return status
    drift = replace(drift, objects=kept, count=len(kept) or None)
    if not kept:
        drift = replace(
            drift, verdict=DriftVerdict.NOT_DRIFTED, since=None, found_job=None, differs=None
        )
    return replace(status, drift=drift)


def _ignored(text: str, spec: BundleSpec) -> bool:
    operation = read_operation(text)
    return operation is not None and is_ignored(operation, spec.drift)


def is_judged_by(status: BundleStatus, attempt: int | None) -> bool:
    """Whether the plan in ``status.plan`` counts as a check: it is of exactly what is deployed.

    Args:
        status: with the plan.
        attempt: the number of the newest attempt when it began.
    """
    plan = status.plan
    return (
        plan.outcome == PlanOutcome.PLANNED
        and drift_due.has_baseline(status)
        and content_of(plan) == content_of(status.deployed)
        and attempt == status.attempted.attempt
    )
