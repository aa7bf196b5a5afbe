"""Which transitions each entry was told about, in the ConfigMap ``copyrator-notification-marks``.

For each entry, object and kind of transition there is one mark: the ID of the newest one that was
told. So neither a restart nor another leader repeats a message, and what happened in between is
told. Without a mark the time decides: what is no newer than ``since`` counts as told. That is when
the entry was first seen, or the time of the newest mark that was dropped because there were too
many. The mark of a fault that lasts names its object, so that its end is told where it was deleted
while no operator ran. Pure, but for the object's own state.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec

from copyrator.api.text import check_namespace, check_object_name, truncate
from copyrator.notify.config import Entry, SubjectKind
from copyrator.notify.transitions import (
    FAULTS,
    ObjectIdentity,
    ObjectState,
    Transition,
    slot_of,
)

NOTIFICATION_MARKS: Final = 5_000
"""Marks of transitions that were told, of all entries together; older transitions count as told."""

NOTIFICATION_MARKS_BYTES: Final = 1_000_000
"""Bytes of all marks; a ConfigMap takes 1 MiB. Beyond it the oldest marks of faults don't name
their objects any more: with the longest names 1,500 do, with 50 characters of names all."""

CONFIG_MAP: Final = "copyrator-notification-marks"
KEY: Final = "marks.json"
_TIME: Final = re.compile(r"[0-9TZ:.+-]{1,40}")
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_MAX_RESULT: Final = 200
_OPEN: Final = "!"
_TOLD: Final = "."


class Mark(msgspec.Struct, array_like=True, frozen=True):
    """The newest transition of a kind that was told."""

    id: str
    at: str
    state: str
    """``!``: a fault that lasts; ``.``: anything else."""
    subject: tuple[str, ...] = ()
    """Of a fault that lasts kind, namespace, name and uid of its object; else empty."""

    @property
    def open_subject(self) -> ObjectIdentity | None:
        """The object of a fault that lasts; None where it isn't known."""
        if self.state != _OPEN or len(self.subject) != 4:
            return None
        kind, namespace, name, uid = self.subject
        named = check_namespace(namespace) is None and check_object_name(name) is None
        if kind not in _KINDS or not named or not _UID.fullmatch(uid):
            return None
        return ObjectIdentity(SubjectKind(kind), namespace, name, uid)


_KINDS: Final = frozenset(SubjectKind)


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
        if not isinstance(written, str):
            raise ValueError("it has no marks")
        try:
            return cls(msgspec.json.decode(written, type=_Stored).entries)
        except RecursionError:
            raise ValueError("its marks are nested too deeply") from None

    def to_data(self) -> dict[str, str]:
        """The ConfigMap's data, of at most NOTIFICATION_MARKS_BYTES."""
        encoded = msgspec.json.encode(_Stored(self.entries))
        if (excess := len(encoded) - NOTIFICATION_MARKS_BYTES) > 0:
            self._forget_names(excess)
            encoded = msgspec.json.encode(_Stored(self.entries))
        return {KEY: encoded.decode()}

    def _forget_names(self, excess: int) -> None:
        """Leave so many bytes of names out, those of the oldest faults."""
        named = (
            (mark.at, slot, mark, marks.slots)
            for marks in self.entries.values()
            for slot, mark in marks.slots.items()
            if mark.subject
        )
        for at, slot, mark, slots in sorted(named, key=lambda one: one[:2]):
            if excess <= 0:
                return
            slots[slot] = Mark(mark.id, at, mark.state)
            excess -= sum(map(len, mark.subject))

    @property
    def open_subjects(self) -> set[ObjectIdentity]:
        """The objects that have a fault which was told, and whose end wasn't."""
        marks = (mark for one in self.entries.values() for mark in one.slots.values())
        return {subject for mark in marks if (subject := mark.open_subject) is not None}

    def follow(self, entries: Collection[Entry], now: str, *, keep: bool = False) -> bool:
        """Begin the marks of new entries, drop those of removed ones; whether anything changed."""
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
        """What an entry, which ``follow`` knows, is to be told about an object now.

        ``seen``: the IDs of what held when this process last saw the object; None: it didn't.
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
        at = now
        if _TIME.fullmatch(told.at):  # a forged one mustn't make later ones count as told
            at = min(told.at, now)
        subject = told.subject
        named = (*map(str, subject.place), subject.uid) if lasts else ()
        marks.slots[slot] = Mark(id_, at, _OPEN if lasts else _TOLD, named)

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
        numbers = [len(one.slots) for one in self.entries.values()]
        if sum(numbers) <= most:
            return
        together = lambda each: sum(min(each, number) for number in numbers)  # noqa: E731
        each = bisect(range(most + 1), most, key=together) - 1
        for marks in self.entries.values():
            for slot in list(islice(marks.slots, max(0, len(marks.slots) - each))):
                marks.since = max(marks.since, marks.slots.pop(slot).at)
