"""What came of looking at a key: what the handler returns and the queue acts on."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar


class Priority(enum.IntEnum):
    """How soon a key is wanted; within a lane first come, first served."""

    URGENT = 0
    """A new namespace, a user's request."""
    NORMAL = 1
    RESYNC = 2
    """Nothing is known to have changed."""


@dataclass(frozen=True, slots=True)
class Done:
    """For what this key is concerned, all is as it should be."""

    label: ClassVar[str] = "done"
    """The label `outcome` of copyrator_reconciles_total."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Nothing is wrong, but look again in `after` seconds (a poll, a Job that runs)."""

    label: ClassVar[str] = "again"
    after: float
    lane: Priority = Priority.NORMAL


@dataclass(frozen=True, slots=True)
class Failed:
    """It didn't work; look again after the key's back-off. `error` is logged when it changes."""

    label: ClassVar[str] = "failed"
    error: Exception | str


Outcome = Done | RequeueAfter | Failed
