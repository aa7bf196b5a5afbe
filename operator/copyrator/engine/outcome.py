"""What came of looking at a key: what the handler returns and the queue acts on."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Lane(enum.IntEnum):
    """How soon a key is wanted; within a lane first come, first served."""

    URGENT = 0
    """A new namespace, a user's request."""
    NORMAL = 1
    RESYNC = 2
    """Nothing is known to have changed."""


@dataclass(frozen=True, slots=True)
class Done:
    """The world is as it should be, for what this key is concerned."""


@dataclass(frozen=True, slots=True)
class Again:
    """Nothing is wrong, but look again in `after` seconds (a poll, a Job that runs)."""

    after: float
    lane: Lane = Lane.NORMAL


@dataclass(frozen=True, slots=True)
class Failed:
    """It didn't work; look again after the key's back-off. `error` is logged when it changes."""

    error: Exception | str


Outcome = Done | Again | Failed
