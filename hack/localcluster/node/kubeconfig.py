"""Kubeconfig files: reading the node's own, writing the ones that containers are given."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


class KubeconfigError(RuntimeError):
    """A kubeconfig can't be used; the message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach an API server.

    Attributes:
        server: its URL, without a slash at the end.
        ca: the certificate authority in PEM, None to use the machine's own.
        tls: the TLS settings, None for plain HTTP.
        token: a bearer token, never shown.
    """

    server: str
    ca: str | None
    tls: ssl.SSLContext | None
    token: str | None = field(repr=False, default=None)


def load(path: Path) -> Connection:
    """Read the current context of a kubeconfig.

    Raises:
        KubeconfigError: the file is missing, is no kubeconfig, or names what isn't there.
    """
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config, "contexts", "context", config["current-context"])
        cluster = _named(config, "clusters", "cluster", context["cluster"])
        user = _named(config, "users", "user", context["user"])
        server = str(cluster["server"]).rstrip("/")
    except OSError as error:
        raise KubeconfigError(f"{path}: {error.strerror}") from error
    except (KeyError, TypeError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path} is not a usable kubeconfig: missing {error}") from error
    ca = _material(cluster, "certificate-authority")
    token = user.get("token")
    if user.get("tokenFile"):
        token = Path(user["tokenFile"]).read_text().strip()
    tls = None
    if server.startswith("https:"):
        tls = ssl.create_default_context(cadata=ca)
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname = False
            tls.verify_mode = ssl.CERT_NONE
        _load_client_certificate(tls, user)
    return Connection(server, ca, tls, token)


def for_container(connection: Connection, *, token: str, token_file: Path, namespace: str) -> str:
    """Write a kubeconfig for a container, in JSON, which is YAML that anything can read.

    The token is there twice: clients that know `tokenFile` follow its renewals, the others take
    `token`.
    """
    cluster: dict[str, Any] = {"server": connection.server}
    if connection.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(connection.ca.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "pod", "user": {"token": token, "tokenFile": str(token_file)}}],
        "contexts": [
            {
                "name": "pod",
                "context": {"cluster": "local", "user": "pod", "namespace": namespace},
            }
        ],
        "current-context": "pod",
    }
    return json.dumps(config, indent=1)


def _named(config: dict[str, Any], group: str, member: str, name: str) -> dict[str, Any]:
    for item in config[group]:
        if item["name"] == name:
            return dict(item[member])
    raise KeyError(f"{member} {name!r}")


def _material(holder: dict[str, Any], name: str) -> str | None:
    """A PEM text that stands in the file itself (`name`-data) or in a file that it names."""
    if holder.get(f"{name}-data"):
        return base64.b64decode(holder[f"{name}-data"]).decode()
    if holder.get(name):
        return Path(holder[name]).read_text()
    return None


def _load_client_certificate(tls: ssl.SSLContext, user: dict[str, Any]) -> None:
    certificate, key = _material(user, "client-certificate"), _material(user, "client-key")
    if not (certificate and key):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as pair:
        pair.write(f"{certificate}\n{key}")
        pair.flush()
        tls.load_cert_chain(pair.name)
