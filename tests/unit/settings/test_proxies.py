"""NO_PROXY as Go reads it; each row was tried with golang.org/x/net/http/httpproxy, too."""

from __future__ import annotations

import pytest

from copyrator.connections import Proxies, ProxyError

PROXY = "http://proxy.example.com:3128"


def goes_directly(url: str, no_proxy: str) -> bool:
    names = {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy}
    return Proxies(names).proxy_for(url) is None


@pytest.mark.parametrize(
    ("no_proxy", "url", "directly"),
    [
        ("", "https://r.example.com/v2/", False),
        ("*", "https://r.example.com/v2/", True),
        ("other.org, r.example.com", "https://r.example.com/v2/", True),
        ("example.com", "https://r.example.com/v2/", True),
        ("example.com", "https://example.com/v2/", True),
        ("example.com", "https://notexample.com/v2/", False),
        (".example.com", "https://r.example.com/v2/", True),
        (".example.com", "https://example.com/v2/", False),
        ("*.example.com", "https://a.b.example.com/v2/", True),
        ("*.example.com", "https://example.com/v2/", False),
        ("EXAMPLE.com", "https://R.example.COM/v2/", True),
        ("r.example.com:5000", "https://r.example.com:5000/v2/", True),
        ("r.example.com:5000", "https://r.example.com/v2/", False),
        ("r.example.com:443", "https://r.example.com/v2/", True),
        ("r.example.com:80", "http://r.example.com/v2/", True),
        ("10.0.0.0/8", "https://10.96.3.4:5000/v2/", True),
        ("10.0.0.0/8", "https://11.0.0.1/v2/", False),
        ("10.1.2.3/8", "https://10.96.3.4/v2/", True),
        ("10.0.0.0/8", "https://r.example.com/v2/", False),
        ("10.0.0.0/99", "https://10.0.0.1/v2/", False),
        ("10.0.0.1", "https://10.0.0.1:5000/v2/", True),
        ("10.0.0.1:5000", "https://10.0.0.1/v2/", False),
        ("0.0.1", "https://10.0.0.1/v2/", False),
        ("fd00::/8", "https://[fd00::1]:5000/v2/", True),
        ("[fd00::1]:5000", "https://[fd00::1]:5000/v2/", True),
        ("fd00::1", "https://[fd00:0::1]/v2/", True),
        (":5000", "https://r.example.com:5000/v2/", False),
        ("", "http://localhost:5000/v2/", True),
        ("", "http://127.0.0.1:5000/v2/", True),
        ("", "http://127.9.9.9:5000/v2/", True),
        ("", "http://[::1]:5000/v2/", True),
    ],
)
def test_exceptions_are_those_of_go(no_proxy: str, url: str, *, directly: bool) -> None:
    assert goes_directly(url, no_proxy) is directly


def test_each_scheme_has_its_proxy() -> None:
    proxies = Proxies({"HTTP_PROXY": "http://one:1", "https_proxy": "http://two:2"})

    assert proxies.proxy_for("http://r.example.com") == "http://one:1"
    assert proxies.proxy_for("https://r.example.com") == "http://two:2"
    assert Proxies({}).proxy_for("https://r.example.com") is None


def test_a_proxy_may_leave_its_scheme_out() -> None:
    assert Proxies({"HTTPS_PROXY": "two:2"}).proxy_for("https://r.example.com") == "http://two:2"


@pytest.mark.parametrize("value", ["socks5://alice:s3cret@two:2", "http://"])
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(value: str) -> None:
    with pytest.raises(ProxyError, match="HTTPS_PROXY") as failed:
        Proxies({"HTTPS_PROXY": value}).proxy_for("https://r.example.com")
    assert "s3cret" not in str(failed.value)
