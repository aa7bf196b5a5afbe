"""What the process asks of Python so that it stays small; nothing works differently without it."""

from __future__ import annotations

import asyncio.sslproto
import gc
from typing import Final

TLS_BUFFER: Final = 16 * 1024
"""Bytes that are read at once from a TLS connection; its records have up to 16 KB."""


def settle() -> None:
    """Set memory up. To be called before the first connection, when all modules are imported.

    asyncio gives each TLS connection a buffer of 256 KB: 24 MB for the hundred that a burst of
    requests or many watches open. Its size is no public setting: a test sees that it has effect.

    What lives as long as the process is taken out of the garbage collector's sight: the modules
    alone are a quarter of a million objects. A full collection walks over all that it sees, and
    comes only when a quarter as many are new: so it costs less, and garbage is gone sooner.
    """
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER
    gc.unfreeze()
    gc.collect()
    gc.freeze()
