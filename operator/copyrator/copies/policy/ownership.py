"""Which manager wrote which field of an object, read from ``metadata.managedFields``.

This detects drift by metadata alone, without reading a Secret's data: a value that another client
edits moves to its entry, a key that it adds is in its entry, a key that it deletes is missing from
ours (measured: docs/facts/writes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec.json import decode, encode

from copyrator.api.names import FIELD_MANAGER

SEP: Final = "\n"
"""Separates the steps of a path; no key, label or field name can contain it."""

LABELS: Final = "metadata" + SEP + "labels" + SEP
ANNOTATIONS: Final = "metadata" + SEP + "annotations" + SEP
_METADATA: Final = "metadata" + SEP


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Shape:
    """The fields of one copy by owner; shared by all copies that have the same.

    Paths are steps joined by SEP, as ``data`` SEP ``password``.
    """

    ours: frozenset[str]
    """Fields of our last write that weren't changed since."""
    foreign: frozenset[str]
    """Content (not metadata, not a subresource's) that others set and we didn't."""

    def owns_label(self, key: str) -> bool:
        """Whether a label is as we wrote it."""
        return LABELS + key in self.ours

    def owns_annotation(self, key: str) -> bool:
        """Whether an annotation is as we wrote it."""
        return ANNOTATIONS + key in self.ours


ACCEPTED: Final = Shape(frozenset(), frozenset())
"""The ownership of a copy that appears to be changed by others after our own write.

An admission webhook changes what we send, or managedFields don't record any more who wrote what.
Writing again would have the same result, for ever.
"""


@dataclass(frozen=True, slots=True)
class Ownership:
    """One object's managedFields: its shape, and the metadata that others (also) set."""

    shape: Shape
    others: frozenset[str]
    """Paths under ``metadata`` that any other manager has set."""


class Shapes:
    """Interns shapes, so that ten thousand copies of one source share one."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[frozenset[str], frozenset[str]], Shape] = (
            WeakValueDictionary()
        )

    def read(self, managed_fields: Iterable[Mapping[str, Any]] | None) -> Ownership:
        """Read an object's managedFields."""
        ours: set[str] = set()
        others: set[str] = set()
        for entry in managed_fields or ():
            if entry.get("subresource"):
                continue
            mine = entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Update"
            (ours if mine else others).update(paths_of(entry))
        foreign = frozenset(
            path for path in others - ours if not path.startswith(_METADATA) and path != "metadata"
        )
        key = (frozenset(ours), foreign)
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = Shape(*key)
        return Ownership(shape, frozenset(p for p in others if p.startswith(_METADATA)))


def paths_of(entry: Mapping[str, Any]) -> frozenset[str]:
    """The fields that one entry of managedFields has, as in Shape."""
    return _paths(encode(entry.get("fieldsV1") or {}))


@lru_cache(maxsize=1_024)
def _paths(fields: bytes) -> frozenset[str]:
    """The leaves of one entry's fields; cached: ten thousand copies of one source share them."""
    found: set[str] = set()
    _flatten(decode(fields), "", found)
    return frozenset(found)


def _flatten(fields: Mapping[str, Any], prefix: str, into: set[str]) -> None:
    """Collect the leaves: ``f:name`` is a field, ``k:{…}`` and ``v:…`` an item of a list."""
    for step, below in fields.items():
        if step == ".":
            continue
        path = prefix + step.removeprefix("f:")
        if isinstance(below, Mapping) and any(key != "." for key in below):
            _flatten(below, path + SEP, into)
        else:
            into.add(path)


def is_ours_exactly(wanted: Mapping[str, Any], shape: Shape) -> bool:
    """Drift of a ConfigMap or Secret: its keys are exactly those that we wrote, all as we wrote.

    ``wanted`` is the content without metadata.
    """
    if shape.foreign:
        return False
    keys: set[str] = set()
    for name, value in wanted.items():
        if isinstance(value, Mapping):
            keys.update(f"{name}{SEP}{key}" for key in value)
        elif value is not None:
            keys.add(name)
    found = {path for path in shape.ours if not path.startswith(_METADATA)}
    return keys == found - _EMPTY_MAPS


_EMPTY_MAPS: Final = frozenset({"data", "binaryData", "metadata"})


def is_ours_enough(wanted: Mapping[str, Any], shape: Shape) -> bool:
    """Drift of any other kind, where the server and controllers rightly add fields of their own.

    No other manager set anything under the top-level fields that we write, except items of keyed
    lists, and nothing that we wrote is missing.
    """
    for path in shape.foreign:
        steps = path.split(SEP)
        if steps[0] in wanted and not any(step.startswith(("k:", "v:")) for step in steps):
            return False
    ancestors = _ancestors(shape.ours)
    return all(_is_present(path, shape.ours, ancestors) for path in _leaves(wanted, ""))


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterable[str]:
    for key, below in value.items():
        if isinstance(below, Mapping) and below:
            yield from _leaves(below, f"{prefix}{key}{SEP}")
        elif below not in (None, [], {}, ""):
            yield prefix + key


def _ancestors(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        found.update(_above(path))
    return found


def _is_present(path: str, ours: frozenset[str], ancestors: set[str]) -> bool:
    """A leaf counts where we own it, a field below it, or an atomic field above it."""
    return path in ours or path in ancestors or any(above in ours for above in _above(path))


def _above(path: str) -> Iterable[str]:
    steps = path.split(SEP)
    return (SEP.join(steps[:depth]) for depth in range(1, len(steps)))
