"""Kubeconfigs of other clusters, with a CA that signs nothing."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

SERVER = "https://other.example.com:6443"
TOKEN = "t0ken-of-the-team"


@cache
def ca(name: str = "ca") -> str:
    """A certificate in PEM; another one for another name."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now - timedelta(days=1),
        not_valid_after=now + timedelta(days=3650),
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def token_until(end: datetime) -> str:
    """A token that says when it ends, as those of service accounts do."""
    claims = json.dumps({"exp": int(end.timestamp())}).encode()
    return ".".join(("e30", base64.urlsafe_b64encode(claims).decode().rstrip("="), "c2ln"))


def document(
    server: str = SERVER, token: str = TOKEN, *, authority: str | None = None, **more: Any
) -> dict[str, Any]:
    """A kubeconfig; ``cluster_…`` and ``user_…`` are further fields of these, with - for _."""
    cluster: dict[str, Any] = {
        "server": server,
        "certificate-authority-data": base64.b64encode((authority or ca()).encode()).decode(),
    }
    user: dict[str, Any] = {"token": token}
    for name, value in more.items():
        kind, _, field = name.partition("_")
        {"cluster": cluster, "user": user}[kind][field.replace("_", "-")] = value
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "other", "cluster": cluster}],
        "users": [{"name": "team", "user": user}],
        "contexts": [{"name": "other", "context": {"cluster": "other", "user": "team"}}],
        "current-context": "other",
    }


def secret_data(text: str, key: str = "value") -> dict[str, str]:
    """The ``data`` of a Secret with this text."""
    return {key: base64.b64encode(text.encode()).decode()}


def kubeconfig_data(
    server: str = SERVER, token: str = TOKEN, *, authority: str | None = None, **more: Any
) -> dict[str, str]:
    """The ``data`` of a Secret with a kubeconfig."""
    return secret_data(json.dumps(document(server, token, authority=authority, **more)))


def write_plain(folder: Path, server: str, token: str = "token", namespace: str = "home") -> Path:
    """A kubeconfig for a server without TLS, in a file of this folder."""
    context = {"cluster": "it", "user": "it", "namespace": namespace}
    found = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": context}],
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(found))
    return path
