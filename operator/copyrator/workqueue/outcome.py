"""The outcome of a reconcile: returned by the handler, applied by the queue."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar


class Priority(enum.IntEnum):
    """A key's priority; within one first come, first served."""

    URGENT = 0
    """A new namespace, a user's request."""
    NORMAL = 1
    RESYNC = 2
    """Without a known change."""
    STATUS = 3
    """Only its status may be out of date: after all others, or after STATUS_PATIENCE."""


@dataclass(frozen=True, slots=True)
class Done:
    """The reconcile succeeded; nothing is left to do."""

    label: ClassVar[str] = "done"
    """The label `outcome` of copyrator_reconciles_total."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Not a failure; reconcile again in `after` seconds (a poll, a running Job)."""

    label: ClassVar[str] = "again"
    after: float
    priority: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Failed:
    """Failed; reconcile again after the key's back-off. `error` is logged when it changes."""

    label: ClassVar[str] = "failed"
    error: Exception | str


Outcome = Done | RequeueAfter | Failed
