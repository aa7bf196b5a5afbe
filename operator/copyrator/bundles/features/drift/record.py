"""Drift: when a release is checked, what has drifted, its correction and the condition. Pure.

A Bundle's checks have a rhythm that follows from its uid, so no time has to be stored. The plan is
of exactly what is deployed. Hooks and random values are in each plan, also right after a deploy; so
it is compared with the plan that was made then, the baseline.

A correction deploys again exactly what is deployed, and its Job continues only if it plans nothing
beyond what the check found, and renders the same. It needs no approval where it writes what was
approved: where the render has the hash of the baseline, which is bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time, parse_time
from copyrator.api.verify import Trust, Verification
from copyrator.bundles.engine.poll import Rhythm
from copyrator.bundles.features.drift.fields import (
    MAX_DRIFTED,
    DriftCheck,
    DriftMode,
    DriftSpec,
    DriftStatus,
    DriftVerdict,
)
from copyrator.bundles.features.drift.reasons import DriftReason
from copyrator.bundles.jobs.pod import JobKind, Kept
from copyrator.bundles.plans.fields import (
    ApprovalMode,
    ApprovalSpec,
    Baseline,
    PlanOutcome,
    PlanStatus,
)
from copyrator.bundles.plans.operations import Operation, OperationType, read_operation
from copyrator.bundles.plans.record import (
    NewPlan,
    PlanPurpose,
    PlanResult,
    content_of,
    id_of,
    with_record,
)

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


class CheckPurpose(PlanPurpose):
    """To find drift: it is a plan of what is deployed."""

    job_kind = JobKind.DRIFT
    gives_way = True

    def record(self, status: BundleStatus) -> DriftCheck:
        """``status.drift.check``."""
        return status.part(DriftStatus).check

    def store(self, status: BundleStatus, record: DriftCheck) -> BundleStatus:
        """The status with this check."""
        return status.with_part(structs.replace(status.part(DriftStatus), check=record))

    def begin(self, new: NewPlan) -> DriftCheck:
        """A check of the present spec."""
        return DriftCheck(**new.compared)


CHECK: Final = CheckPurpose()


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why what is deployed can't be compared now."""

    reason: Reason
    message: str


def needs_baseline(spec: BundleSpec) -> bool:
    """Whether a plan of what is deployed is made after each deploy, as the baseline."""
    return spec.uses(DriftSpec) or spec.part(ApprovalSpec).mode is ApprovalMode.ON_RISK


def has_baseline(status: BundleStatus) -> bool:
    """Whether the baseline was made of what is deployed now."""
    return status.deployed.digest is not None and (
        content_of(status.part(Baseline)) == content_of(status.deployed)
    )


def find_hindrance(
    status: BundleStatus, spec: BundleSpec, spec_hash: str, values_hash: str | None
) -> Hindrance | None:
    """Why the deployed digest can't be planned with these values; None where it can be."""
    there, attempted = status.deployed, status.attempted
    if spec.suspend:
        return Hindrance(BundleReason.SUSPENDED, "nothing is compared while spec.suspend is true")
    if there.digest is None:
        text = "nothing is deployed yet"
    elif attempted.outcome not in (None, Outcome.SUCCEEDED) and not status.attempted.is_broken_off:
        text = f"the deploy of {attempted.version} hasn't succeeded"
    elif there.spec_hash != spec_hash or there.reference != spec.reference:
        text = "the spec isn't the one that was deployed"
    elif there.values_hash != values_hash:
        text = "the values aren't the ones that were deployed"
    else:
        return None
    return Hindrance(DriftReason.NOT_AS_DEPLOYED, text)


def due_at(status: BundleStatus, spec: BundleSpec, spec_hash: str, uid: str) -> datetime | None:
    """When the next check is due if the values don't change; AT_ONCE: now.

    None while a check is running, and where none is needed or possible.
    """
    is_running = status.part(DriftStatus).check.outcome == PlanOutcome.RUNNING
    if is_running or not needs_baseline(spec):
        return None
    if find_hindrance(status, spec, spec_hash, status.deployed.values_hash) is not None:
        return None
    if not has_baseline(status):
        return _baseline_due(status, spec, uid)
    return _check_due(status, spec, uid) if spec.uses(DriftSpec) else None


def check_rhythm(uid: str, interval: float) -> Rhythm:
    """The rhythm of a Bundle's checks for drift.

    In whole seconds, as in a status, so that no check is due again in the second of its beginning.
    """
    period = max(int(interval), 1)
    return Rhythm(period, int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8]) % period)


def _baseline_due(status: BundleStatus, spec: BundleSpec, uid: str) -> datetime:
    """When the baseline is made: at once, with retries within PROVEN_WITHIN, then regularly."""
    check = status.part(DriftStatus).check
    began = parse_time(check.started_at)
    has_failed = check.outcome == PlanOutcome.FAILED
    if began is None or not has_failed or content_of(check) != content_of(status.deployed):
        return AT_ONCE
    there = parse_time(status.deployed.time) or began
    passed = max((began - there).total_seconds(), spec.retry.backoff)
    again = began + timedelta(seconds=passed)
    regular = check_rhythm(uid, spec.part(DriftSpec).interval).after(began)
    return min(again, regular) if again < there + PROVEN_WITHIN else regular


def _check_due(status: BundleStatus, spec: BundleSpec, uid: str) -> datetime:
    drift = status.part(DriftStatus)
    times = (drift.check.started_at, drift.checked_at, status.part(Baseline).made_at)
    known = [time for time in map(parse_time, times) if time is not None]
    if not known:
        return AT_ONCE
    regular = check_rhythm(uid, spec.part(DriftSpec).interval).after(max(known))
    attempted = status.attempted
    if drift.verdict != DriftVerdict.DRIFTED or drift.attempt == attempted.attempt:
        return regular
    if not status.attempted.is_broken_off:
        return AT_ONCE  # after a correction
    again = parse_time(attempted.next_retry_at)
    if again is None or (attempted.interruptions or 0) > spec.retry.limit:
        return regular
    return min(again, regular)


def is_regular_check(status: BundleStatus, spec: BundleSpec, uid: str, began: str | None) -> bool:
    """Whether a check that began then was a scheduled one, not the one right after a correction.

    It was if one of the Bundle's check times has passed since the last attempt.
    """
    then, ended = parse_time(began), parse_time(status.attempted.finished_at)
    if then is None or ended is None:
        return True
    return check_rhythm(uid, spec.part(DriftSpec).interval).count(ended, then) > 0


_HOOK_TYPES: Final = {
    OperationType.CREATE: OperationType.RECREATE,
    OperationType.RECREATE: OperationType.CREATE,
}
"""A hook's object is created where it was deleted after its run, else recreated."""


@dataclass(frozen=True, slots=True)
class DriftFindings:
    """The operations that a check found, without those of the baseline and ignored ones."""

    drifted: tuple[Operation, ...] = ()
    unseen: tuple[Operation, ...] = ()
    """Blind applies: their dry runs were refused, so what they would change isn't known."""


def compare_with_baseline(
    operations: Iterable[Operation], baseline: Collection[Operation], drift: DriftSpec
) -> DriftFindings:
    """Compare a plan of what is deployed with the baseline.

    Args:
        operations: the plan's ``effects``.
        baseline: those of the plan made right after the deploy.
        drift: names the objects that are ignored.
    """
    usual = set(baseline)
    usual |= {
        replace(one, type=_HOOK_TYPES[one.type]) for one in baseline if one.type in _HOOK_TYPES
    }
    new = [one for one in operations if one not in usual and not is_ignored(one, drift)]
    return DriftFindings(
        tuple(one for one in new if one.type is not OperationType.APPLY),
        tuple(one for one in new if one.type is OperationType.APPLY),
    )


def is_ignored(operation: Operation, drift: DriftSpec) -> bool:
    """Whether ``spec.drift.ignore`` names the operation's object."""
    return any(
        one.kind == operation.kind and one.names.matches(operation.name) for one in drift.ignore
    )


def object_of(text: str) -> str:
    """The object of an operation's text, ``NAMESPACE:GROUP:KIND:NAME``."""
    return text.partition(" ")[2]


def break_off_check(status: BundleStatus) -> BundleStatus:
    """The status without the running check; another one begins when it is due."""
    check = status.part(DriftStatus).check
    if check.outcome != PlanOutcome.RUNNING:
        return status
    return status.with_part(
        structs.replace(status.part(DriftStatus), check=DriftCheck(number=check.number))
    )


def switch_off_drift(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status without drift and baseline, where the spec doesn't require them any more."""
    drift = status.part(DriftStatus)
    if not needs_baseline(spec):
        drift = DriftStatus(check=DriftCheck(number=drift.check.number))
        return status.with_part(drift).with_part(Baseline())
    if not spec.uses(DriftSpec):
        return status.with_part(DriftStatus(check=drift.check))
    return status


def set_unknown(status: BundleStatus, reason: str, message: str) -> BundleStatus:
    """The status where the last check couldn't determine whether something drifted."""
    drift = structs.replace(
        status.part(DriftStatus),
        verdict=DriftVerdict.UNKNOWN,
        reason=reason,
        message=message,
        objects=(),
        count=None,
        found_job=None,
        differs=None,
    )
    return status.with_part(drift)


def record_check_result(
    status: BundleStatus, found: PlanResult, now: datetime, *, bound: bool
) -> BundleStatus:
    """The status with the plan of the check that has ended.

    ``bound``: whether a deploy can't write anything else than was planned.
    """
    check, plan, operations = status.part(DriftStatus).check, found.plan, found.operations
    return with_record(
        status,
        CHECK,
        outcome=PlanOutcome.PLANNED,
        reason=None,
        message=None,
        made_at=format_time(now),
        id=id_of(check, replace(plan, exact=None), operations),
        revision=plan.revision,
        operations=len(operations),
        bound=bound,
        image=plan.image,
        seal=found.seal,
    )


def set_baseline(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status with the ended check as the baseline."""
    check, there = status.part(DriftStatus).check, parse_time(status.deployed.time)
    began = parse_time(check.started_at) or now
    unproven = there is None or began - there > PROVEN_WITHIN
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
    return status.with_part(baseline).with_part(drift)


def record_verdict(
    status: BundleStatus,
    found: DriftFindings,
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
    before, stamp = status.part(DriftStatus), format_time(now)
    objects = tuple(map(str, found.drifted))
    drift = structs.replace(
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
        drift = structs.replace(drift, corrections=None, corrected=())
    status = status.with_part(drift)
    if found.unseen and not objects:
        number = len(found.unseen) - 1
        more = f" and {number} more" if number else ""
        text = (
            f"{found.unseen[0]}{more} can't be compared: their dry runs were refused, unlike right "
            "after the deploy. The Job's log says why; check the permissions of its service account"
        )
        return set_unknown(status, DriftReason.BLIND_APPLY, text)
    return status


def is_same(drift: DriftStatus, objects: Sequence[str]) -> bool:
    """Whether something that was corrected has drifted again.

    Objects beyond those that are listed are unknown, so they count as the same.
    """
    if len(drift.corrected) >= MAX_DRIFTED or len(objects) > MAX_DRIFTED:
        return bool(drift.corrected and objects)
    return not {object_of(one) for one in drift.corrected}.isdisjoint(map(object_of, objects))


def set_hindrance(status: BundleStatus, why: Hindrance | None) -> BundleStatus:
    """The status with the reason why no check is made now; None removes it.

    The last verdict is kept.
    """
    drift = status.part(DriftStatus)
    if why is None:
        if drift.reason in HINDRANCES:
            drift = structs.replace(drift, reason=None, message=None)
    else:
        drift = structs.replace(drift, reason=why.reason, message=why.message)
    return status.with_part(drift)


def record_mode(
    status: BundleStatus, spec: BundleSpec, spec_hash: str, values_hash: str | None
) -> BundleStatus:
    """The status with whether checks for drift are on, and what prevents them now."""
    status = switch_off_drift(status, spec)
    if not spec.uses(DriftSpec):
        return status
    why = find_hindrance(status, spec, spec_hash, values_hash)
    return set_hindrance(remove_ignored(status, spec), why)


def remove_ignored(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status without drifted objects that ``spec.drift.ignore`` names now."""
    drift = status.part(DriftStatus)
    if not drift.objects or (drift.count or 0) > len(drift.objects):
        return status  # the list isn't complete: the next check decides
    known = [(one, read_operation(one)) for one in drift.objects]
    kept = tuple(
        text for text, one in known if one is None or not is_ignored(one, spec.part(DriftSpec))
    )
    if len(kept) == len(drift.objects):
        return status
    drift = structs.replace(drift, objects=kept, count=len(kept) or None)
    if not kept:
        drift = structs.replace(
            drift, verdict=DriftVerdict.NOT_DRIFTED, since=None, found_job=None, differs=None
        )
    return status.with_part(drift)


def is_judged_by(status: BundleStatus, attempt: int | None) -> bool:
    """Whether the plan in ``status.plan`` counts as a check: it is of exactly what is deployed.

    Args:
        status: with the plan.
        attempt: the number of the newest attempt when it began.
    """
    plan = status.part(PlanStatus)
    return (
        plan.outcome == PlanOutcome.PLANNED
        and has_baseline(status)
        and content_of(plan) == content_of(status.deployed)
        and attempt == status.attempted.attempt
    )


def keep_check(job: str, status: BundleStatus) -> Kept | None:
    """How long a check's Job is kept after its end.

    It must not be deleted while it isn't read yet; or it found drift, until the next one is read.
    None: of a Job that neither is.
    """
    drift = status.part(DriftStatus)
    is_awaited = job == drift.check.job and drift.check.is_running
    return Kept(None) if is_awaited or job == drift.found_job else None


MOST_CORRECTIONS: Final = 2
"""Corrections of the same drift; then something else changes the objects each time."""


def find_plan(status: BundleStatus, job: str | None) -> PlanStatus | DriftCheck | None:
    """The plan in the status that this Job made; None where it isn't there any more."""
    found = (
        one
        for one in (status.part(PlanStatus), status.part(DriftStatus).check)
        if one.job == job is not None
    )
    plan = next(found, None)
    return plan if plan is not None and plan.outcome == PlanOutcome.PLANNED else None


def is_recurring(status: BundleStatus) -> bool:
    """Whether the same drift was found after MOST_CORRECTIONS corrections, so that no more is made.

    False until the check after the last correction has ended.
    """
    drift = status.part(DriftStatus)
    return (
        drift.verdict == DriftVerdict.DRIFTED
        and drift.attempt == status.attempted.attempt
        and (drift.corrections or 0) >= MOST_CORRECTIONS
        and is_same(drift, drift.objects)
    )


def is_correction_due(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether what the last check found is to be corrected now.

    Not where an attempt began since, which may have changed it, or the signature isn't trusted.
    """
    drift = status.part(DriftStatus)
    plan = find_plan(status, drift.found_job)
    return (
        spec.part(DriftSpec).mode is DriftMode.CORRECT
        and drift.verdict == DriftVerdict.DRIFTED
        and drift.reason is None
        and drift.check.outcome != PlanOutcome.RUNNING
        and drift.attempt == status.attempted.attempt
        and has_baseline(status)
        and plan is not None
        and plan.seal is not None
        and not is_recurring(status)
        and status.part(Verification).verdict in (None, Trust.TRUSTED)
    )


def correctable_job(status: BundleStatus, spec: BundleSpec) -> str | None:
    """The Job that found the drift that is to be corrected."""
    return status.part(DriftStatus).found_job if is_correction_due(status, spec) else None


def needs_approval(status: BundleStatus, spec: BundleSpec) -> bool:
    """Whether the correction is planned and approved as a deploy is.

    With an approval or a floor a correction by itself only puts back what was deployed.
    """
    if spec.part(DriftSpec).mode is not DriftMode.CORRECT or not spec.uses(ApprovalSpec):
        return False
    return bool(status.part(DriftStatus).differs) or not status.part(Baseline).bound


def record_correction(status: BundleStatus, spec: BundleSpec) -> BundleStatus:
    """The status whose new attempt corrects what was found.

    It deploys the plan that was approved, where one is needed: a later check may have found more.
    """
    found = find_plan(status, status.part(DriftStatus).found_job)
    plan = status.part(PlanStatus) if needs_approval(status, spec) else found
    assert plan is not None, "is_due"
    attempted = structs.replace(
        status.attempted,
        plan=plan.id,
        plan_job=plan.job,
        approved_by=plan.by if isinstance(plan, PlanStatus) else None,
        correction=True,
    )
    return structs.replace(status, attempted=attempted)


def record_corrected(status: BundleStatus) -> BundleStatus:
    """The status where the attempt that has ended corrected what was found."""
    drift = status.part(DriftStatus)
    again = tuple(dict.fromkeys((*drift.corrected, *drift.objects)))[:MAX_DRIFTED]
    drift = structs.replace(drift, corrections=(drift.corrections or 0) + 1, corrected=again)
    return status.with_part(drift)


_NAMED: Final = 5
"""Objects that a message names."""


def drifted_condition(status: BundleStatus, spec: BundleSpec) -> FurtherCondition | None:
    """The condition; None without ``spec.drift``."""
    drift = status.part(DriftStatus)
    if not spec.uses(DriftSpec):
        return None
    if drift.reason is not None:
        return FurtherCondition(
            ConditionStatus.UNKNOWN, DriftReason.read(drift.reason), drift.message or ""
        )
    if not has_baseline(status) or drift.verdict is None:
        text = "what is deployed hasn't been compared yet"
        return FurtherCondition(ConditionStatus.UNKNOWN, DriftReason.UNCHECKED, text)
    if drift.verdict == DriftVerdict.DRIFTED:
        return _true_condition(status, spec)
    if drift.verdict != DriftVerdict.NOT_DRIFTED:
        text = drift.message or "the last check had no result"
        return FurtherCondition(ConditionStatus.UNKNOWN, DriftReason.UNCHECKED, text)
    text = "the objects of the release are as they were deployed"
    baseline = status.part(Baseline)
    if baseline.unproven:
        text = (
            f"nothing has drifted since {baseline.made_at}; what had drifted before isn't "
            "seen, as the deploy was checked later than 15 minutes after its end"
        )
    return FurtherCondition(ConditionStatus.FALSE, DriftReason.IN_SYNC, text)


def _true_condition(status: BundleStatus, spec: BundleSpec) -> FurtherCondition:
    reason: Reason = DriftReason.DRIFTED
    text = f"{drifted_objects(status)} {has_or_have(status)} drifted"
    if spec.part(DriftSpec).mode is DriftMode.CORRECT and is_recurring(status):
        reason = DriftReason.DRIFT_RECURRING
        text += (
            f" again after {MOST_CORRECTIONS} corrections, so something else changes the "
            "same objects each time: find it, or name them in spec.drift.ignore"
        )
    elif needs_approval(status, spec):
        reason = DriftReason.RENDERED_DIFFERENTLY
        text += (
            ", and the chart may render differently now than when it was deployed: a deploy that "
            "corrects it is planned, and waits for approval"
        )
    elif spec.part(DriftSpec).mode is DriftMode.DETECT:
        command = f"copyrator reconcile bundle -n {spec.namespace} {spec.name} --force"
        text += f"; to restore what was deployed: {command}"
    return FurtherCondition(ConditionStatus.TRUE, reason, text)


def has_or_have(status: BundleStatus) -> str:
    """The verb for ``objects``: has or have."""
    return "has" if status.part(DriftStatus).count == 1 else "have"


def drifted_objects(status: BundleStatus) -> str:
    """The first drifted objects, and how many more there are."""
    drift = status.part(DriftStatus)
    named = drift.objects[:_NAMED]
    more = (drift.count or len(drift.objects)) - len(named)
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")
