"""An asyncio client for the few questions we ask of OCI registries (see docs/adr/0004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from copyrator.metrics import Metrics


class RegistryClient:
    """One pooled session for all registries; tokens and per-host limits live here."""

    def __init__(self, *, metrics: Metrics) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError
