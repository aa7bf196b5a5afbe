"""Registries over TLS whose certificate comes from a CA of one's own; sets of CAs are kept."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.authority import Authority
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.bundle_spec import CA_BYTES
from copyrator.oci.auth import Credential
from copyrator.oci.errors import TLSFailed
from copyrator.oci.exchange import Repository, TlsVerification
from copyrator.oci.transport import CA_CONTEXTS, SslContextCache


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "ca")


@pytest.fixture
async def registry(authority: Authority) -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry(tls=authority.context()) as registry:
        registry.put("app", "1.0.0", "one")
        yield registry


@pytest.mark.parametrize("auth", ["", "basic", "bearer"])
async def test_a_ca_of_its_own_is_trusted_where_it_is_named(
    registry: FakeRegistry, authority: Authority, auth: str
) -> None:
    """By its token server, too."""
    digest = registry.put("app", "1.0.0", "one")
    registry.auth, registry.users = auth, {"alice": "s3cret"}
    trusted = Repository(registry.host, "app", ca=authority.pem)

    assert await registry.client.digest(trusted, "1.0.0", Credential("alice", "s3cret")) == digest


async def test_without_it_the_certificate_is_refused_with_advice(registry: FakeRegistry) -> None:
    with pytest.raises(TLSFailed, match="caSecret and skipTLSVerify"):
        await registry.client.digest(Repository(registry.host, "app"), "1.0.0", None)
    assert registry.asked == []


async def test_the_trust_of_one_bundle_is_not_lent_to_another(
    registry: FakeRegistry, authority: Authority
) -> None:
    trusting = Repository(registry.host, "app", ca=authority.pem)
    await registry.client.digest(trusting, "1.0.0", None)

    with pytest.raises(TLSFailed):  # though a connection to that host is open
        await registry.client.digest(Repository(registry.host, "app"), "1.0.0", None)
    assert await registry.client.digest(trusting, "1.0.0", None), "nor is its lack"


async def test_verification_can_be_skipped(registry: FakeRegistry) -> None:
    digest = registry.put("app", "1.0.0", "one")
    assert await registry.client.digest(
        Repository(registry.host, "app", verify=False), "1.0.0", None
    ) == (digest)


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    directory = tmp_path_factory.mktemp("authorities")
    return [Authority.make(Path(directory) / str(i)).pem for i in range(12)]


async def test_all_certificates_of_a_long_text_are_trusted(authorities: list[bytes]) -> None:
    context = await SslContextCache().of(
        TlsVerification(ca=b"# ours\n" + b"\n".join(authorities) + b"\n# end\n")
    )

    assert not isinstance(context, bool)
    assert len(context.get_ca_certs()) == len(authorities)


async def test_equal_trust_gives_the_same_object(authorities: list[bytes]) -> None:
    contexts = SslContextCache()

    assert await contexts.of(TlsVerification(ca=authorities[0])) is await contexts.of(
        TlsVerification(ca=bytes(bytearray(authorities[0])))
    )
    assert await contexts.of(TlsVerification()) is await contexts.of(TlsVerification())
    assert await contexts.of(TlsVerification(verify=False, ca=authorities[0])) is False


async def test_few_are_kept(authorities: list[bytes]) -> None:
    contexts = SslContextCache()
    for i in range(CA_CONTEXTS + 5):
        await contexts.of(TlsVerification(ca=authorities[0] + b"\n" * i))

    assert len(contexts._ready) == CA_CONTEXTS


async def test_without_a_ca_the_systems_are_trusted() -> None:
    system = ssl.create_default_context()
    context = await SslContextCache().of(TlsVerification())
    assert isinstance(context, ssl.SSLContext)
    assert context.cert_store_stats() == system.cert_store_stats() != {"x509": 0}
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(
    "broken", [b"x", b"\xff", b"-----END CERTIFICATE-----", b" " * CA_BYTES + b"x"]
)
async def test_what_is_no_certificate_is_said(broken: bytes) -> None:
    with pytest.raises(TLSFailed, match=r"caSecret: the key ca\.crt"):
        await SslContextCache().of(TlsVerification(ca=broken))
