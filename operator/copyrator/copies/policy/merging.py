"""The fields of a live object that stay when a copy is replaced whose kind we don't wholly own.

Controllers and other tools rightly add fields to such objects: a ServiceAccount's tokens and pull
secrets, a ResourceQuota's status. The fields that they own stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from copyrator.api import names
from copyrator.copies.policy.ownership import SEP, Shape

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
