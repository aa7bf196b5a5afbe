"""Who may come in: the CA, client certificates, and the kubeconfigs made from them."""

from __future__ import annotations

import base64
import re
import ssl
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from localcluster.api import Api, ApiStatusError
from localcluster.errors import LocalClusterError
from localcluster.locks import file_lock
from localcluster.state import Layout

_TOKEN_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Credentials:
    """Makes kubeconfigs for users and service accounts.

    Attributes:
        layout: the cluster's paths.
        server: the API server's URL.
        pki: the program that signs certificates.
    """

    layout: Layout
    server: str
    pki: Path

    def prepare(self, clients: dict[str, tuple[str, tuple[str, ...]]]) -> None:
        """Make the CA and the kubeconfigs of `clients`, unless they are there already."""
        if not (self.layout.pki / "service-account.pub").exists():
            self._sign("init", str(self.layout.pki))
        for name, (user, groups) in clients.items():
            self._certificate(name, user, groups)
            self._write(name, self._with_certificate(name, user))

    def admin(self) -> Api:
        """A client with all rights."""
        context = ssl.create_default_context(cafile=str(self.layout.pki / "ca.crt"))
        certificate, key = (self.layout.pki / f"admin.{kind}" for kind in ("crt", "key"))
        context.load_cert_chain(certificate, key)
        return Api(self.server, context)

    def for_user(self, user: str, groups: Sequence[str]) -> Path:
        """A kubeconfig for a user with a client certificate; groups are its organisations."""
        name = _file_name("user", user, *groups)
        with file_lock(self.layout.kubeconfigs / f".{name}.lock"):
            self._certificate(name, user, groups)
            return self._write(name, self._with_certificate(name, user))

    def for_service_account(self, namespace: str, account: str) -> Path:
        """A kubeconfig with a fresh token of a service account, valid for a day.

        Raises:
            LocalClusterError: there is no such service account.
        """
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_SECONDS},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        try:
            token: str = self.admin().create(path, request)["status"]["token"]
        except ApiStatusError as error:
            raise LocalClusterError(
                f"No token for the service account {namespace}/{account}: {error}",
                "Create the namespace and the service account first.",
            ) from error
        user = f"system:serviceaccount:{namespace}:{account}"
        document = with_token(self._server(), user, token, namespace)
        return self._write(_file_name("sa", namespace, account), document)

    def _server(self) -> Server:
        return Server(self.server, (self.layout.pki / "ca.crt").read_bytes())

    def _with_certificate(self, name: str, user: str) -> dict[str, Any]:
        certificate, key = (
            (self.layout.pki / f"{name}.{kind}").read_bytes() for kind in ("crt", "key")
        )
        return with_certificate(self._server(), user, certificate, key)

    def _certificate(self, name: str, user: str, groups: Sequence[str]) -> None:
        if not (self.layout.pki / f"{name}.crt").exists():
            self._sign("client", str(self.layout.pki), name, user, *groups)

    def _sign(self, *arguments: str) -> None:
        done = subprocess.run([self.pki, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LocalClusterError(
                f"Making certificates in {self.layout.pki} failed: {done.stderr.strip()}",
                "Is the disk full, or the directory read-only?",
            )

    def _write(self, name: str, document: dict[str, Any]) -> Path:
        path = self.layout.kubeconfigs / f"{name}.yaml"
        draft = path.with_name(f".{path.name}.{id(document):x}")
        draft.touch(mode=0o600)
        draft.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        draft.replace(path)  # a reader never sees half of it
        return path


def _file_name(*parts: str) -> str:
    """A file name that tells different parts apart; `/` and `:` can't stand in one."""
    return "--".join(
        re.sub(r"[^A-Za-z0-9.-]", lambda char: f"_{ord(char[0]):x}_", part) for part in parts
    )


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
