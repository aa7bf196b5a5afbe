"""Settings of Python that reduce memory; they have no other effect."""

from __future__ import annotations

import asyncio.sslproto
import gc
from typing import Final

TLS_BUFFER: Final = 16 * 1024
"""Bytes per read from a TLS connection; its records have up to 16 KB."""


def settle() -> None:
    """Apply the settings. To be called before the first connection, after all imports.

    asyncio gives each TLS connection a buffer of 256 KB: 24 MB for the hundred that a burst of
    requests or many watches open. Its size is not a public setting: a test checks the effect.

    Objects that live as long as the process are excluded from garbage collection: the modules
    alone are a quarter of a million. A full collection visits all others, and runs only when a
    quarter as many are new: so it costs less, and garbage is freed sooner.
    """
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER
    gc.unfreeze()
    gc.collect()
    gc.freeze()
