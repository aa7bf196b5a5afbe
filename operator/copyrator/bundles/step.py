"""The result of a step of a reconcile: what is put on record, then done, and when it is due again.

The reconciler alone writes it: a step returns the status, what is done once that is on record, and
the times at which the Bundle is to be reconciled. So whatever has to be on record before an effect
(the attempt before its Job, the outcome before its Secrets are deleted) is on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ReadyCondition
from copyrator.bundles.bundle import BundleEntry

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
    """Becomes the conditions; None: a part of the status that none depends on but Drifted, whose
    basis is the check, and Healthy, which is part of ``status`` then.
    """
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
    at_once = AT_ONCE if status != entry.status else None
    return Step(entry, status, due=(due, at_once))
