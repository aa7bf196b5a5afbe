"""The node's connection to the API server, and the kubeconfigs that containers are given."""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from localcluster.credentials import Server, with_token


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach an API server.

    Attributes:
        server: its URL.
        ca: the certificate authority in PEM.
        tls: the node's certificate as a client.
        serving: the same for what asks the node for logs: the API server doesn't check it unless
            told to (--kubelet-certificate-authority).
    """

    server: str
    ca: bytes
    tls: ssl.SSLContext
    serving: ssl.SSLContext

    @classmethod
    def of(cls, server: str, pki: Path) -> Self:
        """With the files that credentials.py wrote for the node."""
        tls = ssl.create_default_context(cafile=pki / "ca.crt")
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        for context in (tls, serving):
            context.load_cert_chain(pki / "node.crt", pki / "node.key")
        return cls(server, (pki / "ca.crt").read_bytes(), tls, serving)


def for_container(connection: Connection, *, token: str, namespace: str) -> str:
    """Write a kubeconfig for a container, in JSON, which is YAML that anything can read."""
    server = Server(connection.server, connection.ca)
    return json.dumps(with_token(server, "pod", token, namespace), indent=1)
