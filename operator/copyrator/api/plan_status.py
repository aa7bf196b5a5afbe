"""Plans in the status of a Bundle, and what their deploys stored, as typed records."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.reasons import Severity
from copyrator.api.reasons.bundles import StoredReason
from copyrator.api.records import Record

MAX_RISKY: Final = 20
"""Risky operations that a status lists."""
MAX_MISSING: Final = 20
"""Entries with missing permissions that a status lists."""
MAX_UNBOUND: Final = 20
"""Reasons why a plan isn't bound that a status lists."""
MAX_REJECTED_CONTENTS: Final = 10
"""Inputs of rejected plans that a status keeps."""
MAX_CHANGED: Final = 20
"""Changed values and variables that a status lists."""


class PlanOutcome(StrEnum):
    """The state of a plan."""

    RUNNING = "Running"
    PLANNED = "Planned"
    FAILED = "Failed"


class PlanDecision(StrEnum):
    """A person's decision about a plan."""

    APPROVED = "Approved"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCounts(Record):
    """How many operations a plan has of each OperationType (bundles/plan/operations.py)."""

    create: int | None = None
    update: int | None = None
    delete: int | None = None
    recreate: int | None = None
    apply: int | None = None
    at_rollback: int | None = None
    """Hooks that this version would make at a rollback to it."""
    at_uninstall: int | None = None
    """Hooks at the uninstall, and of tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPermission(Record):
    """What a Job's service account may not do with one resource in one namespace."""

    verbs: tuple[str, ...] = ()
    resource: str | None = None
    """As in RBAC and kubectl: ``pods/log``, ``deployments.apps``."""
    namespace: str | None = None
    """None: of objects in no namespace, or in all namespaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedPlan(Record):
    """The plan that was approved last; a retry of its deploy is compared with it."""

    id: str | None = None
    by: str | None = None
    at: str | None = None
    job: str | None = None
    seal: str | None = None
    bound: bool | None = None
    """As of the plan; likewise ``exact``, ``enforced`` and ``image``: an approval carries over to
    no weaker plan."""
    exact: bool | None = None
    enforced: bool | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedPlan(Record):
    """The plan that was rejected last."""

    id: str | None = None
    contents: tuple[str, ...] = ()
    """Hashes of the inputs of rejected plans until one of the same is approved, the newest first,
    at most MAX_REJECTED_CONTENTS: one of the same is never deployed unasked.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord(Record):
    """A plan, for whatever purpose. Written before its Job is created, as an attempt is."""

    job: str | None = None
    number: int | None = None
    """Number of this plan; never used twice in a Bundle's life, so no Job's name is either."""
    outcome: str | None = None
    """A value of PlanOutcome."""
    reason: str | None = None
    message: str | None = None
    version: str | None = None
    digest: str | None = None
    values_hash: str | None = None
    started_at: str | None = None
    made_at: str | None = None
    revision: int | None = None
    """Of the release, that the deploy makes."""
    operations: int | None = None
    bound: bool | None = None
    """True: what a deploy writes can't differ from what was planned, as its contents are bound by
    the hash of a render; None: no plan yet, or a preview, which is never found to be bound, as it
    renders once.
    """
    image: str | None = None
    """werf's image by digest, which the plan's pod ran and the deploy's Job runs; None: unknown."""

    @property
    def is_running(self) -> bool:
        """It is recorded, and has no outcome yet."""
        return self.outcome == PlanOutcome.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary(PlanRecord):
    """A plan that people read, without the objects' content."""

    counts: OperationCounts = OperationCounts()
    risky: tuple[str, ...] = ()
    """As ``TYPE NAMESPACE:GROUP:KIND:NAME``, at most MAX_RISKY; ``risky_operations`` counts all.

    What isn't done by the deploy begins with ``at rollback: `` or ``at uninstall: ``; before that,
    what runs as the Job's account with ``as the deploying account: ``.
    """
    risky_operations: int | None = None
    unbound: tuple[str, ...] = ()
    """Why it isn't bound, at most MAX_UNBOUND sentences."""
    exact: bool | None = None
    """True: werf's saved plan is what is applied, without another render, and is compared with the
    one that was planned; None: no plan yet, or a preview, of which no two plans are compared.
    """
    inexact: str | None = None
    """Why it isn't exact, as a sentence."""
    hidden: int | None = None
    """Objects, beside Secrets, of which the chart hides contents from the printed diff."""
    expires_at: str | None = None
    """When a plan without a decision is made again, or a preview is removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus(PlanSummary):
    """The plan of the next deploy: it is what is approved, and what the deploy is compared with."""

    failures: int | None = None
    """How many plans of this same deploy failed in a row."""
    interruptions: int | None = None
    """How many of them in a row found no access to another cluster; they don't count as failed."""
    next_retry_at: str | None = None
    spec_hash: str | None = None
    job_hash: str | None = None
    """Of everything else that the deploy's Job gets."""
    attempt: int | None = None
    """Number of the newest attempt when it began."""
    id: str | None = None
    changed: tuple[str, ...] = ()
    """Values and variables that changed since the deployed plan, by name, at most MAX_CHANGED."""
    change_unknown: str | None = None
    """Why that isn't known, as a sentence."""
    rejections: int | None = None
    """How many plans of the Bundle were rejected; part of the ID."""
    rejected: RejectedPlan = RejectedPlan()
    approval_cleared: bool | None = None
    """After a rejection: approved-plan was seen absent or different since, so it counts again."""
    missing: tuple[MissingPermission, ...] = ()
    """What the Job's account may not do of what the deploy needs, at most MAX_MISSING entries."""
    missing_permissions: int | None = None
    """How many verbs are missing, listed or not; None: not reviewed."""
    unreviewed: int | None = None
    """Kinds, counted in each namespace, whose permissions couldn't be reviewed."""
    enforced: bool | None = None
    """True: the API server refuses whatever isn't approved; None: no plan yet."""
    unenforced: str | None = None
    """Why not, as a sentence."""
    rollback_withheld: str | None = None
    """Why werf doesn't get ``spec.autoRollback``, as a sentence."""
    seal: str | None = None
    """Hash of the Secret with the operations, which the deploy's Job checks."""
    newer: str | None = None
    """A newer version that would be planned instead."""
    pinned: bool | None = None
    """True: it is of a rollback, so it isn't kept without the pin."""
    decision: str | None = None
    """A value of PlanDecision."""
    by: str | None = None
    at: str | None = None
    approved: ApprovedPlan = ApprovedPlan()

    def remove_plan(self) -> PlanStatus:
        """Only what is counted over the Bundle's life, so that no Job's name and no ID returns."""
        return PlanStatus(number=self.number, rejections=self.rejections, rejected=self.rejected)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPlan(PlanSummary):
    """A plan of a version that a user named. It is only shown: nothing is deployed by it."""

    requested_version: str | None = None
    """The tag or range that was named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Record):
    """The first plan of what is deployed: what its chart does every time."""

    digest: str | None = None
    values_hash: str | None = None
    spec_hash: str | None = None
    job: str | None = None
    """The Job that made it."""
    seal: str | None = None
    """Hash of the Secret with its operations."""
    made_at: str | None = None
    bound: bool | None = None
    """As of PlanSummary: without it no correction is made where deploys need an approval."""
    unproven: bool | None = None
    """True: it was made so late after the deploy that it may have what had drifted before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsApprovedStatus(Record):
    """What was found about a deploy; empty where none was planned and approved."""

    reason: str | None = None
    """A value of StoredReason."""
    version: str | None = None
    revision: int | None = None
    at: str | None = None

    @property
    def is_different(self) -> bool:
        """Whether something else was deployed than what was approved."""
        return self.reason == StoredReason.DEPLOYED_DIFFERENTLY


NOT_JUDGED: Final = AsApprovedStatus()
"""Shared by all Bundles without such a deploy."""

_STATUSES: Final = {
    Severity.SUCCESS: ConditionStatus.TRUE,
    Severity.INFO: ConditionStatus.UNKNOWN,
    Severity.FAILURE: ConditionStatus.FALSE,
}


def as_approved_condition(found: AsApprovedStatus) -> FurtherCondition | None:
    """The condition AsApproved; None where no deploy was judged."""
    reason = StoredReason.read(found.reason or "")
    if not isinstance(reason, StoredReason):
        return None
    revision = f" (revision {found.revision})" if found.revision else ""
    text = f"{found.version}{revision}: {reason.meaning}"
    return FurtherCondition(_STATUSES[reason.severity], reason, text)
