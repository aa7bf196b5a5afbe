"""Sets managedFields where the API server can't derive them: when an object is adopted.

A PUT makes us the owner of what it changes only. What an adopted (or restored) object had already
stays its former writer's in ``managedFields``, and would look like drift at every start. A PUT may
set managedFields itself; the API server takes them as the state before the write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from copyrator.api.names import FIELD_MANAGER


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
