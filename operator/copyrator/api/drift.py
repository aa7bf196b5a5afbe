"""``spec.drift``: whether what is deployed is compared regularly with its chart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from copyrator.api.fields import Fields
from copyrator.api.globs import Globs

DEFAULT_DRIFT_INTERVAL: Final = 3600.0
MIN_DRIFT_INTERVAL: Final = 900.0
_MAX_IGNORED: Final = 50
_MAX_TEXT: Final = 253


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
    items = drift.items("ignore")
    if len(items) > _MAX_IGNORED:
        drift.fail("ignore", f"has {len(items)} items; at most {_MAX_IGNORED} are allowed")
    path = drift.at("ignore")
    ignored = tuple(_ignored(Fields(item, f"{path}[{i}]")) for i, item in enumerate(items))
    return Drift(drift.choice("mode", DriftMode, DriftMode.OFF), interval, ignored)


def _ignored(item: Fields) -> Ignored:
    kind = item.required_text("kind", _short)
    return Ignored(kind, Globs((item.text("name", _short) or "*",)))


def _short(value: str) -> str | None:
    return None if len(value) <= _MAX_TEXT else f"must have at most {_MAX_TEXT} characters"
