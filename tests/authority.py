"""A certificate authority of one's own, by openssl."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

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
