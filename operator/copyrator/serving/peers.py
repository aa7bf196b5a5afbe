"""Who calls one of the operator's own ports: the unit by which calls are shared out."""

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
_ONE_SITE = 64
"""Bits of an IPv6 address that one caller can't choose freely."""


class Peers:
    """Tells callers apart, also behind `trusted` proxies, whose X-Forwarded-For says who calls."""

    def __init__(self, trusted: Sequence[IPv4Network | IPv6Network] = ()) -> None:
        self._trusted = tuple(trusted)

    def is_proxy(self, remote: str | None) -> bool:
        """Tell whether a connection comes from a trusted proxy."""
        address = _read(remote or "")
        return address is not None and self._trusts(address)

    def caller(self, remote: str | None, forwarded: Iterable[str] = ()) -> str:
        """The caller behind a connection from `remote` with these X-Forwarded-For headers.

        Read from the right, where each trusted proxy has put down whom it heard; what stands
        further left may be anything.
        """
        address = _read(remote or "")
        if address is None:
            return "unknown"
        for item in reversed(",".join(forwarded).split(",")):
            further = _read(item)
            if further is None or not self._trusts(address):
                break
            address = further
        return _site(address)

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


def _site(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(ip_network((int(address), _ONE_SITE), strict=False))


def _read(text: str) -> _Address | None:
    """An address, which may have a port behind it; one of IPv4 also where it is written as IPv6."""
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
