"""Logins to the registries of Azure."""

from __future__ import annotations

from copyrator.api.clouds import CloudRegistry
from copyrator.clouds.calls import Account, Calls, Issued
from copyrator.oci.errors import IdentityMissing


async def issue(
    calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
) -> Issued:
    """A login; an ``Issue``."""
    del calls, account, writes
    raise IdentityMissing(f"spec.provider isn't available for {registry.host} in this version")
