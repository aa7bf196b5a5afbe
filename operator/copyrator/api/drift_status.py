"""Drift in the status of a Bundle, as typed records (docs/drift.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from copyrator.api.plan_status import PlanRecord
from copyrator.api.records import Record

MAX_DRIFTED: Final = 20
"""Drifted objects that a status lists."""


class DriftVerdict(StrEnum):
    """What the last check found."""

    DRIFTED = "Drifted"
    NOT_DRIFTED = "NotDrifted"
    UNKNOWN = "Unknown"


class DriftReason(StrEnum):
    """Reasons of the condition Drifted, beside those that a Bundle's Ready condition has."""

    DRIFTED = "Drifted"
    DRIFT_RECURRING = "DriftRecurring"
    """It came back after two corrections: no more are made."""
    IN_SYNC = "InSync"
    UNCHECKED = "Unchecked"
    """What is deployed hasn't been compared yet."""
    NOT_AS_DEPLOYED = "NotAsDeployed"
    """The spec or the values aren't those of the deploy, or it failed."""
    BASELINE_UNREADABLE = "BaselineUnreadable"
    BLIND_APPLY = "BlindApply"
    """Dry runs were refused, so werf doesn't know what a deploy would change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck(PlanRecord):
    """A plan of what is deployed."""

    spec_hash: str | None = None
    job_hash: str | None = None
    """Of everything else that the deploy's Job gets."""
    attempt: int | None = None
    """Number of the newest attempt when it began: one that begins later ends it."""
    id: str | None = None
    seal: str | None = None
    """Hash of the Secret with the operations, where a correction or the baseline needs them."""


_NO_CHECK: Final = DriftCheck()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftStatus(Record):
    """Whether the objects of the release are as they were deployed."""

    check: DriftCheck = _NO_CHECK
    """The newest one, running or ended."""
    checked_at: str | None = None
    """When the verdict was found."""
    verdict: str | None = None
    """A value of DriftVerdict, by the last check that has ended."""
    attempt: int | None = None
    """Number of the newest attempt at that time: a later one may have changed what was found."""
    reason: str | None = None
    """Why nothing is known or compared now; likewise ``message``."""
    message: str | None = None
    objects: tuple[str, ...] = ()
    """What drifted, as ``TYPE NAMESPACE:GROUP:KIND:NAME``, at most MAX_DRIFTED."""
    count: int | None = None
    """How many there are, listed or not."""
    since: str | None = None
    """When drift was found first."""
    found_job: str | None = None
    """The Job that found it."""
    differs: bool | None = None
    """True: it isn't known that a correction would write what was deployed, as the chart may render
    differently now; with an approval it is planned and approved as a deploy is.
    """
    corrections: int | None = None
    """How many deploys have corrected it since a regular check found none of it."""
    corrected: tuple[str, ...] = ()
    """The objects that they corrected, at most MAX_DRIFTED."""


NO_DRIFT: Final = DriftStatus()
"""Shared by all Bundles that aren't checked."""
