"""Kubeconfig files: pure documents of one cluster, one user, one context."""

import base64
from dataclasses import dataclass
from typing import Any

CLUSTER_NAME = "copyrator-local"


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server is and whom to trust as it; `authority` is the CA certificate, PEM."""

    url: str
    authority: bytes


def with_certificate(server: Server, user: str, certificate: bytes, key: bytes) -> dict[str, Any]:
    """A kubeconfig for a user that proves itself by a client certificate (PEM)."""
    credentials = {
        "client-certificate-data": _encode(certificate),
        "client-key-data": _encode(key),
    }
    return _document(server, user, credentials, namespace="default")


def with_token(server: Server, user: str, token: str, namespace: str) -> dict[str, Any]:
    """A kubeconfig for a user that proves itself by a bearer token."""
    return _document(server, user, {"token": token}, namespace)


def _document(
    server: Server, user: str, credentials: dict[str, str], namespace: str
) -> dict[str, Any]:
    cluster = {"server": server.url, "certificate-authority-data": _encode(server.authority)}
    context = {"cluster": CLUSTER_NAME, "user": user, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": CLUSTER_NAME, "context": context}],
        "current-context": CLUSTER_NAME,
    }


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
