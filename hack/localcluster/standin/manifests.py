"""Manifests as objects, and the labels and annotations that werf adds to them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from . import tools

Object = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace (empty for the release's own) and name."""
EXTRA = "STANDIN_WERF_EXTRA_METADATA"
POST_RENDER = "standin-post-render"
_WORKLOADS = ("Deployment", "Job", "Pod", "StatefulSet")


def parse(manifest: str) -> list[Object]:
    """Read YAML with one or many objects. kubectl does it: Python's library has no YAML."""
    if not any(line.strip("-# \t") for line in manifest.splitlines() if not line.startswith("#")):
        return []
    read = tools.run(
        "kubectl",
        *("patch", "--local", "--type", "merge", "--patch", "{}", "-o", "json", "-f", "-"),
        stdin=manifest,
    )
    return list(tools.json_stream(read.checked("parse manifests")))


def keyed(objects: Iterable[Object], namespace: str) -> dict[Key, Object]:
    """Objects by what identifies them in a release."""
    result = {}
    for body in objects:
        where = body["metadata"].get("namespace", "")
        where = "" if where == namespace else where
        result[(body["kind"], where, body["metadata"]["name"])] = body
    return result


def human(key: Key) -> str:
    """An object as werf names it: ``ConfigMap/name``, with the namespace if it is another one."""
    return "/".join(part for part in key if part)


def titled(key: Key) -> str:
    """An object as werf names it in plans: ``ConfigMap/name (namespace=other)``."""
    kind, namespace, name = key
    return f"{kind}/{name}" + (f" (namespace={namespace})" if namespace else "")


def add_metadata() -> int:
    """Helm's post-renderer: add what the variable EXTRA holds to every object on stdin."""
    extra = json.loads(os.environ[EXTRA])
    for body in parse(sys.stdin.read()):
        for member in ("labels", "annotations"):
            if extra[member]:
                body["metadata"][member] = {**body["metadata"].get(member, {}), **extra[member]}
        sys.stdout.write(f"---\n{json.dumps(body)}\n")
    return 0


def finished(body: Mapping[str, Any]) -> bool:
    """Whether a live object is as far as a deploy waits for it."""
    if body["kind"] not in _WORKLOADS:
        return True
    status = body.get("status", {})
    true = {c["type"] for c in status.get("conditions", []) if c["status"] == "True"}
    match body["kind"]:
        case "Pod":
            return status.get("phase") == "Succeeded" or "Ready" in true
        case "Job":
            return "Complete" in true
        case _:
            return int(status.get("readyReplicas", 0)) >= int(body["spec"].get("replicas", 1))
