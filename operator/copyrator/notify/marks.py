"""Which transitions each entry was told about, in the ConfigMap ``copyrator-notification-marks``.

For each entry, object and kind of transition there is one mark: the ID of the newest one that was
told. So neither a restart nor another leader repeats a message, and what happened in between is
told. Without a mark the time decides: what is no newer than ``since`` counts as told. That is when
the entry was first seen, or the time of the newest mark that was dropped because there were too
many. Pure, but for the object's own state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from copyrator.api.text import truncate
from copyrator.notify.config import Entry
from copyrator.notify.transitions import FAULTS, ObjectState, Transition, slot_of

NOTIFICATION_MARKS: Final = 5_000  # limit: notifications
"""Marks of transitions that were told, of all entries together; older transitions count as told."""

CONFIG_MAP: Final = "copyrator-notification-marks"
KEY: Final = "marks.json"
_MAX_BYTES: Final = 1024 * 1024
_MAX_RESULT: Final = 200
_OPEN: Final = "!"
_TOLD: Final = "."


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """The newest transition of a kind that was told."""

    id: str
    at: str
    state: str
    """``!``: a fault that lasts; ``.``: anything else."""


class EntryMarks(msgspec.Struct):
    """What one entry was told."""

    since: str
    filter: str
    """Of the entry when ``since`` was set: a wider one isn't told about the past."""
    slots: dict[str, Mark] = {}
    result: str = ""
    """Of the newest message: ``sent``, or the fault."""
    result_at: str = ""
    tested: str = ""
    """The last request of a test that was handled."""
    test_result: str = ""
    """``sent``, or the fault."""


class _Stored(msgspec.Struct):
    entries: dict[str, EntryMarks] = {}


@dataclass(slots=True)
class ToldMarks:
    """The marks of all entries, as they are stored."""

    entries: dict[str, EntryMarks] = field(default_factory=dict)

    @classmethod
    def read(cls, data: object) -> ToldMarks:
        """Parse the ConfigMap's data.

        Raises:
            ValueError: it isn't what this module writes.
        """
        written = data.get(KEY) if isinstance(data, Mapping) else None
        if not isinstance(written, str) or len(written) > _MAX_BYTES:
            raise ValueError("it has no marks")
        return cls(msgspec.json.decode(written, type=_Stored).entries)

    def to_data(self) -> dict[str, str]:
        """The ConfigMap's data."""
        return {KEY: msgspec.json.encode(_Stored(self.entries)).decode()}

    def follow(self, entries: Collection[Entry], now: str, *, keep: bool = False) -> bool:
        """Begin the marks of new entries, and drop those of removed ones, unless these are kept.

        Returns:
            Whether anything changed.
        """
        before = {name: one.filter for name, one in self.entries.items()}
        kept = dict(self.entries) if keep else {}
        for entry in entries:
            marks = self.entries.get(entry.name)
            if marks is None:
                marks = EntryMarks(since=now, filter=entry.filter_id)
            elif marks.filter != entry.filter_id or marks.since > now:
                marks.since, marks.filter = now, entry.filter_id  # a later time was written by hand
            kept[entry.name] = marks
        self.entries = kept
        return before != {name: one.filter for name, one in kept.items()}

    def untold(
        self, entry: Entry, state: ObjectState, seen: Collection[str] | None
    ) -> Iterator[Transition]:
        """What an entry is to be told about an object now.

        Args:
            entry: one that ``follow`` knows.
            state: what holds.
            seen: the IDs of what held when this process last saw the object; None: it didn't.
        """
        marks, subject = self.entries[entry.name], state.subject
        for one in state.holding:
            if not entry.wants(one.about, subject.kind, subject.namespace):
                continue
            mark = marks.slots.get(slot_of(subject, one.about))
            if mark is not None:
                is_new = mark.id != one.id
            elif seen is not None:  # also where it is of a forged future, and its mark was dropped
                is_new = one.id not in seen
            else:
                is_new = one.at > marks.since
            if is_new:
                yield one
        if not marks.slots:
            return
        for about in state.resolved:
            mark = marks.slots.get(slot_of(subject, about))
            wanted = entry.wants(about, subject.kind, subject.namespace)
            if mark is not None and mark.state == _OPEN and wanted:
                what = "it was deleted" if state.is_deleted else ""
                yield Transition(subject, about, what, "", mark.id, resolved=True)

    def mark(self, name: str, told: Transition, now: str) -> None:
        """Record that an entry was told; nothing where the entry is gone."""
        if (marks := self.entries.get(name)) is None:
            return
        slot = slot_of(told.subject, told.about)
        marks.slots.pop(slot, None)  # the newest is the last
        lasts = told.about in FAULTS and not told.resolved
        # A fault that was resolved may come back with the same ID, and is told again.
        id_ = "" if told.resolved else told.id
        at = min(told.at or now, now)  # a forged time mustn't make later ones count as told
        marks.slots[slot] = Mark(id_, at, _OPEN if lasts else _TOLD)

    def record_result(self, name: str, result: str, now: str) -> bool:
        """Record the outcome of a message; returns whether it differs from the last one."""
        marks = self.entries.get(name)
        if marks is None:
            return False
        result = truncate(result, _MAX_RESULT)
        differs = marks.result != result
        marks.result, marks.result_at = result, now
        return differs

    def prune(self, most: int = NOTIFICATION_MARKS) -> None:
        """Drop marks over the limit, those set first of the entry that has most of them.

        What is as old counts as told from now on.
        """
        left = {name: len(one.slots) for name, one in self.entries.items()}
        for _ in range(sum(left.values()) - most):
            left[max(left, key=left.__getitem__)] -= 1
        for name, number in left.items():
            marks = self.entries[name]
            for slot in list(islice(marks.slots, len(marks.slots) - number)):
                marks.since = max(marks.since, marks.slots.pop(slot).at)
