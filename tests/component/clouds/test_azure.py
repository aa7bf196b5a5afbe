"""Azure's logins, against servers that answer as Microsoft Entra and a registry do."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.authority import Authority
from tests.clouds.azure import (
    AUDIENCE,
    NOBODY,
    READER,
    AzureRegistry,
    Entra,
    acr_token,
    entra_error,
    has_words_of_entra,
)
from tests.clouds.guards import OwnTokens, refused
from tests.clouds.stage import Answer, Asked, Stage
from tests.component.oci.fake_registry import LOOPBACK, registry_client
from tests.component.oci.test_proxies import Tunnel

from copyrator.api.clouds import ANN_AZURE_CLIENT, ANN_AZURE_TENANT, Provider, read_registry
from copyrator.clouds import azure
from copyrator.clouds.calls import Account, Calls, Issued
from copyrator.clouds.logins import SharedLogins
from copyrator.metrics import Metrics
from copyrator.oci.auth import CloudIdentity, Credential
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import (
    AuthenticationFailed,
    IdentityMissing,
    IdentityRefused,
    IdentityUnavailable,
    InvalidResponse,
    RateLimited,
    RegistryError,
    RegistryUnreachable,
)
from copyrator.oci.exchange import Repository, Request, Response
from copyrator.oci.transport import RegistryTransport

HOST = "shop.azurecr.io"
LOGIN = "login.microsoftonline.com"
METADATA = "169.254.169.254"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
OTHER_TENANT = "409520d4-8100-4d1d-ad47-72432ddcc120"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
OTHER = "11111111-14a6-49ae-97bc-6eba6914391e"
SUBJECT = "system:serviceaccount:team:werf"


@dataclass
class Azure:
    """The servers, and what asks them."""

    stage: Stage
    tokens: OwnTokens
    entra: Entra
    registry: AzureRegistry
    calls: Calls
    audiences: list[str]
    seconds: float = 600.0
    """Of a service account's token."""

    def account(self, name: str = "werf", **annotations: str) -> Account:
        """A service account of the namespace ``team``."""
        found = {ANN_AZURE_CLIENT: CLIENT, ANN_AZURE_TENANT: TENANT}
        found |= {
            f"azure.workload.identity/{key}_id".replace("_", "-"): value
            for key, value in annotations.items()
        }

        async def token(audience: str) -> str:
            self.audiences.append(audience)
            issued = self.tokens.issue("team", name, audience, seconds=self.seconds)
            self.stage.sentinels.watch("account", issued)
            return issued

        return Account("team", name, {key: value for key, value in found.items() if value}, token)

    async def issue(self, account: Account | None, host: str = HOST) -> Issued:
        registry = read_registry(Provider.AZURE, host)
        return await azure.issue(self.calls, registry, account, writes=False)

    async def fault(
        self, kind: type[RegistryError], account: Account | None, host: str = HOST
    ) -> str:
        """The message of the error that there is."""
        with pytest.raises(kind) as caught:
            await self.issue(account, host)
        assert type(caught.value) is kind
        chained = caught.value.__context__ if not caught.value.__suppress_context__ else None
        text = f"{caught.value} {chained}"
        assert not self.stage.sentinels.leaks(text), text
        assert "S3ntinel" not in text  # nor a part of a token
        assert not has_words_of_entra(text)
        return caught.value.message


@pytest.fixture
async def cloud(cloud_stage: Stage) -> AsyncIterator[Azure]:
    stage, tokens = cloud_stage, OwnTokens()
    entra = Entra(stage, tokens)
    entra.let(TENANT, CLIENT, SUBJECT)
    registry = AzureRegistry(stage, entra, HOST, {CLIENT: READER})
    stage.serve(LOGIN, entra)
    stage.serve(HOST, registry, stage.pass_on)
    transport = RegistryTransport(metrics=Metrics(), timeout=5.0, allowed=LOOPBACK)
    calls = Calls(transport, lambda: datetime.now(UTC))
    yield Azure(stage, tokens, entra, registry, calls, [])
    await transport.close()


async def test_an_account_gets_the_registrys_refresh_token(cloud: Azure) -> None:
    before = datetime.now(UTC)
    issued = await cloud.issue(cloud.account())
    assert issued.username == NOBODY
    assert issued.password in cloud.registry.refresh
    assert timedelta(hours=2.9) < issued.expires - before <= timedelta(hours=3, seconds=60)
    assert cloud.audiences == [AUDIENCE]
    (entra,) = cloud.stage.asked(LOGIN)
    assert entra.path == f"/{TENANT}/oauth2/v2.0/token"
    (exchange,) = cloud.stage.asked(HOST)
    assert (exchange.form["service"], exchange.form["tenant"]) == (HOST, TENANT)
    assert cloud.stage.hosts_told(entra.form["client_assertion"]) == {LOGIN}
    assert cloud.stage.hosts_told(exchange.form["access_token"]) == {HOST}
    assert cloud.stage.lookups == {LOGIN, HOST}


@pytest.mark.parametrize(
    ("host", "authority"),
    [
        ("shop.azurecr.cn", "login.partner.microsoftonline.cn"),
        ("shop.azurecr.us", "login.microsoftonline.us"),
    ],
)
async def test_each_cloud_has_its_own_authority(
    cloud: Azure, host: str, authority: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://evil.example")
    cloud.stage.serve(authority, cloud.entra)
    cloud.stage.serve(host, AzureRegistry(cloud.stage, cloud.entra, host, {CLIENT: READER}))
    await cloud.issue(cloud.account(), host)
    assert cloud.stage.lookups == {authority, host}


async def test_the_tenant_is_the_operators_where_the_account_names_none(
    cloud: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = cloud.account(tenant="")
    message = await cloud.fault(IdentityMissing, account)
    assert ANN_AZURE_TENANT in message
    assert "AZURE_TENANT_ID" in message
    monkeypatch.setenv("AZURE_TENANT_ID", "common")
    assert "AZURE_TENANT_ID isn't an ID" in await cloud.fault(IdentityMissing, account)
    monkeypatch.setenv("AZURE_TENANT_ID", OTHER_TENANT)
    message = await cloud.fault(IdentityRefused, account)
    assert message.endswith("or the operator's variable AZURE_TENANT_ID")
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    assert (await cloud.issue(account)).username == NOBODY


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (
            {"client": ""},
            "team/werf has no annotation azure.workload.identity/client-id; set it to",
        ),
        ({"client": "../common"}, "azure.workload.identity/client-id isn't an ID"),
        ({"tenant": "common"}, "azure.workload.identity/tenant-id isn't an ID"),
        (
            {"tenant": f"{TENANT}/../{OTHER_TENANT}"},
            "azure.workload.identity/tenant-id isn't an ID",
        ),
    ],
)
async def test_annotations_that_are_missing_or_no_ids_are_named_and_nobody_is_asked(
    cloud: Azure, annotations: dict[str, str], said: str
) -> None:
    assert said in await cloud.fault(IdentityMissing, cloud.account(**annotations))
    assert cloud.stage.asked() == []
    assert cloud.audiences == []


async def test_an_unknown_tenant_is_named(cloud: Azure) -> None:
    message = await cloud.fault(IdentityRefused, cloud.account(tenant=OTHER_TENANT))
    assert "AADSTS90002" in message
    assert f"there is no tenant {OTHER_TENANT} at {LOGIN}" in message
    assert "the annotations of ServiceAccount team/werf" in message


async def test_an_unknown_application_is_named_with_its_tenant(cloud: Azure) -> None:
    message = await cloud.fault(IdentityRefused, cloud.account(client=OTHER))
    assert "AADSTS700016" in message
    assert f"tenant {TENANT} has no application {OTHER}" in message


async def test_another_account_is_told_the_federated_credential_that_it_needs(cloud: Azure) -> None:
    message = await cloud.fault(IdentityRefused, cloud.account("other"))
    assert "AADSTS700213" in message
    needs = f"issuer {cloud.tokens.issuer}, subject system:serviceaccount:team:other and audience"
    assert f"{needs} {AUDIENCE}" in message


@pytest.mark.parametrize("code", [70021, 700211, 700212, 7002138])
async def test_all_codes_of_a_federated_credential_have_that_remedy(
    cloud: Azure, code: int
) -> None:
    cloud.entra.faults = [entra_error(code, "invalid_client")]
    assert "has no federated credential" in await cloud.fault(IdentityRefused, cloud.account())


async def test_a_token_that_is_over_at_entras_time_means_the_clocks(cloud: Azure) -> None:
    cloud.seconds = -3600.0
    message = await cloud.fault(IdentityRefused, cloud.account())
    assert "AADSTS700024" in message
    assert "clock" in message


async def test_keys_that_entra_cannot_read_are_the_issuers(cloud: Azure) -> None:
    cloud.tokens, issuer = OwnTokens(), cloud.tokens.issuer
    message = await cloud.fault(IdentityRefused, cloud.account())
    assert "AADSTS50013" in message
    assert f"let {issuer} be reachable" in message


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (53003, f"(AADSTS53003): see https://{LOGIN}/error?code=53003"),
        (500011, "register the resource provider Microsoft.ContainerRegistry"),
    ],
)
async def test_another_refusal_leads_to_its_code(cloud: Azure, code: int, said: str) -> None:
    cloud.entra.faults = [entra_error(code, "access_denied")]
    assert (await cloud.fault(IdentityRefused, cloud.account())).endswith(said)


async def test_throttling_is_a_pause_of_the_length_that_entra_asks_for(cloud: Azure) -> None:
    cloud.entra.faults = [Answer(429, {"error": "x"}, {"Retry-After": "17"})]
    with pytest.raises(RateLimited) as caught:
        await cloud.issue(cloud.account())
    assert caught.value.retry_after == 17
    assert len(cloud.stage.asked(LOGIN)) == 1


BROKEN = [
    Answer(500, "<html>"),
    Answer(200, b"[" * 60_000),
    Answer(200, {"access_token": "x"}),
    Answer(200, {"access_token": "x" * 100_000, "expires_in": 3599}),
    Answer(302, b"", {"Location": "https://evil.example/"}),
    Answer(400, {"error": "x", "error_description": "no code"}),
    Answer(200, b"x" * 10_000_000),
    Answer(is_cut=True),
]


@pytest.mark.parametrize("answer", BROKEN, ids=range(len(BROKEN)))
async def test_an_answer_without_a_token_is_entras_fault(cloud: Azure, answer: Answer) -> None:
    cloud.entra.faults = [answer]
    message = await cloud.fault(IdentityUnavailable, cloud.account())
    assert LOGIN in message
    assert cloud.stage.lookups == {LOGIN}
    assert (await cloud.issue(cloud.account())).username == NOBODY


async def test_what_openssl_trusts_by_default_is_trusted_and_nothing_else(
    cloud: Azure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Authority.make(tmp_path / "other")
    other._issue("another")  # of one name OpenSSL looks for one certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(other.directory / "another.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(cloud.stage.ca))
    assert "(SSLError)" in await cloud.fault(IdentityUnavailable, cloud.account())
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(cloud.stage.ca, folder)
    subprocess.run(["openssl", "rehash", str(folder)], check=True)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    assert (await cloud.issue(cloud.account())).username == NOBODY


async def test_entra_is_asked_through_the_operators_proxy(
    cloud: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    tunnel = Tunnel(cloud.stage.address()[1])
    async with await asyncio.start_server(tunnel.serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        monkeypatch.setenv("HTTPS_PROXY", f"http://alice:s3cret@{host}:{port}")
        await cloud.issue(cloud.account())
        assert tunnel.heads[0].startswith(f"CONNECT {LOGIN}:443 ")
        assert LOGIN not in cloud.stage.lookups
        tunnel.refusal = "407 Proxy Authentication Required"
        message = await cloud.fault(IdentityUnavailable, cloud.account())
    assert "can't be reached (ProxyError)" in message
    assert "s3cret" not in message


async def test_the_library_says_nothing_in_the_log(
    cloud: Azure, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await cloud.issue(cloud.account())
        await cloud.fault(IdentityRefused, cloud.account("other"))
    assert not cloud.stage.sentinels.leaks(caplog.text)
    assert not has_words_of_entra(caplog.text)
    assert [one for one in caplog.records if one.name.startswith(("azure", "msal"))] == []


# --- the registry --------------------------------------------------------------------------------


async def test_an_identity_without_a_role_is_told_which(cloud: Azure) -> None:
    cloud.registry.roles.clear()
    message = await cloud.fault(IdentityRefused, cloud.account())
    assert message.startswith(f"{HOST} refuses application {CLIENT} of tenant {TENANT} (401)")
    assert "AcrPull" in message


async def test_a_registry_that_refuses_the_network_says_so(cloud: Azure) -> None:
    said = "client with IP '203.0.113.9' is not allowed access."
    cloud.registry.faults["/oauth2/exchange"] = [refused(403, "DENIED", said)]
    assert f"(403) (DENIED: {said})" in await cloud.fault(IdentityRefused, cloud.account())


def echo(asked: Asked) -> Answer:
    return refused(401, "DENIED", f"no {asked.form['access_token']}")


def redirect(status: int, to: str) -> Callable[[Asked], Answer]:
    return lambda _: Answer(status, b"", {"Location": to})


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (echo, IdentityRefused),
        (lambda _: Answer(200, '{"refresh_token":' * 5_000), InvalidResponse),
        (lambda _: Answer(200, {"refresh_token": "a\r\nb: c"}), InvalidResponse),
        (lambda _: Answer(200, b"x" * 10_000_000), InvalidResponse),
        (lambda _: Answer(200, ["x"]), InvalidResponse),
        (lambda _: Answer(404, "no"), InvalidResponse),
        (lambda _: Answer(500, "no"), RegistryUnreachable),
        (lambda _: Answer(is_cut=True), RegistryUnreachable),
        (lambda _: Answer(delay=4), RegistryUnreachable),
        (redirect(307, "https://evil.example/oauth2/exchange"), InvalidResponse),
        (redirect(308, "/other"), InvalidResponse),
    ],
    ids=[
        "our token",
        "deep",
        "line breaks",
        "long",
        "a list",
        "404",
        "500",
        "cut off",
        "late",
        "another host",
        "another path",
    ],
)
async def test_a_hostile_registry_learns_its_own_token_and_ends_its_own_login(
    cloud: Azure, answer: Callable[[Asked], Answer], kind: type[RegistryError]
) -> None:
    cloud.stage.serve(HOST, answer)
    cloud.stage.serve("evil.example", lambda _: Answer(200, {"refresh_token": "x"}))
    await cloud.fault(kind, cloud.account())
    assert len(cloud.stage.asked(HOST)) == 1
    assert cloud.stage.lookups == {LOGIN, HOST}


HOUR = 3600.0


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (600.0, 600.0),
        (1e9, 3 * HOUR),
        (float("inf"), HOUR),
        (None, HOUR),
        # A strange end is no end.
        *((strange, HOUR) for strange in ("soon", True, [1], {}, "1" * 100)),
    ],
    ids=str,
)
async def test_a_login_lives_as_long_as_its_token_and_three_hours_at_most(
    cloud: Azure, ends: object, expected: float
) -> None:
    is_number = isinstance(ends, float)
    token = acr_token("x", time.time() + ends) if is_number else acr_token("x", None, exp=ends)
    cloud.stage.serve(HOST, lambda _: Answer(200, {"refresh_token": token}))
    before = datetime.now(UTC)
    found = (await cloud.issue(cloud.account())).expires - before
    assert expected - 1 <= found.total_seconds() < expected + 60


async def test_a_token_that_has_ended_means_the_clock(cloud: Azure) -> None:
    token = acr_token("x", time.time() - 100)
    cloud.stage.serve(HOST, lambda _: Answer(200, {"refresh_token": token}))
    assert "clock" in await cloud.fault(IdentityRefused, cloud.account())


# --- tokens for repositories ---------------------------------------------------------------------

APP = Repository(HOST, "team/app")


@pytest.fixture
async def client(cloud: Azure) -> AsyncIterator[RegistryClient]:
    """A client whose logins are those of the account."""

    async def issue(*_: object, **__: object) -> Issued:
        return await cloud.issue(cloud.account())

    def logins(transport: RegistryTransport) -> SharedLogins:
        return SharedLogins(transport, None, Metrics(), issues={Provider.AZURE: issue})

    client = registry_client(60.0)
    client.use_logins(logins)
    yield client
    await client.close()


OURS = Credential(cloud=CloudIdentity(read_registry(Provider.AZURE, HOST), "team"))


async def push(client: RegistryClient, kind: str = "push") -> None:
    """Send an empty manifest, or delete one, with the header that the registry wants."""

    async def via(request: Request, _: object) -> Response:
        method = "DELETE" if kind == "delete" else "PUT"
        url = f"https://{HOST}/v2/{APP.path}/manifests/1.0.0"
        return await client._transport.send(replace(request, method=method, url=url, via=None))

    await client.write(APP, OURS, kind, via)


async def test_each_request_asks_for_the_one_repository_and_what_it_needs(
    cloud: Azure, client: RegistryClient, tmp_path: Path
) -> None:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    pushed = cloud.stage.push(tmp_path, APP.path, "1.0.0")
    tags: list[str] = []

    async def take(more: Iterable[str]) -> None:
        tags.extend(more)

    for _ in range(3):
        assert await client.digest(APP, "1.0.0", OURS) == pushed
        await client.tags(APP, OURS, take)
    assert tags == ["1.0.0"] * 3
    name = f"repository:{APP.path}"
    assert cloud.registry.scopes == [f"{name}:pull", f"{name}:metadata_read"]
    assert len(cloud.stage.asked(LOGIN)) == len(cloud.registry.refresh) == 1

    cloud.registry.roles[CLIENT] = READER | {"push", "delete"}
    del cloud.registry.scopes[:]
    for kind in ("push", "delete"):
        await push(client, kind)
    assert cloud.registry.scopes == [f"{name}:pull,push", f"{name}:delete"]
    assert len(cloud.stage.asked(LOGIN)) == 2  # one login to read, one to write


@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        ("", "pull"),
        ("repository:team/app:metadata_read,pull", "pull,metadata_read"),
        ("repository:team/app:*", "pull"),
        ("repository:team/app:pull,push,delete,metadata_write", "pull"),
        ("repository:other:pull repository:team/app:metadata_read", "metadata_read"),
        ("repository:team/app2:metadata_read", "pull"),
        ("repository:team/app:pull repository:other:pull", "pull"),
    ],
)
async def test_a_registry_cannot_name_a_wider_scope(
    cloud: Azure, client: RegistryClient, scope: str, asked: str
) -> None:
    realm = f'Bearer realm="https://{HOST}/oauth2/token",service="{HOST}",scope="{scope}"'
    guard = cloud.registry

    def challenge(asked: Asked) -> Answer | None:
        is_ours = asked.path.startswith("/oauth2/") or asked.bearer
        return None if is_ours else refused(401, "UNAUTHORIZED", "no", WWW_Authenticate=realm)

    cloud.stage.serve(HOST, challenge, guard, cloud.stage.pass_on)
    with suppress(RegistryError):
        await client.digest(APP, "1.0.0", OURS)
    assert guard.scopes[0] == f"repository:team/app:{asked}"
    assert all(one.startswith("repository:team/app:") for one in guard.scopes)


async def test_a_login_that_the_token_server_refuses_is_renewed_once(
    cloud: Azure, client: RegistryClient, tmp_path: Path
) -> None:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    pushed = cloud.stage.push(tmp_path, APP.path, "1.0.0")
    await client.digest(APP, "1.0.0", OURS)
    cloud.registry.refresh.clear()
    other = Repository(HOST, "team/other")  # whose first token is asked for with that login
    cloud.stage.push(tmp_path, other.path, "1.0.0")
    assert await client.digest(other, "1.0.0", OURS) == pushed
    assert len(cloud.stage.asked(LOGIN)) == 2


async def test_a_repository_that_the_identity_may_not_read_is_named_with_the_role(
    cloud: Azure, client: RegistryClient
) -> None:
    cloud.registry.roles[CLIENT] = frozenset({"metadata_read"})
    with pytest.raises(AuthenticationFailed, match=r"team/app.*AcrPull"):
        await client.digest(APP, "1.0.0", OURS)


async def test_a_token_server_elsewhere_gets_nothing(cloud: Azure, client: RegistryClient) -> None:
    realm = 'Bearer realm="https://evil.example/oauth2/token",service="x"'
    answer = refused(401, "UNAUTHORIZED", "no", WWW_Authenticate=realm)
    cloud.stage.serve(HOST, lambda _: answer)
    cloud.stage.serve("evil.example", cloud.registry)
    with pytest.raises(AuthenticationFailed, match="another host"):
        await client.digest(APP, "1.0.0", OURS)
    assert cloud.stage.lookups == {HOST}


# --- the operator's own identity -----------------------------------------------------------------


async def test_the_operators_workload_identity_is_used(
    cloud: Azure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.entra.let(TENANT, OTHER, "system:serviceaccount:copyrator:copyrator")
    cloud.registry.roles[OTHER] = READER
    path = tmp_path / "token"
    path.write_text(cloud.tokens.issue("copyrator", "copyrator", AUDIENCE))
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(path))
    assert "AZURE_CLIENT_ID" in await cloud.fault(IdentityMissing, None)
    monkeypatch.setenv("AZURE_TENANT_ID", TENANT)
    monkeypatch.setenv("AZURE_CLIENT_ID", OTHER)
    monkeypatch.setenv("AZURE_AUTHORITY_HOST", "https://evil.example")
    issued = await cloud.issue(None)
    assert cloud.registry.refresh[issued.password][0] == OTHER
    assert cloud.audiences == []
    path.write_text(cloud.tokens.issue("copyrator", "other", AUDIENCE))
    message = await cloud.fault(IdentityRefused, None)
    assert "the operator's own identity" in message
    assert "subject system:serviceaccount:copyrator:other" in message
    path.unlink()
    assert "AZURE_FEDERATED_TOKEN_FILE" in await cloud.fault(IdentityMissing, None)


async def test_the_nodes_managed_identity_is_used_and_no_proxy_sees_its_token(
    cloud: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_CLIENT_ID", CLIENT)
    monkeypatch.setenv("HTTP_PROXY", "http://evil.example:3128")

    def metadata(asked: Asked) -> Answer:
        assert asked.headers["Metadata"] == "true"
        assert asked.query["resource"] == "https://containerregistry.azure.net"
        assert asked.query["client_id"] == CLIENT
        token = cloud.stage.issue("managed")
        cloud.entra.tokens[token] = TENANT, CLIENT
        return Answer(200, {"access_token": token, "expires_in": "3599", "token_type": "Bearer"})

    cloud.stage.serve(METADATA, metadata, scheme="http")
    assert (await cloud.issue(None)).password in cloud.registry.refresh
    assert cloud.stage.lookups == {METADATA, HOST}


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Answer(400, {"error": "invalid_request"}), IdentityMissing, "no managed identity"),
        (Answer(429, {}), RateLimited, "429"),
        (Answer(200, b"x" * 1_000_000), IdentityUnavailable, "(200)"),
        (Answer(is_cut=True), IdentityUnavailable, "can't be reached"),
    ],
    ids=str,
)
async def test_a_node_without_an_identity_is_told_from_a_server_that_fails(
    cloud: Azure, answer: Answer, kind: type[RegistryError], said: str
) -> None:
    cloud.stage.serve(METADATA, lambda _: answer, scheme="http")
    message = await cloud.fault(kind, None)
    assert said in message
    assert METADATA in message or "node" in message
    assert len(cloud.stage.asked(METADATA)) == 1
