"""The records of plans in the status, from their beginning to their result. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol

from copyrator.api import structs
from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import count, format_time
from copyrator.bundles.jobs.checks import Inexact
from copyrator.bundles.jobs.identity import hash_of, job_name
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.rights import RequiredPermission
from copyrator.bundles.plans.fields import (
    MAX_RISKY,
    MAX_UNBOUND,
    PlanOutcome,
    PlanRecord,
    PlanStatus,
)
from copyrator.bundles.plans.operations import (
    Operation,
    Plan,
    all_planned,
    count_all,
    effects,
    list_risky,
)
from copyrator.bundles.plans.rights import KindIn


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
    keeps_inputs: ClassVar[bool] = False
    """Whether it is recorded what a plan is made of, to tell what has changed."""
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

    def failed(
        self,
        status: BundleStatus,  # noqa: ARG002
        why: PlanFault,  # noqa: ARG002
        retry: Retry,  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Further fields of the record where no plan could be made."""
        return {}


def with_record(status: BundleStatus, purpose: PlanPurpose, **fields: Any) -> BundleStatus:
    """The status with these fields of the record changed."""
    return purpose.store(status, structs.replace(purpose.record(status), **fields))


def next_number(status: BundleStatus, purpose: PlanPurpose) -> int:
    """The number of the next plan; it is never used twice in a Bundle's life."""
    return (purpose.record(status).number or 0) + 1


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


class HeldPlan(_Input, Protocol):
    """The record of a plan that a deploy is held to: of the next deploy, or a check for drift."""

    @property
    def job(self) -> str | None:
        """Its Job."""

    @property
    def version(self) -> str | None:
        """The tag."""

    @property
    def seal(self) -> str | None:
        """Of the Secret with the operations."""

    @property
    def operations(self) -> int | None:
        """How many objects it changes."""

    @property
    def image(self) -> str | None:
        """Werf's by digest."""


def content_of(made_of: _Content) -> tuple[str | None, str | None, str | None]:
    """The input of a deploy or plan except its version's name: digest, values and spec."""
    return made_of.digest, made_of.values_hash, made_of.spec_hash


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
    """The status where no plan could be made."""
    fields = purpose.failed(status, why, retry, now)
    fields |= {"outcome": PlanOutcome.FAILED, "reason": why.reason, "message": why.message}
    return with_record(status, purpose, **fields)


def set_message(status: BundleStatus, purpose: PlanPurpose, message: str | None) -> BundleStatus:
    """The status with the message why the plan isn't made yet; None removes it."""
    if message == purpose.record(status).message:
        return status
    return with_record(status, purpose, message=message)


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
