"""What the copies should be, worked out anew from what was done, and all that isn't so.

Nothing here is shared with the operator.
"""

from __future__ import annotations

import base64
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.e2e.faults.churn import IGNORE, OURS, PLURALS, RULE, Churn, Place, mark_of, path_of

from localcluster.api import ApiStatusError


@dataclass(frozen=True)
class Copy:
    """What one rule wants in one place."""

    rule: str
    data: dict[str, str]
    labels: dict[str, str]


def wanted(churn: Churn) -> dict[Place, list[Copy]]:
    """All places where a copy should stand, with what each rule that wants it would put there."""
    found: dict[Place, list[Copy]] = {}
    for name, rule in churn.rules.items():
        for namespace, labels in churn.namespaces.items():
            if _means(rule.spec["targets"], namespace, labels):
                for place, copy in _copies(churn, name, rule.spec, namespace):
                    found.setdefault(place, []).append(copy)
    return found


def _means(targets: dict[str, Any], namespace: str, labels: dict[str, str]) -> bool:
    selected = targets.get("selector", {}).get("matchLabels", {})
    return (
        IGNORE not in labels
        and any(fnmatch.fnmatchcase(namespace, glob) for glob in targets["namespaces"])
        and not any(fnmatch.fnmatchcase(namespace, glob) for glob in targets.get("exclude", ()))
        and selected.items() <= labels.items()
    )


def _copies(
    churn: Churn, rule: str, spec: dict[str, Any], namespace: str
) -> Iterator[tuple[Place, Copy]]:
    if template := spec.get("template"):
        rendered = {"namespace": namespace, "team": churn.namespaces[namespace]["team"]}
        data = {**template["data"], **rendered}
        yield ("ConfigMap", namespace, "rendered"), Copy(rule, data, {})
        return
    origin, transform = spec["source"], spec.get("transform", {})
    selected = origin.get("selector", {}).get("matchLabels", {})
    renamed = transform.get("keys", {}).get("rename", {})
    added = transform.get("labels", {}).get("add", {})
    taken = set()
    for home in origin["namespaces"]:
        for (kind, where, name), source in churn.sources.items():
            if (kind, where) != (origin["kind"], home) or name in taken:
                continue
            if name != origin.get("name", name) or not selected.items() <= source.labels.items():
                continue
            taken.add(name)  # of two sources of one name the one in the first listed place wins
            data = {renamed.get(key, key): value for key, value in source.data.items()}
            given = transform.get("name", name).replace("{{ source.name }}", name)
            yield (kind, namespace, given), Copy(rule, data, {**source.labels, **added})


def faults(churn: Churn) -> list[str]:
    """All that isn't as it should be, in words; empty when everything is right."""
    meant, standing = wanted(churn), dict(_standing(churn))
    wrong = [
        place
        for place in meant.keys() & standing.keys()
        if not any(_is_as(copy, churn, standing[place]) for copy in meant[place])
    ]
    return [
        *(f"nobody wants the copy at {place}" for place in standing.keys() - meant.keys()),
        *(
            f"no copy stands at {place}"
            for place in meant.keys() - standing.keys() - churn.foreign.keys()
        ),
        *(f"the copy at {place} is none of {meant[place]}: {standing[place]}" for place in wrong),
        *_touched(churn),
        *_left_over(churn),
        *(fault for name in churn.rules for fault in _untrue_status(churn, name, standing)),
    ]


def _standing(churn: Churn) -> Iterator[tuple[Place, dict[str, Any]]]:
    """All copies in the cluster that rules of this world made, wherever they stand."""
    for kind, plural in PLURALS.items():
        listed = churn.api.get(f"/api/v1/{plural}", labelSelector=f"{OURS}=copyrator")
        for item in listed["items"]:
            metadata = item["metadata"]
            if _owner(churn, item):
                yield (kind, metadata["namespace"], metadata["name"]), item


def _owner(churn: Churn, found: dict[str, Any]) -> str:
    """The name of the rule that an object is a copy of; empty where it is none."""
    home, _, rule = found["metadata"].get("annotations", {}).get(RULE, "").partition("/")
    return rule if home == churn.home else ""


def _is_as(copy: Copy, churn: Churn, found: dict[str, Any]) -> bool:
    data = found.get("data", {})
    if found.get("type"):
        data = {key: base64.b64decode(value).decode() for key, value in data.items()}
    return (
        _owner(churn, found) == copy.rule
        and data == copy.data
        and found["metadata"]["labels"] == {**copy.labels, OURS: "copyrator"}
    )


def _touched(churn: Churn) -> Iterator[str]:
    sources = {place: source.mark for place, source in churn.sources.items()}
    for place, mark in {**churn.foreign, **sources}.items():
        try:
            found = churn.api.get(path_of(*place))
        except ApiStatusError:
            yield f"the object at {place} that isn't ours is gone"
            continue
        if mark_of(found) != mark:
            yield f"the object at {place} that isn't ours was touched: {found['metadata']}"


def _left_over(churn: Churn) -> Iterator[str]:
    """What was deleted, and is held by a finalizer."""
    for item in churn.api.get(churn.rule_path())["items"]:
        if item["metadata"]["name"] not in churn.rules:
            yield f"the deleted rule {item['metadata']['name']} is still there"
    for item in churn.api.get("/api/v1/namespaces")["items"]:
        name = item["metadata"]["name"]
        if name.startswith(f"{churn.word}-") and name not in churn.namespaces:
            yield f"the deleted namespace {name} is still there"


def _untrue_status(churn: Churn, name: str, standing: dict[Place, dict[str, Any]]) -> Iterator[str]:
    """The rule's own count of its copies has to be the truth."""
    rule = churn.api.get(churn.rule_path(name))
    status = rule.get("status", {})
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    if conditions.get("Ready", {}).get("observedGeneration") != rule["metadata"]["generation"]:
        yield f"the status of {name} is of an older spec: {status}"
    owned = sum(_owner(churn, copy) == name for copy in standing.values())
    said = status.get("copies", {})
    if said.get("ready", 0) != owned or said.get("pending", 0) or said.get("failed", 0):
        yield f"{name} has {owned} copies, and its status says {said}"
