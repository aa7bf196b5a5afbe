"""``spec.approval``: which deploys are planned first, and which plans wait for a person.

Of the status plans, for whatever purpose; of the next deploy also its decision (``status.plan``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final, Self

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import MissingPermission
from copyrator.api.schema import DERIVED, Record, Takes, Time, duration

DEFAULT_APPROVAL_EXPIRES: Final = 24 * 3600.0


class ApprovalMode(StrEnum):
    """Which plans a person has to approve before they are deployed; in rising order."""

    NEVER = "Never"
    ON_RISK = "OnRisk"
    """Plans with risky operations: see docs/approval.md."""
    ALWAYS = "Always"


class ApprovalSpec(Part):
    """Whether deploys are planned first, and which plans wait for a person."""

    FIELD: ClassVar[str] = "approval"
    """Whether a deploy is planned first, with its operations in status.plan, and which plans wait
    until a person approves them (copyrator approve bundle)."""
    RESTRICTS: ClassVar[bool] = True
    NEEDS_PLAIN_CHART: ClassVar[bool] = True

    # Without it the API server may have dropped a misspelled one.
    mode: Annotated[
        ApprovalMode, Takes({}, required=f"is required: one of {', '.join(ApprovalMode)}")
    ]
    """Never, OnRisk (only plans with risky operations wait, such as deletions) or Always. The
    operator's settings may ask for more."""
    expires: Annotated[float, duration("expires", 60.0)] = DEFAULT_APPROVAL_EXPIRES
    """How long a plan waits for a decision before it is made anew, such as 24h (the default); at
    least 1m."""
    must_be_bound: Annotated[bool, DERIVED] = False
    """Whether the operator's settings refuse plans that aren't bound."""
    is_required: Annotated[bool, DERIVED] = False
    """Whether the operator's settings require a mode other than Never."""

    @classmethod
    def absent(cls) -> Self:
        """Nothing is planned."""
        return cls(ApprovalMode.NEVER)

    @property
    def binds_passwords(self) -> bool:
        """Likewise: its author may not send it elsewhere."""
        return self.is_required

    @property
    def is_off(self) -> bool:
        """Whether nothing is planned, unless a user requests it."""
        return self.mode is ApprovalMode.NEVER


MAX_RISKY: Final = 20
"""Risky operations that a status lists."""
MAX_UNBOUND: Final = 20
"""Reasons why a plan isn't bound that a status lists."""


class PlanOutcome(StrEnum):
    """The state of a plan."""

    RUNNING = "Running"
    PLANNED = "Planned"
    FAILED = "Failed"


class OperationCounts(Record, frozen=True):
    """How many operations a plan has of each OperationType of ``plans/operations.py``."""

    create: int | None = None
    """Objects that are created."""
    update: int | None = None
    """Objects that are updated."""
    delete: int | None = None
    """Objects that are deleted."""
    recreate: int | None = None
    """Objects that are deleted and created again."""
    apply: int | None = None
    """Objects whose change isn't known, because its dry run was refused."""
    at_rollback: int | None = None
    """Hooks that this version would create at a rollback to it."""
    at_uninstall: int | None = None
    """Hooks that it would create at the uninstall, and of tests."""


class PlanRecord(Record, frozen=True):
    """A plan, for whatever purpose. Written before its Job is created, as an attempt is."""

    job: str | None = None
    """Name of the Job that makes it; its pod's log has the diff."""
    number: int | None = None
    """Number of the plan; never used twice in a Bundle's life."""
    outcome: str | None = None
    """Running, Planned or Failed."""
    reason: str | None = None
    """Reason of the failure in CamelCase."""
    message: str | None = None
    """Human-readable message, what went wrong or what is awaited."""
    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    values_hash: str | None = None
    """Hash of the values."""
    started_at: Time | None = None
    """When it was begun."""
    made_at: Time | None = None
    """When its operations were read."""
    revision: int | None = None
    """Revision of the Helm release that the deploy makes."""
    operations: int | None = None
    """How many objects it changes."""
    bound: bool | None = None
    """True if a deploy can't write anything else than what was planned: its contents are bound by a
    render. Else unbound has the reasons. Of a preview never true, as it renders the chart once."""
    image: str | None = None
    """werf's image by digest, as the plan's pod ran it; the deploy runs the same."""

    @property
    def is_running(self) -> bool:
        """It is recorded, and has no outcome yet."""
        return self.outcome == PlanOutcome.RUNNING


class PlanSummary(PlanRecord, frozen=True):
    """A plan that people read, without the objects' content."""

    counts: OperationCounts = OperationCounts()
    """How many operations it has of each type."""
    risky: tuple[str, ...] = ()
    """The first 20 operations for which OnRisk asks, as TYPE NAMESPACE:GROUP:KIND:NAME."""
    risky_operations: int | None = None
    """How many there are."""
    unbound: tuple[str, ...] = ()
    """Why it isn't bound, the first 20 reasons."""
    exact: bool | None = None
    """True if the plan that werf saves is compared with this one's and is what is applied, without
    another render (werf 3). Else inexact has the reason. Of a preview never true, as none is
    compared with it."""
    inexact: str | None = None
    """Why it isn't exact."""
    hidden: int | None = None
    """Objects, beside Secrets, of which the chart hides contents from the printed diff."""
    expires_at: Time | None = None
    """When it is made anew, unless it is decided before; of a preview, when it is removed."""


class Baseline(Record, frozen=True):
    """The first plan of what is deployed: what its chart does every time."""

    FIELD: ClassVar[str] = "baseline"
    """The plan made right after the deploy, with spec.drift or mode OnRisk of spec.approval. What
    it has as well, such as hooks, is no drift, and isn't risky in the next plans."""

    digest: str | None = None
    """Manifest digest that was deployed."""
    values_hash: str | None = None
    """Hash of the values that were used."""
    spec_hash: str | None = None
    """Hash of the spec's fields that affect the release."""
    job: str | None = None
    """Name of the Job that made the plan."""
    seal: str | None = None
    """Hash of the Secret with its operations."""
    made_at: Time | None = None
    """When it was made."""
    bound: bool | None = None
    """True if a correction can't write anything else than was deployed."""
    unproven: bool | None = None
    """True where it was made later than 15 minutes after the deploy: what had drifted before is in
    it, and isn't seen."""


class PlanRequests(Record, frozen=True):
    """The requests for plans."""

    last_handled_plan: str | None = None
    """The value of the annotation operator.werf.dev/plan-at that was handled last."""


MAX_REJECTED_CONTENTS: Final = 10
"""Inputs of rejected plans that a status keeps."""
MAX_DECISION_REASON: Final = 200
"""Characters of the reason of a rejection."""
MAX_CHANGED: Final = 20
"""Changed values and variables that a status lists."""


class PlanDecision(StrEnum):
    """A person's decision about a plan."""

    APPROVED = "Approved"
    REJECTED = "Rejected"


class ApprovedPlan(Record, frozen=True):
    """The plan that was approved last; a retry of its deploy is compared with it."""

    id: str | None = None
    """ID of the plan."""
    by: str | None = None
    """Who approved it."""
    at: Time | None = None
    """When the approval was seen."""
    job: str | None = None
    """Name of the Job that made it."""
    seal: str | None = None
    """Hash of the Secret with its operations."""
    bound: bool | None = None
    """True if it was bound, so that the approval carries over to bound plans only."""
    exact: bool | None = None
    """True if it was exact, so that the approval carries over to exact or bound plans only."""
    enforced: bool | None = None
    """True if it was enforced; likewise."""
    image: str | None = None
    """werf's image by digest, as its pod ran it."""


class RejectedPlan(Record, frozen=True):
    """The plan that was rejected last."""

    id: str | None = None
    """Its ID, which is never given again."""
    contents: tuple[str, ...] = ()
    """Hashes of what rejected plans were made of, the last 10. Until one of the same is approved, a
    plan of the same waits for a decision, also with OnRisk."""


class PlanStatus(PlanSummary, frozen=True):
    """The plan of the next deploy: it is what is approved, and what the deploy is compared with."""

    FIELD: ClassVar[str] = "plan"
    """The plan of the next deploy, where spec.approval or the operator's settings ask for one, or a
    user (copyrator plan bundle)."""

    failures: int | None = None
    """How many plans of this deploy failed in a row."""
    interruptions: int | None = None
    """How many plans of this deploy in a row found no access to the cluster of spec.kubeConfig;
    they don't count as failures."""
    next_retry_at: Time | None = None
    """When a failed plan is made again."""
    spec_hash: str | None = None
    """Hash of the spec's fields that affect the release."""
    job_hash: str | None = None
    """Hash of everything else that the deploy's Job gets."""
    attempt: int | None = None
    """Number of the newest attempt when it began."""
    id: str | None = None
    """What an approval names. Equal for equal operations with equal content, until they were
    deployed."""
    changed: tuple[str, ...] = ()
    """Values files, top-level keys of ConfigMaps' values, and variables that changed since the
    deployed plan, the first 20; never their values."""
    change_unknown: str | None = None
    """Why it isn't known what changed since the deployed plan."""
    rejections: int | None = None
    """How many plans of this Bundle were rejected."""
    rejected: RejectedPlan = RejectedPlan()
    """The plan that was rejected last."""
    approval_cleared: bool | None = None
    """After a rejection, the annotation approved-plan was seen absent or different, so that a new
    approval counts."""
    missing: tuple[MissingPermission, ...] = ()
    """What the service account of the Job may not do of what the deploy needs, the first 20
    resources."""
    missing_permissions: int | None = None
    """How many verbs are missing, listed or not; absent if it isn't known."""
    unreviewed: int | None = None
    """Kinds, counted in each namespace, whose permissions weren't reviewed, such as those that the
    same plan defines."""
    enforced: bool | None = None
    """True if the API server refuses whatever isn't approved. Else unenforced has the reason."""
    unenforced: str | None = None
    """Why it isn't enforced."""
    rollback_withheld: str | None = None
    """Why its deploy isn't rolled back by werf (spec.autoRollback)."""
    seal: str | None = None
    """Hash of the Secret with the operations."""
    newer: str | None = None
    """A newer version that waits for the decision about this one."""
    pinned: bool | None = None
    """True for the plan of a rollback."""
    decision: str | None = None
    """Approved or Rejected."""
    by: str | None = None
    """Who decided."""
    decision_reason: str | None = None
    """Why it was rejected, in the words of who rejected it."""
    at: Time | None = None
    """When the decision was seen."""
    approved: ApprovedPlan = ApprovedPlan()
    """The plan that was approved last, for the retries of its deploy."""

    @property
    def by_whom_and_why(self) -> str:
        """`` by ann: too many at once``; empty where neither is known."""
        by = f" by {self.by}" if self.by else ""
        return f"{by}: {self.decision_reason}" if self.decision_reason else by

    def remove_plan(self) -> PlanStatus:
        """Only what is counted over the Bundle's life, so that no Job's name and no ID returns."""
        return PlanStatus(number=self.number, rejections=self.rejections, rejected=self.rejected)
