"""The copies that stand in the cluster, of one kind, with who owns which.

What the watch told is read from the reflector's own store, so that each copy is held once. On top
lies what we wrote and the watch hasn't told yet: without it, a key that is worked on twice within
milliseconds would be written twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from copyrator.copies.policy.records import CopyRecord

Name = tuple[str, str]
"""Namespace and name; an ObjectName is one too, and finds the same entry."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Our own write: the copy as the answer showed it, or None for the object of ``uid`` gone."""

    record: CopyRecord | None
    uid: str
    age: int
    """The count of ``forget_stale`` when it was written."""

    def is_overtaken_by(self, seen: CopyRecord | None) -> bool:
        """Tell whether the watch, which shows ``seen`` now, knows of this write."""
        if self.record is None:
            return seen is None or seen.uid != self.uid
        return seen is not None and not self.record.is_newer_than(seen)


class Copies:
    """All copies of one kind."""

    def __init__(self, store: Mapping[Name, CopyRecord]) -> None:
        self._store = store
        self._written: dict[Name, _Written] = {}
        self._by_owner: dict[str, set[Name]] = {}
        self._age = 0

    def __len__(self) -> int:
        return len(self._store)

    def names(self) -> list[Name]:
        """All that the watch told of."""
        return list(self._store)

    def get(self, name: Name) -> CopyRecord | None:
        """The copy as it stands to the best of our knowledge."""
        if self._written and (written := self._written.get(name)):
            return written.record
        return self._store.get(name)

    def owned_by(self, owner: str) -> Collection[Name]:
        """Where the copies of a rule (``namespace/name``) stand."""
        return self._by_owner.get(owner, ())

    def count(self, owner: str) -> int:
        """How many copies a rule has."""
        return len(self._by_owner.get(owner, ()))

    def wrote(self, name: Name, record: CopyRecord) -> None:
        """Remember a copy as the answer to our write showed it, until the watch tells of it.

        Where the watch was faster, what we accepted of that very version holds for its record.
        """
        seen = self._store.get(name)
        if seen is not None and seen.uid == record.uid and _version(seen) == _version(record):
            seen.shape = record.shape
        self._remember(name, _Written(record, record.uid, self._age))

    def deleted(self, name: Name, uid: str) -> None:
        """Remember that we deleted the object of this uid, until the watch tells of it."""
        self._remember(name, _Written(None, uid, self._age))

    def _remember(self, name: Name, written: _Written) -> None:
        before = self.get(name)
        if written.is_overtaken_by(self._store.get(name)):
            self._written.pop(name, None)
        else:
            self._written[name] = written
        self._index(name, before, self.get(name))

    def observe(self, name: Name, old: CopyRecord | None, new: CopyRecord | None) -> bool:
        """Take in what the watch tells, after its store has changed from ``old`` to ``new``.

        Returns:
            Whether this is news; False for the echo of our own write.
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
        """To be called about once a minute: give up what the watch should have told long ago.

        A watch that broke in between and lists anew doesn't tell of an object that came and went.
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
    """Tell whether the very object that we wrote is gone (not its predecessor)."""
    return new is None and written.record is not None and old is not None and old.uid == written.uid


def _version(record: CopyRecord | None) -> str | None:
    return record.resource_version if record else None
