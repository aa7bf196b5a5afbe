"""Kubeconfigs hold certificates that strict verifiers take, as Python's is from 3.13 on."""

import base64
import ssl
from pathlib import Path

import pytest
import yaml

from localcluster.credentials import Credentials
from localcluster.state import Layout


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    layout = Layout(tmp_path)
    layout.prepare()
    made = Credentials(layout, "https://127.0.0.1:6443")
    made.prepare({"admin": ("admin", ("system:masters", "more"))})
    return made


def strict(purpose: ssl.Purpose, ca: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "kubernetes.default.svc"])
def test_server_and_client_prove_themselves_to_each_other(
    credentials: Credentials, host: str
) -> None:
    pki = credentials.layout.pki
    server = strict(ssl.Purpose.CLIENT_AUTH, pki / "ca.crt")
    server.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    client = strict(ssl.Purpose.SERVER_AUTH, pki / "ca.crt")
    client.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname=host)
    there = server.wrap_bio(to_server, to_client, server_side=True)

    for side in (here, there, here, there, here):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue

    subject = there.getpeercert()["subject"]  # type: ignore[index]
    assert subject == (
        (("organizationName", "system:masters"),),
        (("organizationName", "more"),),
        (("commonName", "admin"),),
    )


def test_a_key_is_readable_by_its_owner_only_and_is_the_one_in_the_kubeconfig(
    credentials: Credentials,
) -> None:
    layout = credentials.layout
    (user,) = yaml.safe_load((layout.kubeconfigs / "admin.yaml").read_text())["users"]
    key = layout.pki / "admin.key"

    assert base64.b64decode(user["user"]["client-key-data"]) == key.read_bytes()
    assert all(path.stat().st_mode & 0o077 == 0 for path in layout.pki.glob("*.key"))
