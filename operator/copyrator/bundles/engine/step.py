"""Why a Bundle is reconciled, and what the steps of a reconcile result in.

The reconciler alone writes: a step returns the status, what is done once that is on record, and
the times at which the Bundle is to be reconciled. So whatever has to be on record before an effect
(the attempt before its Job, the outcome before its Secrets are deleted) is on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.workqueue.queue import Priority


class Stale(Enum):
    """What a change invalidates of what is remembered of a Bundle."""

    NOTHING = auto()
    SETTLED = auto()
    """That there is nothing to do for its version: it is decided once more."""
    DECISION = auto()
    """The decision: it is made again, also by answers of the last interval, without a request."""
    ANSWERS = auto()
    """The registry's answers: it is polled at once, and once more after ``poll_after_push``."""


class Change(Enum):
    """Why a Bundle is reconciled: its priority in the queue, and what is stale."""

    CREATED = "a Bundle is new in the cache", Priority.NORMAL, Stale.NOTHING
    EDITED = "a Bundle was edited or deleted", Priority.URGENT, Stale.NOTHING
    JOB = "one of its Jobs changed", Priority.URGENT, Stale.NOTHING
    JOBS_LISTED = (
        "the watch of Jobs is new or forbidden",
        Priority.RESYNC,
        Stale.NOTHING,
    )
    REFERENCE = "an object that it names changed", Priority.URGENT, Stale.NOTHING
    ADMISSION = "its release's namespace changed what it accepts", Priority.URGENT, Stale.NOTHING
    GATE = "what its gates judge by changed", Priority.NORMAL, Stale.DECISION
    GATE_OF_JOB = "the same while its Job runs", Priority.URGENT, Stale.NOTHING
    TRUST = "the signature policy changed", Priority.NORMAL, Stale.NOTHING
    WATCHED = "what a feature watches changed", Priority.NORMAL, Stale.NOTHING
    ACCOUNT = "its service account exists now", Priority.NORMAL, Stale.NOTHING
    AWAITED = "what a feature waits for is there", Priority.NORMAL, Stale.NOTHING
    ANSWER = "the registry has answered", Priority.NORMAL, Stale.NOTHING
    PUSH = "something was pushed to its repository", Priority.URGENT, Stale.ANSWERS
    RIVAL = "another Bundle of its release changed", Priority.NORMAL, Stale.SETTLED
    DEPENDENCY = "a Bundle that it depends on changed", Priority.NORMAL, Stale.DECISION
    PREPARED = "what its Job needs is there, or was refused", Priority.NORMAL, Stale.NOTHING
    STEP = "a step of its last reconcile has more to do", Priority.NORMAL, Stale.NOTHING

    def __init__(self, _description: str, priority: Priority, stale: Stale) -> None:
        self.priority = priority
        self.stale = stale


AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)
"""The due time of a step after which another reconcile follows at once."""

Effect = Callable[[BundleEntry], Awaitable["Step"]]
"""Is called with the Bundle as it was written; its result is taken like a step's."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step of a reconcile results in; without ``status`` nothing is written."""

    bundle: BundleEntry
    """As the step leaves it; with ``status`` the Bundle that this was decided on."""
    status: BundleStatus | None = None
    """Is written, if it differs from the Bundle's."""
    ready: ReadyCondition | None = None
    """Becomes the conditions; None: those of ``status`` are written."""
    decided: bool = True
    """Whether the present spec was evaluated, so that observedGeneration is set."""
    effect: Effect | None = None
    """Is done once the status is on record."""
    guard: AbstractContextManager[None] | None = None
    """Is entered before the status is written, and left after the effect, also where one fails."""
    due: tuple[datetime | None, ...] = ()
    """When the Bundle is reconciled again; None is no time."""
    done: bool = False
    """Whether no other step follows in this reconcile."""

    def then(self, effect: Effect) -> Step:
        """The same step with one more effect, after all of its own."""
        first = self.effect
        if first is None:
            return replace(self, effect=effect)

        async def both(written: BundleEntry) -> Step:
            return (await first(written)).then(effect)

        return replace(self, effect=both)


def record_part(entry: BundleEntry, status: BundleStatus, due: datetime | None = None) -> Step:
    """The step that writes a part of the status; if it does, another reconcile follows at once.

    Jobs or Secrets may not be needed any more.
    """
    return Step(entry, status, due=(due, AT_ONCE if status != entry.status else None))
