"""A registry that misbehaves on demand, and a client of it."""

from collections.abc import AsyncIterator

import pytest
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.oci.signed_registry import SignedRegistry


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as registry:
        yield registry


@pytest.fixture
async def signed() -> AsyncIterator[SignedRegistry]:
    async with SignedRegistry() as registry:
        yield registry


@pytest.fixture(params=[True, False], ids=["referrers", "fallback tag"])
async def either(signed: SignedRegistry, request: pytest.FixtureRequest) -> SignedRegistry:
    """A registry with a list of referrers, and one without."""
    signed.has_referrers = request.param
    return signed
