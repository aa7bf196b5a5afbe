"""Who may come in: the CA, client certificates, and the kubeconfigs made from them."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self

import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from localcluster.api import Api, ApiStatusError
from localcluster.errors import LocalClusterError
from localcluster.locks import file_lock
from localcluster.signing import Key, issue, key_usage, new_key, public_key
from localcluster.state import Layout

CLUSTER_NAME = "copyrator-local"
_TOKEN_SECONDS = 24 * 3600
_SERVER_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_SERVER_ADDRESSES = ("127.0.0.1", "::1", "10.0.0.1")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Makes kubeconfigs for users and service accounts.

    Attributes:
        layout: the cluster's paths.
        server: the API server's URL.
    """

    layout: Layout
    server: str

    def prepare(self, clients: dict[str, tuple[str, tuple[str, ...]]]) -> None:
        """Make the CA and the kubeconfigs of `clients`, unless they are there already."""
        if not (self.layout.pki / "service-account.pub").exists():
            _Authority.make(self.layout.pki)
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
        proof = {
            "client-certificate-data": _encode(certificate),
            "client-key-data": _encode(key),
        }
        return _document(self._server(), user, proof, namespace="default")

    def _certificate(self, name: str, user: str, groups: Sequence[str]) -> None:
        if not (self.layout.pki / f"{name}.crt").exists():
            client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
            _Authority.load(self.layout.pki).issue(name, _name(user, groups), client)

    def _write(self, name: str, document: dict[str, Any]) -> Path:
        path = self.layout.kubeconfigs / f"{name}.yaml"
        draft = path.with_name(f".{path.name}.{id(document):x}")
        draft.touch(mode=0o600)
        draft.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        draft.replace(path)  # a reader never sees half of it
        return path


@dataclass(frozen=True, slots=True)
class _Authority:
    """The cluster's CA.

    Attributes:
        directory: where its files are, and those that it issues.
        certificate: its own.
        key: its private key.
    """

    directory: Path
    certificate: x509.Certificate
    key: Key

    @classmethod
    def make(cls, directory: Path) -> Self:
        """Make the CA, the API server's certificate, and the key of service accounts' tokens."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        key, name = new_key(), _name(CLUSTER_NAME)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = issue(
            name,
            key,
            (name, key),
            _from_now(days=3650),
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (key_usage("digital_signature", "key_cert_sign"), True),
            (identifier, False),
        )
        authority = cls(directory, certificate, key)
        authority._write("ca.key", _private(key))
        authority._write("ca.crt", certificate.public_bytes(Encoding.PEM))
        names = [
            *(x509.DNSName(name) for name in _SERVER_NAMES),
            *(x509.IPAddress(ip_address(address)) for address in _SERVER_ADDRESSES),
        ]
        server = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        authority.issue(
            "apiserver", _name("kube-apiserver"), server, x509.SubjectAlternativeName(names)
        )
        accounts = new_key()
        authority._write("service-account.key", _private(accounts))
        # Last: prepare() takes it as a sign that everything is there.
        authority._write("service-account.pub", public_key(accounts).encode())
        return authority

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Read the CA."""
        certificate = x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes())
        key = load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
        assert isinstance(key, Key)
        return cls(directory, certificate, key)

    def issue(self, name: str, subject: x509.Name, *extensions: x509.ExtensionType) -> None:
        """Write a certificate, valid for a year, and its key."""
        key = new_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = issue(
            subject,
            key,
            (self.certificate.subject, self.key),
            _from_now(days=365),
            (key_usage("digital_signature"), True),
            *((extension, False) for extension in (issuer, *extensions)),
        )
        self._write(f"{name}.key", _private(key))
        self._write(f"{name}.crt", certificate.public_bytes(Encoding.PEM))

    def _write(self, name: str, content: bytes) -> None:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_bytes(content)


def _name(common_name: str, organisations: Sequence[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organisations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _from_now(days: int) -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(hours=1), now + timedelta(days=days)  # clocks of virtual machines jump


def _private(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _file_name(*parts: str) -> str:
    """A file name that tells different parts apart; `/` and `:` can't stand in one."""
    return "--".join(
        re.sub(r"[^A-Za-z0-9.-]", lambda char: f"_{ord(char[0]):x}_", part) for part in parts
    )


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API server is and whom to trust as it; `authority` is the CA certificate, PEM."""

    url: str
    authority: bytes


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
