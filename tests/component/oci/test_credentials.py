"""Which servers a registry's credentials are sent to: the registry, and what it itself names."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, answering
from yarl import URL

from copyrator.oci.auth import Credential
from copyrator.oci.errors import AuthenticationFailed, InvalidResponse, RegistryError
from copyrator.oci.exchange import Repository, Request, TlsVerification, is_same_origin
from copyrator.oci.transport import _follow
from hostile.registry import STRAYED, serving

ALICE = Credential("alice", "s3cret")
CREDENTIALS = {
    "password": ALICE,
    "identity token": Credential(identity_token="refresh"),
    "registry token": Credential(registry_token="registry-token"),
    "none": None,
}


class Recorder(FakeRegistry):
    """Keeps all that arrives: headers, query strings and bodies."""

    received: str = ""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.received += f"{request.path_qs} {dict(request.headers)} {await request.text()}\n"
        return await super()._serve(request)


@pytest.fixture
async def other() -> AsyncIterator[Recorder]:
    """Another server, which wants credentials, and has a token server of its own."""
    async with Recorder(auth="bearer") as other:
        other.put("team/app", "1.0.0", "one")
        yield other


def assert_got_nothing(other: Recorder) -> None:
    assert other.count("GET", "/token") == other.count("POST", "/token") == 0
    assert "Authorization" not in other.received
    for secret in ("s3cret", ALICE.basic.removeprefix("Basic "), "refresh", "registry-token"):
        assert secret not in other.received


def redirect_to(other: FakeRegistry, name: str = "127.0.0.1") -> str:
    assert other.server is not None
    return f"http://{name}:{other.server.port}/v2/team/app/manifests/1.0.0"


@pytest.mark.parametrize("auth", ["bearer", "basic"])
@pytest.mark.parametrize("credential", CREDENTIALS.values(), ids=CREDENTIALS)
async def test_the_challenge_of_a_redirects_target_is_answered_with_nothing(
    registry: FakeRegistry,
    other: Recorder,
    credential: Credential | None,
    auth: str,
) -> None:
    other.auth = auth
    registry.fault = answering(307, Location=redirect_to(other))

    with pytest.raises(AuthenticationFailed, match=r"redirects to http://127\.0.*set spec\.reg"):
        await registry.resolve(credential)

    assert other.count("HEAD") == 1
    assert_got_nothing(other)


@pytest.mark.parametrize("path", ["tags", "blob", "referrers"])
async def test_nor_where_something_else_is_asked_for(
    registry: FakeRegistry, other: Recorder, path: str
) -> None:
    registry.fault = answering(307, Location=redirect_to(other))
    where, digest = registry.app, "sha256:" + "0" * 64

    async def take(_: list[str]) -> None:
        raise AssertionError

    with pytest.raises(AuthenticationFailed):
        await {
            "tags": lambda: registry.client.tags(where, ALICE, take),
            "blob": lambda: registry.client.blob(where, digest, ALICE, 100),
            "referrers": lambda: registry.client.referrers(
                where, where.referrers_url(digest), ALICE
            ),
        }[path]()

    assert other.asked
    assert_got_nothing(other)


async def test_nor_once_the_registry_has_granted_a_token(
    registry: FakeRegistry, other: Recorder
) -> None:
    registry.auth, registry.users = "bearer", {"alice": "s3cret"}
    digest = registry.put("team/app", "1.0.0", "one")
    assert await registry.resolve(ALICE) == digest
    registry.fault = answering(307, Location=redirect_to(other))

    with pytest.raises(AuthenticationFailed, match="redirects"):
        await registry.resolve(ALICE)

    assert_got_nothing(other)
    assert "token-" not in other.received
    registry.fault = None
    tokens = registry.count("GET", "/token")
    assert await registry.resolve(ALICE) == digest
    assert registry.count("GET", "/token") == tokens, "the registry's own token is still used"


async def test_a_token_server_that_the_registry_names_gets_them_wherever_it_is(
    registry: FakeRegistry, other: Recorder
) -> None:
    digest = registry.put("team/app", "1.0.0", "one")
    registry.auth = "bearer"
    registry.tokens = other.tokens
    other.users = {"alice": "s3cret"}
    challenge = f'Basic realm="r, x", Bearer realm="http://{other.host}/token",service="fake"'

    async def challenge_once(_: web.Request) -> web.Response:
        registry.fault = None
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    registry.fault = challenge_once
    assert await registry.resolve(ALICE) == digest
    assert ALICE.basic in other.received


@pytest.mark.parametrize(
    "challenge",
    [
        'Basic realm="the shop, Bearer realm=http://OTHER/token, x"',
        'Basic realm="the shop\\", Bearer realm=http://OTHER/token, x"',
        'Basic realm="the shop, Bearer realm=http://OTHER/token, x',
    ],
)
async def test_a_scheme_within_quotes_is_none(
    registry: FakeRegistry, other: Recorder, challenge: str
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    digest = registry.put("team/app", "1.0.0", "one")

    async def challenge_once(_: web.Request) -> web.Response:
        registry.fault = None
        written = challenge.replace("OTHER", other.host)
        return web.Response(status=401, headers={"WWW-Authenticate": written})

    registry.fault = challenge_once
    assert await registry.resolve(ALICE) == digest
    assert registry.seen_authorization[-1] == ALICE.basic
    assert other.asked == []


@pytest.mark.parametrize("credential", [ALICE, CREDENTIALS["identity token"]])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_a_token_servers_redirect_takes_no_credentials_along(
    registry: FakeRegistry,
    other: Recorder,
    credential: Credential,
    name: str,
) -> None:
    assert other.server is not None
    location = f"http://{name}:{other.server.port}/elsewhere"
    registry.auth, registry.fault_at = "bearer", "/token"
    registry.fault = answering(307, Location=location)

    with pytest.raises(RegistryError):
        await registry.resolve(credential)

    assert registry.asked[-1][1].startswith("/token")
    assert_got_nothing(other)


@pytest.mark.parametrize("credential", [ALICE, None])
@pytest.mark.parametrize("kind", ["moved", "quoted"])
async def test_a_hostile_neighbours_registry_gets_nothing_elsewhere(
    registry: FakeRegistry, kind: str, credential: Credential | None
) -> None:
    async with serving() as hostile:
        where = Repository(hostile.host, f"{kind}/app", plain_http=True)
        for _ in range(3):
            with pytest.raises(AuthenticationFailed):
                await registry.client.digest(where, "1.0.0", credential)

    assert hostile.asked[kind] >= 3
    assert not hostile.asked[STRAYED]


@pytest.mark.parametrize(
    ("url", "location", "kept"),
    [
        ("https://r/v2/", "/v2/x", True),
        ("https://r:443/v2/", "https://r/v2/x", True),
        ("http://r/v2/", "http://r:80/x", True),
        ("https://r/v2/", "//other/v2/", False),
        ("https://r/v2/", "https://r.other/v2/", False),
        ("https://r/v2/", "https://r@other/v2/", False),
        ("https://r/v2/", "https:\\\\other/v2/", True),  # a path of r
        ("http://r/v2/", "https://r/v2/", False),
        ("http://r:443/v2/", "https://r:443/v2/", False),
    ],
)
def test_only_the_same_origin_gets_the_header_and_the_private_ca(
    url: str, location: str, kept: bool
) -> None:
    headers = {"Authorization": "Basic x", "Accept": "*/*"}
    request = Request("GET", url, TlsVerification(verify=False, ca=b"ca"), headers)
    found = _follow(request, URL(url).origin(), location)
    assert is_same_origin(URL(found.url), URL(url)) == kept
    assert found.headers == (headers if kept else {"Accept": "*/*"})
    assert found.trust == (request.trust if kept else TlsVerification())
    again = replace(found, url="https://elsewhere/") if not kept else found
    assert _follow(again, URL(url).origin(), url.replace("http://", "https://")).headers == (
        headers if kept and url.startswith("https") else {"Accept": "*/*"}
    ), "what was taken off doesn't come back"


@pytest.mark.parametrize("location", ["http://r/v2/", "ftp://r/v2/", "file:///etc/passwd"])
def test_no_redirect_leads_from_https_to_anything_else(location: str) -> None:
    with pytest.raises(InvalidResponse, match="from https to"):
        _follow(Request("GET", "https://r/v2/"), URL("https://r"), location)
