"""SSL contexts with the certificates of caSecret, built without blocking the event loop.

A browser's bundle takes 60 ms to parse, in one call of C code.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from typing import Final

from copyrator.oci.errors import TLSFailed
from copyrator.oci.exchange import TlsVerification
from copyrator.settings.limits import CA_BYTES, CA_CONTEXTS
from copyrator.workqueue.fairness import TimeSlice

_END: Final = "-----END CERTIFICATE-----"
_AT_ONCE: Final = 10
"""Certificates that are parsed in one step."""


class Contexts:
    """aiohttp's ``ssl=`` argument for each Trust; the least recently used ones are dropped."""

    def __init__(self) -> None:
        self._ready: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    async def of(self, trust: TlsVerification) -> ssl.SSLContext | bool:
        """The context for a Trust; equal ones share one, as connections are pooled by it.

        Raises:
            TLSFailed: the CA isn't a PEM certificate, or is too long.
        """
        if not trust.verify:
            return False
        if not trust.ca:
            return True
        if trust.ca not in self._ready:
            made = await _make(trust.ca)
            self._ready.setdefault(trust.ca, made)
        self._ready.move_to_end(trust.ca)
        context = self._ready[trust.ca]
        if len(self._ready) > CA_CONTEXTS:
            self._ready.popitem(last=False)
        return context


async def _make(ca: bytes) -> ssl.SSLContext:
    if len(ca) > CA_BYTES:
        raise TLSFailed(f"caSecret: the key ca.crt has more than {CA_BYTES} bytes")
    time_slice = TimeSlice()
    try:
        first, *others = _groups(ca.decode("ascii"))
        context = ssl.create_default_context(cadata=first)
        for group in others:
            await time_slice.pause()
            context.load_verify_locations(cadata=group)
    except (ssl.SSLError, UnicodeDecodeError, ValueError):
        raise TLSFailed("caSecret: the key ca.crt has no valid PEM certificate") from None
    return context


def _groups(text: str) -> list[str]:
    """The PEM text in groups of _AT_ONCE certificates; text after the last one is dropped."""
    *certificates, rest = text.split(_END)
    if not certificates:
        return [rest]
    return [
        "".join(one + _END for one in certificates[start : start + _AT_ONCE])
        for start in range(0, len(certificates), _AT_ONCE)
    ]
