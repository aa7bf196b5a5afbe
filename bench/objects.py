"""The objects that the benchmarks make, many of a kind."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

_CONTENT = base64.b64encode(b"x" * 2048).decode()
"""2 KB: a certificate and its key."""

Request = tuple[str, Any]

_MARKS = {
    "labels": {"app.kubernetes.io/managed-by": "bench-bare"},
    "annotations": {
        "bare.bench.test/rule": "copyrator/bare",
        "bare.bench.test/source": "bare-source/bare",
        "bare.bench.test/content-hash": "0" * 32,
    },
}
"""As many and as long as a copy's own, under names that nobody watches."""


def secret_path(namespace: str, name: str = "") -> str:
    """Of a Secret, or of all of a namespace."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    return f"{path}/{name}" if name else path


def secret(name: str, *, turn: int = 0, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """A Secret of 2 KB; another ``turn``, another content."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels or {}},
        "data": {"content": _CONTENT, "turn": base64.b64encode(str(turn).encode()).decode()},
    }


def marked(body: dict[str, Any]) -> dict[str, Any]:
    """The same with a copy's label and annotations: the API server's work grows with each."""
    labels = {**body["metadata"]["labels"], **_MARKS["labels"]}
    return {**body, "metadata": {**body["metadata"], **_MARKS, "labels": labels}}


def creations(namespaces: Iterable[str], names: Iterable[str], **labels: str) -> list[Request]:
    """Requests that make each Secret in each namespace, marked as copies are."""
    bodies = [marked(secret(name, labels=labels)) for name in names]
    return [(secret_path(space), body) for space in namespaces for body in bodies]


def namespace(name: str, labels: dict[str, str]) -> Request:
    """A request that makes a namespace."""
    return ("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


def to_labelled(label: str) -> dict[str, Any]:
    """A rule's targets: the namespaces with this label."""
    return {"selector": {"matchLabels": {label: "yes"}}}


def from_labelled(namespace_: str, label: str) -> dict[str, Any]:
    """A rule's source: the Secrets with this label in a namespace."""
    selector = {"matchLabels": {label: "yes"}}
    return {"kind": "Secret", "namespace": namespace_, "selector": selector}
