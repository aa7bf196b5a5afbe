"""The records of plans in the status: when one is made, from its beginning to its result. Pure.

A plan of a deploy is made of a version's digest, the values, the spec and the operator's settings.
It is spent once an attempt has begun with it; the next attempt needs another plan. An approval is
valid until then, and carries over to a retry's plan without further operations
(``operations.covers``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Protocol

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import PASSING, BundleStatus, Outcome
from copyrator.api.names import ANN_PLAN_AT, ANN_PLAN_VERSION
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import count, format_time, parse_time
from copyrator.bundles.engine.gate import Candidate
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.identity import hash_of, job_name
from copyrator.bundles.jobs.pod import LONG_TTL, JobKind, Kept
from copyrator.bundles.jobs.rights import RequiredPermission
from copyrator.bundles.plans.fields import (
    MAX_RISKY,
    MAX_UNBOUND,
    ApprovalSpec,
    ApprovedPlan,
    PlanDecision,
    PlanOutcome,
    PlanRecord,
    PlanRequests,
    PlanStatus,
)
from copyrator.bundles.plans.operations import (
    Operation,
    Plan,
    all_planned,
    count_all,
    covers,
    effects,
    has_further_objects,
    list_risky,
)
from copyrator.bundles.plans.rights import KindIn, missing_of
from copyrator.bundles.tags import admits, is_below

APPROVAL: Final = "approval"
"""The name of the gate that waits for plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTarget:
    """The input of a plan."""

    version: str
    digest: str
    values_hash: str | None
    spec_hash: str
    job_hash: str
    """The hash of all other input of the deploy's Job."""


@dataclass(frozen=True, slots=True)
class NewPlan:
    """What a plan's record is made of."""

    status: BundleStatus
    fields: dict[str, Any]
    """Those of each plan's record."""
    target: PlanTarget
    is_requested: bool
    """Whether a user requests a deploy."""

    @property
    def compared(self) -> dict[str, Any]:
        """Fields of the record of a plan whose result is compared with a deploy."""
        return {
            **self.fields,
            "spec_hash": self.target.spec_hash,
            "job_hash": self.target.job_hash,
            "attempt": self.status.attempted.attempt,
        }


class PlanPurpose(ABC):
    """What a plan is made for: its record in the status, and its Jobs (docs/architecture.md)."""

    job_kind: ClassVar[JobKind] = JobKind.PLAN
    parts: ClassVar[tuple[str, ...]] = ()
    """Of the names of its Jobs, beside the kind."""
    kept: ClassVar[timedelta | None] = None
    """How long a record is kept after its plan's end, whatever that is; None: until the next."""
    gives_way: ClassVar[bool] = False
    """Whether other plans have precedence, and it gets one of half of the slots."""

    def job_of(self, bundle: str, uid: str, number: int) -> str:
        """The name of the Job of a Bundle's plan."""
        return job_name(bundle, self.job_kind, uid, *self.parts, number)

    @abstractmethod
    def record(self, status: BundleStatus) -> PlanRecord:
        """The record of the newest plan."""

    def store(self, status: BundleStatus, record: Any) -> BundleStatus:
        """The status with this record, which is of the same type."""
        return status.with_part(record)

    @abstractmethod
    def begin(self, new: NewPlan) -> PlanRecord:
        """The record of a new plan."""


class DeployPurpose(PlanPurpose):
    """The next deploy, which is compared with it."""

    def record(self, status: BundleStatus) -> PlanStatus:
        """``status.plan``."""
        return status.part(PlanStatus)

    def begin(self, new: NewPlan) -> PlanStatus:
        """An approval may carry over to a plan of the same input until the deploy has succeeded."""
        status, before = new.status, new.status.part(PlanStatus)
        same = is_for(before, new.target)
        failed = same and before.outcome == PlanOutcome.FAILED
        is_open = not is_spent(status) or (not new.is_requested and _is_tried(status))
        return structs.replace(
            before.remove_plan(),
            **new.compared,
            pinned=new.target.digest == status.pin.digest or None,
            failures=before.failures if failed else None,
            interruptions=before.interruptions if failed else None,
            approved=before.approved if same and is_open else ApprovedPlan(),
            missing=missing_of(status),  # until this plan's are known
        )


DEPLOY: Final = DeployPurpose()


def with_record(status: BundleStatus, purpose: PlanPurpose, **fields: Any) -> BundleStatus:
    """The status with these fields of the record changed."""
    return purpose.store(status, structs.replace(purpose.record(status), **fields))


def next_number(status: BundleStatus, purpose: PlanPurpose) -> int:
    """The number of the next plan; it is never used twice in a Bundle's life."""
    return (purpose.record(status).number or 0) + 1


def is_current(status: BundleStatus, target: PlanTarget) -> bool:
    """Whether the plan in the status was made of this input, and no attempt has begun with it."""
    plan = status.part(PlanStatus)
    return plan.outcome is not None and is_for(plan, target) and not is_spent(status)


def is_spent(status: BundleStatus) -> bool:
    """Whether an attempt has begun with the plan."""
    return (
        status.part(PlanStatus).job is not None
        and status.part(PlanStatus).job == status.attempted.plan_job
    )


def is_for(plan: PlanStatus, target: PlanTarget) -> bool:
    """Whether a plan was made of this input."""
    return target == PlanTarget(
        version=plan.version or "",
        digest=plan.digest or "",
        values_hash=plan.values_hash,
        spec_hash=plan.spec_hash or "",
        job_hash=plan.job_hash or "",
    )


def is_free_for(status: BundleStatus, target: PlanTarget) -> bool:
    """Whether the record may be of a plan of this input: no other deploy has a plan there."""
    plan = status.part(PlanStatus)
    return plan.outcome is None or is_spent(status) or is_for(plan, target)


class _Content(Protocol):
    """A record of something that was made of a digest, values and a spec."""

    @property
    def digest(self) -> str | None: ...
    @property
    def values_hash(self) -> str | None: ...
    @property
    def spec_hash(self) -> str | None: ...


class _Input(_Content, Protocol):
    """The same of a plan."""

    @property
    def job_hash(self) -> str | None: ...


def content_of(made_of: _Content) -> tuple[str | None, str | None, str | None]:
    """The input of a deploy or plan except its version's name: digest, values and spec."""
    return made_of.digest, made_of.values_hash, made_of.spec_hash


def must_plan(status: BundleStatus, target: PlanTarget, now: datetime) -> bool:
    """Whether a plan has to be made now, before the deploy can continue."""
    plan = status.part(PlanStatus)
    if not is_current(status, target):
        return True
    if plan.outcome == PlanOutcome.FAILED:
        due = parse_time(plan.next_retry_at)
        return due is not None and now >= due
    return plan.outcome == PlanOutcome.PLANNED and _has_expired(plan, now)


def awaits_approval_since(status: BundleStatus) -> datetime | None:
    """When the plan that waits for a decision was made; None where none does."""
    waits = any(one.reason == BundleReason.AWAITING_APPROVAL for one in status.gates)
    return parse_time(status.part(PlanStatus).made_at) if waits else None


def waits_until(status: BundleStatus, now: datetime) -> datetime | None:
    """When the plan expires; None where it doesn't wait for a decision."""
    plan, end = status.part(PlanStatus), parse_time(status.part(PlanStatus).expires_at)
    is_open = plan.outcome == PlanOutcome.PLANNED and plan.decision is None
    return end if is_open and end and now < end and not is_spent(status) else None


def _has_expired(plan: PlanStatus, now: datetime) -> bool:
    expires = parse_time(plan.expires_at)
    return plan.decision is None and expires is not None and now >= expires


def awaited_plan(status: BundleStatus) -> PlanStatus:
    """The plan of a deploy that hasn't begun; an empty record where there is none."""
    waits = status.part(PlanStatus).outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    is_open = waits and not is_spent(status) and not _is_left_by_pin(status)
    return status.part(PlanStatus) if is_open else PlanStatus()


def _is_left_by_pin(status: BundleStatus) -> bool:
    """Whether the plan is of another version than the pinned one, or of one that was unpinned."""
    plan, pin = status.part(PlanStatus), status.pin
    return plan.digest != pin.digest and bool(pin.digest or plan.pinned)


def kept_candidate(
    status: BundleStatus, spec: BundleSpec, found: Candidate, target: PlanTarget, now: datetime
) -> Candidate | None:
    """The candidate whose plan is kept though ``found`` is newer; None where none is.

    A plan is kept while it is being made, waits or is approved.

    Args:
        status: with the plan.
        spec: must still admit the plan's version.
        found: the registry's version.
        target: the input for ``found``; its values and spec must be those of the plan.
        now: the time; an expired plan isn't kept.
    """
    plan = status.part(PlanStatus)
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED)
    is_over = plan.decision == PlanDecision.REJECTED or is_spent(status)
    if not waits or is_over or _is_left_by_pin(status):
        return None
    same = (plan.values_hash, plan.spec_hash) == (target.values_hash, target.spec_hash)
    if not same or _has_expired(plan, now) or plan.digest == status.deployed.digest:
        return None
    candidate = Candidate(plan.version or "", plan.digest or "")
    if candidate.digest in spec.excluded:
        return None
    if candidate == found or not admits(spec, candidate.version):
        return None
    if is_below(found.version, candidate.version):  # its tag was deleted
        return None
    return candidate


def record_plan(
    status: BundleStatus,
    purpose: PlanPurpose,
    target: PlanTarget,
    job: str,
    now: datetime,
    *,
    is_requested: bool = False,
) -> BundleStatus:
    """The status with a new plan recorded; its Job is created afterwards.

    ``is_requested``: a user requests a deploy, which an approval of an earlier one doesn't cover.
    """
    fields = {
        "job": job,
        "number": next_number(status, purpose),
        "outcome": PlanOutcome.RUNNING,
        "version": target.version,
        "digest": target.digest,
        "values_hash": target.values_hash,
        "started_at": format_time(now),
    }
    new = NewPlan(status, fields, target, is_requested)
    return purpose.store(status, purpose.begin(new))


def _is_tried(status: BundleStatus) -> bool:
    """Whether the last attempt had the plan's input, and didn't succeed."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    return failed and content_of(status.attempted) == content_of(status.part(PlanStatus))


def drop_plan(status: BundleStatus, target: PlanTarget) -> BundleStatus:
    """The status without a plan whose input isn't to be deployed any more.

    A plan that was deployed is kept, and so is one of what is deployed, which a user requested.
    """
    plan = status.part(PlanStatus)
    if plan.outcome is None or is_spent(status) or is_for(plan, target):
        return status
    return status.with_part(plan.remove_plan())


def withdraw_plan(status: BundleStatus, skipped: Collection[str]) -> BundleStatus:
    """The status without the plan of a skipped digest, or of one that a pin or its end has left.

    The next plan has another ID, so that an approval has ended.
    """
    plan = status.part(PlanStatus)
    waits = plan.outcome in (PlanOutcome.RUNNING, PlanOutcome.PLANNED) and not is_spent(status)
    if not waits or not plan.job or (plan.digest not in skipped and not _is_left_by_pin(status)):
        return status
    return status.with_part(
        structs.replace(plan.remove_plan(), rejections=(plan.rejections or 0) + 1)
    )


@dataclass(frozen=True, slots=True)
class PlanFault:
    """Why there is no plan."""

    message: str
    reason: AnyReason = BundleReason.PLAN_FAILED
    denied: tuple[RequiredPermission, ...] = ()
    """The missing permissions because of which werf failed."""
    kinds: tuple[KindIn, ...] = ()
    """Of the chart's objects, where permissions are missing."""


def record_failure(
    status: BundleStatus, purpose: PlanPurpose, why: PlanFault, retry: Retry, now: datetime
) -> BundleStatus:
    """The status where no plan could be made.

    That of a deploy is retried up to the spec's limit; without limit where, for example, another
    cluster doesn't answer.
    """
    fields: dict[str, Any] = {}
    if purpose is DEPLOY:
        is_away, due = why.reason in PASSING, None
        name = "interruptions" if is_away else "failures"
        number = (getattr(status.part(PlanStatus), name) or 0) + 1
        if is_away or number <= retry.limit:
            due = format_time(now + timedelta(seconds=retry_delay(retry.backoff, number)))
        fields = {"interruptions": None, name: number, "next_retry_at": due}
    elif purpose.kept is not None:
        fields = {"expires_at": format_time(now + purpose.kept)}
    fields |= {"outcome": PlanOutcome.FAILED, "reason": why.reason, "message": why.message}
    return with_record(status, purpose, **fields)


def set_message(status: BundleStatus, purpose: PlanPurpose, message: str | None) -> BundleStatus:
    """The status with the message why the plan isn't made yet; None removes it."""
    if message == purpose.record(status).message:
        return status
    return with_record(status, purpose, message=message)


def needed_jobs(status: BundleStatus) -> tuple[str | None, ...]:
    """The names of the Jobs of plans of deploys whose Secrets are still needed."""
    plan = status.part(PlanStatus)
    return plan.approved.job, None if plan.outcome == PlanOutcome.FAILED else plan.job


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan Job."""

    plan: Plan
    missing_namespace: str | None
    """The release's namespace, where it doesn't exist."""
    seal: str | None = None
    """The seal of the Secret with the operations; None for a preview."""
    approved: Plan | None = None
    """The plan that was approved last; None where none was, or it can't be read."""
    baseline: Plan | None = None
    """The plan of the baseline; None likewise."""
    unenforced: str = ""
    """Why the API server can't refuse what isn't approved; empty: it can. Only of a deploy."""
    rollback_withheld: str = ""
    """Why werf doesn't get ``spec.autoRollback``; empty: it does. Likewise."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations of a deploy."""
        return effects(self.plan, self.missing_namespace)


_NO_DIGEST: Final = (
    "the node doesn't report the digest of werf's image in its repository, so another werf may "
    "deploy; name it by digest in spec.werf.image (REPOSITORY@sha256:…)"
)


def unbound_reasons(plan: Plan) -> tuple[str, ...]:
    """Why a deploy may write something else than was planned and shown, as sentences.

    werf renders once more when it applies, so that equal hashes of earlier renders aren't enough.
    """
    found = []
    if plan.render is None:
        found.append("two renders of the chart differed")
    if plan.image is None:
        found.append(_NO_DIGEST)
    found += plan.drawn
    found += (f"{one} is hidden from the diff (werf.io/sensitive)" for one in plan.hidden_names)
    if (more := plan.hidden - len(plan.hidden_names)) > 0:
        are = count(more, "more object is", "more objects are")
        found.append(f"{are} hidden from the diff (werf.io/sensitive)")
    return tuple(found)


_INEXACT: Final = {
    Inexact.WERF: "werf doesn't know --save-plan and --use-plan, as from version 3 on",
    Inexact.ENCRYPTED: "with a secret key (WERF_SECRET_KEY) werf encrypts the plan that it saves, "
    "so that no two are equal",
    Inexact.TOOLS: "werf's image lacks gzip, head, tail or od, which read the plan that werf saves",
    Inexact.DRAWN: "two plans differed: the chart draws, or an object of the release changed "
    "meanwhile",
    Inexact.UNSTABLE: "it differed from the planned one in the last Jobs of the deploy: objects of "
    "the release keep changing, or the chart draws",
}

_UNSTABLE_AFTER: Final = 2
"""Deploys in a row that found another plan; then the file isn't compared any more."""


def without_unstable_file(status: BundleStatus, made_of: _Content, plan: Plan) -> Plan:
    """The plan, without the saved one where that kept differing in the deploys of the same input.

    It holds each object as the cluster has it, its status too: where a controller writes that all
    the time, such as a HorizontalPodAutoscaler's, no deploy would ever find the planned one.
    """
    attempted = status.attempted
    is_changed = attempted.reason == BundleReason.PLAN_CHANGED
    is_unstable = is_changed and (attempted.interruptions or 0) >= _UNSTABLE_AFTER
    if plan.exact is None or not is_unstable or content_of(attempted) != content_of(made_of):
        return plan
    return replace(plan, exact=None, inexact=Inexact.UNSTABLE)


def summarize_result(made: PlanResult) -> tuple[tuple[Operation, ...], dict[str, Any]]:
    """A plan's operations, and the fields of its record that are derived from them."""
    operations = made.operations
    usual = made.baseline.operations if made.baseline else ()
    named = list_risky(all_planned(operations, made.plan.objects), usual)
    unbound = unbound_reasons(made.plan)
    fields = {
        "outcome": PlanOutcome.PLANNED,
        "reason": None,
        "message": None,
        "revision": made.plan.revision,
        "operations": len(operations),
        "counts": count_all(operations, made.plan.objects),
        "risky": named[:MAX_RISKY],
        "risky_operations": len(named),
        "bound": not unbound,
        "unbound": unbound[:MAX_UNBOUND],
        "exact": is_exact(made.plan),
        "inexact": _why_inexact(made.plan),
        "hidden": made.plan.hidden or None,
        "image": made.plan.image,
    }
    return operations, fields


def record_result(
    status: BundleStatus, made: PlanResult, spec: BundleSpec, now: datetime
) -> BundleStatus:
    """The status with a plan that was made; an approval of the same deploy carries over."""
    before = status.part(PlanStatus)
    operations, fields = summarize_result(made)
    plan = structs.replace(
        before,
        **fields,
        failures=None,
        interruptions=None,
        next_retry_at=None,
        made_at=format_time(now),
        expires_at=format_time(now + timedelta(seconds=spec.part(ApprovalSpec).expires)),
        id=_unused_id(id_of(before, made.plan, operations, before.rejections), status),
        seal=made.seal,
        enforced=not made.unenforced,
        unenforced=made.unenforced or None,
        rollback_withheld=made.rollback_withheld or None,
    )
    if not _is_covered(status, made, operations):
        plan = structs.replace(plan, message=_why_uncovered(status, made))
    else:
        given = before.approved
        plan = structs.replace(plan, decision=PlanDecision.APPROVED, by=given.by, at=given.at)
    return status.with_part(plan)


def is_exact(plan: Plan) -> bool | None:
    """Whether the plan that werf saved is compared and applied; None where that isn't known."""
    if plan.exact is None and plan.inexact is None:
        return None
    return _why_inexact(plan) is None


def _why_inexact(plan: Plan) -> str | None:
    if plan.exact is not None and plan.hidden:
        # What is hidden from who approves isn't certain, whatever is applied.
        return "the chart hides contents from the diff (werf.io/sensitive)"
    if plan.exact is not None and plan.image is None:
        return _NO_DIGEST
    return _INEXACT.get(plan.inexact) if plan.inexact is not None else None


def _why_uncovered(status: BundleStatus, made: PlanResult) -> str | None:
    """Why an approval that was given doesn't carry over to the plan; None without one."""
    before, approved = status.part(PlanStatus), made.approved
    if approved is None:
        return None
    if approved.render == made.plan.render:
        what = "other operations"
        if before.approved.image != made.plan.image:
            what = "another image of werf"
        elif before.approved.enforced and made.unenforced:
            what = "a deploy that the API server holds to its plan, which it can't now"
        elif _is_other_file(status, approved, made.plan):
            what = "objects of the release that have changed since, or the chart draws"
        return f"the approval of plan {before.approved.id} was of {what}"
    return (
        f"the approval of plan {before.approved.id} was of other contents, which a chart gives "
        "that prints the release's revision or branches on .Release.IsInstall"
    )


def _is_covered(status: BundleStatus, made: PlanResult, found: Collection[Operation]) -> bool:
    """Whether all operations were approved, or follow from an attempt with the approval."""
    approved = made.approved
    if approved is None or approved.render != made.plan.render:
        return False
    given = status.part(PlanStatus).approved
    unbound = unbound_reasons(made.plan)
    weaker = (given.bound and unbound) or (given.exact and unbound and not is_exact(made.plan))
    if given.image != made.plan.image or weaker or (given.enforced and made.unenforced):
        return False  # another werf would deploy, or more than was approved
    if has_further_objects(approved, made.plan) or (
        unbound and _is_other_file(status, approved, made.plan)
    ):
        return False
    operations = approved.operations
    if made.missing_namespace is not None:
        whole = effects(approved, made.missing_namespace)
        plan = status.part(PlanStatus)
        if id_of(plan, approved, whole, plan.rejections) == given.id:
            operations = whole
    if _is_tried(status) and _is_approved_before(status):
        return covers(operations, found)
    return set(found) <= set(operations)


_NOTHING_WRITTEN: Final = (
    BundleReason.PLAN_CHANGED,
    BundleReason.PLAN_FAILED,
    BundleReason.GUARD_NOT_ACTIVE,
    BundleReason.FROZEN,
)
"""Reasons of attempts that ended before werf's apply; one before them may have failed in it."""


def _is_other_file(status: BundleStatus, approved: Plan, plan: Plan) -> bool:
    """Whether werf saved another plan than the approved one, and no attempt explains that.

    An attempt that did a part of it, or may have, left another state: then the file can't be equal.
    """
    if approved.exact is None or approved.exact == plan.exact:
        return False
    is_tried = _is_tried(status) and _is_approved_before(status)
    attempted = status.attempted
    return not is_tried or (attempted.reason in _NOTHING_WRITTEN and not attempted.failures)


def _is_approved_before(status: BundleStatus) -> bool:
    """Whether the approval is older than the last attempt, so that the attempt used it."""
    started, at = (
        parse_time(status.attempted.started_at),
        parse_time(status.part(PlanStatus).approved.at),
    )
    return started is not None and at is not None and at <= started


def _unused_id(plan_id_: str, status: BundleStatus) -> str:
    """The ID, or another one where that of an earlier plan was deployed successfully.

    Plans are equal again where a release was uninstalled by hand, or where nothing is to be done.
    The annotation that approved the earlier one is mostly still there.
    """
    deployed = {one.plan for one in status.past if one.outcome == Outcome.SUCCEEDED}
    return hash_of(plan_id_, status.attempted.attempt) if plan_id_ in deployed else plan_id_


def id_of(
    made_of: _Input, plan: Plan, operations: Iterable[Operation], rejections: int | None = None
) -> str:
    """The ID that an approval names: equal for equal effects of equal content.

    Args:
        made_of: the plan's record.
        plan: what its Job found.
        operations: its ``effects``, in any order.
        rejections: how many plans of the Bundle were rejected, so that no rejected ID returns.

    Returns:
        32 hexadecimal digits.
    """
    return hash_of(
        made_of.digest or "",
        made_of.values_hash,
        {"hash": made_of.job_hash},
        plan.revision,
        sorted(map(str, operations)),
        plan.render,
        rejections or 0,
        plan.objects.lines(),
        *((plan.exact,) if plan.exact is not None else ()),
    )


def keep_plan(job: str, status: BundleStatus, now: datetime) -> Kept | None:
    """How long a plan's Job is kept after its end: its log has what people read.

    It must not be deleted while its plan isn't read yet, or waits for a decision. None: the plan
    in the status isn't of this Job.
    """
    if job != (plan := status.part(PlanStatus)).job:
        return None
    until = waits_until(status, now)
    return Kept(None if plan.is_running or until is not None else LONG_TTL, until=until)


def requested_plan(annotations: Mapping[str, str], status: BundleStatus) -> str | None:
    """The value of plan-at, where a plan of the next deploy is requested; None once handled."""
    token = annotations.get(ANN_PLAN_AT)
    is_new = (
        token != status.part(PlanRequests).last_handled_plan and ANN_PLAN_VERSION not in annotations
    )
    return token if is_new else None
