"""A certificate authority of one's own, by openssl."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

_NEW = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Authority:
    """A CA that nobody knows; keys and certificates lie in its directory."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Authority:
        directory.mkdir()
        authority = cls(directory)
        authority._issue("ca", "-addext", "keyUsage=critical,keyCertSign")
        return authority

    def _issue(self, name: str, *more: str) -> None:
        files = ("-keyout", self.directory / f"{name}.key", "-out", self.directory / f"{name}.pem")
        command = [*_NEW, *map(str, files), "-subj", f"/CN={name}", "-days", "2", *more]
        subprocess.run(command, check=True, capture_output=True)

    @property
    def pem(self) -> bytes:
        return (self.directory / "ca.pem").read_bytes()

    def context(self, *hosts: str) -> ssl.SSLContext:
        """A server's context for 127.0.0.1, and for these names."""
        names = ",".join(["IP:127.0.0.1", *(f"DNS:{host}" for host in hosts)])
        signer = ("-CA", self.directory / "ca.pem", "-CAkey", self.directory / "ca.key")
        leaf = ("-addext", "basicConstraints=critical,CA:FALSE")
        self._issue("server", *map(str, signer), *leaf, "-addext", f"subjectAltName={names}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "server.pem", self.directory / "server.key")
        return context


@dataclass(frozen=True)
class LooseAuthority(Authority):
    """One as EKS and MicroK8s have: its certificates lack what strict verification wants.

    The CA's has basicConstraints=CA:TRUE alone, not critical; a server's has only a SAN.

    Attributes:
        other_name: of the servers, in place of their own.
        days: that servers' certificates are valid for; since an hour ago where it isn't positive.
    """

    other_name: str = ""
    days: int = 2

    @classmethod
    def make(cls, directory: Path) -> LooseAuthority:
        directory.mkdir()
        authority = cls(directory)
        authority._sign("ca", "ca", x509.BasicConstraints(ca=True, path_length=None))
        return authority

    def context(self, *hosts: str) -> ssl.SSLContext:
        names: list[x509.GeneralName] = [x509.IPAddress(ip_address("127.0.0.1"))]
        names += [x509.DNSName(host) for host in hosts]
        if self.other_name:
            names = [x509.DNSName(self.other_name)]
        self._sign("server", "ca", x509.SubjectAlternativeName(names))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "server.pem", self.directory / "server.key")
        return context

    def _sign(self, name: str, by: str, extension: x509.ExtensionType) -> None:
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        file = self.directory / f"{name}.key"
        text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(text)
        signer = load_pem_private_key((self.directory / f"{by}.key").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        builder = x509.CertificateBuilder(
            issuer_name=_named(by),
            subject_name=_named(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(days=3),
            not_valid_after=now + timedelta(days=self.days, hours=-1),
        ).add_extension(extension, critical=False)
        found = builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
        (self.directory / f"{name}.pem").write_bytes(found)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
