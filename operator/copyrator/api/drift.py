"""``spec.drift`` and ``status.drift``: whether what is deployed still is as its chart has it.

What is deployed is compared regularly (docs/drift.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from copyrator.api.fields import Fields
from copyrator.api.globs import Globs
from copyrator.api.plan_status import PlanRecord
from copyrator.api.records import Record
from copyrator.api.syntax import at_most

DEFAULT_DRIFT_INTERVAL: Final = 3600.0
MIN_DRIFT_INTERVAL: Final = 900.0
_MAX_IGNORED: Final = 50
_SHORT: Final = at_most(253)


class DriftMode(StrEnum):
    """What is done about objects that aren't as they were deployed."""

    OFF = "Off"
    DETECT = "Detect"
    """The condition Drifted names them."""
    CORRECT = "Correct"
    """The same version is deployed again."""


_ALL: Final = Globs(("*",))


@dataclass(frozen=True, slots=True)
class Ignored:
    """Objects whose changes are no drift."""

    kind: str
    names: Globs = _ALL


@dataclass(frozen=True, slots=True)
class Drift:
    """When drift is checked for, and what is done about it."""

    mode: DriftMode = DriftMode.OFF
    interval: float = DEFAULT_DRIFT_INTERVAL
    """Seconds between two checks."""
    ignore: tuple[Ignored, ...] = ()

    @property
    def is_enabled(self) -> bool:
        """Whether drift is checked for at all."""
        return self.mode is not DriftMode.OFF


NO_DRIFT: Final = Drift()
"""Shared by all Bundles without ``spec.drift``."""


def read_drift(drift: Fields) -> Drift:
    """``spec.drift``; off where it is empty.

    Raises:
        SpecError: it isn't valid.
    """
    if not drift.raw:
        return NO_DRIFT
    interval = drift.duration("interval", DEFAULT_DRIFT_INTERVAL, least=MIN_DRIFT_INTERVAL)
    ignored = tuple(
        Ignored(item.required_text("kind", _SHORT), Globs((item.text("name", _SHORT) or "*",)))
        for item in drift.maps("ignore", _MAX_IGNORED)
    )
    return Drift(drift.choice("mode", DriftMode, DriftMode.OFF), interval, ignored)


MAX_DRIFTED: Final = 20
"""Drifted objects that a status lists."""


class DriftVerdict(StrEnum):
    """What the last check found."""

    DRIFTED = "Drifted"
    NOT_DRIFTED = "NotDrifted"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck(PlanRecord):
    """A plan of what is deployed."""

    spec_hash: str | None = None
    job_hash: str | None = None
    """Of everything else that the deploy's Job gets."""
    attempt: int | None = None
    """Number of the newest attempt when it began. Earlier versions of the operator compare it."""
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


NO_DRIFT_STATUS: Final = DriftStatus()
"""Shared by all Bundles that aren't checked."""
