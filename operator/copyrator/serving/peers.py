"""Identifies the callers of the operator's own ports, for limits per caller."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

_Address = IPv4Address | IPv6Address
_PREFIX_LENGTH = 64
"""Prefix length of an IPv6 address that one caller can't choose freely."""


class Peers:
    """Distinguishes callers, also behind `trusted` proxies, by their X-Forwarded-For."""

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._trusted = tuple(trusted)

    def is_proxy(self, remote: str | None) -> bool:
        """Whether a connection is from a trusted proxy."""
        address = _read(remote or "")
        return address is not None and self._trusts(address)

    def caller(self, remote: str | None, forwarded: Iterable[str] = ()) -> str:
        """The caller behind a connection from `remote` with these X-Forwarded-For headers.

        Parsed from the right, where each trusted proxy has appended its peer; anything further left
        is unverified.
        """
        address = _read(remote or "")
        if address is None:
            return "unknown"
        for item in reversed(",".join(forwarded).split(",")):
            further = _read(item)
            if further is None or not self._trusts(address):
                break
            address = further
        return _network(address)

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def _network(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((int(address), _PREFIX_LENGTH), strict=False))


def _read(text: str) -> _Address | None:
    """Parse an address with or without a port; an IPv4-mapped IPv6 address returns the IPv4 one."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
