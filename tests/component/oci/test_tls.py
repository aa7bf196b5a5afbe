"""Registries over TLS whose certificate comes from a CA of one's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.authority import Authority
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.oci.auth import Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import TLSFailed
from copyrator.oci.exchange import Repository


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "ca")


@pytest.fixture
async def registry(authority: Authority) -> AsyncIterator[FakeRegistry]:
    registry = FakeRegistry()
    await registry.start(authority.context())
    yield registry
    await registry.stop()


@pytest.mark.parametrize("auth", ["", "basic", "bearer"])
async def test_a_ca_of_its_own_is_trusted_where_it_is_named(
    registry: FakeRegistry, client: RegistryClient, authority: Authority, auth: str
) -> None:
    """By its token server, too."""
    digest = registry.put("app", "1.0.0", "one")
    registry.auth, registry.users = auth, {"alice": "s3cret"}
    trusted = Repository(registry.host, "app", ca=authority.pem)

    assert await client.digest(trusted, "1.0.0", Credential("alice", "s3cret")) == digest


async def test_without_it_the_certificate_is_refused_with_advice(
    registry: FakeRegistry, client: RegistryClient
) -> None:
    registry.put("app", "1.0.0", "one")
    with pytest.raises(TLSFailed, match="caSecret and skipTLSVerify"):
        await client.digest(Repository(registry.host, "app"), "1.0.0", None)
    assert registry.asked == []


async def test_the_trust_of_one_bundle_is_not_lent_to_another(
    registry: FakeRegistry, client: RegistryClient, authority: Authority
) -> None:
    registry.put("app", "1.0.0", "one")
    trusting = Repository(registry.host, "app", ca=authority.pem)
    await client.digest(trusting, "1.0.0", None)

    with pytest.raises(TLSFailed):  # though a connection to that host is open
        await client.digest(Repository(registry.host, "app"), "1.0.0", None)
    assert await client.digest(trusting, "1.0.0", None), "nor is its lack"


async def test_verification_can_be_skipped(registry: FakeRegistry, client: RegistryClient) -> None:
    digest = registry.put("app", "1.0.0", "one")
    assert await client.digest(Repository(registry.host, "app", verify=False), "1.0.0", None) == (
        digest
    )
