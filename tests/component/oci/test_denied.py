"""What is said of credentials: that they are refused, only where they were really sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, Handler, answering
from tests.component.oci.test_credentials import Recorder

from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryError

ALICE = Credential("alice", "s3cret")
IDENTITY = Credential(identity_token="refresh-s3cret")
TOKEN = Credential(registry_token="token-s3cret")
SECRETS = (ALICE.basic.removeprefix("Basic "), "refresh-s3cret", "token-s3cret")


@pytest.fixture
async def registry() -> AsyncIterator[Recorder]:
    async with Recorder() as registry:
        registry.put("team/app", "1.0.0", "one")
        yield registry


@pytest.fixture
async def other() -> AsyncIterator[Recorder]:
    async with Recorder(auth="basic", users={"nobody": "else"}) as other:
        yield other


@dataclass
class Case:
    """A registry's behaviour, and what is said of it; HOST and OTHER are the two servers."""

    credential: Credential | None
    text: str
    auth: str = ""
    at: str = ""
    """Paths at which the fault answers."""
    status: int = 0
    challenge: str = ""
    location: str = ""
    after_login: int = 0
    """The status for requests with an Authorization header."""
    open_api: bool = False
    """``/v2/`` itself requires nothing."""

    def fault(self, registry: FakeRegistry) -> Handler | None:
        headers = {"Location": self.location} if self.location else {}
        if self.challenge:
            headers["WWW-Authenticate"] = self.challenge

        async def serve(request: web.Request) -> web.StreamResponse:
            status = self.status
            if self.open_api and request.path == "/v2/":
                return web.Response()
            if self.after_login and "Authorization" in request.headers:
                status = self.after_login
            if status:
                return web.Response(status=status, headers=headers)
            return registry._refusal(request) or await registry.respond(request)

        return serve if self.status or self.after_login else None


BASIC = 'Basic realm="r, Bearer x"'
REQUIRES = "HOST requires credentials for team/app; set spec.auth to a Secret"
REFUSES = "HOST refuses the credentials of spec.auth for team/app"
SERVER = "the token server 127.0.0.1 refuses the credentials of spec.auth for team/app"
NOT_SENT = " without a challenge, so the credentials of spec.auth weren't sent"
DENIED = "HOST refuses access to team/app "
REDIRECTS = (
    "HOST redirects to http://OTHER, which {}; none is sent for a redirect's target. If it is the "
    "registry of team/app, set spec.registry to it"
)
ONLY_TOKEN = (
    "HOST requires a username and password for team/app, and the credential of spec.auth is a "
    "token, so it wasn't sent"
)
ELSEWHERE = "http://OTHER/v2/team/app/manifests/1.0.0"

CASES = {
    # Without credentials.
    "none, basic": Case(None, REQUIRES, "basic"),
    "none, 401 without a challenge": Case(None, REQUIRES, status=401, at="/v2/"),
    "none, 403": Case(None, DENIED + "(403); spec.auth names no Secret", status=403, at="/v2/"),
    "none, a token that is forbidden": Case(
        None, REQUIRES, "bearer", after_login=403, at="/v2/"
    ),
    "none, redirected": Case(
        None, REDIRECTS.format("requires credentials"), status=307, location=ELSEWHERE, at="/v2/"
    ),
    # Set, and not sent.
    "403, an open API": Case(
        ALICE, f"{DENIED}(403){NOT_SENT}", status=403, open_api=True, at="/v2/"
    ),
    "401 without a challenge, an open API": Case(
        ALICE, f"{DENIED}(401){NOT_SENT}", status=401, open_api=True, at="/v2/"
    ),
    "an identity token for basic": Case(IDENTITY, ONLY_TOKEN, "basic"),
    "redirected to one that requires some": Case(
        ALICE, REDIRECTS.format("requires credentials"), status=307, location=ELSEWHERE, at="/v2/"
    ),
    "another scheme": Case(
        ALICE,
        "HOST requires an authentication scheme other than Basic or Bearer",
        status=401,
        challenge="Negotiate",
        at="/v2/",
    ),
    **{
        f"no token server: {challenge}": Case(
            ALICE,
            "HOST requires a token and names no token server",
            status=401,
            challenge=challenge,
            at="/v2/",
        )
        for challenge in ("Bearer", 'bearer realm=""')
    },
    "a token server over plain HTTP to another place": Case(
        ALICE,
        "HOST has a token server that isn't a URL",
        status=401,
        challenge='Bearer realm="nowhere"',
        at="/v2/",
    ),
    # Sent, and refused.
    "basic": Case(Credential("alice", "wrong"), REFUSES, "basic"),
    "basic, forbidden": Case(
        ALICE,
        DENIED + "(403); check the Secret of spec.auth",
        "basic",
        after_login=403,
        at="/v2/",
    ),
    "basic, 401 without a challenge": Case(
        ALICE, REFUSES, status=401, challenge=BASIC, after_login=401, at="/manifests/"
    ),
    "the token server": Case(Credential("alice", "wrong"), SERVER, "bearer"),
    "the registry, after a token": Case(
        ALICE,
        REFUSES,
        "bearer",
        status=401,
        challenge='Bearer realm="http://HOST/token",service="fake",scope="x"',
        at="/v2/",
    ),
    "a registry token": Case(TOKEN, REFUSES, "bearer"),
    "a token that is forbidden": Case(
        ALICE,
        DENIED + "(403); check the Secret of spec.auth",
        "bearer",
        after_login=403,
        at="/v2/",
    ),
}  # fmt: skip
OF_SENT = ("refuses the credentials", "check the Secret")


@pytest.mark.parametrize("name", CASES)
async def test_what_is_said_of_credentials(registry: Recorder, other: Recorder, name: str) -> None:
    case = CASES[name]

    def placed(text: str) -> str:
        return text.replace("HOST", registry.host).replace("OTHER", other.host)

    case.location, case.challenge = placed(case.location), placed(case.challenge)
    registry.auth, registry.users = case.auth, {"alice": "s3cret"}
    registry.fault, registry.fault_at = case.fault(registry), case.at
    where = registry.app

    for _ in range(2):  # the second time it may be cached
        with pytest.raises(RegistryError) as failed:
            await registry.client.digest(where, "1.0.0", case.credential)
        assert failed.value.message == placed(case.text)

    wrong = Credential("alice", "wrong").basic.removeprefix("Basic ")
    was_sent = any(one in registry.received for one in (*SECRETS, wrong, "=old"))
    assert was_sent == any(words in case.text for words in OF_SENT), "said as it was"
    assert "Authorization" not in other.received


@pytest.mark.parametrize("credential", [ALICE, IDENTITY, None])
async def test_the_target_of_a_token_servers_redirect_doesnt_refuse_what_it_didnt_get(
    registry: Recorder, other: Recorder, credential: Credential | None
) -> None:
    registry.auth, registry.fault_at = "bearer", "/token"
    registry.fault = answering(307, Location=f"http://{other.host}/token")

    with pytest.raises(RegistryError) as failed:
        await registry.client.digest(registry.app, "1.0.0", credential)

    assert "refuses the credentials" not in failed.value.message
    assert "redirects" in failed.value.message
    assert "Authorization" not in other.received
