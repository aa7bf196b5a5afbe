"""Hosts of registries: the addresses that requests may go to, and the state of each host.

A Bundle names its registry, which names token servers and redirects. The operator's own machine,
link-local hosts and a cloud's metadata services can be reached by the operator, though not by a
tenant. So every address that a name resolves to is checked, and the connection uses only checked
ones. Private ranges are allowed, because many registries are there. As Bundles and registries
choose the names, the state of all hosts is bounded.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final

from yarl import URL

from copyrator.connections import aiohttp
from copyrator.oci.errors import AddressRefused

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

REGISTRY_REQUESTS_PER_HOST: Final = 8
"""Requests in flight to one host: enough for a thousand polls a minute at 100 ms each."""

REGISTRY_HOSTS: Final = 2048
"""Hosts whose request rate and pause (after a 429 or 503) are remembered. Idle ones are dropped at
once; above this number the least recently used ones are."""

REGISTRY_HOST_LABELS: Final = 100
"""Hosts with separate metrics: each has some twenty series. Further ones, redirects' targets
and token servers are counted as host="other"."""

REGISTRY_LOOKUPS: Final = 16
"""Names of hosts that are resolved at a time, each in a thread: a name server that doesn't answer
occupies one for some ten seconds."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ANYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
"""For the command line: its user may send requests to any address."""

_METADATA: Final = tuple(
    ip_network(network)
    for network in (
        "fd00:ec2::/32",  # AWS and its EKS; their IPv4 addresses are link-local, as most clouds'
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "fd00:100::100:200",  # Alibaba
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle
        "fd00:c1::a9fe:a9fe",  # Oracle
        "fd00:a9fe:a9fe::1",  # Akamai
        "fd00:42::42",  # Scaleway
    )
)
_THIS_NETWORK: Final = ip_network("0.0.0.0/8")  # RFC 1122: "this host on this network"
_BROADCAST: Final = ip_address("255.255.255.255")
_IPV4_AT_THE_END: Final = (
    ip_network("64:ff9b::/96"),  # RFC 6052: NAT64
    ip_network("::ffff:0:0:0/96"),  # RFC 2765: translated
    ip_network("::/96"),  # RFC 4291: compatible
)
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")  # RFC 8215
_ISATAP: Final = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # RFC 5214


class AddressRules:
    """Refuses addresses that a registry must not have, except in the `allowed` networks."""

    def __init__(self, allowed: Sequence[Network] = ()) -> None:
        self._allowed = tuple(allowed)

    def check(self, host: str, address: Address) -> None:
        """Check an address that `host` resolves to.

        Raises:
            AddressRefused: a registry must not have it.
        """
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        judged = (mapped,) if mapped else (address, *_embedded(address))
        objections = (_objection(one) for one in judged if not self._allows(one))
        what = next(filter(None, objections), None)
        if what is None:
            return
        name = host if host == str(address) else f"{host}, which is {address},"
        raise AddressRefused(
            f"no request is sent to {name}: {what}; if it is a registry, add the "
            "address to the operator's --allow-registry-addresses"
        )

    def check_url(self, url: URL, *, proxied: bool) -> None:
        """Check the host of a URL, which may be an address in any spelling, without resolving it.

        A proxy resolves names itself, so that with one only localhost's can be checked.

        Raises:
            AddressRefused: a registry must not have its address.
        """
        host = (url.raw_host or "").rstrip(".")
        if (address := _literal(host)) is not None:
            self.check(host, address)
        elif proxied and (host.lower() == "localhost" or host.lower().endswith(".localhost")):
            self.check(host, ip_address("127.0.0.1"))

    def _allows(self, address: Address) -> bool:
        return any(address in network for network in self._allowed)


class CheckedResolver(aiohttp.abc.AbstractResolver):
    """Resolves names in separate threads, and returns addresses only if all are allowed.

    Separate, because a name server that doesn't respond would block all other users of the event
    loop's threads.
    """

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._threads = ThreadPoolExecutor(REGISTRY_LOOKUPS, thread_name_prefix="registry-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[aiohttp.abc.ResolveResult]:
        """The addresses to connect to.

        Raises:
            OSError: the name can't be resolved.
            AddressRefused: a registry must not have one of them.
        """
        lookup = partial(
            socket.getaddrinfo,
            host,
            port,
            family=family,
            type=socket.SOCK_STREAM,
            flags=socket.AI_ADDRCONFIG,
        )
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, lookup)
        except UnicodeError:
            raise OSError(socket.EAI_NONAME, "it isn't a valid name") from None
        results = []
        for kind, _, proto, _, address in found:
            text = str(address[0])
            if len(address) == 4 and address[3] and "%" not in text:
                text = f"{text}%{address[3]}"
            self._rules.check(host, ip_address(text))
            results.append(
                aiohttp.abc.ResolveResult(
                    hostname=host,
                    host=text,
                    port=int(address[1]),
                    family=kind,
                    proto=proto,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        return results

    async def close(self) -> None:
        """Cancel pending lookups."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _literal(host: str) -> Address | None:
    """The address that a host is, parsed like getaddrinfo: also 127.1, 0x7f.1 and 2130706433."""
    try:
        return ip_address(host)
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError, ValueError):
        return None


def _embedded(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses that a packet to an IPv6 one may be sent to."""
    if isinstance(address, IPv4Address):
        return []
    packed = address.packed
    if address in _LOCAL_NAT64:  # RFC 6052, for prefixes of 48, 56, 64 and 96 bits
        forms = (packed[6:8] + packed[9:11], packed[7:8] + packed[9:12], packed[9:13], packed[12:])
        found = map(IPv4Address, forms)
        return [one for one in found if one not in _THIS_NETWORK]  # zeros of a longer prefix
    is_last = packed[8:12] in _ISATAP or any(address in network for network in _IPV4_AT_THE_END)
    last = IPv4Address(packed[12:]) if is_last else None
    return list(filter(None, (last, address.sixtofour, *(address.teredo or ()))))


def _objection(address: Address) -> str | None:
    """Why a registry must not have an address; None where it may."""
    kinds = (
        (address.is_loopback, "loopback addresses are the operator's own machine"),
        (address.is_link_local, "link-local addresses are the node's and the cloud's services"),
        (
            any(address in network for network in _METADATA),
            "it is a cloud's metadata service",
        ),
        (address in _LOCAL_NAT64, "NAT64 of the local network leads to any IPv4 address"),
        (
            address.is_unspecified or (address.version == 4 and address in _THIS_NETWORK),
            "it isn't the address of a host",
        ),
        (address.is_multicast or address == _BROADCAST, "it isn't the address of a single host"),
    )
    return next((text for applies, text in kinds if applies), None)


KEEP_ALIVE: Final = 75.0
"""Seconds that an idle connection is kept; longer than a common poll interval of a minute."""
KEPT_ALIVE: Final = 512
"""Hosts named by Bundles whose connections are kept, and ..."""
KEPT_ALIVE_OTHERS: Final = 32
"""... token servers and redirects' targets."""

OTHER: Final = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The rate of requests to one host; only tests use another than the default."""

    per_second: float = 50.0
    """Long-term limit; ``burst`` requests may be sent at once."""
    burst: int = 100


DEFAULT_RATE: Final = Rate()


class Host:
    """What is known of one host: limits, a pause, and whether it has metrics or a connection."""

    __slots__ = (
        "_due",
        "_rate",
        "blocked_by",
        "blocked_until",
        "has_series",
        "is_named",
        "kept_until",
        "slots",
        "users",
    )

    def __init__(self, rate: Rate) -> None:
        self.slots = asyncio.Semaphore(REGISTRY_REQUESTS_PER_HOST)
        self.blocked_until = 0.0
        self.blocked_by = 0
        """The status that caused the pause: 429 or 503."""
        self.users = 0
        """Requests that wait or are in flight."""
        self.has_series = False
        """Whether it has a label value of its own in metrics."""
        self.kept_until = 0.0
        """When its last idle connection is closed."""
        self.is_named = False
        """Whether it was named by a Bundle when that was kept."""
        self._rate = rate
        self._due = 0.0

    async def turn(self) -> None:
        """Wait until the next request may be sent: a steady rate, after a burst."""
        now = time.monotonic()
        rate = self._rate
        self._due = max(self._due, now - rate.burst / rate.per_second) + 1 / rate.per_second
        if self._due > now:
            await asyncio.sleep(self._due - now)

    def is_used(self, now: float) -> bool:
        """Whether it has requests, metrics or a connection."""
        return bool(self.users) or self.has_series or self.kept_until > now

    def is_idle(self, now: float) -> bool:
        """Whether it isn't used, and has no pause and its full burst, so that it can be dropped."""
        rate = self._rate
        idle = self._due <= now - rate.burst / rate.per_second + 1 / rate.per_second
        return not self.is_used(now) and idle and self.blocked_until <= now


class HostCache:
    """The hosts that are used, had recent requests or have a pause, by ``host[:port]``."""

    def __init__(self, metrics: Metrics, rate: Rate = DEFAULT_RATE) -> None:
        self._metrics = metrics
        self._rate = rate
        self._hosts: OrderedDict[str, Host] = OrderedDict()
        self._series = 0
        """Hosts with label values of their own; none of them is dropped."""

    def __len__(self) -> int:
        return len(self._hosts)

    @contextmanager
    def use(self, name: str) -> Iterator[Host]:
        """The host, while a request to it waits or is in flight."""
        host = self._hosts.setdefault(name, Host(self._rate))
        host.users += 1
        try:
            yield host
        finally:
            host.users -= 1
            self._hosts.move_to_end(name)
            self._forget(time.monotonic())

    def label_of(self, name: str, *, named: bool) -> str:
        """Its label's value in metrics: its own if a Bundle names it, up to a limit of hosts."""
        host = self._hosts[name]
        if named and not host.has_series and self._series < REGISTRY_HOST_LABELS:
            host.has_series = True
            self._series += 1
        return name if host.has_series else OTHER

    def may_keep(self, name: str, *, named: bool) -> bool:
        """Whether the connection of this request may be kept: those of a limited number are."""
        host, now = self._hosts[name], time.monotonic()
        if host.kept_until <= now:
            kept = (one for one in self._hosts.values() if one.kept_until > now)
            others = sum(one.is_named == named for one in kept)
            if others >= (KEPT_ALIVE if named else KEPT_ALIVE_OTHERS):
                return False
            host.is_named = named
        host.kept_until = now + KEEP_ALIVE
        return True

    def drop_series(self, kept: Collection[str]) -> None:
        """Drop the metrics of all hosts but these."""
        for name, host in self._hosts.items():
            if host.has_series and name not in kept:
                host.has_series = False
                self._series -= 1
                self._metrics.registry_requests.remove_by_labels({"host": name})
                self._metrics.registry_request_seconds.remove_by_labels({"host": name})

    def _forget(self, now: float) -> None:
        """Check the two least recently used hosts, so that more can be dropped than are added."""
        for _ in range(2):
            name, oldest = next(iter(self._hosts.items()))
            over = len(self._hosts) > REGISTRY_HOSTS and not oldest.is_used(now)
            if over or oldest.is_idle(now):
                del self._hosts[name]
            else:
                self._hosts.move_to_end(name)
            if not self._hosts:
                return
