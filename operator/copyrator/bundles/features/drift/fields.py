"""``spec.drift`` and ``status.drift``: whether what is deployed still is as its chart has it.

What is deployed is compared regularly (docs/drift.md).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

import msgspec

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleCondition
from copyrator.api.conditions import ConditionStatus
from copyrator.api.schema import (
    STORED,
    Form,
    Record,
    Time,
    check_text,
    custom,
    duration,
    items,
    text,
)
from copyrator.api.selectors import Globs
from copyrator.api.text import at_most
from copyrator.bundles.features.drift.reasons import DriftReason
from copyrator.bundles.plans.fields import Baseline, PlanRecord

DRIFTED: Final = "Drifted"


class DriftMode(StrEnum):
    """What is done about objects that aren't as they were deployed."""

    OFF = "Off"
    DETECT = "Detect"
    """The condition Drifted names them."""
    CORRECT = "Correct"
    """The same version is deployed again."""


def _read_names(value: Any) -> Globs:
    return Globs((check_text(value, "", at_most(253)),))


class Ignored(Form):
    """Objects whose changes are no drift."""

    kind: Annotated[str, text(most=253)]
    """The objects' kind, such as Deployment."""
    names: Annotated[Globs, custom(_read_names, {"type": "string", "maxLength": 253})] = (
        msgspec.field(default=Globs(("*",)), name="name")
    )
    """Their name, or a pattern with * and ?. Default: all of the kind."""


class DriftSpec(Part):
    """When drift is checked for, and what is done about it."""

    FIELD: ClassVar[str] = "drift"
    """Whether the deployed objects are compared regularly with their chart, and what is done about
    objects that others changed or deleted."""
    RESTRICTS: ClassVar[bool] = True

    mode: Annotated[DriftMode, STORED] = DriftMode.OFF
    """Off, Detect (the condition Drifted names the objects) or Correct (the same version is
    deployed again, without approval, at most twice for the same drift)."""
    interval: Annotated[float, duration("interval", 900.0)] = 3600.0
    """Time between two checks, such as 1h (the default); at least 15m. Each check is a Job that
    plans the deploy."""
    ignore: Annotated[tuple[Ignored, ...], items(50)] = ()
    """Objects whose changes are no drift, such as a Deployment that is scaled by a
    HorizontalPodAutoscaler."""

    @property
    def is_off(self) -> bool:
        """Whether drift isn't checked for."""
        return self.mode is DriftMode.OFF


MAX_DRIFTED: Final = 20
"""Drifted objects that a status lists."""


class DriftVerdict(StrEnum):
    """What the last check found."""

    DRIFTED = "Drifted"
    NOT_DRIFTED = "NotDrifted"
    UNKNOWN = "Unknown"


class DriftCheck(PlanRecord, frozen=True):
    """A plan of what is deployed."""

    spec_hash: str | None = None
    """Hash of the spec's fields that affect the release."""
    job_hash: str | None = None
    """Hash of everything else that the deploy's Job gets."""
    attempt: int | None = None
    """Number of the newest attempt when it began. A deploy that begins ends the check."""
    id: str | None = None
    """The plan's ID, as of plans that are approved."""
    seal: str | None = None
    """Hash of the Secret with the operations, where a correction or the baseline needs them."""


_NO_CHECK: Final = DriftCheck()


class DriftStatus(Record, frozen=True):
    """Whether the objects of the release are as they were deployed."""

    FIELD: ClassVar[str] = "drift"
    """Whether the objects of the release are as they were deployed, where spec.drift asks for
    it."""

    check: DriftCheck = _NO_CHECK
    """The newest plan of what is deployed, running or ended."""
    checked_at: Time | None = None
    """When the verdict was found."""
    verdict: str | None = None
    """Drifted, NotDrifted or Unknown, by the last check that has ended."""
    attempt: int | None = None
    """Number of the newest attempt at that time."""
    reason: str | None = None
    """Why nothing is known, or nothing is compared now, in one word."""
    message: str | None = None
    """The same in a sentence."""
    objects: tuple[str, ...] = ()
    """What drifted, as TYPE NAMESPACE:GROUP:KIND:NAME, where the type is what a deploy would do; at
    most 20."""
    count: int | None = None
    """How many there are."""
    since: Time | None = None
    """When drift was found first."""
    found_job: str | None = None
    """Name of the Job that found it; its log has the differences."""
    differs: bool | None = None
    """True if the chart may render differently now than when it was deployed, so that with an
    approval a correction is planned and approved as a deploy is."""
    corrections: int | None = None
    """How many deploys have corrected drift since a regular check found none of it."""
    corrected: tuple[str, ...] = ()
    """The objects that they corrected; at most 20."""


SPEC: Final = (DriftSpec,)
STATUS: Final = (Baseline, DriftStatus)
CONDITIONS: Final = (
    BundleCondition(
        *(DRIFTED, 5, "objects aren't as they were deployed", DriftReason),
        withdraws=(ConditionStatus.TRUE, "objects of the release drifted"),
    ),
)
