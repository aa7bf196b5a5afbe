"""Certificates of caSecret are read in pieces, and few sets of them are kept."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from tests.authority import Authority

from copyrator.api.bundle_spec import CA_BYTES
from copyrator.oci.errors import TLSFailed
from copyrator.oci.exchange import TlsVerification
from copyrator.oci.transport import SslContextCache


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
