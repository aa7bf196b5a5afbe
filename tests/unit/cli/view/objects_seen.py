"""Rules and Bundles as watches have them, for the tests of views."""

from typing import Any

from tests.targets import EVERYWHERE

from copyrator.api.keys import ObjectName
from copyrator.cli.view.overview import SeenCopies, Snapshot

PLAN: dict[str, Any] = {
    "outcome": "Planned",
    "id": "a" * 32,
    "job": "shop-plan-1",
    "version": "1.2.0",
    "operations": 4,
    "counts": {"create": 3, "delete": 1},
    "risky": ["delete :apps:StatefulSet:db"],
    "riskyOperations": 1,
    "expiresAt": "2026-01-03T12:00:00Z",
}
"""In a Bundle's status: it waits for approval."""


def seen(
    *bodies: dict[str, Any], copies: SeenCopies | None = None, namespaces: list[str] | None = None
) -> Snapshot:
    """What is known of these objects."""
    kinds: dict[str, dict[ObjectName, Any]] = {"CopyratorRule": {}, "Bundle": {}}
    for body in bodies:
        metadata = body["metadata"]
        kinds[body["kind"]][ObjectName(metadata["namespace"], metadata["name"])] = body
    return Snapshot(
        kinds["CopyratorRule"], kinds["Bundle"], copies or SeenCopies(), namespaces or ["team-a"]
    )


def rule(name: str, status: str = "True", reason: str = "Synced", **more: Any) -> dict[str, Any]:
    """A rule whose Ready condition has this status."""
    return _body("CopyratorRule", name, status, reason, more)


def bundle(
    name: str, status: str = "True", reason: str = "Deployed", **more: Any
) -> dict[str, Any]:
    """The same of a Bundle."""
    spec = {"registry": "registry:5000", "repo": "shop", "version": "1.*"}
    return _body("Bundle", name, status, reason, more) | {"spec": spec}


def _body(kind: str, name: str, status: str, reason: str, more: dict[str, Any]) -> dict[str, Any]:
    ready = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": more.pop("message", "" if status == "True" else "quota"),
        "lastTransitionTime": "2026-01-02T11:00:00Z",
    }
    conditions = [ready, *more.pop("conditions", ())]
    return {
        "apiVersion": "flant.com/v1" if kind == "CopyratorRule" else "operator.werf.dev/v1",
        "kind": kind,
        "metadata": {"namespace": "infra", "name": name, "resourceVersion": "1", "uid": name},
        "spec": {
            "source": {"kind": "Secret", "name": "s", "namespace": "infra"},
            "targets": EVERYWHERE,
        },
        "status": {"conditions": conditions, **more},
    }
