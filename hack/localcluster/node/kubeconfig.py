"""Kubeconfig files: reading the node's own, writing the ones that containers are given."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml

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
    ca: str
    tls: ssl.SSLContext
    serving: ssl.SSLContext


def load(path: Path) -> Connection:
    """Read the node's own: one cluster, and one user with a certificate (credentials.py)."""
    config = yaml.safe_load(path.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=ca)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as pair:
        for part in ("client-certificate-data", "client-key-data"):
            pair.write(base64.b64decode(user[part]) + b"\n")
        pair.flush()
        for context in (tls, serving):
            context.load_cert_chain(pair.name)
    return Connection(cluster["server"], ca, tls, serving)


def for_container(connection: Connection, *, token: str, token_file: Path, namespace: str) -> str:
    """Write a kubeconfig for a container, in JSON, which is YAML that anything can read.

    The token is there twice: clients that know `tokenFile` follow its renewals, the others take
    `token`.
    """
    server = Server(connection.server, connection.ca.encode())
    config = with_token(server, "pod", token, namespace)
    config["users"][0]["user"]["tokenFile"] = str(token_file)
    return json.dumps(config, indent=1)
