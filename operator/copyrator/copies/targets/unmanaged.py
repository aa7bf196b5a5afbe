"""Objects that aren't ours at the targets of copies, and their watches.

Each is read when it is found, and again only when it changed: its watch (by its name, metadata
only) delivers that. The watch of our own copies selects them by label and doesn't show others'
objects. A watch is a connection, so their number is bounded, fair between namespaces; objects
beyond the bound are read from time to time.

What a trusted rule wants is compared with the live object: one with that content counts as right
and isn't changed (ADR 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from copyrator.api.keys import CopyKey, ObjectName
from copyrator.api.rule_spec import ConflictPolicy
from copyrator.copies.sources.bindings import CopyRequest
from copyrator.copies.targets.planning import Terms, Unmanaged
from copyrator.copies.timing import CopyTiming
from copyrator.kube.resources import Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import Seen, WatchSpec, seen
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.queue import Priority

UNMANAGED_WATCHES: Final = 8
"""Watches of single objects that block copies: in one target namespace for trusted rules, and for
the rules of one tenant's namespace. Beyond it such an object is read again after ten seconds, and
then with back-off, at least every five minutes."""

TRUSTED_UNMANAGED_WATCHES: Final = 64
"""The same of all trusted rules together: each is a connection."""

TENANTS_UNMANAGED_WATCHES: Final = 32
"""The same of all tenants together, apart from those of trusted rules."""

LONGEST_SATISFIED = 3_600.0
"""Seconds at most for an object with the wanted content: there may be one in each namespace."""


@dataclass(slots=True, eq=False)
class UnmanagedObject:
    """One object, as it was last read."""

    name: ObjectName
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
    watch: Registration | None = None
    """None where there was no room for it."""
    give_back: Callable[[], None] = lambda: None
    """Called when the watch has ended, to free its place."""

    @property
    def live_version(self) -> str | None:
        """The live object's version, empty where there is none; None without a working watch."""
        if self.watch is None or not self.watch.synced:
            return None
        found = self.watch.store.get(self.name)  # an aggregated API may ignore fieldSelector
        return found.resource_version if found else ""

    @property
    def satisfied(self) -> Terms | None:
        """The terms that it fulfils."""
        return self.terms if self.differs == () else None

    def next_wait(self, timing: CopyTiming) -> float:
        """Seconds until the next read, if no event comes before."""
        if self.live_version is not None:
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
        self._informers = informers
        self._requeue = requeue
        self._now = monotonic
        self._timing = timing
        self._known: dict[CopyKey, UnmanagedObject] = {}
        each = UNMANAGED_WATCHES
        self._trusted = FairLimit(each=each, together=TRUSTED_UNMANAGED_WATCHES)
        self._tenants = FairLimit(each=each, together=TENANTS_UNMANAGED_WATCHES)

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: CopyKey) -> UnmanagedObject | None:
        """The unmanaged object at a key, if one was found."""
        return self._known.get(key)

    def satisfied(self, key: CopyKey) -> Terms | None:
        """The terms that the object there fulfils (copies.targets.planning.TargetState)."""
        known = self._known.get(key)
        return known.satisfied if known else None

    def is_unchanged(self, key: CopyKey, terms: Terms) -> bool:
        """Whether the object is known to be unchanged, and was compared with these terms."""
        known = self._known.get(key)
        return known is not None and known.terms == terms and known.live_version == known.version

    def is_gone(self, key: CopyKey) -> bool:
        """Whether the object's watch shows that it doesn't exist."""
        known = self._known.get(key)
        return known is not None and known.live_version == ""

    def record(
        self, key: CopyKey, resource: Resource, found: Unmanaged, winner: CopyRequest
    ) -> UnmanagedObject:
        """Record the object that was found at the target of a rule, and watch it."""
        known, version = self._known.get(key), found.resource_version
        if known is None:
            known = self._known[key] = UnmanagedObject(
                ObjectName(key.namespace, key.name), version, self._now(), winner.owner
            )
        elif known.version != version:
            known.version, known.terms, known.differs = version, None, None
        known.looked_at, known.owner = self._now(), winner.owner
        self._watch(key, resource, winner.binding.compiled.targets.tenant)
        return known

    def forget(self, key: CopyKey) -> None:
        """There is no conflict any more, or no rule requests the target."""
        known = self._known.pop(key, None)
        if known is not None and known.watch is not None:
            known.watch.release()
            known.give_back()

    def rule_ended(self, owner: str) -> None:
        """A rule isn't served any more: requeue the targets of its conflicts."""
        for key, known in self._known.items():
            if known.owner == owner:
                self._requeue(key, 0.0, Priority.RESYNC)

    def close(self) -> None:
        """Drop everything, for good."""
        self._informers = None
        for key in list(self._known):
            self.forget(key)

    def _watch(self, key: CopyKey, resource: Resource, tenant: str | None) -> None:
        """Watch an object from now on, while there is room; a tenant's rules share its places."""
        known = self._known[key]
        limit = self._trusted if tenant is None else self._tenants
        payer = tenant or key.namespace
        if self._informers is None or known.watch is not None or not limit.try_acquire(payer):
            return

        def changed(name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
            if name == known.name:
                self._changed(key, new.resource_version if new else "")

        def synced() -> None:
            if known.live_version == "":
                self._changed(key, "")

        spec = WatchSpec(
            resource=resource,
            namespace=key.namespace,
            name=key.name,
            metadata_only=True,
            decode=seen,
            reserved=True,
        )
        known.give_back = partial(limit.release, payer)
        known.watch = self._informers.acquire(spec, changed, on_synced=synced)

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
    return (
        winner.binding.compiled.targets.tenant is None
        and winner.on_conflict is not ConflictPolicy.OVERWRITE
    )
