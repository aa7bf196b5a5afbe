"""Converts failed requests to typed errors, and computes how long a host gets no requests."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

import aiohttp

from copyrator.api.times import parse_retry_after
from copyrator.oci.errors import (
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
    TLSFailed,
)
from copyrator.settings.proxies import ProxyError

DEFAULT_RETRY_AFTER: Final = 60.0
RETRY_AFTER_CAP: Final = 3600.0


def paused(host: str, status: int, seconds: float, said: str = "") -> RegistryError:
    """The error in the pause after a 429 or 503; its text doesn't depend on the remaining time."""
    kind, what = (
        (RateLimited, "too many requests")
        if status in (403, 429)
        else (RegistryUnreachable, "unavailable")
    )
    text = (
        f"{host} responds with {status} ({what}){said}; no request is sent to it until its "
        "Retry-After has passed"
    )
    return kind(text, seconds)


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that a 429 or 503 requires, between one second and an hour."""
    seconds = parse_retry_after(headers.get("Retry-After"), headers)
    return min(max(DEFAULT_RETRY_AFTER if seconds is None else seconds, 1.0), RETRY_AFTER_CAP)


def failure(error: Exception, where: str) -> RegistryError:
    """Convert a failure below HTTP; the message never includes a proxy's address."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return TLSFailed(_untrusted(where, error.certificate_error))
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return TLSFailed(
                f"{where}: the TLS handshake fails; a registry on plain HTTP needs insecure "
                "(spec.insecure: true; --insecure)"
            )
        case TimeoutError():
            text = f"{where} didn't respond in time"
        case aiohttp.ClientConnectorDNSError():
            text = f"{where}: the name can't be resolved"
        case ProxyError():
            text = f"{where}: {error}"
        case aiohttp.ClientHttpProxyError():
            text = f"{where}: the proxy responds with {error.status}"
        case aiohttp.ClientProxyConnectionError():
            text = f"{where}: the proxy can't be reached: {error.strerror}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError():
            text = f"{where} closed the connection without a complete response"
        case aiohttp.ClientOSError():
            text = f"{where} can't be reached: {error.strerror or type(error).__name__}"
        case _:
            text = f"{where}: invalid response ({type(error).__name__})"
            return InvalidResponse(text, status=0)
    return RegistryUnreachable(text, status=0 if _is_cut_off(error) else None)


def _is_cut_off(error: Exception) -> bool:
    """Whether there was a connection, but no complete answer."""
    cut = aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | aiohttp.ClientOSError
    return isinstance(error, cut) and not isinstance(error, aiohttp.ClientConnectorError)


def _untrusted(where: str, error: Exception) -> str:
    text = getattr(error, "verify_message", "") or "certificate verify failed"
    return f"{where}: its certificate isn't trusted ({text}); see caSecret and skipTLSVerify"
