"""The API server's address and our credentials, which are renewed in time."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from copyrator import __version__
from copyrator.kube.client.circuit_breaker import DEFAULT_PAUSES, CircuitBreaker, Pauses

log = logging.getLogger(__name__)

REREAD_SECONDS = 60.0
"""Interval for reading token files again: bound service account tokens rotate on disk."""

RENEW_PAUSE = 10.0
"""Seconds between renewals caused by refused requests: an exec plug-in can be slow."""


class KubeconfigError(Exception):
    """The cluster can't be configured; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One server and one set of credentials, as loaded."""

    host: str
    authorization: str | None = None
    """Value of the header: ``Bearer …``; never logged, so not part of the representation."""
    ssl: ssl.SSLContext | None = None
    proxy: str | None = None
    server_hostname: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    valid_for: float | None = None
    """Seconds after which it should be loaded again; None: as long as it is accepted."""

    def __repr__(self) -> str:
        return f"Endpoint(host={self.host!r})"


Loader = Callable[[], Awaitable[Endpoint]]


class Connection:
    """The current `Endpoint`, loaded again when it is due or the server refused it.

    Attributes:
        origin: human-readable source of the credentials.
        generation: grows with each renewal, so that many requests refused together cause one.
        requests: holds all requests back while the server fails all of them.
        watches: holds watches back while none of them can be opened.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        origin: str = "given",
        loader: Loader | None = None,
        clock: Callable[[], float] = time.monotonic,
        pauses: Pauses = DEFAULT_PAUSES,
    ) -> None:
        self.endpoint = endpoint
        self.origin = origin
        self.generation = 0
        self.requests = CircuitBreaker("requests", clock, pauses)
        self.watches = CircuitBreaker("watches", clock, pauses)
        self._loader = loader
        self._clock = clock
        self._lock = asyncio.Lock()
        self._loaded_at = clock()
        self._tried_at = float("-inf")
        self._fault: str | None = None
        self.impersonate: str | None = None
        """User to impersonate, where the credentials allow it."""
        self._headers = _headers(endpoint)

    @property
    def host(self) -> str:
        """The server's URL without a trailing slash."""
        return self.endpoint.host

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The SSL context of the current credentials (client certificates can change)."""
        return self.endpoint.ssl

    @property
    def breaker_is_open(self) -> bool:
        """Whether a circuit breaker delays requests or watches; it has logged the cause already."""
        return bool(self.requests.outage or self.watches.outage)

    async def headers(self) -> Mapping[str, str]:
        """Headers of a request: user agent and impersonation, and the present token."""
        due = self.endpoint.valid_for
        if due is not None and self._clock() - self._loaded_at >= due:
            await self.renew(self.generation, pause=REREAD_SECONDS / 4)
        if self.impersonate:
            return {**self._headers, "Impersonate-User": self.impersonate}
        return self._headers

    async def renew(self, seen: int, *, pause: float = RENEW_PAUSE) -> bool:
        """Load the credentials again, unless another caller did so meanwhile.

        Args:
            seen: the generation that was refused.
            pause: minimum seconds between two tries.

        Returns:
            True if there are newer credentials than generation `seen`.
        """
        async with self._lock:
            if self.generation != seen:
                return True
            now = self._clock()
            if self._loader is None or now - self._tried_at < pause:
                return False
            self._tried_at = now
            try:
                endpoint = await self._loader()
            except (KubeconfigError, OSError, ssl.SSLError) as error:
                self._report(f"credentials can't be renewed ({self.origin}): {error}")
                return False
            self._report(None)
            self.endpoint = endpoint
            self._headers = _headers(endpoint)
            self._loaded_at = self._clock()
            self.generation += 1
            return True

    def _report(self, fault: str | None) -> None:
        if fault != self._fault:
            if fault:
                log.warning("%s", fault)
            else:
                log.info("credentials were renewed (%s)", self.origin)
        self._fault = fault


def _headers(endpoint: Endpoint) -> Mapping[str, str]:
    headers = {"User-Agent": f"copyrator/{__version__}", "Accept-Encoding": "identity"}
    if endpoint.authorization:
        headers["Authorization"] = endpoint.authorization
    return headers
