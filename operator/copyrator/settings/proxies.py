"""The proxy that the environment sets for a URL, by the rules of Go programs.

werf in the Jobs is one of those, and must use the same proxies as the operator. Python's own rules
support no address ranges and no ports. Source: golang.org/x/net/http/httpproxy, without SOCKS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ProxyError(ValueError):
    """A proxy variable has an unusable value; the message names the variable, not the value."""


class Proxies:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or their lower-case forms, as set at construction."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        def named(name: str) -> str:
            return environment.get(name) or environment.get(name.lower()) or ""

        self._urls = {scheme: named(f"{scheme.upper()}_PROXY").strip() for scheme in _PORTS}
        entries = (entry.strip().lower() for entry in named("NO_PROXY").split(","))
        self._exceptions = [entry for entry in entries if entry]

    def proxy_for(self, url: str) -> str | None:
        """The proxy's URL for a request to ``url``; None for a direct connection.

        Raises:
            ProxyError: the proxy's URL is unusable.
        """
        parts = urlsplit(url)
        proxy = self._urls.get(parts.scheme)
        if not proxy or self._is_exception(
            parts.hostname or "", parts.port or _PORTS[parts.scheme]
        ):
            return None
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        if urlsplit(proxy).scheme not in _PORTS or not urlsplit(proxy).hostname:
            raise ProxyError(f"{parts.scheme.upper()}_PROXY isn't an http:// or https:// URL")
        return proxy

    def _is_exception(self, host: str, port: int) -> bool:
        address = _address(host)
        if host == "localhost" or (address is not None and address.is_loopback):
            return True
        return any(_covers(entry, host, port, address) for entry in self._exceptions)


def _covers(entry: str, host: str, port: int, address: _Address | None) -> bool:
    """Whether an entry of NO_PROXY matches a host: ``*``, a range, an address, a domain."""
    if entry == "*" or "/" in entry:
        return entry == "*" or _holds(entry, address)
    name, wanted = _split_port(entry)
    if wanted and wanted != str(port):
        return False
    if (excepted := _address(name)) is not None or address is not None:
        return excepted == address
    if name.startswith(("*.", ".")):
        return host.endswith(name.removeprefix("*"))
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _holds(network: str, address: _Address | None) -> bool:
    try:
        return address is not None and address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """``host:port``, ``[IPv6]:port`` or a host alone: host without brackets, and the port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
