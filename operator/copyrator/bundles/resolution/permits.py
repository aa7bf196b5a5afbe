"""Limits on requests to registries: for each namespace, and for each host within it."""

from __future__ import annotations

import asyncio
import sys

from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit


class PollPermits:
    """Permits for requests in flight: of a namespace to one host, and of a namespace to all."""

    def __init__(self) -> None:
        self._hosts = FairLimit(each=limits.TENANT_HOST_POLLS, together=sys.maxsize)
        self._all = FairLimit(each=limits.TENANT_POLLS, together=limits.TENANTS_POLLS)

    def try_acquire(self, tenant_and_host: tuple[str, str]) -> bool:
        """Take a permit if one is free; `release` has to follow."""
        if not self._hosts.try_acquire(" ".join(tenant_and_host)):
            return False
        if self._all.try_acquire(tenant_and_host[0]):
            return True
        self._hosts.release(" ".join(tenant_and_host))
        return False

    async def acquire(self, tenant_and_host: tuple[str, str]) -> None:
        """Wait for a permit; `release` has to follow."""
        await self._hosts.acquire(" ".join(tenant_and_host))
        try:
            await self._all.acquire(tenant_and_host[0])
        except asyncio.CancelledError:
            self._hosts.release(" ".join(tenant_and_host))
            raise

    def release(self, tenant_and_host: tuple[str, str]) -> None:
        """Return a permit."""
        self._all.release(tenant_and_host[0])
        self._hosts.release(" ".join(tenant_and_host))
