"""Objects that aren't ours at the targets of copies.

Each is read when it is found, and again only when it changed: its watch delivers that
(unmanaged_watches.py), or, where there was no room for a watch, a read from time to time. What a
trusted rule wants is compared with the live object: one with that content counts as right and isn't
changed (ADR 15).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import ConflictPolicy
from copyrator.copies.cache.copy_request import CopyRequest
from copyrator.copies.policy.planning import Terms, Unmanaged
from copyrator.copies.timing import CopyTiming
from copyrator.copies.unmanaged_watches import UnmanagedWatches
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import InformerFactory
from copyrator.workqueue.outcome import Priority

LONGEST_SATISFIED = 3_600.0
"""Seconds at most for an object with the wanted content: there may be one in each namespace."""


@dataclass(slots=True, eq=False)
class UnmanagedObject:
    """One object, as it was last read."""

    version: str
    looked_at: float
    """Loop time."""
    owner: str
    """``namespace/name`` of the rule in conflict with it."""
    terms: Terms | None = None
    """What it was last compared for: for anything else it has to be read again."""
    differs: tuple[str, ...] | None = None
    """The fields that differ from those terms; None where they weren't compared."""
    wait: float = 0.0
    """Seconds of the last wait."""

    @property
    def satisfied(self) -> Terms | None:
        """The terms that it fulfils."""
        return self.terms if self.differs == () else None

    def next_wait(self, timing: CopyTiming, *, watched: bool) -> float:
        """Seconds until the next read."""
        if watched:
            return timing.longest_reread
        longest = timing.longest_reread if self.satisfied is None else LONGEST_SATISFIED
        self.wait = min(max(self.wait * 2, timing.first_reread), longest)
        return self.wait


class UnmanagedObjects:
    """Unmanaged objects by the copy's key; requeues a key when its object changes.

    Args:
        informers: for the watches; None where nothing is to be watched.
        requeue: adds a key to the queue after so many seconds.
        monotonic: the clock.
    """

    def __init__(
        self,
        informers: InformerFactory | None,
        requeue: Callable[[CopyKey, float, Priority], None],
        monotonic: Callable[[], float],
        timing: CopyTiming,
    ) -> None:
        self.watches = UnmanagedWatches(informers, self._changed)
        self._requeue = requeue
        self._now = monotonic
        self._timing = timing
        self._known: dict[CopyKey, UnmanagedObject] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: CopyKey) -> UnmanagedObject | None:
        """The unmanaged object at a key, if one was found."""
        return self._known.get(key)

    def satisfied(self, key: CopyKey) -> Terms | None:
        """The terms that the object there fulfils (copies.policy.planning.TargetState)."""
        known = self._known.get(key)
        return known.satisfied if known else None

    def is_unchanged(self, key: CopyKey, terms: Terms) -> bool:
        """Whether the object is known to be unchanged, and was compared with these terms."""
        known = self._known.get(key)
        return (
            known is not None
            and known.terms == terms
            and self.watches.version(key) == known.version
        )

    def is_gone(self, key: CopyKey) -> bool:
        """Whether the object's watch shows that it doesn't exist."""
        return self.watches.version(key) == ""

    def record(
        self, key: CopyKey, resource: Resource, found: Unmanaged, winner: CopyRequest
    ) -> UnmanagedObject:
        """Record the object that was found at the target of a rule, and watch it."""
        known, version = self._known.get(key), found.resource_version
        if known is None:
            known = self._known[key] = UnmanagedObject(version, self._now(), winner.owner)
        elif known.version != version:
            known.version, known.terms, known.differs = version, None, None
        known.looked_at, known.owner = self._now(), winner.owner
        self.watches.follow(key, resource, winner.binding.tenant)
        return known

    def next_wait(self, key: CopyKey, known: UnmanagedObject) -> float:
        """Seconds until the object is read again, if no watch event comes before."""
        return known.next_wait(self._timing, watched=self.watches.version(key) is not None)

    def forget(self, key: CopyKey) -> None:
        """There is no conflict any more, or no rule requests the target."""
        if self._known.pop(key, None) is not None:
            self.watches.release(key)

    def rule_ended(self, owner: str) -> None:
        """A rule isn't served any more: requeue the targets of its conflicts."""
        for key, known in self._known.items():
            if known.owner == owner:
                self._requeue(key, 0.0, Priority.RESYNC)

    def close(self) -> None:
        """Drop everything, for good."""
        self._known.clear()
        self.watches.close()

    def _changed(self, key: CopyKey, version: str) -> None:
        known = self._known.get(key)
        if known is None or version == known.version:
            return
        wait = known.looked_at + self._timing.first_reread - self._now() if version else 0.0
        self._requeue(key, max(wait, 0.0), Priority.NORMAL)


def compares(winner: CopyRequest) -> bool:
    """Whether the live object is compared with what a rule wants.

    Never for a tenant's rule: its status would reveal the content of others' objects.
    """
    return winner.binding.tenant is None and winner.on_conflict is not ConflictPolicy.OVERWRITE
