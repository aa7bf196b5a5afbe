"""Which manager wrote which field of an object, by ``metadata.managedFields``.

This detects drift by metadata alone, without reading a Secret's data: a value that another client
edits moves to its entry, a key that it adds is in its entry, a key that it deletes is missing from
ours (measured: docs/facts/writes.md).

A PUT makes us the owner of what it changes only. What an adopted (or restored) object had already
stays its former writer's, and would look like drift at every start: then the PUT sets managedFields
itself, which the API server takes as the state before the write.

Of kinds that we don't wholly own, fields of controllers and other tools stay when a copy is
replaced: a ServiceAccount's tokens and pull secrets, a ResourceQuota's status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec.json import decode, encode

from copyrator.api import names
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
    ancestors = {above for path in shape.ours for above in _above(path)}
    return all(_is_present(path, shape.ours, ancestors) for path in _leaves(wanted, ""))


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterable[str]:
    for key, below in value.items():
        if isinstance(below, Mapping) and below:
            yield from _leaves(below, f"{prefix}{key}{SEP}")
        elif below not in (None, [], {}, ""):
            yield prefix + key


def _is_present(path: str, ours: frozenset[str], ancestors: set[str]) -> bool:
    """A leaf counts where we own it, a field below it, or an atomic field above it."""
    return path in ours or path in ancestors or any(above in ours for above in _above(path))


def _above(path: str) -> Iterable[str]:
    steps = path.split(SEP)
    return (SEP.join(steps[:depth]) for depth in range(1, len(steps)))


def claimed_fields(
    managed_fields: Iterable[Mapping[str, Any]] | None, body: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The managedFields of an object of which we own the whole content from now on.

    Others keep what they own of the metadata, except the labels and annotations that we write.

    Args:
        managed_fields: of the live object.
        body: the wanted object, as ``new_object`` makes it: only what is ours.
    """
    ours = _our_fields(body)
    kept = []
    for entry in managed_fields or ():
        if entry.get("subresource"):
            kept.append(dict(entry))
        elif entry.get("manager") != FIELD_MANAGER:
            metadata = (entry.get("fieldsV1") or {}).get("f:metadata")
            left = _without(metadata or {}, ours["f:metadata"])
            if any(step != "." for step in left):
                kept.append({**entry, "fieldsV1": {"f:metadata": left}})
    own = {
        "manager": FIELD_MANAGER,
        "operation": "Update",
        "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": ours,
    }
    return [*kept, own]


def _our_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in body.items():
        if name == "metadata":
            fields["f:metadata"] = {
                f"f:{part}": _keys(value[part]) for part in ("labels", "annotations")
            }
        elif name not in ("apiVersion", "kind"):
            fields[f"f:{name}"] = _keys(value) if isinstance(value, Mapping) else {}
    return fields


def _keys(found: Mapping[str, Any]) -> dict[str, Any]:
    return {".": {}, **{f"f:{key}": {} for key in found}}


def _without(fields: Mapping[str, Any], taken: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without the leaves that are taken."""
    left: dict[str, Any] = {}
    for step, below in fields.items():
        if step == "." or step not in taken:
            left[step] = below
        elif below and any(key != "." for key in below):
            rest = _without(below, taken[step])
            if any(key != "." for key in rest):
                left[step] = rest
    return left


REFERENCES = "imagePullSecrets"
"""A list of names to which several may add, though the API server records one owner for all of it
(listType atomic): an annotation lists which items are ours.
"""


def reference_marks(payload: Mapping[str, Any]) -> dict[str, str]:
    """The annotation that lists which references of a copy are ours, where it has any."""
    found = payload.get(REFERENCES)
    if not found or not _is_reference_list(found):
        return {}
    return {names.ANN_REFERENCES: ",".join(sorted(item["name"] for item in found))}


def merge_into(live: Mapping[str, Any], body: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Add to a replacing body the fields of the live object that others own.

    Top-level fields that we neither want nor wrote before stay; of a list of references the items
    that we didn't write stay.
    """
    fields = {path.split(SEP, 1)[0] for path in shape.ours}
    for name, value in live.items():
        if name == "status" or (name not in body and name not in fields):
            body[name] = value
        elif _is_reference_list(value) and _is_reference_list(body.get(name, [])):
            merged = _merged_references(value, body.get(name, []), _our_items(live, name, shape))
            if merged or name in body:
                body[name] = merged
    return body


def is_unchanged(live: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether writing a merged body would change nothing."""
    old, new = live["metadata"], body["metadata"]
    mine = ("labels", "annotations", "finalizers", "ownerReferences")
    return all((old.get(part) or None) == (new.get(part) or None) for part in mine) and all(
        live.get(name) == body.get(name) for name in live.keys() | body.keys() if name != "metadata"
    )


def _is_reference_list(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and set(item) == {"name"} for item in value
    )


def _our_items(live: Mapping[str, Any], field: str, shape: Shape) -> set[str]:
    """The names in a list of references that we wrote."""
    marks = (live.get("metadata") or {}).get("annotations") or {}
    said = marks.get(names.ANN_REFERENCES, "") if field == REFERENCES else ""
    keyed = [path for path in shape.ours if path.startswith(f"{field}{SEP}k:")]
    return {
        item["name"]
        for item in live[field]
        if item["name"] in said.split(",") or any(f'"{item["name"]}"' in path for path in keyed)
    }


def _merged_references(
    live: list[dict[str, str]], wanted: list[dict[str, str]], ours: set[str]
) -> list[dict[str, str]]:
    """In the order of the live list, so that nothing is written where nothing is missing."""
    kept = [item for item in live if item in wanted or item["name"] not in ours]
    return [*kept, *(item for item in wanted if item not in kept)]
