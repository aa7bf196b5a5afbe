"""Who calls, also behind proxies."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.serving.listener import Peers

PROXIES = Peers([ip_network("10.0.0.0/8"), ip_network("fd00::/8")])


@pytest.mark.parametrize(
    ("remote", "forwarded", "caller"),
    [
        ("192.0.2.1", [], "192.0.2.1"),
        ("::ffff:192.0.2.1", [], "192.0.2.1"),
        ("2001:db8::1", [], "2001:db8::/64"),
        ("2001:db8::2", [], "2001:db8::/64"),
        ("192.0.2.1", ["198.51.100.7"], "192.0.2.1"),  # no proxy of ours says so
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], "198.51.100.7"),  # the left may be forged
        ("10.0.0.1", ["203.0.113.9", "198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7:4711"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::/64"),
        ("fd00::1", ["2001:db8::1"], "2001:db8::/64"),
        ("10.0.0.1", ["nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["198.51.100.7, nonsense"], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", [], "10.0.0.1"),
        (None, [], "unknown"),
    ],
)
def test_the_caller_is_the_first_from_the_right_that_is_no_trusted_proxy(
    remote: str | None, forwarded: list[str], caller: str
) -> None:
    assert PROXIES.caller(remote, forwarded) == caller


@given(st.text(), st.lists(st.text()))
def test_whatever_is_claimed_it_is_one_caller(remote: str, forwarded: list[str]) -> None:
    assert PROXIES.caller(remote, forwarded)
