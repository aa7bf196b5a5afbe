"""Whose fields are whose: managed fields of objects.

werf deploys by server-side apply: a field that the chart has no more goes away only if werf's
manager owns it. So werf takes over what `kubectl edit` and helm wrote, by a real write, even when
it only plans.
"""

from __future__ import annotations

import time
from typing import Any

from .client import FIELD_MANAGER, Client
from .errors import doing
from .manifests import Object

_OTHERS = "kubectl-edit"


def take_over(client: Client, live: Object) -> Object:
    """Make werf the owner of an object's fields; as it is afterwards.

    Raises:
        WerfError: the API server refuses.
    """
    entries = live["metadata"].get("managedFields", [])
    taken = [entry for entry in entries if _is_taken(entry)]
    if not taken:
        return live
    kept = [entry for entry in entries if not _is_taken(entry) and not _is_werfs(entry)]
    fields: dict[str, Any] = {}
    for entry in entries:
        if _is_taken(entry) or _is_werfs(entry):
            _merge(fields, entry["fieldsV1"])
    ours = {
        "manager": FIELD_MANAGER,
        "operation": "Apply",
        "apiVersion": live["apiVersion"],
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    name = f"{live['kind']}/{live['metadata']['name']}"
    with doing(f'fix managed fields for resource "{name}": patch managed fields'):
        return client.merge(live, {"metadata": {"managedFields": [*kept, ours]}})


def _is_werfs(entry: Object) -> bool:
    named = (entry["manager"], entry["operation"], entry.get("subresource"))
    return named == (FIELD_MANAGER, "Apply", None)


def _is_taken(entry: Object) -> bool:
    ours = (entry["manager"], entry["operation"]) == (FIELD_MANAGER, "Update")
    return (ours or entry["manager"] == _OTHERS) and "subresource" not in entry


def _merge(into: dict[str, Any], fields: dict[str, Any]) -> None:
    for name, inner in fields.items():
        _merge(into.setdefault(name, {}), inner)
