"""The record of a copy: at most 400 bytes, from its metadata alone.

Everything that is the same for many copies (the rule's name, who wrote which fields) is shared;
metadata that others added is kept only where there is any.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.copies.policy.metadata import OUR_KEYS
from copyrator.copies.policy.ownership import ANNOTATIONS, LABELS, Ownership, Shape, Shapes
from copyrator.copies.policy.sealing import DIGEST_BYTES, Sealer

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
