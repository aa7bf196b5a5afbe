"""The copies of one kind that exist in the cluster, indexed by owner.

Watched objects are read from the reflector's own store, so that each copy is held once. Our own
writes that the watch hasn't delivered yet are kept on top: without them, a key that is reconciled
twice within milliseconds would be written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from copyrator.copies.policy.records import CopyRecord

Name = tuple[str, str]
"""Namespace and name; an ObjectName is one too, and finds the same entry."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Our own write: the copy from the response; None where the object of ``uid`` was deleted."""

    record: CopyRecord | None
    uid: str
    age: int
    """The count of ``forget_stale`` when it was written."""

    def is_overtaken_by(self, seen: CopyRecord | None) -> bool:
        """Whether the watch, which has ``seen`` now, has delivered this write."""
        if self.record is None:
            return seen is None or seen.uid != self.uid
        return seen is not None and not self.record.is_newer_than(seen)


class Copies:
    """All copies of one kind."""

    def __init__(
        self,
        store: Mapping[Name, CopyRecord],
        delivered: Callable[[str], int] = lambda _namespace: 0,
    ) -> None:
        self._store = store
        self._delivered = delivered
        """The resourceVersion up to which `store` shows a namespace's changes; 0: unknown."""
        self._written: dict[Name, _Written] = {}
        self._by_owner: dict[str, set[Name]] = {}
        self._age = 0

    def __len__(self) -> int:
        return len(self._store)

    def names(self) -> list[Name]:
        """All names that the watch has delivered."""
        return list(self._store)

    def get(self, name: Name) -> CopyRecord | None:
        """The copy, from the watch or from a later write of ours."""
        if self._written and (written := self._written.get(name)):
            return written.record
        return self._store.get(name)

    def owned_by(self, owner: str) -> Collection[Name]:
        """The names of the copies of a rule (``namespace/name``)."""
        return self._by_owner.get(owner, ())

    def count(self, owner: str) -> int:
        """How many copies a rule has."""
        return len(self._by_owner.get(owner, ()))

    def wrote(self, name: Name, record: CopyRecord) -> None:
        """Cache a copy as the response to our write shows it, until the watch delivers it.

        Where the watch was faster and that version was accepted, its record is accepted too.
        """
        seen = self._store.get(name)
        if seen is not None and seen.uid == record.uid and _version(seen) == _version(record):
            seen.shape = record.shape
        self._remember(name, _Written(record, record.uid, self._age))

    def deleted(self, name: Name, uid: str) -> None:
        """Cache that we deleted the object of this uid, until the watch delivers it."""
        self._remember(name, _Written(None, uid, self._age))

    def _remember(self, name: Name, written: _Written) -> None:
        before = self.get(name)
        record = written.record
        # The watch may have delivered this version, and a deletion after it, before the response.
        late = record is not None and record.is_delivered(self._delivered(name[0]))
        if late or written.is_overtaken_by(self._store.get(name)):
            self._written.pop(name, None)
        else:
            self._written[name] = written
        self._index(name, before, self.get(name))

    def observe(self, name: Name, old: CopyRecord | None, new: CopyRecord | None) -> bool:
        """Process a watch event, after its store has changed from ``old`` to ``new``.

        Returns:
            Whether anything changed; False for the event of our own write.
        """
        written = self._written.get(name)
        before = written.record if written else old
        if written and (written.is_overtaken_by(new) or _was_deleted(written, old, new)):
            del self._written[name]
        after = self.get(name)
        self._index(name, before, after)
        if before and after and _version(before) == _version(after):
            after.shape = before.shape  # it may have been accepted as it is
        return _version(before) != _version(after)

    def forget_stale(self) -> list[Name]:
        """Drop writes that the watch should have delivered long ago; call it about once a minute.

        A watch that broke and lists again doesn't deliver an object that was created and deleted
        between.
        """
        stale = [name for name, written in self._written.items() if written.age < self._age]
        for name in stale:
            before = self._written.pop(name).record
            self._index(name, before, self.get(name))
        self._age += 1
        return stale

    def _index(self, name: Name, old: CopyRecord | None, new: CopyRecord | None) -> None:
        before = old.owner if old else ""
        after = new.owner if new else ""
        if before and before != after and (owned := self._by_owner.get(before)):
            owned.discard(name)
            if not owned:
                del self._by_owner[before]
        if after:
            self._by_owner.setdefault(after, set()).add(name)


def _was_deleted(written: _Written, old: CopyRecord | None, new: CopyRecord | None) -> bool:
    """Whether the object that we wrote is gone (not its predecessor)."""
    return new is None and written.record is not None and old is not None and old.uid == written.uid


def _version(record: CopyRecord | None) -> str | None:
    return record.resource_version if record else None
