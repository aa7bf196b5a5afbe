"""Plans in the status of a Bundle, for whatever purpose, as typed records."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final

from copyrator.api.schema import Record, Time

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
    """How many operations a plan has of each OperationType of ``approval/operations.py``."""

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


class PreviewPlan(PlanSummary, frozen=True):
    """A plan of a version that a user named. It is only shown: nothing is deployed by it."""

    FIELD: ClassVar[str] = "preview"
    """The plan of a version that a user named (copyrator plan bundle --version), for a day. It is
    only shown; nothing is deployed by it."""

    requested_version: str | None = None
    """The tag or range that was named."""


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
