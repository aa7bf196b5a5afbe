"""Which addresses requests may go to."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from copyrator.oci.errors import AddressRefused
from copyrator.oci.exchange import parse_url
from copyrator.oci.transport import ANYWHERE, AddressRules, CheckedResolver

REFUSED = [
    "127.0.0.1",
    "::1",
    "169.254.169.254",
    "fe80::1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "::ffff:127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    # Metadata services' IPv6 addresses.
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fd00:a9fe:a9fe::1",
    "fd00:42::42",
    "fd00:100::100:200",
    # Further forms of refused IPv4 addresses: mapped, NAT64, 6to4, Teredo (server, client),
    # ISATAP, translated, compatible.
    "2002:a9fe:a9fe::1",
    "2001:0:808:808::5601:5601",
    "2001:0:a9fe:a9fe::f7f7:f7f7",
    "2001:db8::5efe:a9fe:a9fe",
    "2001:db8::200:5efe:7f00:1",
    "::ffff:0:a9fe:a9fe",
    "::a9fe:a9fe",
    # NAT64 of the local network: prefixes of 48, 56, 64 and 96 bits, and whatever is behind them.
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:a9:fe:a9fe::",
    "64:ff9b:1:0:a9:fea9:fe00:0",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
]
USUAL = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8", "fd00::1", "2001:db8::1",
    "fd00:ec3::254", "fd20:ce::253", "100.100.100.201", "::ffff:10.0.0.1", "::ffff:8.8.8.8",
    "64:ff9b::808:808", "64:ff9b::a00:1", "64:ff9b:2::a9fe:a9fe", "2002:808:808::a9fe:a9fe",
    "2001:0:808:808::f7f7:f7f7", "2001:db8::5efe:808:808", "2001:db8::a9fe:a9fe",
]  # fmt: skip


@pytest.mark.parametrize("address", REFUSED)
def test_what_is_no_registrys_address_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused, match="--allow-registry-addresses") as refused:
        AddressRules().check("r.example.com", ip_address(address))
    assert "r.example.com" in refused.value.message
    assert str(ip_address(address)) in refused.value.message


@pytest.mark.parametrize("address", USUAL)
def test_private_and_public_addresses_may_be_asked(address: str) -> None:
    AddressRules().check("r.example.com", ip_address(address))


@pytest.mark.parametrize("address", REFUSED)
def test_the_command_line_may_ask_everywhere(address: str) -> None:
    AddressRules(ANYWHERE).check("r.example.com", ip_address(address))


def test_only_what_is_allowed_is_allowed() -> None:
    rules = AddressRules([ip_network("127.0.0.1/32")])
    rules.check("a", ip_address("127.0.0.1"))
    rules.check("a", ip_address("::ffff:127.0.0.1"))
    with pytest.raises(AddressRefused):
        rules.check("a", ip_address("127.0.0.2"))


@pytest.mark.parametrize(
    ("network", "passes"),
    [
        ("64:ff9b:1::/48", "64:ff9b:1::808:808"),
        ("64:ff9b::/96", "64:ff9b::808:808"),
        ("2002::/16", "2002:808:808::1"),
        ("2001::/32", "2001:0:808:808::f7f7:f7f7"),
    ],
)
def test_an_allowed_network_doesnt_allow_the_ipv4_addresses_behind_it(
    network: str, passes: str
) -> None:
    rules = AddressRules([ip_network(network)])
    rules.check("a", ip_address(passes))
    refused = {one for one in REFUSED if ip_address(one) in ip_network(network)} - {passes}
    assert refused
    for address in refused:
        with pytest.raises(AddressRefused):
            rules.check("a", ip_address(address))


def test_both_can_be_allowed() -> None:
    rules = AddressRules([ip_network("64:ff9b:1::/48"), ip_network("169.254.169.254/32")])
    rules.check("a", ip_address("64:ff9b:1::a9fe:a9fe"))
    with pytest.raises(AddressRefused):
        rules.check("a", ip_address("64:ff9b:1::7f00:1"))


@pytest.mark.parametrize("proxied", [True, False])
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "[::1]", "[::ffff:7f00:1]", "0",
     "127.0.0.1.", "[fe80::1%25eth0]", "\uff11\uff12\uff17.0.0.1"],
)  # fmt: skip
def test_an_address_in_a_url_is_refused_in_any_spelling(host: str, proxied: bool) -> None:
    with pytest.raises(AddressRefused):
        AddressRules().check_url(URL(f"http://{host}:5000/v2/"), proxied=proxied)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "a.localhost"])
def test_names_of_this_machine_are_refused_where_a_proxy_resolves(host: str) -> None:
    with pytest.raises(AddressRefused):
        AddressRules().check_url(URL(f"http://{host}/"), proxied=True)


async def test_one_refused_address_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["10.0.0.1", "127.0.0.1"]

    def resolve(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 8080)) for one in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    resolver = CheckedResolver(AddressRules())
    with pytest.raises(AddressRefused, match=r"r\.example\.com, which is 127\.0\.0\.1"):
        await resolver.resolve("r.example.com", 80)

    found.remove("127.0.0.1")
    (only,) = await resolver.resolve("r.example.com", 80)
    assert (only["host"], only["port"]) == ("10.0.0.1", 8080)  # the address's own
    await resolver.close()


@given(st.text())
def test_whatever_stands_for_a_host_is_refused_or_passes(host: str) -> None:
    try:
        url = parse_url(f"http://{host}/")
    except ValueError:
        return
    with suppress(AddressRefused):
        AddressRules().check_url(url, proxied=True)
