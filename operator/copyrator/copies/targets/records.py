"""The copies of one kind that exist in the cluster, at most 400 bytes each, indexed by owner.

A record is made from a copy's metadata alone. What is the same for many copies (the rule's name,
who wrote which fields) is shared; metadata that others added is kept only where there is any.

Watched objects are read from the reflector's own store, so that each copy is held once. Our own
writes that the watch hasn't delivered yet are kept on top: without them, a key that is reconciled
twice within milliseconds would be written twice.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.copies.seal.sealing import DIGEST_BYTES, Sealer
from copyrator.copies.targets.marks import OUR_KEYS
from copyrator.copies.targets.ownership import ANNOTATIONS, LABELS, Ownership, Shape, Shapes

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

UNKNOWN: Final = bytes(DIGEST_BYTES)
"""The digest of an object without a valid seal."""


@dataclass(frozen=True, slots=True)
class Extras:
    """Metadata that others added to a copy, which our writes keep."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owners: tuple[Mapping[str, Any], ...] = ()
    deleting: bool = False
    marks: str = ""
    """The rule that its marks name, where no valid seal proves that we wrote them."""
    unlabelled: bool = False
    """It lacks our label, so the watch of copies doesn't deliver it."""


NO_EXTRAS: Final = Extras()


class CopyRecord:
    """One object that has our managed-by label."""

    __slots__ = ("_identity", "_version", "extras", "owner", "shape")

    def __init__(
        self,
        *,
        uid: str,
        resource_version: str,
        owner: str,
        digest: bytes,
        shape: Shape,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        self._identity = digest + _pack_uid(uid)
        self._version = int(resource_version) if resource_version.isdigit() else resource_version
        self.owner = owner
        """``namespace/name`` of the rule; empty where the object isn't ours."""
        self.shape = shape
        """Which manager wrote which field; ACCEPTED where this version is accepted as it is."""
        self.extras = extras

    @property
    def uid(self) -> str:
        """The object's uid."""
        raw = self._identity[DIGEST_BYTES:]
        return str(uuid.UUID(bytes=raw)) if len(raw) == 16 else raw.decode()

    @property
    def packed_uid(self) -> bytes:
        """The object's uid as it is kept, for comparisons."""
        return self._identity[DIGEST_BYTES:]

    @property
    def resource_version(self) -> str:
        """The version that this record was read at."""
        return str(self._version)

    @property
    def digest(self) -> bytes:
        """Of the content that we last wrote, or UNKNOWN."""
        return self._identity[:DIGEST_BYTES]

    @property
    def marks(self) -> str:
        """The rule that its marks name without proof: the key was lost, or they are forged."""
        return self.extras.marks

    @property
    def deleting(self) -> bool:
        """Being deleted, and held by a finalizer."""
        return self.extras.deleting

    def is_newer_than(self, other: CopyRecord) -> bool:
        """Whether this is the later one of two records of one object; unknown counts as newer."""
        if isinstance(self._version, int) and isinstance(other._version, int):
            return self._version > other._version
        return self._version != other._version

    def is_delivered(self, version: int) -> bool:
        """Whether a watch that has delivered everything up to `version` has delivered this."""
        if self.extras.unlabelled or not isinstance(self._version, int):
            return False
        return self._version <= version

    def __repr__(self) -> str:
        return f"CopyRecord(owner={self.owner!r}, resource_version={self._version})"


def _pack_uid(uid: str) -> bytes:
    """16 bytes for a UUID in canonical form; anything else as it is, never 16 bytes long."""
    if _UUID.fullmatch(uid):
        return bytes.fromhex(uid.replace("-", ""))
    raw = uid.encode()
    return raw if len(raw) != 16 else raw + b"\0"


class RecordReader:
    """Turns the metadata of one kind's objects into records."""

    def __init__(self, kind: str, sealer: Sealer, shapes: Shapes) -> None:
        self._kind = kind
        self._sealer = sealer
        self._shapes = shapes

    def __call__(self, body: Mapping[str, Any]) -> CopyRecord:
        """Read an object, whole or metadata only."""
        metadata = body["metadata"]
        fields = self._shapes.read(metadata.get("managedFields"))
        owner, digest = self._owner(metadata)
        marks = "" if owner else _marks(metadata)
        return CopyRecord(
            uid=str(metadata["uid"]),
            resource_version=str(metadata["resourceVersion"]),
            owner=owner,
            digest=digest,
            shape=fields.shape,
            extras=_extras(metadata, fields, marks),
        )

    def _owner(self, metadata: Mapping[str, Any]) -> tuple[str, bytes]:
        """An object is ours if it has our seal for its place.

        Marks and a field manager's name prove nothing: anybody may write both.
        """
        annotations = metadata.get("annotations") or {}
        owner = annotations.get(names.ANN_RULE)
        if not owner:
            return "", UNKNOWN
        owner = sys.intern(str(owner))
        digest = self._sealer.open(
            annotations.get(names.ANN_HASH, ""),
            self._kind,
            metadata.get("namespace", ""),
            metadata["name"],
            owner,
        )
        return ("", UNKNOWN) if digest is None else (owner, digest)


def _marks(metadata: Mapping[str, Any]) -> str:
    """The rule that the marks of an object name; empty where they aren't complete."""
    if not _is_labelled(metadata):
        return ""
    return sys.intern(str((metadata.get("annotations") or {}).get(names.ANN_RULE) or ""))


def _is_labelled(metadata: Mapping[str, Any]) -> bool:
    labels = metadata.get("labels") or {}
    return bool(labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY)


def _extras(metadata: Mapping[str, Any], fields: Ownership, marks: str) -> Extras:
    labels = _unmanaged(metadata.get("labels"), LABELS, fields)
    annotations = _unmanaged(metadata.get("annotations"), ANNOTATIONS, fields)
    finalizers = metadata.get("finalizers")
    owners = metadata.get("ownerReferences")
    deleting, unlabelled = "deletionTimestamp" in metadata, not _is_labelled(metadata)
    if not (labels or annotations or finalizers or owners or deleting or marks or unlabelled):
        return NO_EXTRAS
    return Extras(
        labels=labels,
        annotations=annotations,
        finalizers=tuple(finalizers or ()),
        owners=tuple(owners or ()),
        deleting=deleting,
        marks=marks,
        unlabelled=unlabelled,
    )


def _unmanaged(found: Mapping[str, str] | None, prefix: str, fields: Ownership) -> dict[str, str]:
    """Metadata that aren't ours alone: set by others, or by an unknown manager."""
    return {
        key: value
        for key, value in (found or {}).items()
        if key not in OUR_KEYS
        and (prefix + key not in fields.shape.ours or prefix + key in fields.others)
    }


Name = tuple[str, str]
"""Namespace and name; an ObjectName is one too, and finds the same entry."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Our own write: the copy from the response; None where the object of ``uid`` was deleted."""

    record: CopyRecord | None
    uid: bytes
    age: int
    """The count of ``forget_stale`` when it was written."""

    def is_overtaken_by(self, seen: CopyRecord | None) -> bool:
        """Whether the watch, which has ``seen`` now, has delivered this write."""
        if self.record is None:
            return seen is None or seen.packed_uid != self.uid
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

    def written(self, name: Name, version: str) -> CopyRecord | None:
        """The record of our own write of this version, which the watch hasn't delivered yet."""
        found = self._written.get(name)
        record = found.record if found else None
        return record if record and record.resource_version == version else None

    def owned_by(self, owner: str) -> Collection[Name]:
        """The names of the copies of a rule (``namespace/name``)."""
        return self._by_owner.get(owner, ())

    def wrote(self, name: Name, record: CopyRecord) -> None:
        """Cache a copy as the response to our write shows it, until the watch delivers it.

        Where the watch was faster and that version was accepted, its record is accepted too.
        """
        seen = self._store.get(name)
        uid = record.packed_uid
        if seen is not None and seen.packed_uid == uid and _version(seen) == _version(record):
            seen.shape = record.shape
        self._remember(name, _Written(record, uid, self._age))

    def deleted(self, name: Name, uid: str) -> None:
        """Cache that we deleted the object of this uid, until the watch delivers it."""
        self._remember(name, _Written(None, _pack_uid(uid), self._age))

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
    if new is not None or old is None or written.record is None:
        return False
    return old.packed_uid == written.uid


def _version(record: CopyRecord | None) -> int | str | None:
    return record._version if record else None
