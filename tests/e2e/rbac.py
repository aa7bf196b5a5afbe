"""Rights in a cluster: what somebody may do, in a namespace or everywhere."""

from __future__ import annotations

from typing import Any

from localcluster import Api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
_GROUP = "rbac.authorization.k8s.io"


def account(namespace: str, name: str) -> dict[str, str]:
    """A service account as the subject of a binding."""
    return {"kind": "ServiceAccount", "namespace": namespace, "name": name}


def user(name: str) -> dict[str, str]:
    """A user as the subject of a binding."""
    return {"kind": "User", "apiGroup": _GROUP, "name": name}


def rule(verbs: str, *resources: str, group: str = "", **more: list[str]) -> dict[str, Any]:
    """`rule("get list", "pods")`."""
    return {"apiGroups": [group], "resources": [*resources], "verbs": verbs.split(), **more}


def bind(
    api: Api, subject: dict[str, str], cluster_role: str, namespace: str = "", name: str = ""
) -> None:
    """Give somebody a ClusterRole, in a namespace or everywhere."""
    _bind(api, subject, {"kind": "ClusterRole", "name": cluster_role}, namespace, name)


def grant(
    api: Api, subject: dict[str, str], *rules: dict[str, Any], namespace: str = "", name: str = ""
) -> None:
    """Give somebody these rules by a role of their own, in a namespace or everywhere."""
    kind, place = _place(namespace)
    named = {"name": name or subject["name"]}
    api.create(f"{place}{kind.lower()}s", {"metadata": named, "rules": [*rules]})
    _bind(api, subject, {"kind": kind, **named}, namespace, name)


def revoke(api: Api, name: str, namespace: str = "") -> None:
    """Take away what was granted under this name."""
    kind, place = _place(namespace)
    for plural in ("bindings", "s"):
        api.delete(f"{place}{kind.lower()}{plural}/{name}")


def may(api: Api, who: str, **attributes: str) -> bool:
    """Ask the authorizer, which learns of a changed role a moment later."""
    review = {"spec": {"user": who, "resourceAttributes": attributes}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(api.create(path, review)["status"]["allowed"])


def _bind(
    api: Api, subject: dict[str, str], role: dict[str, str], namespace: str, name: str
) -> None:
    kind, place = _place(namespace)
    body = {
        "metadata": {"name": name or subject["name"]},
        "roleRef": {"apiGroup": _GROUP, **role},
        "subjects": [subject],
    }
    api.create(f"{place}{kind.lower()}bindings", body)


def _place(namespace: str) -> tuple[str, str]:
    """The kind of a role there, and the path of its collections."""
    return ("Role", f"{RBAC}/namespaces/{namespace}/") if namespace else ("ClusterRole", f"{RBAC}/")
