"""The current versions of the objects that Bundles name; requeues Bundles that read another one.

Where several watches cover an object, the events of one are used: a new watch replaces an old one
when its list was compared with what each Bundle has read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from copyrator.api.keys import BundleKey, ObjectName
from copyrator.bundles.context import Context
from copyrator.bundles.references.open_watches import Opened, OpenWatches
from copyrator.bundles.references.scopes import Ref, Scope
from copyrator.bundles.schedule import Change
from copyrator.kube.watch.seen import Seen
from copyrator.workqueue.timeslice import TimeSlice


class HasRead(Protocol):
    """Whether all that is cached from an object for a Bundle is of that version ("" for none)."""

    def __call__(self, key: BundleKey, ref: Ref, version: str | None) -> bool: ...  # noqa: D102


@dataclass(slots=True)
class _Followed:
    """One object that Bundles name."""

    version: str | None = None
    """None: not known; empty: the object doesn't exist."""
    changes: int = 0
    bundles: set[BundleKey] = field(default_factory=set)


class ReferenceWatches:
    """Watches objects for Bundles, and requeues Bundles that have read another version."""

    def __init__(self, context: Context, has_read: HasRead) -> None:
        self._context = context
        self._has_read = has_read
        self._refs: dict[Ref, _Followed] = {}
        self._open = OpenWatches(context, on_change=self._take, on_listed=self._synced)

    # --- for Bundles -----------------------------------------------------------------------------

    def follow(self, key: BundleKey, refs: frozenset[Ref]) -> None:
        """Watch these objects for a Bundle, and no others; the watches open a moment later."""
        inputs = self._context.memories[key].inputs
        before = inputs.refs
        if refs == before:
            return
        for ref in before - refs:
            self._leave(key, ref)
        for ref in refs - before:
            self._refs.setdefault(ref, _Followed()).bundles.add(key)
            self._open.wanted[ref.resource].add(ObjectName(ref.namespace, ref.name))
        inputs.refs = refs
        self._open.arrange_soon()

    def close(self) -> None:
        """End all watches."""
        for key in list(self._context.memories):
            self.follow(key, frozenset())
        self._open.close()

    def is_current(self, ref: Ref, version: str) -> bool:
        """Whether a watch shows that the current version is this one; empty: no object exists."""
        followed, opened = self._refs.get(ref), self._open.covering(ref)
        if followed is None or opened is None or opened.registration is None:
            return False
        return opened.registration.synced and followed.version == version

    def begin_read(self, ref: Ref) -> int:
        """Call it before an object is read; pass the result to `was_read`."""
        followed = self._refs.get(ref)
        return -1 if followed is None else followed.changes

    def was_read(self, ref: Ref, version: str, begun: int) -> None:
        """Record the version that was read (empty: none exists), unless an event came since."""
        followed = self._refs.get(ref)
        if followed is not None and followed.changes == begun:
            followed.version = version

    def count(self) -> Counter[str]:
        """The number of objects by the scope that covers them: name, namespace, all, poll."""
        return self._open.count()

    def _leave(self, key: BundleKey, ref: Ref) -> None:
        followed = self._refs[ref]
        followed.bundles.discard(key)
        if not followed.bundles:
            del self._refs[ref]
            self._open.wanted[ref.resource].discard(ObjectName(ref.namespace, ref.name))

    # --- for watches ------------------------------------------------------------------------------

    def _take(self, opened: Opened, ref: Ref, new: Seen | None) -> None:
        """Process an event, if it is from the watch whose events are used for the object."""
        followed = self._refs.get(ref)
        if followed is None or self._open.covering(ref) is not opened:
            return
        version = new.resource_version if new else None
        if version == followed.version or (version is None and followed.version == ""):
            return
        followed.version = version
        followed.changes += 1
        self._requeue(followed, ref)

    def _synced(self, scope: Scope, opened: Opened) -> None:
        """A watch has listed everything: use its events from now on, and compare its list."""
        if self._open.opened.get(scope) is not opened or opened.registration is None:
            return
        opened.listed = True
        if opened.task is not None:
            opened.task.cancel()
        compare = self._compare(opened, self._shown_by(scope))
        opened.task = asyncio.create_task(compare, name=f"compare {scope}")

    async def _compare(self, opened: Opened, refs: Iterable[Ref]) -> None:
        """Compare a list with what Bundles have read; events are processed meanwhile."""
        time_slice = TimeSlice()
        for ref in refs:
            await time_slice.pause()
            followed, registration = self._refs.get(ref), opened.registration
            if followed is None or registration is None or self._open.covering(ref) is not opened:
                continue
            found: Seen | None = registration.store.get(ObjectName(ref.namespace, ref.name))
            if found is not None:
                followed.version = found.resource_version
            elif followed.version:  # deleted, or named too late for this list: to be read
                followed.version = None
                followed.changes += 1
            self._requeue(followed, ref)
        opened.compared = True
        self._open.retire()

    def _shown_by(self, scope: Scope) -> Iterable[Ref]:
        names = self._open.wanted[scope.resource].by_namespace
        return [
            Ref(scope.resource, namespace, name)
            for namespace in (names if scope.namespace is None else [scope.namespace])
            for name in names.get(namespace, ())
            if scope.name in (None, name)
        ]

    def _requeue(self, followed: _Followed, ref: Ref) -> None:
        """Requeue the Bundles that have read another version."""
        for key in followed.bundles:
            if not self._has_read(key, ref, followed.version):
                self._context.schedule.changed(key, Change.REFERENCE)
